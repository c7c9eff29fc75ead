"""The REST interface of the core.

Read ``declarations``, ``endpoints`` and ``routes`` first, then ``views`` and ``schemas``. ``http`` reads requests and
writes responses; ``auth`` and ``server`` authorize and serve them.
"""
