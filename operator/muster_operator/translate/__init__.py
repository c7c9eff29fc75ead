"""Raw Kubernetes objects become values here. Defaults for absent, null or empty fields are decided here only."""
