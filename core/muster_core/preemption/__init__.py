"""Preemption plans: which queue may preempt, which allocations are candidates, which victims are selected.

Read ``guarantees``, ``candidates``, ``planning``, ``equal_members``, ``required_node``, ``quota_victims``.
``scheduling/preemption`` decides when preemption is tried.
"""
