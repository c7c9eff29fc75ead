"""The process of the core: the scheduler task, its service, timers, the journal and user group lookups.

Read ``service`` (messages in), ``loop`` (the scheduler task), ``dispatch`` (effects out), then ``user_groups``,
``journal``.
"""
