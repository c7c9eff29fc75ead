"""The REST interface of the core.

Read ``routes`` and ``endpoints`` first, then the views and ``schemas``. ``auth`` and ``server`` authorize and serve the
requests.
"""
