"""Simulation: the production core under a virtual clock, with a model of the cluster around it.

Read ``workload`` (nodes and jobs, and their CSV files), ``virtual_core`` (events, timers and cycles without a real
clock), ``outside`` (what Kubernetes, kubelets and controllers do with the decisions), ``simulation`` (runs both to the
end) and ``measures`` (waits, utilization and fairness of a run); or ``changes`` (what may start a waiting application),
``unblocking`` (the smallest sets of them), ``outlook`` (what becomes of all applications of a copy), ``submission`` (of
new ones) and ``forecast`` (when one of them starts). No rule of scheduling is here: `step` and `cycle` of
``scheduling`` decide.
"""
