"""Messages of the Scheduler Interface: to events, from effects, sessions and event records.

Read ``allocations`` with ``pod_tags`` and ``values``, then ``applications``, ``nodes``, ``storage`` and ``callbacks``;
``session`` and ``events``.
"""
