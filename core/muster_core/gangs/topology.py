"""Topology domains for a gang: packs the gang into as few values of a node label as possible.

A single domain that holds all members is tried first, the fullest one that can. If one domain is required, no other
result is used. Otherwise domains are added until all members fit. Called by gang planning and takeover.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.decisions import ReasonKind, UnschedulableReason
from muster_core.model.ids import NodeId
from muster_core.model.specs import Topology
from muster_core.placement.node_search import NO_NODES
from muster_core.placement.search.backtracking import missing_on_empty_nodes, place_all
from muster_core.placement.search.requests import (
    MemberDemand,
    Places,
    Shortage,
    Values,
    Work,
    room_of,
    shares_of,
    values,
)
from muster_core.state.columns import BoolColumn
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import Snapshot, emptied

#: Number of values, or sets of values, that are tried: this many with the least, and with the most, room.
_TRIED: Final = 6


@dataclass(frozen=True, slots=True)
class TopologyDomains:
    """The values of a gang's topology key. `held`: number of placed members per value."""

    topology: Topology
    values: Values
    held: Mapping[int, int]

    def shown(self, code: int) -> str:
        """The value as `key=value`."""
        return f"{self.topology.key}={self.values.names[code]}"

    @property
    def homes(self) -> list[int]:
        """Values with placed members, those with the most first, ties by name."""
        return sorted(self.held, key=lambda code: (-self.held[code], self.values.names[code]))


def domains(snapshot: Snapshot, topology: Topology, held: Mapping[NodeId, int]) -> TopologyDomains:
    """Returns the values of the topology key. `held`: number of placed members per node."""
    nodes, found = snapshot.nodes, values(snapshot, topology.key)
    counts: dict[int, int] = {}
    for node, count in held.items():
        code = int(found.codes[nodes.rows.row(node)]) if node in nodes else -1
        if code >= 0:
            counts[code] = counts.get(code, 0) + count
    return TopologyDomains(topology, found, counts)


def place_packed(
    snapshot: Snapshot, demands: Sequence[MemberDemand], sort: NodeSort, found: TopologyDomains, work: Work
) -> Places | Shortage:
    """Returns nodes for all members and charges the snapshot, or returns the shortage.

    If one domain is required, the shortage is that of the best domain, else that of all nodes.
    """
    if not demands:
        return Places(())
    for codes in _in_one(snapshot, demands, found) if found.topology.required else _in_few(snapshot, demands, found):
        answer = _try(snapshot, demands, sort, found.values.rows(*codes), work)
        if isinstance(answer, Places):
            return answer
    if not found.topology.required:
        return place_all(snapshot, demands, sort, work)
    best = best_domain(snapshot, demands, found)
    if best is None:
        return _without_label(snapshot, demands, found.topology.key)
    answer = _try(snapshot, demands, sort, found.values.rows(best), work)
    return answer if isinstance(answer, Places) else replace(answer, domain=found.shown(best), alone=False)


def best_domain(snapshot: Snapshot, demands: Sequence[MemberDemand], found: TopologyDomains) -> int | None:
    """Returns the domain of the gang, or else the one with the most room among those that could hold it when empty.

    None = no node has the label.
    """
    if found.homes:
        return found.homes[0]
    known = found.values
    by_room = known.by_room(shares_of(snapshot, demands, known), most=True)
    if not by_room:
        return None
    empty = snapshot.fork()
    empty.empty()
    whole = shares_of(empty, demands, known)
    able = [code for code in by_room if whole[code] >= 1]
    work = Work()
    for code in able[:_TRIED]:
        if isinstance(_try(empty.fork(), demands, NodeSort(NodeOrder.BINPACKING), known.rows(code), work), Places):
            return code
    return (able or by_room)[0]


@dataclass(frozen=True, slots=True)
class Domain:
    """Rows of one domain, and its name. None = all rows."""

    rows: BoolColumn | None
    name: str = ""


def parts(snapshot: Snapshot, demands: Sequence[MemberDemand], found: TopologyDomains) -> list[Domain]:
    """Returns the domains that an incomplete gang fills one after the other."""
    if found.topology.required:
        best = best_domain(snapshot, demands, found)
        return [Domain(np.zeros(snapshot.size, dtype=np.bool_)) if best is None else _part(found, best)]
    by_room = found.values.by_room(shares_of(snapshot, demands, found.values), most=True)
    codes = [*found.homes, *(code for code in by_room if code not in found.held)]
    return [*(_part(found, code) for code in codes[:_TRIED]), Domain(None)]


def _part(found: TopologyDomains, code: int) -> Domain:
    return Domain(found.values.rows(code), found.shown(code))


def missing_on_empty_domains(
    nodes: NodeTable, members: Sequence[MemberDemand], topology: Topology | None
) -> Shortage | None:
    """Returns the shortage if only foreign pods (`occupied`) used the nodes. None = all members would fit.

    If one domain is required, they must fit in one domain. See docs/internals/semantics.md, rule 10.
    """
    if topology is None or not topology.required:
        return missing_on_empty_nodes(nodes, members)
    snapshot = emptied(nodes)
    answer = place_packed(snapshot, members, NodeSort(NodeOrder.BINPACKING), domains(snapshot, topology, {}), Work())
    return None if isinstance(answer, Places) else answer


def _try(
    snapshot: Snapshot, demands: Sequence[MemberDemand], sort: NodeSort, rows: BoolColumn, work: Work
) -> Places | Shortage:
    snapshot.within = rows
    answer = place_all(snapshot, demands, sort, work)
    snapshot.within = None
    return answer


def _in_one(snapshot: Snapshot, demands: Sequence[MemberDemand], found: TopologyDomains) -> Iterator[tuple[int, ...]]:
    """Yields the values that may hold all members."""
    if not found.held:
        known = found.values
        yield from ((code,) for code in known.able(shares_of(snapshot, demands, known), _TRIED))


def _in_few(snapshot: Snapshot, demands: Sequence[MemberDemand], found: TopologyDomains) -> Iterator[tuple[int, ...]]:
    """Yields sets of values, small sets first. The last value of a set is the fullest that completes it."""
    room = room_of(snapshot, demands, found.values)
    held = list(found.held)
    if held:
        yield tuple(held)
    else:
        yield from _in_one(snapshot, demands, found)
    shares = (room.amounts / room.wanted[:, None]).min(axis=0)
    order = [code for code in found.values.by_room(shares, most=True) if code not in found.held]
    reached = room.amounts[:, held].sum(axis=1)[:, None] + np.cumsum(room.amounts[:, order], axis=1)
    enough = np.flatnonzero((reached >= room.wanted[:, None]).all(axis=0)) + 1
    if not len(enough):
        return
    fewest = max(int(enough[0]), 1 if held else 2)
    for size in (fewest + (1 << step) - 1 for step in range(_TRIED)):
        if size > len(order):
            return
        chosen = [*held, *order[: size - 1]]
        sums = room.amounts[:, chosen].sum(axis=1)
        fitting = (code for code in reversed(order[size - 1 :]) if room.is_enough(sums + room.amounts[:, code]))
        last = next(fitting, order[size - 1])
        yield (*chosen, last)
        if last != order[size - 1]:
            yield (*chosen, order[size - 1])


def _without_label(snapshot: Snapshot, demands: Sequence[MemberDemand], key: str) -> Shortage:
    nodes = len(snapshot.nodes)
    why = UnschedulableReason(
        ReasonKind.NODES, counts=((f"node(s) had no label {key}", nodes),) if nodes else (), nodes=nodes
    )
    return Shortage(0, demands[0][1], why if nodes else UnschedulableReason(ReasonKind.NODES, NO_NODES), demands[0][1])
