"""Observe and obey: what a change in Kubernetes means to the core, and what the core's word means to Kubernetes."""
