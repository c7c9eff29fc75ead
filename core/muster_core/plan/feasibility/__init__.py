"""One module per filter: which nodes may hold a scheduling class, and for the others, why not.

Read `filters` first: the table, in the order in which kube-scheduler asks.
`node_unschedulable`, `node_name`, `taint_toleration` and `node_affinity` answer
from facts alone and are remembered per value of constraints; `resources_fit`
reads what a draft leaves, `placement` (seed 001's constraints) both.
"""
