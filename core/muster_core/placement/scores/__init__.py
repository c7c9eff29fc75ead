"""Score plugins, as in kube-scheduler: which of the feasible nodes is preferred."""
