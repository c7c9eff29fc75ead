"""NodeUnschedulable: a cordoned node takes those alone that tolerate it, a node that is drained otherwise nobody.

A resource manager that tells "draining" (seed 003) and nothing finer may do so for any reason; it may tell that the
reason is a cordon (`muster/unschedulable`). Where it does not, only a pod that names the one node that it is made for,
as a DaemonSet's, is let in if it tolerates node.kubernetes.io/unschedulable (ADR 0018).
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
    """Nodes that are open, and to who tolerates a cordon the cordoned ones, or all where it is made for one."""
    columns = nodes.columns()
    is_open = columns.open.copy()
    if any(tolerates(one, _CORDONED) for one in constraints.tolerations):
        is_open |= columns.cordoned
        if is_made_for_one(constraints):
            is_open[:] = True
    return is_open


def is_made_for_one(constraints: Constraints) -> bool:
    """Whether every way to place the pod names one node, as the controller of DaemonSets writes it."""
    terms = constraints.affinity or ()
    return bool(terms) and all(
        any(field.key == _NAME and field.operator == "In" and len(field.values) == 1 for field in term.fields)
        for term in terms
    )
