"""Input and output of the member search, its budget, and topology domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from muster_core.model.decisions import UnschedulableReason
from muster_core.model.ids import NodeId
from muster_core.model.resources import NOTHING
from muster_core.placement.plugins import node_properties, resources
from muster_core.state.columns import BoolColumn, CodeColumn, FloatColumn, IntColumn
from muster_core.state.snapshot import RequestShape, Snapshot

#: A shape, and the number of members that have it.
MemberDemand = tuple[RequestShape, int]

#: Nodes, and the number of members on each.
Spots = tuple[tuple[NodeId, int], ...]


@dataclass(frozen=True, slots=True)
class Places:
    """Nodes for all members: one `Spots` per demand, in the order of the demands."""

    per_demand: tuple[Spots, ...]


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a search failed: the demand by its position, how many of its `count` members have no node, and the reason.

    `alone`: the demand would not fit even without the other demands. `domain`: the node label and value that the search
    was limited to; empty = no limit.
    """

    demand: int
    missing: int
    why: UnschedulableReason
    count: int = 0
    alone: bool = False
    domain: str = ""


def needs_others(shape: RequestShape) -> bool:
    """Whether the shape runs only near other pods. These may be members of the same gang, which go first then."""
    affinity = shape.affinity
    is_needy = affinity is not None and affinity.required and affinity.at_least > 0
    return is_needy or bool(shape.pod_on_node.facts.inter_pod.affinity)


def depends_on_members(shape: RequestShape) -> bool:
    """Whether placing other members may make nodes feasible for the shape."""
    return needs_others(shape) or any(spread.required for spread in shape.pod_on_node.facts.inter_pod.spread)


def depends_on_others(shape: RequestShape) -> bool:
    """Whether the placement of other members, or of the shape itself, may change which nodes are feasible."""
    return shape.placement is not None or shape.pod_on_node.facts.is_particular


def rooms(snapshot: Snapshot, shape: RequestShape, among: BoolColumn, at_most: int) -> IntColumn:
    """Returns how many pods of the shape fit per row, at most `at_most`; 0 outside `among`."""
    return resources.counts(snapshot.available, shape.resources, among, at_most)


def share(snapshot: Snapshot, shape: RequestShape) -> float:
    """Returns the largest share of the cluster's capacity of one resource that one member requests."""
    total = snapshot.nodes.capacity_total
    return max((amount / max(total[name], 1) for name, amount in shape.resources.items()), default=0.0)


def weight(snapshot: Snapshot, shape: RequestShape, rows: IntColumn) -> IntColumn:
    """Returns the available amounts of the requested resources per row: shares of the cluster's capacity, in
    billionths.
    """
    left = np.zeros(len(rows), dtype=np.int64)
    for name in shape.resources:
        column, total = snapshot.available(name), snapshot.nodes.capacity_total[name]
        if column is not None:
            left += (column[rows] * (1e9 / max(total, 1))).astype(np.int64)
    return left


#: Fixed cost of one evaluation, in addition to its rows, as a number of rows.
_QUESTION: Final = 2_000

#: Rows that one usual search may evaluate. This takes about 10 ms. An exact search, and the one for the fewest topology
#: domains, may cost a few times as much.
_ENOUGH: Final = 800_000

#: One of this number of repeated failing searches uses the full budget; the others use this fraction of it.
_THOROUGH: Final = 8


class Work:
    """Budget of one search, in evaluated rows of about 12 ns: every step is charged by what it costs. The first attempt
    is always made completely.

    `in_vain`: how often the same search failed before. Most repeated searches get a small budget, so that gangs that
    wait for a long time do not slow down other applications.
    """

    def __init__(self, in_vain: int = 0) -> None:
        self._enough = self._left = _ENOUGH if in_vain % _THOROUGH == 0 else _ENOUGH // _THOROUGH
        self._spent = 0
        self._is_part = False

    def allows(self, rows: int) -> bool:
        """Whether what is left covers this cost."""
        return rows <= self._left

    @property
    def is_left(self) -> bool:
        """Whether another evaluation is allowed."""
        return self._left > 0

    def part(self, parts: int = 1) -> Work:
        """Returns a budget for one of several searches: one of so many equal parts of what is left. It is never raised
        afterwards. Pass it to `end`.
        """
        part = Work()
        part._left, part._is_part = self._left // parts, True
        return part

    def times(self, times: int) -> Work:
        """Returns another budget, so many times as large as what is left."""
        part = Work()
        part._left, part._is_part = self._left * times, True
        return part

    def end(self, part: Work) -> None:
        """Charges what a part has spent."""
        self.pay(part._spent)

    def covers(self, questions: int, snapshot: Snapshot) -> bool:
        """Whether the budget allows this number of evaluations of all rows."""
        return self.allows(questions * (_QUESTION + snapshot.size))

    def look(self, snapshot: Snapshot, shape: RequestShape | None = None, count: int = 0) -> None:
        """Charges one evaluation of all rows, and the placement of `count` members of the shape."""
        each = snapshot.size if shape is not None and depends_on_others(shape) else 1
        self.pay(_QUESTION + snapshot.size + count * each)

    def read(self, snapshot: Snapshot, columns: int) -> None:
        """Charges the evaluation of so many columns of all rows."""
        self.pay(columns * (_QUESTION + snapshot.size))

    def pay(self, rows: int) -> None:
        """Charges work that costs as much as this number of evaluated rows."""
        self._left -= rows
        self._spent += rows

    def begin(self, times: int) -> None:
        """Ends the first attempt. The rest of the search may cost at least `times` as much as this attempt."""
        if not self._is_part:
            self._left = max(self._left, times * self._spent)

    def begin_exact(self, times: int) -> None:
        """Begins the last, exact search, which may cost at least so many times as much as a usual search."""
        if not self._is_part:
            self._left = max(self._left, times * self._enough)


_MOST: Final = 2**40

#: Upper bound of a sum over all nodes. Each node counts at most its share of it.
_LARGEST_SUM: Final = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Values of one node label. `codes`: number of the value per row, -1 = none. `firsts`: rank of the first node per
    number, which decides ties; the number of rows if it is unused.
    """

    codes: CodeColumn
    firsts: IntColumn

    def rows(self, *codes: int) -> BoolColumn:
        """Rows of nodes that have one of these values."""
        return np.isin(self.codes, codes)

    def by_room(self, shares: FloatColumn, *, most: bool) -> list[int]:
        """Returns the values in use sorted by available room, ties by their first nodes. `most`: the largest first,
        else the smallest first.
        """
        order: list[int] = np.lexsort((self.firsts, -shares if most else shares)).tolist()
        return [code for code in order if self.firsts[code] < len(self.codes)]

    def able(self, shares: FloatColumn, most: int) -> list[int]:
        """Returns up to `most` values with the least sufficient room, and up to `most` values with the most room."""
        able = [code for code in self.by_room(shares, most=False) if shares[code] >= 1]
        return [*able[:most], *reversed(able[most:][-most:])]


def values(snapshot: Snapshot, key: str) -> Values:
    """Returns the values of a node label or attribute."""
    return numbered(snapshot, snapshot.nodes.attribute(key).codes(snapshot.size))


def numbered(snapshot: Snapshot, codes: CodeColumn) -> Values:
    """Returns the sets of rows that have the same number; -1 = in no set."""
    firsts = np.full(int(codes.max(initial=-1)) + 1, snapshot.size, np.int64)
    has = codes >= 0
    np.minimum.at(firsts, codes[has], snapshot.nodes.rows.ranks()[has])
    return Values(codes, firsts)


def shares_of(snapshot: Snapshot, demands: Sequence[MemberDemand], found: Values) -> FloatColumn:
    """Returns the fraction of the demands that fits per value, an upper bound: 1 = all of them."""
    return room_of(snapshot, demands, found).shares


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """Upper bound of what fits per label value: one column per value; one row per demand in members and per resource.

    `wanted`: what is requested in total, per row. Integers, so that sums do not depend on the order of addition.
    """

    amounts: IntColumn
    wanted: IntColumn

    @property
    def shares(self) -> FloatColumn:
        """Returns the fraction of the request that fits per value."""
        found: FloatColumn = (self.amounts / self.wanted[:, None]).min(axis=0)
        return found

    def fewest(self, held: Sequence[int]) -> int:
        """Returns a number of values beyond `held` that every set with enough room has at least.

        If all values have too little room, the result is larger than their number.
        """
        rest = np.delete(self.amounts, held, axis=1)
        sums = self.amounts[:, held].sum(axis=1)[:, None] + np.cumsum(-np.sort(-rest, axis=1), axis=1)
        short = (sums < self.wanted[:, None]).sum(axis=1)
        return int((short + (self.amounts[:, held].sum(axis=1) < self.wanted)).max(initial=0))

    def may_help(self, held: Sequence[int], most: int) -> BoolColumn:
        """Whether each value may be in a set of `most` values beyond `held` with enough room."""
        rest = self.amounts.copy()
        rest[:, held] = 0
        others = -np.sort(-rest, axis=1)[:, : max(most - 1, 0)].sum(axis=1) + self.amounts[:, held].sum(axis=1)
        fits: BoolColumn = (rest + others[:, None] >= self.wanted[:, None]).all(axis=0) & rest.any(axis=0)
        return fits if most else np.zeros_like(fits)


def room_of(snapshot: Snapshot, demands: Sequence[MemberDemand], found: Values) -> Room:
    """Returns what fits per value. The room of several values is the sum of their columns."""
    size = len(found.firsts)
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
