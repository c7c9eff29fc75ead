"""NodeUnschedulable: a node that is drained or cordoned takes nothing new.

A toleration of node.kubernetes.io/unschedulable is not honoured: the resource
manager tells "draining" (seed 003) and nothing finer, and a drained node takes
nothing.

Differs: no pod goes to a cordoned node, while kube-scheduler lets those of a DaemonSet, which tolerate it.
"""

from __future__ import annotations

from muster_core.model.constraints import Constraints
from muster_core.world.columns import BoolColumn
from muster_core.world.nodes import NodeTable


def passes(constraints: Constraints, nodes: NodeTable) -> BoolColumn:
    """Nodes that are open."""
    return nodes.columns().open.copy()
