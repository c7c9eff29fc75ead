"""TaintToleration: a node with a hard taint that the pod does not tolerate takes it not.

Hard are NoSchedule and NoExecute; PreferNoSchedule is a matter of scores.
Source: Kubernetes, "Taints and Tolerations".
"""

from __future__ import annotations

import numpy as np

from muster_core.model.constraints import Constraints, Taint, Toleration
from muster_core.world.columns import BoolColumn
from muster_core.world.nodes import NodeTable

_HARD = frozenset({"NoSchedule", "NoExecute"})


def passes(constraints: Constraints, nodes: NodeTable) -> BoolColumn:
    """Nodes without a hard taint that no toleration covers."""
    size = nodes.rows.size
    tainted = np.zeros(size, dtype=np.bool_)
    for taint in nodes.taints:
        if taint.effect in _HARD and not any(tolerates(t, taint) for t in constraints.tolerations):
            tainted |= nodes.taints.rows(taint, size)
    return ~tainted


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether this toleration covers this taint. An operator that is neither Exists
    nor Equal covers nothing: the comparing ones are alpha in Kubernetes and off.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in {"", "Equal"} and toleration.value == taint.value
