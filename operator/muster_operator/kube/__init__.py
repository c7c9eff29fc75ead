"""The API server: connections, watches, writes with priorities and retries, leases.

Read ``session`` and ``http`` (requests), ``watch``, ``commands`` with ``write_queue``, then ``leadership``
and ``leases``.
"""
