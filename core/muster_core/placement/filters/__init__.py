"""Filter plugins, as in kube-scheduler: which nodes can run a pod, and the reason why the others cannot."""
