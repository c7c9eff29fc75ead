"""NodeUnschedulable: a node that is drained or cordoned takes nothing new, but for pods made for it that tolerate that.

The resource manager tells "draining" (seed 003) and nothing finer. A DaemonSet's pod names the one node that it is made
for and tolerates node.kubernetes.io/unschedulable, so it is not what the drain is to keep away (ADR 0014).

Differs: a pod that tolerates the cordon and may run elsewhere stays off a cordoned node; kube-scheduler lets it there.
"""

from __future__ import annotations

from typing import Final

from muster_core.model.constraints import Constraints, Taint
from muster_core.plan.feasibility.taint_toleration import tolerates
from muster_core.world.columns import BoolColumn
from muster_core.world.nodes import NodeTable

_CORDONED: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_NAME: Final = "metadata.name"


def passes(constraints: Constraints, nodes: NodeTable) -> BoolColumn:
    """Nodes that are open; all of them to a pod that is made for one and tolerates the cordon."""
    is_open = nodes.columns().open.copy()
    if is_made_for_one(constraints) and any(tolerates(one, _CORDONED) for one in constraints.tolerations):
        is_open[:] = True
    return is_open


def is_made_for_one(constraints: Constraints) -> bool:
    """Whether every way to place the pod names one node, as the controller of DaemonSets writes it."""
    terms = constraints.affinity or ()
    return bool(terms) and all(
        any(field.key == _NAME and field.operator == "In" and len(field.values) == 1 for field in term.fields)
        for term in terms
    )
