"""Packs a gang into as few values of a node label as possible: its topology domains.

A value that holds all members is looked for first, the fullest of those that
can; where one is required nothing else is. Else values are added, those with
most room first, until the members fit. What the gang holds already decides
where the rest goes. Which values could do is read from columns, for all of
them at once; only a few are then really tried, so that a label with a value a
node costs no more than others. Nodes without the label are in no domain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.ids import NodeId
from muster_core.model.resources import NOTHING
from muster_core.model.shortfall import Lack, Shortfall
from muster_core.model.specs import Topology
from muster_core.plan.draft import Draft, emptied
from muster_core.plan.feasibility import filters
from muster_core.plan.fit import NO_NODES
from muster_core.plan.search.demand import Demand, Places, Short, rooms
from muster_core.plan.search.work import Work
from muster_core.plan.together import lacking_when_empty, place_all
from muster_core.world.attributes import value_of
from muster_core.world.columns import BoolColumn, CodeColumn, FloatColumn
from muster_core.world.nodes import NodeTable

#: Values, or sets of values, that are tried: the fullest ones, and as many of the emptiest.
_TRIED: Final = 6
_MOST: Final = 2**40


@dataclass(frozen=True, slots=True)
class Domains:
    """The values of a gang's label. `codes`: the number of each row's value, -1 = it has none; `names` by number;
    `held`: numbers where the gang is already, and with how many.
    """

    topology: Topology
    codes: CodeColumn
    names: tuple[str, ...]
    held: Mapping[int, int]

    def rows(self, *codes: int) -> BoolColumn:
        """Rows whose node has one of these values."""
        return np.isin(self.codes, codes)

    def shown(self, code: int) -> str:
        """A value as people read it, with the label."""
        return f"{self.topology.key}={self.names[code]}"

    @property
    def home(self) -> int | None:
        """Where most of the gang is, of equals the first by name; None = nowhere yet."""
        return min(self.held, key=lambda code: (-self.held[code], self.names[code]), default=None)


def domains(draft: Draft, topology: Topology, held: Mapping[NodeId, int]) -> Domains:
    """The values of a label; `held`: members that are placed, by node."""
    nodes, key = draft.nodes, topology.key
    codes = nodes.attribute(key).codes(draft.size)
    found, first = np.unique(codes, return_index=True)
    names = [""] * (int(codes.max(initial=-1)) + 1)
    for code, row in zip(found.tolist(), first.tolist(), strict=True):
        if code >= 0:
            names[code] = value_of(nodes.record(nodes.rows.at(row)).spec, key) or ""
    counts: dict[int, int] = {}
    for node, count in held.items():
        code = int(codes[nodes.rows.row(node)]) if node in nodes else -1
        if code >= 0:
            counts[code] = counts.get(code, 0) + count
    return Domains(topology, codes, tuple(names), counts)


def place_packed(draft: Draft, demands: Sequence[Demand], sort: NodeSort, found: Domains, work: Work) -> Places | Short:
    """Places for all, with the draft charged; or who is short, with the draft as it was: in the best domain where
    one is required, else anywhere.
    """
    if not demands:
        return Places(())
    for codes in _in_one(draft, demands, found) if found.topology.required else _in_few(draft, demands, found):
        answer = _try(draft, demands, sort, found.rows(*codes), work)
        if isinstance(answer, Places):
            return answer
    if not found.topology.required:
        return place_all(draft, demands, sort, work)
    best = best_domain(draft, demands, found)
    if best is None:
        return _without_label(draft, demands, found.topology.key)
    answer = _try(draft, demands, sort, found.rows(best), work)
    return answer if isinstance(answer, Places) else replace(answer, domain=found.shown(best), alone=False)


def best_domain(draft: Draft, demands: Sequence[Demand], found: Domains) -> int | None:
    """Where the gang is, or else where it may be as a whole: with the most room now, of those that would hold it if
    they were empty. None = no node has the label.
    """
    if found.home is not None:
        return found.home
    now = _shares(draft, demands, found)
    if not len(now):
        return None
    empty = draft.fork()
    empty.empty()
    whole = _shares(empty, demands, found)
    work = Work()
    able = [code for code in _by_room(whole, found, most=True) if whole[code] >= 1]
    able.sort(key=lambda code: (-now[code], found.names[code]))
    for code in able[:_TRIED]:
        fork = empty.fork()
        if isinstance(_try(fork, demands, NodeSort(NodeOrder.BINPACKING), found.rows(code), work), Places):
            return code
    return able[0] if able else _by_room(now, found, most=True)[0]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a domain as it is shown; None = all rows, whatever their domain."""

    rows: BoolColumn | None
    name: str = ""


def parts(draft: Draft, demands: Sequence[Demand], found: Domains) -> list[Part]:
    """What is to be filled one after the other by a gang of which not all fit."""
    if found.topology.required:
        best = best_domain(draft, demands, found)
        return [Part(np.zeros(draft.size, dtype=np.bool_)) if best is None else _part(found, best)]
    first = sorted(found.held, key=lambda code: (-found.held[code], found.names[code]))
    others = [code for code in _by_room(_shares(draft, demands, found), found, most=True) if code not in found.held]
    return [*(_part(found, code) for code in [*first, *others][:_TRIED]), Part(None)]


def _part(found: Domains, code: int) -> Part:
    return Part(found.rows(code), found.shown(code))


def lacking_packed_when_empty(nodes: NodeTable, members: Sequence[Demand], topology: Topology | None) -> Short | None:
    """What would be short if nobody but `occupied` used these nodes; None if all members fit (semantics 10), in one
    domain where that is required.
    """
    if topology is None or not topology.required:
        return lacking_when_empty(nodes, members)
    draft = emptied(nodes)
    answer = place_packed(draft, members, NodeSort(NodeOrder.BINPACKING), domains(draft, topology, {}), Work())
    return None if isinstance(answer, Places) else answer


def _try(draft: Draft, demands: Sequence[Demand], sort: NodeSort, rows: BoolColumn, work: Work) -> Places | Short:
    draft.within = rows
    answer = place_all(draft, demands, sort, work)
    draft.within = None
    return answer


def _in_one(draft: Draft, demands: Sequence[Demand], found: Domains) -> Iterator[tuple[int, ...]]:
    """Values that may hold all: the fullest first, and if many of them do not, those with most room."""
    if found.home is not None:
        return
    shares = _shares(draft, demands, found)
    able = [code for code in _by_room(shares, found, most=False) if shares[code] >= 1]
    yield from ((code,) for code in able[:_TRIED])
    yield from ((code,) for code in reversed(able[_TRIED:][-_TRIED:]))


def _in_few(draft: Draft, demands: Sequence[Demand], found: Domains) -> Iterator[tuple[int, ...]]:
    """Sets of values, the small ones first. Of a set the last one is the fullest that does."""
    ratios = _ratios(draft, demands, found)
    held = list(found.held)
    if held:
        yield tuple(held)
    else:
        yield from _in_one(draft, demands, found)
    order = [code for code in _by_room(ratios.min(axis=0), found, most=True) if code not in found.held]
    reached = ratios[:, held].sum(axis=1)[:, None] + np.cumsum(ratios[:, order], axis=1)
    enough = np.flatnonzero(reached.min(axis=0) >= 1) + 1
    if not len(enough):
        return
    fewest = max(int(enough[0]), 1 if held else 2)
    for size in (fewest + (1 << step) - 1 for step in range(_TRIED)):
        if size > len(order):
            return
        chosen = [*held, *order[: size - 1]]
        sums = ratios[:, chosen].sum(axis=1)
        last = next(code for code in reversed(order[size - 1 :]) if (sums + ratios[:, code]).min() >= 1)
        yield (*chosen, last)
        if last != order[size - 1]:
            yield (*chosen, order[size - 1])


def _shares(draft: Draft, demands: Sequence[Demand], found: Domains) -> FloatColumn:
    """How much of the gang each value has room for, at the most: 1 = all of it."""
    shares: FloatColumn = _ratios(draft, demands, found).min(axis=0)
    return shares


def _ratios(draft: Draft, demands: Sequence[Demand], found: Domains) -> FloatColumn:
    """The same of each demand, and of each resource in all: a row each. Values together have the sum of theirs."""
    size = len(found.names)
    has = found.codes >= 0
    codes, asked = found.codes[has], NOTHING
    rows: list[FloatColumn] = []
    for shape, count in demands:
        asked = asked.plus(shape.resources, count)
        room = rooms(draft, shape, filters.allowed(shape.constraints, draft.nodes), _MOST)[has]
        rows.append(np.bincount(codes, weights=room, minlength=size) / count)
    for name, amount in asked.items():
        column = draft.available(name)
        left = np.zeros(len(codes)) if column is None else np.maximum(column[has], 0)
        rows.append(np.bincount(codes, weights=left, minlength=size) / amount)
    return np.array(rows)


def _by_room(shares: FloatColumn, found: Domains, *, most: bool) -> list[int]:
    """Values that nodes have, those with most room first or last; of equals the first by name first."""
    sign = -1.0 if most else 1.0
    codes = np.unique(found.codes[found.codes >= 0]).tolist()
    return sorted(codes, key=lambda code: (sign * shares[code], found.names[code]))


def _without_label(draft: Draft, demands: Sequence[Demand], key: str) -> Short:
    nodes = len(draft.nodes)
    why = Shortfall(Lack.NODES, counts=((f"node(s) had no label {key}", nodes),) if nodes else (), nodes=nodes)
    return Short(0, demands[0][1], why if nodes else Shortfall(Lack.NODES, NO_NODES), demands[0][1])
