"""Topology domains for a gang: packs the gang into as few domains of each level as possible.

A level is a node label, the outermost first. Nodes are in the same domain of a level if they have equal values of its
label and of the labels of all outer levels. Of all placements, those with the fewest domains of the outermost level are
the best, among these the ones with the fewest domains of the next level, and so on. Ties are decided by the domains
with the least room that suffices. If one domain is required, this is one of the outermost level.

`domain_sets` compares all sets of domains by what fits per domain and class of members. Only the sets that may hold the
gang are searched for nodes. Each level, and each number of domains, gets a part of one `Work`. Where this ends, the
result may use more domains than necessary. Called by gang planning and takeover.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np

from muster_core.gangs.domain_sets import DomainSets, comparable
from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.decisions import ReasonKind, UnschedulableReason
from muster_core.model.ids import NodeId
from muster_core.model.specs import Topology
from muster_core.placement.node_search import NO_NODES, on_facts, stateful_filters
from muster_core.placement.search.backtracking import missing_on_empty_nodes, place_all
from muster_core.placement.search.requests import (
    MemberDemand,
    Places,
    Room,
    Shortage,
    Values,
    Work,
    depends_on_others,
    numbered,
    room_of,
    shares_of,
)
from muster_core.state.columns import BoolColumn, IntColumn, value_of
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import Snapshot, emptied

#: End of the message about a required domain if the budget did not suffice to compare all of them.
ENDED: Final = "; the search ended at its limit"

#: Other domains that a message about the best one names.
_SHOWN: Final = 3

#: The search for few domains may cost this many times as much as the search for any placement.
_TIMES: Final = 6

#: The cost of sorting a column, as a number of evaluations of it.
_SORTED: Final = 4

#: Domains of one level that an incomplete gang fills one after the other.
_PARTS: Final = 6


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """The domains of one level, numbered. `parents`: the domain of the level above of each one. `held`: number of
    placed members per domain.
    """

    values: Values
    parents: IntColumn
    held: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class TopologyDomains:
    """The domains of a gang's topology, the outermost level first.

    If one domain is required, and members are placed, only nodes of their domain are in any domain.
    """

    topology: Topology
    levels: tuple[Level, ...]
    nodes: NodeTable

    def shown(self, code: int, level: int = 0) -> str:
        """The domain as `key=value`, the outermost level first."""
        rows = self.nodes.rows
        row = rows.order()[0].item(self.levels[level].values.firsts.item(code))
        spec = self.nodes.record(rows.at(row)).spec
        return ", ".join(f"{key}={value_of(spec, key)}" for key in self.topology.keys[: level + 1])

    @property
    def homes(self) -> list[int]:
        """Outermost domains with placed members, those with the most first, ties by their first nodes."""
        return _homes(self.levels[0])


def _homes(level: Level) -> list[int]:
    return sorted(level.held, key=lambda code: (-level.held[code], level.values.firsts.item(code)))


def domains(snapshot: Snapshot, topology: Topology, held: Mapping[NodeId, int]) -> TopologyDomains:
    """Returns the domains of the topology. `held`: number of placed members per node."""
    nodes, size = snapshot.nodes, snapshot.size
    columns = [nodes.attribute(key).codes(size) for key in topology.keys]
    has = np.logical_and.reduce([column >= 0 for column in columns])
    members = {nodes.rows.row(node): count for node, count in held.items() if node in nodes}
    levels: list[Level] = []
    above = np.zeros(size, np.int64)
    for column in columns:
        paths = above * (int(column.max(initial=0)) + 1) + column
        codes = np.full(size, -1, np.int32)
        _, codes[has] = np.unique(paths[has], return_inverse=True)
        parents = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
        parents[codes[has]] = above[has]
        counts: dict[int, int] = {}
        for row, count in members.items():
            if (code := codes.item(row)) >= 0:
                counts[code] = counts.get(code, 0) + count
        level = Level(numbered(snapshot, codes), parents, counts)
        if topology.required and counts and not levels:
            home = _homes(level)[0]
            has = has & (codes == home)
            inside = numbered(snapshot, np.where(has, codes, np.int32(-1)))
            level = replace(level, values=inside, held={home: counts[home]})
        levels.append(level)
        above = codes.astype(np.int64)
    return TopologyDomains(topology, tuple(levels), nodes)


def place_packed(
    snapshot: Snapshot, demands: Sequence[MemberDemand], sort: NodeSort, found: TopologyDomains, work: Work
) -> Places | Shortage:
    """Returns nodes for all members and charges the snapshot, or returns the shortage.

    If one domain is required, the shortage is that of the best domain, else that of all nodes.
    """
    if not demands:
        return Places(())
    search = _DomainSearch(snapshot, demands, sort, found, work)
    answer = search.run()
    if answer is not None:
        return answer
    if not found.topology.required:
        return place_all(snapshot, demands, sort, work)
    best = best_domain(snapshot, demands, found)
    if best is None:
        return _without_label(snapshot, demands, found.topology)
    refused = _try(snapshot, demands, sort, found.levels[0].values.rows(best), work)
    if isinstance(refused, Places):
        return refused
    domain = described(snapshot, demands, found, best, refused.demand) + (ENDED if search.is_cut_short else "")
    return replace(refused, domain=domain, alone=False)


class _DomainSearch:
    """Search for the placement with the fewest domains. `_best`: the best one so far, and the snapshot that has it."""

    def __init__(
        self, snapshot: Snapshot, demands: Sequence[MemberDemand], sort: NodeSort, found: TopologyDomains, work: Work
    ) -> None:
        self._snapshot, self._demands, self._sort, self._found = snapshot, demands, sort, found
        #: Budgets of all levels, of the current level, and of the attempts with the roomiest domains.
        self._whole, self._work, self._last = work.times(_TIMES), work, work.part()
        #: The budget of a number of domains or of a level ended.
        self.is_cut_short = False
        self._best: tuple[Places, Snapshot] | None = None
        self._rooms: dict[int, tuple[Room, IntColumn]] = {}
        self._kinds: IntColumn | None = None
        #: Sets of nodes on which the gang was not found to fit.
        self._failed: set[bytes] = set()

    def run(self) -> Places | None:
        """Minimizes the number of domains level by level. Charges the snapshot. None = no placement was found."""
        most: list[int] = []
        levels = len(self._found.levels)
        for depth in range(levels):
            self._work = self._whole.part(levels - depth)
            most.append(self._fewest(depth, most))
            self._whole.end(self._work)
            if self._best is None:
                break
        if self._best is None:
            return None
        places, fork = self._best
        self._snapshot.absorb(fork)
        return places

    def _fewest(self, depth: int, most: Sequence[int]) -> int:
        """Returns the fewest further domains of the level, with at most `most` of the levels above.

        Looks for sets of few domains first, and for larger ones only if none of these holds the gang.
        """
        level = self._found.levels[depth]
        room, held = self._room(depth)[0], tuple(level.held)
        limit = len(level.parents) if self._best is None else len(self._used(depth))
        if self._found.topology.required and not depth:
            limit = 0 if held else 1
        begin, size = 0, min(room.fewest(held), limit)
        while True:
            options = self._sets(depth, [*most, size])
            for count in range(max(begin, min((sets.least for sets in options), default=size + 1)), size + 1):
                if self._best is not None and count == limit:
                    return limit
                if self._try_sets(level, options, count):
                    return count
            if size >= limit or not options or not self._work.is_left:
                break
            begin, size = size + 1, min(limit, 2 * size or 1)
        self._try_roomiest(depth, limit + (self._best is None))
        return len(self._used(depth))

    def _used(self, depth: int) -> set[int]:
        """Returns the domains of the level that the best placement adds to those with placed members."""
        if self._best is None:
            return set()
        level, row = self._found.levels[depth], self._snapshot.nodes.rows.row
        nodes = {node for spots in self._best[0].per_demand for node, _ in spots}
        return {level.values.codes.item(row(node)) for node in nodes}.difference(level.held)

    def _sets(self, depth: int, most: Sequence[int]) -> list[DomainSets]:
        """Returns the sets of domains that may hold the gang.

        If there are too many domains to compare all, those with the most and the least room, and those in the outer
        domains of the best placement.
        """
        free = [set(level.held) for level in self._found.levels[: depth + 1]]
        sets, is_all = self._sets_in(free, most)
        if is_all or not depth:
            return sets
        inside = [held | self._used(at) for at, held in enumerate(free[:-1])]
        return [*sets, *self._sets_in([*inside, free[-1]], [*(0 for _ in inside), most[-1]])[0]]

    def _sets_in(self, free: Sequence[set[int]], most: Sequence[int]) -> tuple[list[DomainSets], bool]:
        """Like `_sets`, and whether these are all. `free`: the domains of each level that do not count."""
        depth = len(free) - 1
        room, _ = self._room(depth)
        paths = [np.flatnonzero(room.amounts.any(axis=0))]
        for level in reversed(self._found.levels[1 : depth + 1]):
            paths.insert(0, level.parents[paths[0]])
        costs = ~np.stack([np.isin(path, list(without)) for path, without in zip(paths, free, strict=True)])
        able = [self._room(at)[0].may_help(list(free[at]), most[at])[path] for at, path in enumerate(paths)]
        useful = np.flatnonzero((~costs | np.stack(able)).all(axis=0) & costs[-1])
        kept = comparable(useful, room.shares[paths[-1][useful]])
        counted = list(range(depth + 1)) if any(most[:-1]) else [depth]
        at_most = [most[at] for at in counted]
        cost = DomainSets.cost(len(kept), len(room.wanted), at_most)
        if not self._work.allows(cost + cost // 2):
            self.is_cut_short = True
            return [], False
        self._work.pay(cost)
        ranks = [self._room(at)[1][path[kept]] for at, path in enumerate(paths)]
        kept = kept[np.lexsort(ranks[::-1])]
        base = room.amounts[:, list(free[-1])].sum(axis=1)
        amounts = room.amounts[:, paths[-1][kept]]
        chosen, counts = np.stack(paths)[counted][:, kept], costs[counted][:, kept]
        sets = DomainSets(chosen, counts, amounts, base, room.wanted, at_most)
        return [sets], len(kept) == len(useful)

    def _room(self, depth: int) -> tuple[Room, IntColumn]:
        """Returns what fits per domain of the level, and their ranks: those with the least room first."""
        known = self._rooms.get(depth)
        if known is None:
            values = self._found.levels[depth].values
            room = room_of(self._snapshot, self._demands, values)
            self._work.read(self._snapshot, len(room.wanted))
            ranks = np.empty(len(values.firsts), np.int64)
            ranks[np.lexsort((values.firsts, room.shares))] = np.arange(len(ranks))
            known = self._rooms[depth] = room, ranks
        return known

    def _try_sets(self, level: Level, options: Sequence[DomainSets], count: int) -> bool:
        """Whether the gang fits into one of the sets of so many domains. Half of the work that is left is for them.

        Cheap attempts with all sets come first, and leave half of that for the thorough ones.
        """
        whole = self._work.part(2)
        cheap = whole.part(2)
        hard: dict[bytes, BoolColumn] = {}
        is_found = self._try_cheaply(level, options, count, cheap, hard)
        whole.end(cheap)
        for key, rows in () if is_found else hard.items():
            if not whole.is_left:
                break
            if is_found := self._try(rows, whole, is_thorough=True):
                break
            self._failed.add(key)
        self.is_cut_short |= not is_found and not (cheap.is_left and whole.is_left)
        self._work.end(whole)
        return is_found

    def _try_cheaply(
        self, level: Level, options: Sequence[DomainSets], count: int, work: Work, hard: dict[bytes, BoolColumn]
    ) -> bool:
        """Makes one attempt per set. Adds the sets without a result to `hard`."""
        for codes in (one for sets in options for one in sets.of(count, work)):
            rows = level.values.rows(*level.held, *codes)
            work.read(self._snapshot, 2)
            key = self._key(rows) if self._failed or hard else b""
            if key in self._failed or key in hard:
                continue
            if self._try(rows, work, is_thorough=False):
                return True
            hard[key or self._key(rows)] = rows
        return False

    def _try_roomiest(self, depth: int, limit: int) -> None:
        """Tries fewer than `limit` further domains: those with the most room, a few and then more.

        These are inside the outer domains of the best placement, if there is one.
        """
        level, room = self._found.levels[depth], self._room(depth)[0]
        held, order = list(level.held), level.values.by_room(room.shares, most=True)
        inside = self._used(depth - 1).union(self._found.levels[depth - 1].held) if depth else ()
        order = [one for one in order if one not in level.held and (not depth or level.parents[one] in inside)]
        reached = room.amounts[:, held].sum(axis=1)[:, None] + np.cumsum(room.amounts[:, order], axis=1)
        enough = np.flatnonzero((reached >= room.wanted[:, None]).all(axis=0)).tolist()
        for is_thorough, step in product((False, True), range(_PARTS) if enough else ()):
            fewest, more = enough[0] + 1, (1 << step) - 1
            size = fewest + max(more, fewest * more // (1 << _PARTS))
            if size >= limit or size > len(order):
                continue
            if self._try(level.values.rows(*held, *order[:size]), self._last, is_thorough=is_thorough):
                return
            if not self._last.is_left:
                return

    def _try(self, rows: BoolColumn, work: Work, *, is_thorough: bool) -> bool:
        fork = self._snapshot.fork()
        answer = _try(fork, self._demands, self._sort, rows, work, is_thorough=is_thorough)
        if isinstance(answer, Places):
            self._best = answer, fork
        return isinstance(answer, Places)

    def _key(self, rows: BoolColumn) -> bytes:
        """Returns a key of the set of rows. Sets with equal nodes have equal keys, if only the nodes matter."""
        if self._kinds is None:
            shapes = [shape for shape, _ in self._demands]
            if any(depends_on_others(shape) or stateful_filters(self._snapshot, shape) for shape in shapes):
                self._kinds = np.arange(self._snapshot.size)
            else:
                names = dict.fromkeys(name for shape in shapes for name in shape.resources)
                found = (self._snapshot.available(name) for name in names)
                columns = [column for column in found if column is not None]
                self._work.read(self._snapshot, _SORTED * (len(columns) + len(shapes)))
                columns += [on_facts(self._snapshot, shape).astype(np.int64) for shape in shapes]
                _, self._kinds = np.unique(np.stack(columns), axis=1, return_inverse=True)
        return np.sort(self._kinds[rows]).tobytes()


def best_domain(snapshot: Snapshot, demands: Sequence[MemberDemand], found: TopologyDomains) -> int | None:
    """Returns the domain of the gang, or else the one with the most room among those that could hold it when empty.

    None = no node has the labels.
    """
    if found.homes:
        return found.homes[0]
    known = found.levels[0].values
    by_room = known.by_room(shares_of(snapshot, demands, known), most=True)
    if not by_room:
        return None
    empty = snapshot.fork()
    empty.empty()
    whole = shares_of(empty, demands, known)
    able = [code for code in by_room if whole[code] >= 1]
    work, packed = Work().part(), NodeSort(NodeOrder.BINPACKING)
    for code in able:
        if isinstance(_try(empty.fork(), demands, packed, known.rows(code), work), Places):
            return code
        if not work.is_left:
            break
    return (able or by_room)[0]


def described(
    snapshot: Snapshot, demands: Sequence[MemberDemand], found: TopologyDomains, best: int, demand: int = 0
) -> str:
    """Returns the domain as `key=value`, with how many members of the demand would fit into others."""
    if found.homes:
        return found.shown(best)
    values, wanted = found.levels[0].values, demands[demand][1]
    room = room_of(snapshot, demands, values)
    others = [code for code in values.by_room(room.shares, most=True) if code != best]
    shown = [f"{min(room.amounts.item(demand, code), wanted)} in {found.shown(code)}" for code in others[:_SHOWN]]
    more = [f"less in {len(others) - _SHOWN} others"] if len(others) > _SHOWN else []
    return f"{found.shown(best)} (at most {', '.join([*shown, *more])})" if shown else found.shown(best)


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that an incomplete gang fills, and the name of a required domain. None = all rows."""

    rows: BoolColumn | None
    name: str = ""


def parts(snapshot: Snapshot, demands: Sequence[MemberDemand], found: TopologyDomains) -> list[Part]:
    """Returns the domains that an incomplete gang fills one after the other: the inner ones of the best domain first.

    If one domain is required, only this domain.
    """
    known = found.levels[0]
    if found.topology.required:
        best = best_domain(snapshot, demands, found)
        codes = [] if best is None else [best]
    else:
        by_room = known.values.by_room(shares_of(snapshot, demands, known.values), most=True)
        codes = [*found.homes, *(code for code in by_room if code not in known.held)][:_PARTS]
    outer = [(code, known.values.rows(code)) for code in codes]
    inner: list[Part] = []
    for level in found.levels[1:] if outer else ():
        inside = set(level.values.codes[outer[0][1]].tolist())
        by_room = level.values.by_room(shares_of(snapshot, demands, level.values), most=True)
        codes = [*level.held, *(code for code in by_room if code in inside and code not in level.held)]
        inner = [*(Part(level.values.rows(code)) for code in codes[:_PARTS]), *inner]
    if not found.topology.required:
        return [*inner, *(Part(rows) for _, rows in outer), Part(None)]
    named = [Part(rows, described(snapshot, demands, found, code)) for code, rows in outer]
    return [*inner, *named] or [Part(np.zeros(snapshot.size, dtype=np.bool_))]


def missing_on_empty_domains(
    nodes: NodeTable, members: Sequence[MemberDemand], topology: Topology | None
) -> Shortage | None:
    """Returns the shortage if only foreign pods (`occupied`) used the nodes. None = all members would fit.

    If one domain is required, they must fit in one domain. See docs/internals/semantics.md, rule 10.
    """
    if topology is None or not topology.required:
        return missing_on_empty_nodes(nodes, members)
    snapshot, outermost = emptied(nodes), replace(topology, keys=topology.keys[:1])
    found = domains(snapshot, outermost, {})
    answer = place_packed(snapshot, members, NodeSort(NodeOrder.BINPACKING), found, Work())
    return None if isinstance(answer, Places) else answer


def _try(
    snapshot: Snapshot,
    demands: Sequence[MemberDemand],
    sort: NodeSort,
    rows: BoolColumn,
    work: Work,
    *,
    is_thorough: bool = True,
) -> Places | Shortage:
    within = snapshot.within
    snapshot.within = rows if within is None else rows & within
    answer = place_all(snapshot, demands, sort, work, is_thorough=is_thorough)
    snapshot.within = within
    return answer


def _without_label(snapshot: Snapshot, demands: Sequence[MemberDemand], topology: Topology) -> Shortage:
    nodes = snapshot.nodes
    has = np.ones(snapshot.size, dtype=np.bool_)
    counts: list[tuple[str, int]] = []
    for key in topology.keys:
        missing = has & (nodes.attribute(key).codes(snapshot.size) < 0) & (nodes.rows.ranks() < len(nodes))
        has &= ~missing
        counts.append((f"node(s) had no label {key}", int(missing.sum())))
    found = tuple((text, count) for text, count in counts if count)
    why = UnschedulableReason(ReasonKind.NODES, counts=found, nodes=len(nodes))
    return Shortage(
        0, demands[0][1], why if len(nodes) else UnschedulableReason(ReasonKind.NODES, NO_NODES), demands[0][1]
    )
