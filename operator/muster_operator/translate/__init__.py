"""Raw Kubernetes objects become values here; what is absent, null or empty is decided here and nowhere else."""
