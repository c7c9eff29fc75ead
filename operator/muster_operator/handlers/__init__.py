"""What kopf calls, and how kopf is run: each handler hands an object to the agent's inbox and returns nothing.

Read in this order: ``memo`` (what handlers reach), ``cluster`` and ``config`` (the handlers), ``framework`` (kopf in
our process), ``served`` (what there is to watch), ``fastlane`` (past kopf's queues) to ``stream`` (list, watch, go on)
and ``watch`` (bytes to lines), ``relist`` (its stand-in where that is impossible).
"""
