"""The operator's loop: its inbox, the session with the core, metrics, health and logs.

Read ``inputs`` (values), ``loop`` (the inbox and the task that owns the state), ``session`` (recovery and comparison),
then ``reconfigure`` and ``conflicts``.
"""
