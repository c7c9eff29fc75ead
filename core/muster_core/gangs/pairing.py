"""Pairs the placeholder requests of a gang with its present members, so that each is planned where its member can run.

A placeholder pod has the resources and constraints of its task group. If the request of a member waits already, its
placeholder must get a node that the member can use too: with its constraints, ports and volumes, and as much as it
requests. A virtual placeholder requests what its member requests anyway (`scheduling/slots`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from muster_core.model.ids import NodeId, TaskGroup
from muster_core.placement import node_search
from muster_core.state.applications import Application
from muster_core.state.request_classes import AskClass
from muster_core.state.snapshot import RequestShape, Snapshot, shape_of, wanted

#: Classes of members of a task group that are compared with its live placeholders. StatefulSets have one per pod.
_COMPARED: Final = 32


@dataclass(frozen=True, slots=True)
class PairedSlots:
    """Placeholder requests of the class `kind` that stand for members of one class. `shape`: what both of them need."""

    kind: AskClass
    shape: RequestShape
    count: int


def paired(app: Application, counts: Mapping[AskClass, int], snapshot: Snapshot) -> list[PairedSlots]:
    """Returns the placeholder requests of the gang, `counts` by class, with the members that they stand for."""
    found: list[PairedSlots] = []
    members = {} if app.spec.uses_virtual_placeholders or not app.spec.members else _uncovered(app, snapshot)
    for kind, count in counts.items():
        of_group, left = members.get(kind.group, {}), count
        for member, there in of_group.items():
            number = min(there, left)
            if number:
                found.append(PairedSlots(kind, _needed_by_both(kind, member), number))
                of_group[member] -= number
                left -= number
        if left:
            found.append(PairedSlots(kind, shape_of(kind), left))
    return found


def _needed_by_both(kind: AskClass, member: AskClass) -> RequestShape:
    """Returns the shape of nodes for a placeholder that also suit its member."""
    is_alike = member.constraints == kind.constraints and member.pod_on_node.facts == kind.pod_on_node.facts
    if is_alike and kind.resources.covers(member.resources) and not member.avoid:
        return shape_of(kind)
    return RequestShape(
        kind.resources.widened(member.resources),
        kind.constraints,
        kind.avoid | member.avoid,
        kind.placement,
        member.pod_on_node,
        kind.required_node,
        also=member.constraints,
    )


def _uncovered(app: Application, snapshot: Snapshot) -> dict[TaskGroup, dict[AskClass, int]]:
    """Returns the waiting members by task group and class for which no live placeholder is on a suitable node."""
    found: dict[TaskGroup, dict[AskClass, int]] = {}
    for kind in app.waiting:
        if kind.group and not kind.placeholder:
            found.setdefault(kind.group, {})[kind] = wanted(app, kind, sys.maxsize)
    for group, members in found.items():
        nodes = [app.allocations[identity].node for identity in app.gang.live.get(group, ())]
        if nodes:
            _cover(snapshot, members, nodes)
    return found


def _cover(snapshot: Snapshot, members: dict[AskClass, int], nodes: list[NodeId]) -> None:
    """Subtracts the members that can replace the live placeholders on these nodes, the most constrained ones first."""
    rows = np.array([snapshot.nodes.rows.row(node) for node in nodes])
    masks = {kind: node_search.on_facts(snapshot, shape_of(kind))[rows] for kind in list(members)[:_COMPARED]}
    for kind in sorted(masks, key=lambda kind: int(masks[kind].sum())):
        usable = np.flatnonzero(masks[kind])[: members[kind]]
        members[kind] -= len(usable)
        for mask in masks.values():
            mask[usable] = False
