"""One module per filter: which nodes may hold a scheduling class, and for the others, why not.

Read `filters` first: the table of those that answer from facts alone and are
remembered per value of constraints, in the order in which kube-scheduler asks:
`node_unschedulable`, `node_name`, `taint_toleration`, `node_affinity`,
`declared_features`. `resources_fit` reads what a draft leaves. Those that see
who is where are in the table of plan/guards.py: `node_ports`, `volumes/`,
`topology_spread` and `inter_pod_affinity` (over `topology`), `placement` (seed
001's constraints), `verdicts` (what a resource manager said when asked).
`reasons` tells which of the refusals preemption may lift.
"""
