"""Who may write: one of several operators, as a Lease says (semantics 27, ADR 0012).

Read in this order: ``lease`` (what it says, and who may take it; pure), ``fence`` (asked before every write),
``store`` (the object), ``leadership`` (takes, renews and gives back), ``announcement`` (the event about it), ``mark``
(the label of the pod that leads), ``standing`` (what probes say).
"""
