"""The core: sessions with it, the recovery that fills one, and the only modules that know protobuf.

Read in this order: ``core`` (sessions and their outboxes), ``current`` (the present one and its recovery), ``encode``,
``decode``, ``dump``.
"""
