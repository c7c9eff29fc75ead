"""Plugins, as in kube-scheduler: which nodes can run a pod, why the others cannot, and which node is preferred."""
