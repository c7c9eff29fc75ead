"""The operator's words: pods, nodes and gangs as values, life cycles, commands for Kubernetes, news for the core."""
