"""NodeName: a pod whose spec names a node goes there or nowhere."""

from __future__ import annotations

import numpy as np

from muster_core.model.constraints import Constraints
from muster_core.model.ids import NodeId
from muster_core.world.columns import BoolColumn
from muster_core.world.nodes import NodeTable


def passes(constraints: Constraints, nodes: NodeTable) -> BoolColumn:
    """Every node, or the named one alone."""
    size = nodes.rows.size
    if not constraints.node_name:
        return np.ones(size, dtype=np.bool_)
    return named(NodeId(constraints.node_name), nodes)


def named(node: NodeId, nodes: NodeTable) -> BoolColumn:
    """The node of that name, if there is one."""
    found = np.zeros(nodes.rows.size, dtype=np.bool_)
    if node in nodes:
        found[nodes.rows.row(node)] = True
    return found
