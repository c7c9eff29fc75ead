"""The table of filters: kube-scheduler's order, its words, and whether preemption could help.

A node is counted under the first filter that refuses it, as kube-scheduler
does, so the sums in a message are the same. A filter that joins takes its
place in the table in the default order of Kubernetes 1.36: NodeUnschedulable,
NodeName, TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit,
VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone,
PodTopologySpread, InterPodAffinity, DynamicResources, NodeDeclaredFeatures.
The words are kept equal because autoscalers, dashboards and people search for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from muster_core.model.constraints import Constraints
from muster_core.plan.feasibility import node_affinity, node_name, node_unschedulable, taint_toleration
from muster_core.world.columns import BoolColumn
from muster_core.world.nodes import NodeTable

# So many values of constraints are remembered between two changes of facts.
_MEMORY = 4096


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that reads facts alone. `preemption_helps`: kube-scheduler answers
    Unschedulable, not UnschedulableAndUnresolvable.
    """

    name: str
    reason: str
    preemption_helps: bool
    passes: Callable[[Constraints, NodeTable], BoolColumn]


FILTERS: Final = (
    Filter("NodeUnschedulable", "node(s) were unschedulable", False, node_unschedulable.passes),
    Filter("NodeName", "node(s) didn't match the requested node name", False, node_name.passes),
    Filter("TaintToleration", "node(s) had untolerated taint(s)", False, taint_toleration.passes),
    Filter("NodeAffinity", "node(s) didn't match Pod's node affinity/selector", False, node_affinity.passes),
)


def allowed(constraints: Constraints, nodes: NodeTable) -> BoolColumn:
    """Nodes that no filter refuses."""
    return answers(constraints, nodes)[-1]


def answers(constraints: Constraints, nodes: NodeTable) -> tuple[BoolColumn, ...]:
    """What each filter lets pass, in their order, and last what all of them do.
    Asked once per value of constraints until a fact changes.
    """
    known = nodes.answers.get(constraints)
    if known is None:
        columns = [entry.passes(constraints, nodes) for entry in FILTERS]
        known = (*columns, np.logical_and.reduce(columns))
        for column in known:
            column.flags.writeable = False
        if len(nodes.answers) >= _MEMORY:
            nodes.answers.clear()
        nodes.answers[constraints] = known
    return known
