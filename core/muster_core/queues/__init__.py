"""Queue decisions: the queue of an application, the available quota, and the fairness between queues.

Read ``placement_rules``, then ``quota``.
"""
