"""Raw Kubernetes objects become values here; what is absent, null or empty is decided here and nowhere else.

Reading order: ``raw``, ``quantities``, ``canonical`` (how to read and write), ``requests``, ``features``,
``constraints``, ``preferences``, ``company``, ``ports``, ``membership``, ``kubelet`` and ``pods`` (a pod),
``sketch`` and ``classes`` (a thousand alike),
``parameters`` and ``task_groups`` (a gang), ``images`` and ``nodes``, ``namespaces``; the other way: ``placeholders``.
No garbage raises out of a public ``read_*`` function.
"""
