"""A Kubernetes API server to run Muster against, on any Linux machine, without Docker.

A development tool: the product never imports it and the wheel does not carry it. Reading order:

* ``cluster``: the door: ``async with running(nodes=[...]) as cluster``; ``flavour`` picks what stands behind it.
* ``local``, ``foreign``, ``kind``: the three flavours (own control plane, the current kubeconfig, kind).
* ``controlplane``: the flags of etcd, kube-apiserver, kube-controller-manager, and the order they start in.
* ``kwok``: fake nodes' kubelets; ``nodes``: the fake nodes themselves; ``stages.yaml``: how long fake pods take.
* ``programs``, ``toolchain``, ``build``, ``binaries``: the pinned Go programs under ``modules/``, found or built once and cached.
* ``process``, ``tether``: children that never outlive us; ``ports``, ``certificates``, ``kubeconfig``: what they need to start.
* ``api``, ``resources``, ``connection``: a thin client; ``audit``: what the API server was asked, and by whom; ``waiting``: conditions with deadlines.
* ``muster``: core and operator as real processes; ``demo``: ``make demo``; ``cli``, ``state``: ``python -m devcluster up``.
"""
