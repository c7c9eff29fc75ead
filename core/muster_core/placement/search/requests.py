"""Input and output of a search, its budget, and the topology domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from muster_core.model.decisions import UnschedulableReason
from muster_core.model.ids import NodeId
from muster_core.model.resources import NOTHING
from muster_core.placement.filters import node_properties, resources
from muster_core.placement.snapshot import RequestShape, Snapshot
from muster_core.state.columns import BoolColumn, CodeColumn, FloatColumn, IntColumn, value_of

#: A shape and how many members have it.
MemberDemand = tuple[RequestShape, int]

#: Nodes and how many go there.
Spots = tuple[tuple[NodeId, int], ...]


@dataclass(frozen=True, slots=True)
class Places:
    """Where all members go: for each demand, in the order given, nodes and how many."""

    per_demand: tuple[Spots, ...]


@dataclass(frozen=True, slots=True)
class Shortage:
    """Which demand (by its position, of so many members) lacks how many places, and why.
    `alone`: it would even if there were no other demand. `domain`: the node label and value within which;
    empty = anywhere.
    """

    demand: int
    missing: int
    why: UnschedulableReason
    count: int = 0
    alone: bool = False
    domain: str = ""


def needs_others(shape: RequestShape) -> bool:
    """Whether it goes only where others are: these may be members of the same gang and come first."""
    affinity = shape.affinity
    is_needy = affinity is not None and affinity.required and affinity.at_least > 0
    return is_needy or bool(shape.pod_on_node.facts.inter_pod.near)


def depends_on_members(shape: RequestShape) -> bool:
    """Whether members beside it may make room for it, so that what it finds alone is not the last word."""
    return needs_others(shape) or any(spread.required for spread in shape.pod_on_node.facts.inter_pod.spread)


def is_entangled(shape: RequestShape) -> bool:
    """Whether places of its own, or of members beside it, may change where the next one goes."""
    return shape.placement is not None or shape.pod_on_node.facts.is_particular


def rooms(snapshot: Snapshot, shape: RequestShape, among: BoolColumn, at_most: int) -> IntColumn:
    """How many of the shape each of the rows has room for, up to `at_most`."""
    return resources.counts(snapshot.available, shape.resources, among, at_most)


def share(snapshot: Snapshot, shape: RequestShape) -> float:
    """The largest part of the cluster's capacity of one resource that one member takes."""
    total = snapshot.nodes.capacity_total
    return max((amount / max(total[name], 1) for name, amount in shape.resources.items()), default=0.0)


def weight(snapshot: Snapshot, shape: RequestShape, rows: IntColumn) -> IntColumn:
    """What is left on the rows of what the shape asks for, each resource as a part of the cluster's, in billionths."""
    left = np.zeros(len(rows), dtype=np.int64)
    for name in shape.resources:
        column, total = snapshot.available(name), snapshot.nodes.capacity_total[name]
        if column is not None:
            left += (column[rows] * (1e9 / max(total, 1))).astype(np.int64)
    return left


#: What a question costs beside the rows it looks at, in rows.
_QUESTION: Final = 2_000

#: Rows that one search looks at, about 10 ms.
_ENOUGH: Final = 800_000

#: Each of so many searches without success for the same is a thorough one, the others look at this part of it.
_THOROUGH: Final = 8


class Work:
    """What is left to be done. A first try is always made; what comes after it costs at most this much, or a few times
    as much as the first. `in_vain`: how often the same was searched before and not found; most of the later searches
    are short ones, so that who waits for long slows nobody down.
    """

    __slots__ = ("_left", "_spent")

    def __init__(self, in_vain: int = 0) -> None:
        self._left = _ENOUGH if in_vain % _THOROUGH == 0 else _ENOUGH // _THOROUGH
        self._spent = 0

    @property
    def is_left(self) -> bool:
        """Whether one more question may be asked."""
        return self._left > 0

    def covers(self, questions: int, snapshot: Snapshot) -> bool:
        """Whether so many about all rows may still be asked."""
        return questions * (_QUESTION + snapshot.size) <= self._left

    def look(self, snapshot: Snapshot, shape: RequestShape | None = None, count: int = 0) -> None:
        """Count one question about all rows; `count` members of a shape are placed with it, or none."""
        each = snapshot.size if shape is not None and is_entangled(shape) else 1
        amount = _QUESTION + snapshot.size + count * each
        self._left -= amount
        self._spent += amount

    def begin(self, times: int) -> None:
        """What was spent so far was the first try: it may be spent so many times again."""
        self._left = max(self._left, times * self._spent)


_MOST: Final = 2**40

#: No sum over all nodes is larger: each node counts for its share of this at the most.
_LARGEST_SUM: Final = 2**62


@dataclass(frozen=True, slots=True)
class Values:
    """Of one label. `codes`: the number of each row's value, -1 = it has none; `names` by number, empty where no node
    has that number.
    """

    codes: CodeColumn
    names: tuple[str, ...]

    def rows(self, *codes: int) -> BoolColumn:
        """Rows whose node has one of these values."""
        return np.isin(self.codes, codes)

    def by_room(self, shares: FloatColumn, *, most: bool) -> list[int]:
        """Values that nodes have, those with most room first or last; of equals the first by name first."""
        sign = -1.0 if most else 1.0
        codes = np.unique(self.codes[self.codes >= 0]).tolist()
        return sorted(codes, key=lambda code: (sign * shares[code], self.names[code]))

    def able(self, shares: FloatColumn, most: int) -> list[int]:
        """Values that may hold all: the fullest first, so many, and then those with most room, as many."""
        able = [code for code in self.by_room(shares, most=False) if shares[code] >= 1]
        return [*able[:most], *reversed(able[most:][-most:])]


def values(snapshot: Snapshot, key: str) -> Values:
    """The values of a label, or attribute of nodes."""
    nodes = snapshot.nodes
    codes = nodes.attribute(key).codes(snapshot.size)
    found, first = np.unique(codes, return_index=True)
    names = [""] * (int(codes.max(initial=-1)) + 1)
    for code, row in zip(found.tolist(), first.tolist(), strict=True):
        if code >= 0:
            names[code] = value_of(nodes.record(nodes.rows.at(row)).spec, key) or ""
    return Values(codes, tuple(names))


def shares_of(snapshot: Snapshot, demands: Sequence[MemberDemand], found: Values) -> FloatColumn:
    """How much of the demands each value has room for, at the most: 1 = all of them."""
    room = room_of(snapshot, demands, found)
    shares: FloatColumn = (room.amounts / room.wanted[:, None]).min(axis=0)
    return shares


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """Of each demand in members, and of each resource in its unit, a row each: what each value has room for, a column
    each, and what is wanted in all. Integers, so that sums are equal in whatever order they are made.
    """

    amounts: IntColumn
    wanted: IntColumn

    def is_enough(self, amounts: IntColumn) -> bool:
        """Whether these sums, one for each row, are what is wanted."""
        return bool((amounts >= self.wanted).all())


def room_of(snapshot: Snapshot, demands: Sequence[MemberDemand], found: Values) -> Room:
    """What each value has room for. Values together have room for the sum of theirs."""
    size = len(found.names)
    has = found.codes >= 0
    if snapshot.within is not None:
        has &= snapshot.within
    codes, asked = found.codes[has], NOTHING
    most = _LARGEST_SUM // max(len(codes), 1)
    rows: list[IntColumn] = []
    for shape, count in demands:
        asked = asked.plus(shape.resources, count)
        room = rooms(snapshot, shape, node_properties.allowed(shape.constraints, snapshot.nodes), _MOST)[has]
        rows.append(_sums(codes, np.minimum(room, most), size))
    for name, _ in asked.items():  # noqa: PERF102 # no dict
        column = snapshot.available(name)
        left = np.zeros(len(codes), np.int64) if column is None else np.clip(column[has], 0, most)
        rows.append(_sums(codes, left, size))
    wanted = [*(count for _, count in demands), *(amount for _, amount in asked.items())]
    return Room(np.array(rows), np.array([min(most, _LARGEST_SUM + 1) for most in wanted], np.int64))


def _sums(codes: CodeColumn, amounts: IntColumn, size: int) -> IntColumn:
    sums = np.zeros(size, np.int64)
    np.add.at(sums, codes, amounts)
    return sums
