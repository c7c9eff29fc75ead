"""A Kubernetes API server to run Muster against, on any Linux machine, without Docker.

A development tool: the product never imports it and the wheel does not carry it. Reading order:

* ``cluster``: the door, ``async with running(fakes=[...]) as cluster``; ``flavour`` picks what stands behind it.
* ``controlplane``: the flags of etcd, kube-apiserver and kube-controller-manager, and the order they start in.
* ``foreign``, ``kind``: clusters that are not ours; ``connection`` reads their kubeconfig.
* ``nodes``: fake nodes; ``kwok``: the process that plays their kubelets; ``stages.yaml``: how long fake pods take.
* ``programs``, ``toolchain``, ``build``, ``binaries``: the Go programs pinned under ``modules/``, built once, cached.
* ``process``, ``tether``: children that never outlive us.
* ``ports``, ``certificates``, ``kubeconfig``: what the servers need to start; ``waiting``: conditions with deadlines.
* ``api``, ``resources``: a thin client; ``audit``: what the API server was asked, and by whom.
* ``muster``: core and operator as real processes; ``gang``: what can be seen of a gang; ``demo``: ``make demo``.
* ``cli``, ``kept``: ``python -m devcluster up``, and how to stop what was left running.
"""
