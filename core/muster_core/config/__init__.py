"""Parser and validation of ``queues.yaml`` and of the core's settings.

Read ``schema`` and ``load`` first; ``document`` reads YAML; ``queues`` and ``quotas`` check the parts.
"""
