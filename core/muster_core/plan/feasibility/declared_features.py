"""NodeDeclaredFeatures: a node has to declare every feature that the pod's spec makes use of.

Source: Kubernetes 1.36, Node.status.declaredFeatures; which features those are, whoever sends the ask infers.
"""

from __future__ import annotations

import numpy as np

from muster_core.model.constraints import Constraints
from muster_core.world.columns import BoolColumn
from muster_core.world.nodes import NodeTable


def passes(constraints: Constraints, nodes: NodeTable) -> BoolColumn:
    """Nodes that declare all of them."""
    size = nodes.rows.size
    found = np.ones(size, dtype=np.bool_)
    for feature in constraints.features:
        found &= nodes.features.rows(feature, size)
    return found
