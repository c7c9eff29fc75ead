"""Gang plans: nodes for all members or a part of them, topology domains, takeover of reservations.

Read ``planning`` first, then ``topology`` and ``takeover``.
"""
