"""What a change in Kubernetes means for the core, and what a response of the core means for Kubernetes. Pure.

Read ``state``, ``cluster_events`` with ``applications``, ``tasks``, ``core_responses``; then
``placeholders``, ``volume_binding``, ``reporting`` with ``conditions``, ``recovery``, ``reconciliation``.
"""
