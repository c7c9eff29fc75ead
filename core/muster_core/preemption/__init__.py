"""Preemption plans: which queue may preempt, which allocations are candidates, which victims are selected."""
