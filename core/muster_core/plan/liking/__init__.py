"""One module per score: which of the nodes that are left a pod would rather have.

`node_facts` (preferred affinity, soft taints, images) and `balance` belong to
the order of nodes, plan/scoring.py. Those that see the plan so far are in the
table of plan/guards.py, SCORES: `inter_pod_affinity` reads preferred terms, of
the pod and of the pods that are there; `topology_spread` spreads by
constraints that are not required.
"""
