"""The REST interface of the core.

Read ``routes`` and ``endpoints`` first, then ``views`` and ``schemas``. ``http`` reads requests and writes responses;
``auth`` and ``server`` authorize and serve them.
"""
