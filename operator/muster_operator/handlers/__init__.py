"""What kopf calls, and how kopf is run: each handler hands an object to the agent's inbox and returns nothing.

Read in this order: ``memo`` (what handlers reach), ``cluster`` and ``config`` (the handlers), ``framework`` (kopf in
our process), ``fastlane`` (a straight loop past kopf's queues), ``relist`` (its stand-in where it is impossible).
"""
