"""Preemption plans: which queue may preempt, which allocations are candidates, which victims are selected.

Read ``guarantees``, ``candidates``, ``planning``. When preemption is tried is in ``scheduling/preemption``.
"""
