"""What a change in Kubernetes means for the core, and what a response of the core means for Kubernetes."""
