"""Chooses the nodes that a starving gang waits for, so that a stream of small pods cannot keep it from starting.

A gang that is placed all at once holds nothing while it waits. Once it starves, a set of nodes is reserved for it:
chosen once, so that all its missing members fit there when other pods on these nodes have ended. Other pods still
start where they fit next to the reserved resources. `scheduling/node_sets` decides when (docs/internals/semantics.md,
rule 11).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import numpy as np

from muster_core.gangs import topology as gangs_topology
from muster_core.gangs.planning import held
from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.ids import NodeId
from muster_core.model.resources import NOTHING, Resources
from muster_core.placement.node_reservations import snapshot_for
from muster_core.placement.search.backtracking import place_all
from muster_core.placement.search.requests import MemberDemand, Places, Shortage, Work, rooms
from muster_core.state.applications import Application
from muster_core.state.columns import IntColumn
from muster_core.state.ordering import classes
from muster_core.state.request_classes import pod_on_node_of
from muster_core.state.reservations import PlaceId
from muster_core.state.scheduler_state import Partition
from muster_core.state.snapshot import Snapshot, shape_of, wanted

_PACKED = NodeSort(NodeOrder.BINPACKING)


def choose(partition: Partition, app: Application, now_ns: int) -> dict[NodeId, Resources] | None:
    """Returns the resources to reserve per node for all missing members. None = they would not fit even so.

    Pods of other schedulers, and pods that have run for longer than `gang.starvationAge`, are expected to stay. If the
    gang does not fit next to these, the old pods are expected to end too. Nodes that have the most room now come first.
    """
    demands = [(shape_of(kind), wanted(app, kind, sys.maxsize)) for kind in classes(app) if kind.placeholder]
    for stays_since_ns in (now_ns - partition.timing.starvation_age_ns, -1):
        answer = _place(partition, app, _expected(partition, app, stays_since_ns), demands)
        if isinstance(answer, Places):
            amounts: dict[NodeId, Resources] = {}
            for (shape, _), spots in zip(demands, answer.per_demand, strict=True):
                for node, count in spots:
                    amounts[node] = amounts.get(node, NOTHING).plus(shape.resources, count)
            return amounts
    return None


def others_on(partition: Partition, app: Application, nodes: Iterable[NodeId]) -> frozenset[PlaceId]:
    """Returns the pods on these nodes that are of another queue or user. Only they show that waiting helps.

    The gang's user could end pods of its own to keep the set.
    """
    apps = partition.applications
    return frozenset(
        name
        for node in nodes
        for name in partition.placed.get(node, ())
        if (apps[name[0]].queue, apps[name[0]].spec.user) != (app.queue, app.spec.user)
    )


def _expected(partition: Partition, app: Application, stays_since_ns: int) -> Snapshot:
    """Returns the nodes when all pods have ended except those that are expected to stay."""
    snapshot = snapshot_for(partition, app)
    snapshot.drain()
    snapshot.is_emptied = True
    tags, row = partition.nodes.pods_on_nodes.tags, partition.nodes.rows.row
    for placed in partition.placed.values():
        for one in placed.values():
            if one.allocated_ns <= stays_since_ns:
                if not one.spec.required_node:  # those of DaemonSets count anyway
                    snapshot.take(one.node, one.spec.resources)
                snapshot.enter(row(one.node), pod_on_node_of(one.spec.facts, tags.project(one.spec.tags)))
    for foreign in partition.foreign.values():
        snapshot.take(foreign.node, foreign.resources)
        snapshot.enter(row(foreign.node), pod_on_node_of(foreign.facts, tags.project(foreign.tags)))
    return snapshot


def _place(
    partition: Partition, app: Application, snapshot: Snapshot, demands: list[MemberDemand]
) -> Places | Shortage:
    """Places all members on as few of the preferred nodes as possible."""
    if app.spec.topology is not None:
        domains = gangs_topology.domains(snapshot, app.spec.topology, held(app))
        return gangs_topology.place_packed(snapshot, demands, _PACKED, domains, Work())
    rows = _preferred(partition, app, snapshot, demands)
    answer = place_all(snapshot.fork(), demands, _PACKED)
    size = 1
    while isinstance(answer, Places) and size < len(rows):
        first = snapshot.fork()
        first.within = np.isin(np.arange(snapshot.size), rows[:size])
        within = place_all(first, demands, _PACKED)
        if isinstance(within, Places):
            return within
        size *= 2
    return answer


def _preferred(partition: Partition, app: Application, snapshot: Snapshot, demands: list[MemberDemand]) -> IntColumn:
    """Returns the rows that could hold a member, those first of which the smallest part has to become free."""
    size, now = snapshot.size, snapshot_for(partition, app)
    useful = np.zeros(size, dtype=np.bool_)
    missing = np.zeros(size)
    for shape, _ in demands:
        every = np.ones(size, dtype=np.bool_)
        useful |= rooms(snapshot, shape, every, 1) > 0
        for name in shape.resources:
            best, left = snapshot.available(name), now.available(name)
            if best is not None and left is not None:
                np.maximum(missing, (best - left) / np.maximum(best, 1), out=missing)
    rows = np.flatnonzero(useful)
    return rows[np.lexsort((partition.nodes.rows.ranks()[rows], missing[rows]))]
