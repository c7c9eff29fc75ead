"""Messages of the Scheduler Interface: to events and from effects; event records.

Read ``allocations`` with ``pod_tags`` and ``values``, then ``applications``, ``nodes``, ``storage``, ``devices``,
``callbacks`` and ``events``.
"""
