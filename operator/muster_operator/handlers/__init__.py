"""What kopf calls, and how kopf is run: each handler hands an object to the agent's inbox and returns nothing.

Read in this order: ``memo`` (what handlers reach), ``lifecycle``, ``cluster`` and ``config`` (the handlers),
``framework`` (kopf in our process), ``comparison`` (lists of what kopf watches), ``fast_path`` (past kopf's queues) to
``stream`` (list, watch, resume) and ``watch`` (bytes to lines).
"""
