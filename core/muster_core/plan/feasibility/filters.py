"""The table of filters: kube-scheduler's order, its words, and whether preemption could help.

A node is counted under the first filter that refuses it, as kube-scheduler
does, so the sums in a message are the same. A filter that joins takes its
place in the table in the default order of Kubernetes 1.36: NodeUnschedulable,
NodeName, TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit,
VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone,
PodTopologySpread, InterPodAffinity, DynamicResources, NodeDeclaredFeatures.
Before them comes what NodeAffinity says to begin with (its PreFilter): where
a pod names nodes, no filter looks at the others.
The words are kept equal because autoscalers, dashboards and people search for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from muster_core.model.constraints import Constraints
from muster_core.plan.feasibility import (
    declared_features,
    node_affinity,
    node_name,
    node_unschedulable,
    taint_toleration,
)
from muster_core.world.columns import BoolColumn, most_kept
from muster_core.world.nodes import NodeTable


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that reads facts alone: nobody who goes makes room for such a pod. `last`: asked after all others."""

    name: str
    reason: str
    passes: Callable[[Constraints, NodeTable], BoolColumn]
    last: bool = False


FILTERS: Final = (
    Filter("NodeAffinity", "node(s) didn't satisfy plugin(s) [NodeAffinity]", node_affinity.is_candidate),
    Filter("NodeUnschedulable", "node(s) were unschedulable", node_unschedulable.passes),
    Filter("NodeName", "node(s) didn't match the requested node name", node_name.passes),
    Filter("TaintToleration", "node(s) had untolerated taint(s)", taint_toleration.passes),
    Filter("NodeAffinity", "node(s) didn't match Pod's node affinity/selector", node_affinity.passes),
    Filter("NodeDeclaredFeatures", "node(s) didn't match Pod's required features", declared_features.passes, last=True),
)


def allowed(constraints: Constraints, nodes: NodeTable) -> BoolColumn:
    """Nodes that no filter refuses."""
    return answers(constraints, nodes)[-1]


def asked(constraints: Constraints, nodes: NodeTable, *, last: bool = False) -> Iterator[tuple[Filter, BoolColumn]]:
    """Each filter and what it lets pass: those that are asked `last`, or the others."""
    for entry, passed in zip(FILTERS, answers(constraints, nodes), strict=False):
        if entry.last is last:
            yield entry, passed


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
        if len(nodes.answers) >= most_kept(nodes.rows.size, len(known)):
            nodes.answers.clear()
        nodes.answers[constraints] = known
    return known
