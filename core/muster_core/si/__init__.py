"""Messages of the Scheduler Interface: decoding, encoding, sessions and event records.

Read ``decode`` with ``pod_tags``, ``values`` and ``storage``, then ``encode``, ``session``, ``events``.
"""
