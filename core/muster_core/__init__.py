"""The scheduler core: decides which pods run on which nodes. It talks only to resource managers.

Read in this order: ``model`` (values), ``state`` (queues, applications, nodes), ``queues``, ``placement``,
``preemption`` and ``gangs`` (plans that read the state), ``scheduling`` (the only writer of the state; begin with
``scheduler``), ``config`` (``queues.yaml``), ``si`` (messages of the Scheduler Interface), ``metrics``,
``runtime`` (the scheduler task and the service), ``rest``, and ``main``, which connects them.
"""
