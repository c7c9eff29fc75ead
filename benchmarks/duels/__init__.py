"""Duels with kube-scheduler on the workloads of scheduler_perf, Kubernetes' benchmark of its scheduler.

The files are those of the Kubernetes module that devcluster builds. The control plane is as in scheduler_perf: nodes
have no kubelets, so bound pods stay Pending, and pods may name a priority. The rest is as in ``benchmarks.cluster``.

Reading order: ``workloads`` (the duels, and their operations), ``templates`` (renders the manifests), ``run`` (carries
out the operations), ``measure`` (alternates the schedulers, and returns the figures).
"""
