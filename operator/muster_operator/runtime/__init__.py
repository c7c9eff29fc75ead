"""The operator's loop: its inbox, the session with the core, metrics, health and logs.

Read ``inbox`` (inputs), ``loop`` (the task that owns the state), ``session`` (recovery and comparison), then
``reconfigure`` and ``conflicts``.
"""
