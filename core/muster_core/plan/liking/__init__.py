"""One module per score that sees the plan so far: which of the nodes that are left a pod would rather have.

The table is `plan/guards.py`, SCORES. `inter_pod_affinity` reads preferred
terms, of the pod and of the pods that are there; `topology_spread` spreads by
constraints that are not required.
"""
