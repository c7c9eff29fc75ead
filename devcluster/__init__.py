"""A Kubernetes API server to run Muster against, on any Linux machine, without Docker.

This is a development tool. The product never imports it, and the wheel does not contain it. Reading order:

* ``cluster``: the entry point, ``async with running(fakes=[...]) as cluster``; ``flavour`` selects the kind of cluster.
* ``controlplane``: the flags of etcd, kube-apiserver and kube-controller-manager, and the order they start in.
* ``foreign``, ``kind``: clusters that devcluster did not create; ``connection`` reads their kubeconfig.
* ``nodes``: fake nodes; ``kwok``: simulates their kubelets; ``stages.yaml``: how long fake pods take.
* ``programs``, ``toolchain``, ``build``, ``binaries``: the Go programs pinned under ``modules/``, built once, cached.
* ``process``, ``tether``: child processes that end with their parent.
* ``ports``, ``certificates``, ``kubeconfig``: what the servers need to start; ``waiting``: conditions with deadlines.
* ``api``, ``resources``: a thin client; ``audit``: reads the API server's audit log.
* ``muster``: core and operator as real processes; ``gang``: the observable state of a gang; ``demo``: ``make demo``.
* ``cli``, ``kept``: ``python -m devcluster up``, and stopping clusters that were left running.
"""
