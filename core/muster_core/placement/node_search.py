"""Node search for requests of one shape: filter, score and select. `place` is the entry point.

One pass over the columns finds how many requests fit on each node. After that only the rows of preferred nodes are
read. The result is the same as placing the requests one by one. If a placement changes where the next request may run,
`IncrementalPlacer` places the requests one after the other and computes only the affected rows again.

Node keys are floats: the node with the lowest key is preferred, and 1.0 corresponds to 100 points of kube-scheduler.

Differs: preferences in the pod's own spec are added to the configured node order; if no order is configured, image
locality and balanced allocation are added too. YuniKorn uses the configured order alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Generator, Hashable, Iterator, Sequence
from heapq import heappop, heapreplace
from typing import Final

import numpy as np

from muster_core.model import messages
from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.decisions import EVERY_NODE, ReasonKind, UnschedulableReason
from muster_core.model.ids import NodeId
from muster_core.model.specs import Preferences
from muster_core.placement.devices import explanation
from muster_core.placement.devices import filter as devices
from muster_core.placement.plugins import node_properties, resources
from muster_core.placement.plugins.hooks import Refused, Score, StatefulFilter, matches_targets
from muster_core.placement.plugins.node_properties import Amount, BalancedAllocation
from muster_core.placement.plugins.tables import POD_FILTERS, SCORES, STATEFUL_FILTERS, FilterEntry, is_resolvable
from muster_core.placement.volumes import binding
from muster_core.state.columns import BoolColumn, FloatColumn, IntColumn, most_kept
from muster_core.state.devices import CANNOT
from muster_core.state.nodes import CachedNodeScores, NodeScoreCache
from muster_core.state.snapshot import RequestShape, Snapshot

#: A row, and how many pods are placed on it.
Fill = tuple[int, int]

#: Heap entry: key, rank and position of one row.
_Place = tuple[float, int, int]
_ALL: Final = slice(None)
_BY_PODS = (("pods", 1.0),)

#: Keys of complete columns are computed faster than those of more than 1/_MANY of the rows.
_MANY: Final = 4

#: The resources of NodeResourcesBalancedAllocation.
_EVEN: Final = ("vcore", "memory")

#: kube-scheduler's maximum score of a plugin. It corresponds to 1.0 in a node key.
POINTS: Final = 100.0


#: The filters of pods that have at most preferences among nodes.
_FOR_ALL_PODS: Final = tuple(entry for entry in STATEFUL_FILTERS if not entry.reads_pod)


def stateful_filters(snapshot: Snapshot, shape: RequestShape) -> list[tuple[FilterEntry, StatefulFilter]]:
    """Creates the filters that apply to the shape, in the order of the table."""
    entries = STATEFUL_FILTERS if shape.pod_on_node.facts.concerns_others else _FOR_ALL_PODS
    return [(entry, guard) for entry in entries if (guard := entry.make(snapshot, shape)) is not None]


def pod_refusal(snapshot: Snapshot, shape: RequestShape, without: Container[str] = ()) -> str:
    """Returns the first reason why no node can run the pod, or an empty string."""
    found = (entry.refusal(snapshot, shape) for entry in POD_FILTERS if entry.name not in without)
    return next(filter(None, found), "")


def scores(snapshot: Snapshot, shape: RequestShape, among: BoolColumn) -> list[Score]:
    """Creates the scores that apply to the shape, in the order of the table."""
    return [score for entry in SCORES if (score := entry.make(snapshot, shape, among)) is not None]


def _that_count(preferences: Preferences, sort: NodeSort) -> Preferences:
    """Ignores image locality if an order of nodes is configured, because image locality is not part of the pod spec."""
    if sort.balanced or not (preferences.images or preferences.volume_images):
        return preferences
    return Preferences(preferences.terms)


class NodeRanking:
    """Preference of one shape among the nodes: one key per row, the lowest is preferred, ties by node ID."""

    def __init__(self, snapshot: Snapshot, shape: RequestShape, sort: NodeSort) -> None:
        asked = shape.resources
        weights, total = (_BY_PODS, 1.0) if sort.weighed.isdisjoint(asked) else (sort.weights, sort.total)
        self._size = snapshot.size
        self._ranks = snapshot.nodes.rows.ranks()
        self._parts: list[tuple[float, int, IntColumn, IntColumn, FloatColumn]] = []
        for name, weight in weights:
            capacity, available = snapshot.capacity(name), snapshot.available(name)
            if capacity is not None and available is not None and weight > 0:
                factor = _SIGNS[sort.order] * weight / total
                whole = (
                    capacity if sort.order is not NodeOrder.UTILIZATION else _with_measured(snapshot, name, capacity)
                )
                self._parts.append((factor, asked[name], whole, available, _reciprocal(snapshot, name, capacity)))
        preferences = _that_count(shape.pod_on_node.facts.preferences, sort)
        liked = node_properties.points(shape.constraints, preferences, snapshot.nodes)
        self._liked: FloatColumn | None = liked
        self._balance = _balance(snapshot, shape) if sort.balanced else None
        self._score_cache = snapshot.nodes.score_cache if snapshot.is_bare else None
        wishes = None if liked is None else (shape.constraints, preferences)
        self._about: Hashable = (asked, sort, wishes)

    def keys(self, rows: IntColumn | None = None, placed: int = 0) -> FloatColumn:
        """Returns the keys of all rows or of `rows`, in their present state or after `placed` more pods on each."""
        at: IntColumn | slice = _ALL if rows is None else rows
        keys = np.zeros(self._size if rows is None else len(rows))
        if self._liked is not None:
            keys += self._liked[at] / -POINTS
        for factor, amount, capacity, available, reciprocal in self._parts:
            used = capacity[at] - available[at]
            if placed:
                used += placed * amount
            share = used * reciprocal[at]
            share *= factor
            keys += share
        if self._balance is not None:
            keys += self._balance.keys(at, placed)
        return keys

    def key(self, row: int, placed: int) -> float:
        """Returns the key of one row after `placed` more pods. Bitwise equal to the result of `keys`."""
        key = 0.0 if self._liked is None else self._liked.item(row) / -POINTS
        for factor, amount, capacity, available, reciprocal in self._parts:
            used = capacity.item(row) - available.item(row) + placed * amount
            key += used * reciprocal.item(row) * factor
        if self._balance is not None:
            key += self._balance.key(row, placed)
        return key

    def ordered(self, rows: IntColumn) -> tuple[IntColumn, FloatColumn]:
        """Returns the positions in `rows` in the order of preference, and the keys in that order."""
        keys = self.keys(rows)
        order = np.lexsort((self._ranks[rows], keys))
        return order, keys[order]

    def ranks(self, rows: IntColumn) -> list[int]:
        """Returns the rank of each row in the order of node IDs, which decides between equal keys."""
        found: list[int] = self._ranks[rows].tolist()
        return found

    def first(self, rows: IntColumn) -> int:
        """Returns the most preferred of the rows. `rows` is not empty."""
        keys = self._of(rows)
        ties = rows[keys == keys[keys.argmin()]]
        return int(ties[self._ranks[ties].argmin()])

    def best(self, rows: IntColumn, count: int) -> IntColumn:
        """Returns the `count` most preferred rows, unordered; all rows if there are fewer."""
        if count >= len(rows):
            return rows
        keys = self._of(rows)
        ties = rows[keys == keys.min()]
        if len(ties) >= count:  # all nodes are equal, so no sort is needed
            return self._foremost(ties, count)
        edge = np.partition(keys, count - 1)[count - 1]
        inside, ties = rows[keys < edge], rows[keys == edge]
        return np.concatenate((inside, self._foremost(ties, count - len(inside))))

    def _of(self, rows: IntColumn) -> FloatColumn:
        """Returns the present keys of the rows, read-only."""
        if self._score_cache is None and len(rows) < self._size // _MANY:
            return self.keys(rows)
        keys = self.keys() if self._score_cache is None else self._cached_keys(self._score_cache)
        return keys if len(rows) == self._size else keys[rows]

    def _cached_keys(self, score_cache: NodeScoreCache) -> FloatColumn:
        """Returns the keys of all rows. Only rows that changed since the previous call are computed again."""
        known = score_cache.kept.get(self._about)
        changed = score_cache.since(known.seen) if known is not None and known.liked is self._liked else None
        if known is None or changed is None or len(changed) > self._size // 4:
            if len(score_cache.kept) >= most_kept(self._size, 8):
                score_cache.kept.clear()
            known = score_cache.kept[self._about] = CachedNodeScores(self.keys(), self._liked, score_cache.now)
        elif changed:
            rows = np.array(changed, dtype=np.int64)
            known.keys[rows] = self.keys(rows)
            known.seen = score_cache.now
        return known.keys

    def _foremost(self, ties: IntColumn, count: int) -> IntColumn:
        """Returns the `count` rows with the lowest node IDs among equally preferred rows."""
        if count >= len(ties):
            return ties
        ranks = self._ranks[ties]
        if (ranks[1:] > ranks[:-1]).all():  # nodes are usually added in the order of their names
            return ties[:count]
        return ties[np.argpartition(ranks, count - 1)[:count]]


def _balance(snapshot: Snapshot, shape: RequestShape) -> BalancedAllocation | None:
    """None if no node has one of the resources or the pod requests neither of them.

    The score would be the same wherever such pods run, and all of them would go to one node.
    """
    amounts: list[Amount] = []
    for name in _EVEN:
        capacity, available = snapshot.capacity(name), snapshot.available(name)
        if capacity is not None and available is not None:
            amounts.append((capacity, available, _reciprocal(snapshot, name, capacity)))
    asked = shape.resources[_EVEN[0]], shape.resources[_EVEN[1]]
    return BalancedAllocation(amounts[0], amounts[1], asked) if len(amounts) == len(_EVEN) and any(asked) else None


def _with_measured(snapshot: Snapshot, name: str, capacity: IntColumn) -> IntColumn:
    """Returns the amount per row from which `available` is subtracted to get the measured amount."""
    measured = snapshot.nodes.measured(name)
    return capacity if measured is None else capacity + measured


def _reciprocal(snapshot: Snapshot, name: str, capacity: IntColumn) -> FloatColumn:
    known = snapshot.nodes.reciprocals.get(name)
    if known is None:
        known = snapshot.nodes.reciprocals[name] = 1.0 / np.maximum(capacity, 1)
    return known


def spread(preference: NodeRanking, rows: IntColumn, room: IntColumn, count: int) -> list[Fill]:
    """Places the pods one by one, each on the least used node at that moment. `room`: pods that fit per row, at least
    1.
    """
    order, keys = preference.ordered(rows)
    rows, room = rows[order], room[order]
    after = preference.keys(rows, 1)
    if count <= len(rows) and after[:count].min() > keys[count - 1]:
        # One pod makes a row less preferred than all rows that have none yet, so each row gets one.
        return [(row, 1) for row in rows[:count].tolist()]
    heap = list(zip(keys.tolist(), preference.ranks(rows), range(len(rows)), strict=True))
    return _one_by_one(preference, heap, (rows.tolist(), room.tolist(), after.tolist()), count)


def _one_by_one(
    preference: NodeRanking, heap: list[_Place], known: tuple[list[int], list[int], list[float]], count: int
) -> list[Fill]:
    """Places pods with a heap. `heap` is sorted; `known` has row, room and key after the first pod per position."""
    rows, room, after = known
    placed: dict[int, int] = {}
    while count and heap:
        _, rank, at = heap[0]
        count -= 1
        row = rows[at]
        placed[row] = there = placed.get(row, 0) + 1
        if there < room[at]:
            heapreplace(heap, (after[at] if there == 1 else preference.key(row, there), rank, at))
        else:
            heappop(heap)
    return list(placed.items())


def pack(preference: NodeRanking, rows: IntColumn, room: IntColumn, count: int) -> list[Fill]:
    """Fills one node after the other, the fullest first. `room`: pods that fit per row."""
    order, _ = preference.ordered(rows)
    fills: list[Fill] = []
    for row, most in zip(rows[order].tolist(), room[order].tolist(), strict=True):
        if not count:
            break
        there = min(most, count)
        fills.append((row, there))
        count -= there
    return fills


Filler = Callable[[NodeRanking, IntColumn, IntColumn, int], list[Fill]]
_SIGNS: Final = {NodeOrder.FAIR: 1.0, NodeOrder.BINPACKING: -1.0, NodeOrder.UTILIZATION: 1.0}

FILLERS: Final[dict[NodeOrder, Filler]] = {
    NodeOrder.FAIR: spread,
    NodeOrder.BINPACKING: pack,
    NodeOrder.UTILIZATION: spread,
}


class IncrementalPlacer:
    """Places pods of one shape one by one while filters and scores follow each placement. The snapshot is only read."""

    def __init__(
        self,
        snapshot: Snapshot,
        shape: RequestShape,
        room: IntColumn,
        sort: NodeSort,
        watch: tuple[Sequence[StatefulFilter], Sequence[Score]],
    ) -> None:
        """`room`: how many pods of the shape fit per row, 0 where node properties exclude the row. The array is
        modified.
        """
        (self._guards, self._scores), self._room = watch, room
        self._followers: tuple[StatefulFilter | Score, ...] = (*self._guards, *self._scores)
        self._placed: dict[int, int] = {}
        self._one_row = np.zeros(1, dtype=np.int64)
        self._rows, self._positions = snapshot.nodes.rows.order()
        self._is_sorted = bool((self._rows[1:] > self._rows[:-1]).all())
        self._preference = NodeRanking(snapshot, shape, sort)
        self._base = self._preference.keys()
        self._keys = self._all_keys()

    def fill(self, count: int) -> list[Fill]:
        """Places up to `count` pods. Returns rows in the order of their first use, and how many pods each gets."""
        while count and len(self._keys):
            at = int(self._keys.argmin())
            if self._keys.item(at) == np.inf:
                break
            row, count = self._rows.item(at), count - 1
            if count:
                self._take(row)
            else:  # nothing is read of the filters any more
                self._placed[row] = self._placed.get(row, 0) + 1
        return list(self._placed.items())

    def _take(self, row: int) -> None:
        there = self._placed[row] = self._placed.get(row, 0) + 1
        self._room[row] -= 1
        self._base[row] = self._preference.key(row, there)
        changed = [rows for one in self._followers if (rows := one.add(row)) is not None]
        self._refresh_one(row)
        for rows in changed:
            self._refresh(rows)

    def _refresh_one(self, row: int) -> None:
        """Like `_refresh`, for one row. Each pod changes its row, so this is the most frequent case."""
        key = self._base.item(row) if self._allows(row) else np.inf
        for score in self._scores:
            key -= score.points().item(row) / POINTS
        self._keys[row if self._is_sorted else self._positions.item(row)] = key

    def _allows(self, row: int) -> bool:
        if self._room.item(row) <= 0:
            return False
        self._one_row[0] = row
        for guard in self._guards:  # noqa: SIM110 - half the time of `all` with a generator
            if not guard.allows_at(self._one_row).item():
                return False
        return True

    def _refresh(self, rows: IntColumn) -> None:
        if len(rows) > len(self._keys) // 2:
            self._keys = self._all_keys()
            return
        at = rows if self._is_sorted else self._positions[rows]
        open_rows = self._room[rows] > 0
        for guard in self._guards:
            open_rows &= guard.allows_at(rows)
        if not open_rows.any():
            self._keys[at] = np.inf
            return
        keys = self._base[rows]
        for score in self._scores:
            keys = keys - score.points()[rows] / POINTS
        self._keys[at] = np.where(open_rows, keys, np.inf)

    def _all_keys(self) -> FloatColumn:
        """Returns the keys by position. Computing complete columns is faster than computing most of their rows."""
        open_rows = self._room > 0
        for guard in self._guards:
            open_rows &= guard.allows()
        keys = self._base
        for score in self._scores:
            keys = keys - score.points() / POINTS
        keys = np.where(open_rows, keys, np.inf)
        return keys if self._is_sorted else keys[self._rows]


NO_NODES: Final = messages.no_nodes()

# A DaemonSet pod names its node by a node affinity, so kube-scheduler reports the NodeAffinity plugin.
NOT_REQUIRED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
TARGETS = "node(s) didn't match the placement constraint's node targets"
OUTSIDE = "node(s) were outside the gang's topology domain"
AVOIDED = "node(s) were avoided because a pod could not be bound there"


def place(
    snapshot: Snapshot, shape: RequestShape, count: int, sort: NodeSort, *, is_last: bool = False
) -> list[tuple[NodeId, int]]:
    """Places up to `count` pods on the most preferred nodes and charges the snapshot.

    Returns the nodes in the order of their first use, and how many pods each gets. If `is_last` is set and all pods
    fit, the caller reads only what claims get from the snapshot afterwards, so resources are not charged.
    """
    fills = _fills(snapshot, shape, count, sort)
    if is_last and sum(there for _, there in fills) == count:
        _enter_all(snapshot, shape, fills)
    else:
        charge_all(snapshot, shape, fills)
    at = snapshot.nodes.rows.at
    return [(at(row), there) for row, there in fills]


def charge(snapshot: Snapshot, shape: RequestShape, row: int, count: int = 1) -> None:
    """Adds `count` pods of the shape to a row of the snapshot: resources, claims and filters. A negative count
    removes.
    """
    snapshot.charge(row, shape.resources, count)
    assume_claims(snapshot, shape, row, count)
    snapshot.enter(row, shape.pod_on_node, count)


def assume_claims(snapshot: Snapshot, shape: RequestShape, row: int, count: int = 1) -> None:
    """Records in the snapshot what the claims of `count` pods get on the row; a negative count frees it.

    The filters must allow the row.
    """
    binding.assume(snapshot, shape, row, count)
    devices.assume(snapshot, shape, row, count)


def charge_all(snapshot: Snapshot, shape: RequestShape, fills: Sequence[Fill]) -> None:
    """Like `charge`, for several (row, count) pairs. Each row may occur once."""
    snapshot.charge_all(fills, shape.resources)
    _enter_all(snapshot, shape, fills)


def _enter_all(snapshot: Snapshot, shape: RequestShape, fills: Sequence[Fill]) -> None:
    if snapshot.nodes.pods_on_nodes.is_noted(shape.pod_on_node.facts):  # also true for pods with claims
        for row, there in fills:
            assume_claims(snapshot, shape, row, there)
            snapshot.enter(row, shape.pod_on_node, there)


def _fills(snapshot: Snapshot, shape: RequestShape, count: int, sort: NodeSort) -> list[Fill]:
    allowed = facts = on_facts(snapshot, shape)
    watching = [guard for _, guard in stateful_filters(snapshot, shape)]
    for guard in watching:
        allowed = allowed & guard.allows()
    fitting = resources.fits(snapshot.available, shape.resources, allowed)
    wishes = scores(snapshot, shape, fitting)
    if watching or wishes:
        room = resources.counts(snapshot.available, shape.resources, facts, count)
        return IncrementalPlacer(snapshot, shape, room, sort, (watching, wishes)).fill(count)
    rows = fitting.nonzero()[0]
    if not len(rows):
        return []
    preference = NodeRanking(snapshot, shape, sort)
    if count == 1:
        return [(preference.first(rows), 1)]
    best = preference.best(rows, count)
    room = resources.counts_of(snapshot.available, shape.resources, best, count)
    return FILLERS[sort.order](preference, best, room, count)


def fits_on(snapshot: Snapshot, shape: RequestShape, node: NodeId) -> bool:
    """Whether one more pod of the shape fits on the node. False for an unknown node."""
    if node not in snapshot.nodes:
        return False
    row = snapshot.nodes.rows.row(node)
    if not allowed(snapshot, shape)[row]:
        return False
    return all(
        (column := snapshot.available(name)) is not None and column.item(row) >= amount
        for name, amount in shape.resources.items()
    )


def feasible_nodes(snapshot: Snapshot, shape: RequestShape) -> int:
    """Returns how many nodes satisfy the constraints on node properties, whether full or not."""
    return int(on_facts(snapshot, shape).sum())


def unschedulable_reason(snapshot: Snapshot, shape: RequestShape) -> UnschedulableReason:
    """Returns why one more pod of the shape does not fit: the number of nodes per reason, as in kube-scheduler.

    Each node counts under the first filter that refuses it. A node with too little of several resources counts once for
    each of them.
    """
    nodes = len(snapshot.nodes)
    if not nodes:
        return UnschedulableReason(ReasonKind.NODES, NO_NODES)
    if reason := pod_refusal(snapshot, shape):
        return UnschedulableReason(ReasonKind.NODES, counts=((reason, EVERY_NODE),), nodes=nodes)
    counted: Counter[str] = Counter()
    for reason, rows in refusals(snapshot, shape):
        counted[reason] += int(rows.sum())
    counts = tuple((reason, count) for reason, count in counted.items() if count)
    reasons = dict(counts)
    detail = explanation.of_claims(snapshot, shape) if CANNOT in reasons else ""
    short = (name for name in sorted(shape.resources) if resources.insufficient_resources(name) in reasons)
    detail = detail or next(filter(None, (explanation.of_resource(snapshot, name) for name in short)), "")
    return UnschedulableReason(ReasonKind.NODES, counts=counts, nodes=nodes, detail=detail)


def resolvable(snapshot: Snapshot, shape: RequestShape) -> BoolColumn:
    """Rows that refuse the shape only for reasons that the end of pods on the node may resolve."""
    refused, lasting = np.zeros(snapshot.size, dtype=np.bool_), np.zeros(snapshot.size, dtype=np.bool_)
    small = resources.too_small(snapshot.capacity, shape.resources, ~lasting)
    if shape.pod_on_node.facts.devices:
        lasting |= ~devices.has_devices(snapshot, shape)
    for reason, rows in refusals(snapshot, shape):
        refused |= rows
        lasting |= rows & (small if reason.startswith(resources.INSUFFICIENT) else not is_resolvable(reason))
    return refused & ~lasting


def refusals(snapshot: Snapshot, shape: RequestShape, without: Container[str] = ()) -> Iterator[Refused]:
    """Yields each reason with the rows that it applies to, among the rows that no earlier filter refused.

    `without`: names of filters to leave out. The conformance tests use it to see the effect of each filter.
    """
    if reason := pod_refusal(snapshot, shape, without):
        yield reason, snapshot.nodes.rows.ranks() < len(snapshot.nodes)
        return
    left = yield from _refused_on_facts(snapshot, shape, without)
    watching = [(entry, guard) for entry, guard in stateful_filters(snapshot, shape) if entry.name not in without]
    for entry, guard in watching:
        if not entry.after_fit:
            left = yield from _refused_by(guard, left)
    if resources.NAME not in without:
        for resource, rows in resources.insufficient(snapshot.available, shape.resources, left):
            yield resources.insufficient_resources(resource), rows
        left = resources.fits(snapshot.available, shape.resources, left)
    for entry, guard in watching:
        if entry.after_fit:
            left = yield from _refused_by(guard, left)
    for last, passed in node_properties.asked(shape.constraints, snapshot.nodes, last=True):
        if last.name not in without:
            yield last.reason, left & ~passed
            left = left & passed
    yield AVOIDED, left & ~_not_avoided(snapshot, shape)


def _refused_on_facts(
    snapshot: Snapshot, shape: RequestShape, without: Container[str]
) -> Generator[Refused, None, BoolColumn]:
    """Yields the refusals by node properties. Returns the rows that are left."""
    left = snapshot.nodes.rows.ranks() < len(snapshot.nodes)
    for entry, passed in node_properties.asked(shape.constraints, snapshot.nodes):
        if entry.name not in without:
            yield entry.reason, left & ~passed
            left = left & passed
    if shape.required:
        passed = node_properties.named(shape.required, snapshot.nodes)
        yield NOT_REQUIRED, left & ~passed
        left = left & passed
    if shape.placement is not None and shape.placement.nodes:
        passed = matches_targets(shape.placement.nodes, snapshot.nodes)
        yield TARGETS, left & ~passed
        left = left & passed
    inside = _inside(snapshot, shape)
    if inside is not None:
        yield OUTSIDE, left & ~inside
        left = left & inside
    return left


def _inside(snapshot: Snapshot, shape: RequestShape) -> BoolColumn | None:
    """Returns the rows of the topology domains that the plan and the gang of the shape may use; None = all rows."""
    home = snapshot.nodes.homes.get(shape.home) if shape.home else None
    if home is None:
        return snapshot.within
    key, value = home
    rows = snapshot.nodes.attribute(key).has_any((value,), snapshot.size)
    return rows if snapshot.within is None else rows & snapshot.within


def _refused_by(guard: StatefulFilter, among: BoolColumn) -> Generator[Refused, None, BoolColumn]:
    """Yields the refusals of a stateful filter among the rows. Returns the rows that are left."""
    for reason, rows in guard.refusals():
        yield reason, among & rows
    return among & guard.allows()


def allowed(snapshot: Snapshot, shape: RequestShape, without: Container[str] = ()) -> BoolColumn:
    """Rows where the filters allow one more pod, whether full or not. `without`: names of stateful filters to leave
    out.
    """
    found = on_facts(snapshot, shape)
    for entry, guard in stateful_filters(snapshot, shape):
        if entry.name not in without:
            found = found & guard.allows()
    return found


def on_facts(snapshot: Snapshot, shape: RequestShape) -> BoolColumn:
    """Rows that satisfy all constraints on node properties."""
    facts = node_properties.allowed(shape.constraints, snapshot.nodes)
    if shape.required:
        facts = facts & node_properties.named(shape.required, snapshot.nodes)
    if shape.placement is not None and shape.placement.nodes:
        facts = facts & matches_targets(shape.placement.nodes, snapshot.nodes)
    if (inside := _inside(snapshot, shape)) is not None:
        facts = facts & inside
    return facts & _not_avoided(snapshot, shape) if shape.avoid else facts


def _not_avoided(snapshot: Snapshot, shape: RequestShape) -> BoolColumn:
    kept = np.ones(snapshot.size, dtype=np.bool_)
    rows = snapshot.nodes.rows
    kept[[rows.row(node) for node in shape.avoid if node in rows]] = False
    return kept
