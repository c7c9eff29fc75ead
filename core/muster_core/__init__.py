"""The scheduler core: decides which pods run on which nodes. It talks only to resource managers.

Read in this order: ``model`` (values), ``state`` (what the scheduler knows), ``queues``, ``placement``,
``preemption`` and ``gangs`` (plans that read the state), ``scheduling`` (the only writer of the state), ``si``
(messages of the Scheduler Interface), ``config``, ``metrics``, ``runtime`` (the scheduler task), ``rest``.
"""
