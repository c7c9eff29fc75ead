"""Parser and validation of ``queues.yaml`` and of the core's settings."""
