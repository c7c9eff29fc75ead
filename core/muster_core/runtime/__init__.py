"""The process of the core: the scheduler task, its service, sessions, timers, the journal and user group lookups.

Read ``service`` (messages in), ``loop`` (the scheduler task), ``sessions`` (effects out), then ``user_groups``,
``journal``.
"""
