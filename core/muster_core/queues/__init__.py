"""Questions about queues: which queue an application goes to, how much quota is available, fairness between queues.

Read ``placement_rules``, then ``quota``.
"""
