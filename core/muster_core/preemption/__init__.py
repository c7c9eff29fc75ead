"""Preemption plans: which queue may preempt, which allocations are candidates, which victims are selected.

Read ``guarantees``, ``candidates``, ``planning``. ``scheduling/preemption`` decides when preemption is tried.
"""
