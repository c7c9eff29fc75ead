"""The nodes of a partition. Capacity, usage, labels, images, topology domains.

Filters and scores read all nodes at once from `columns`; properties of one node are in its record. Capacity may fall
below usage: available resources are then negative, and no request for them fits. The score cache stores what a
request shape needs of all nodes, and which nodes changed since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np

from muster_core.model.constraints import Constraints, Taint, Target
from muster_core.model.errors import UnknownSubject
from muster_core.model.ids import AllocationId, AllocationKey, NodeId
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import NodeSpec, Preferences
from muster_core.model.states import NodeState
from muster_core.state.columns import (
    Amounts,
    Attributes,
    BoolColumn,
    CodeColumn,
    Flags,
    FloatColumn,
    IntColumn,
    LabelColumn,
    Labels,
    Marks,
    Rows,
)
from muster_core.state.node_pods import NodePods

#: Something changed that any claim may wait for.
ANY_CLAIM: Final = ""


class WakeUpNodes:
    """Nodes that gained since they were last taken."""

    __slots__ = ("_nodes", "_noted", "claims", "inter_pod")

    def __init__(self) -> None:
        self._nodes: dict[NodeId, None] = {}
        #: Growths of the table's epoch that were noted here, since the beginning.
        self._noted = 0
        #: Allocations came or went that others may ask for, or domains did; emptied by who reads it.
        self.inter_pod = False
        #: Claims that changed; emptied by who reads it.
        self.claims: dict[str, None] = {}

    def note(self, node: NodeId) -> None:
        """The table's epoch grows by one because of this node."""
        self._nodes[node] = None
        self._noted += 1

    def note_company(self) -> None:
        """The table's epoch grows by one because of who is where."""
        self.inter_pod = True
        self._noted += 1

    def note_claim(self, claim: str) -> None:
        """The table's epoch grows by one because of a claim, or of what any claim may wait for."""
        self.claims[claim] = None
        self._noted += 1

    def is_any(self, epoch: int) -> bool:
        """Whether the table's epoch grew since nodes were last taken, or there is something that was not read."""
        return epoch != self._noted or bool(self._nodes or self.claims or self.inter_pod)

    def take(self, epoch: int) -> list[NodeId] | None:
        """Those that gained until this epoch, gone ones too; None = the epoch grew for more than them."""
        nodes = list(self._nodes)
        is_told = epoch == self._noted
        self._nodes.clear()
        self._noted = epoch
        return nodes if is_told else None


#: Changes that are remembered; who missed more looks at all rows.
_MOST_CHANGES: Final = 4096


@dataclass(slots=True, eq=False)
class CachedNodeScores:
    """A key per row, right for all but those that changed after the first `seen` changes. `liked`: a column it was
    made of; another one makes another standing.
    """

    keys: FloatColumn
    liked: FloatColumn | None
    seen: int


class NodeScoreCache:
    """By what a shape wants to know."""

    __slots__ = ("_changes", "_forgotten", "kept")

    def __init__(self) -> None:
        self.kept: dict[Hashable, CachedNodeScores] = {}
        self._changes: list[int] = []
        self._forgotten = 0

    @property
    def now(self) -> int:
        """Changes so far."""
        return self._forgotten + len(self._changes)

    def changed(self, rows: Iterable[int]) -> None:
        """What is on these rows, or on offer, is another amount now."""
        if not self.kept:
            return
        self._changes += rows
        if len(self._changes) > _MOST_CHANGES:
            self._forgotten += len(self._changes)
            self._changes.clear()

    def since(self, seen: int) -> list[int] | None:
        """The rows that changed after the first `seen` changes, some of them often; None = that is not known."""
        return self._changes[seen - self._forgotten :] if seen >= self._forgotten else None

    def forget(self) -> None:
        """Rows came or went."""
        self.kept.clear()
        self._changes.clear()
        self._forgotten = 0


#: Cells of fewer rows than this on average are not worth telling apart from rows.
_WORTH: Final = 2

#: Codes of combined keys that an int64 tells apart.
_MOST_CODES: Final = 2**62


class Domains:
    """One topology key. `codes`: per row the number of its value, -1 = it has no such label; `count`: numbers go up to
    here.
    """

    __slots__ = ("_order", "_starts", "codes", "count")

    def __init__(self, codes: CodeColumn) -> None:
        self.codes: IntColumn = codes.astype(np.int64)
        self.codes.flags.writeable = False
        self.count = int(codes.max(initial=-1)) + 1
        #: Rows sorted by their codes, and where those of each code begin.
        self._order: IntColumn | None = None
        self._starts: list[int] = []

    def members(self, code: int) -> IntColumn:
        """The rows with this value."""
        if self._order is None:
            self._order = np.argsort(self.codes, kind="stable")
            self._starts = np.cumsum(np.bincount(self.codes + 1, minlength=self.count + 1)).tolist()
        return self._order[self._starts[code] : self._starts[code + 1]]


class Cells:
    """Rows that lie in the same domains of several keys: what depends on domains alone is one number for all of them.

    `of`: per row its cell; `codes`: by key, per cell the number of its domain; `first`: per cell one of its rows.
    """

    __slots__ = ("_domains", "_members", "codes", "first", "of")

    def __init__(self, domains: dict[str, Domains], size: int, *, by_row: bool = False) -> None:
        self._domains = domains
        self._members: list[IntColumn] = []
        if by_row or any(one.count > size // _WORTH for one in domains.values()):
            self.of = self.first = np.arange(size)
            self.codes = {key: one.codes for key, one in domains.items()}
            return
        combined = np.zeros(size, dtype=np.int64)
        span = 1
        for one in domains.values():
            if span * (one.count + 1) > _MOST_CODES:  # number the combinations so far again: there are at most `size`
                combined = np.unique(combined, return_inverse=True)[1]
                span = size
            combined = combined * (one.count + 1) + one.codes + 1
            span *= one.count + 1
        _, self.first, self.of = np.unique(combined, return_index=True, return_inverse=True)
        self.codes = {key: one.codes[self.first] for key, one in domains.items()}

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.first)

    def within(self, key: str, code: int) -> IntColumn:
        """The cells in a domain."""
        if self.first is self.of:
            return self._domains[key].members(code)
        return np.flatnonzero(self.codes[key] == code)

    def rows(self, cells: IntColumn) -> IntColumn:
        """The rows of some cells."""
        if self.first is self.of:
            return cells
        parts = [self.rows_of(cell) for cell in cells.tolist()]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def rows_of(self, cell: int) -> IntColumn:
        """The rows of one."""
        if self.first is self.of:
            return self.of[cell : cell + 1]
        if not self._members:
            order = np.argsort(self.of, kind="stable")
            self._members = np.split(order, np.searchsorted(self.of[order], np.arange(1, self.count)))
        return self._members[cell]

    def put(self, column: FloatColumn, cells: IntColumn, values: FloatColumn) -> None:
        """Write a value for all rows of each cell."""
        if self.first is self.of:
            column[cells] = values
            return
        for cell, value in zip(cells.tolist(), values.tolist(), strict=True):
            column[self.rows_of(cell)] = value


_NOWHERE: Final[Mapping[int, int]] = MappingProxyType({})


class Images:
    """By every name of an image: row → bytes."""

    __slots__ = ("_sizes",)

    def __init__(self) -> None:
        self._sizes: dict[str, dict[int, int]] = {}

    def sizes(self, name: str) -> Mapping[int, int]:
        """Rows where an image of this name lies, and its bytes there."""
        return self._sizes.get(name, _NOWHERE)

    def add(self, row: int, images: Mapping[str, int]) -> None:
        """A row gets its images; it had none."""
        for name, size in images.items():
            self._sizes.setdefault(name, {})[row] = size

    def remove(self, row: int, images: Mapping[str, int]) -> None:
        """A row loses the images that `add` gave it."""
        for name in images:
            there = self._sizes[name]
            del there[row]
            if not there:
                del self._sizes[name]


#: Refused binds that are remembered of a node.
_REFUSALS_KEPT: Final = 16

#: Fewer nodes than this are quicker asked and charged one by one than by columns.
_FEW: Final = 6


@dataclass(slots=True, eq=False)
class NodeRecord:
    """One node. Its amounts are in the columns, except what belongs to others."""

    spec: NodeSpec
    state: NodeState
    #: Foreign allocations on it (semantics 7); kept by engine/, the table never reads it.
    foreign_pods: dict[AllocationId, None] = field(default_factory=dict)
    #: Sum of what was taken as foreign (semantics 7), besides `spec.occupied`.
    foreign: Resources = NOTHING
    #: What it was last reported to really use (seed 001, UtilizationReport); None = never.
    utilization: Resources | None = None
    #: The newest asks that came back because they could not be bound here, and when (semantics 5).
    refused: deque[tuple[int, AllocationKey]] = field(default_factory=lambda: deque(maxlen=_REFUSALS_KEPT))


@dataclass(frozen=True, slots=True)
class Columns:
    """All nodes at once; `size` rows, `open` where a node is that takes new allocations, `cordoned`
    where it is closed to those alone that do not tolerate it. `permanent`: what is never freed for a pod that waits:
    foreign allocations, mirror pods among them, and those of DaemonSets.
    """

    size: int
    capacities: Amounts
    availables: Amounts
    occupied: Amounts
    node_reserved: Amounts
    permanent: Amounts
    open: BoolColumn
    cordoned: BoolColumn


class NodeTable:  # long: every write to a node goes through here
    """All nodes of a partition, one row each.

    `epoch` grows whenever something may fit that did not fit before, and `gains` tells where;
    a caller that only adds to `epoch` means all nodes.
    `facts_epoch` whenever rows, labels, taints or schedulable flags change.
    """

    __slots__ = (
        "_available",
        "_capacity",
        "_claimed",
        "_cordoned",
        "_measured",
        "_occupied",
        "_open",
        "_permanent",
        "_records",
        "answers",
        "attributes",
        "capacity_total",
        "cells",
        "domains",
        "epoch",
        "facts_epoch",
        "features",
        "gains",
        "images",
        "labels",
        "pods_on_nodes",
        "points",
        "reciprocals",
        "refused",
        "rows",
        "score_cache",
        "taints",
        "targeted",
    )

    def __init__(self) -> None:
        self.epoch = 0
        self.facts_epoch = 0
        self.gains = WakeUpNodes()
        self.capacity_total = NOTHING
        self.rows = Rows()
        self.labels = Labels()
        self.taints: Marks[Taint] = Marks()
        self.features: Marks[str] = Marks()
        self.images = Images()
        #: plan/feasibility/ keeps here what it found out about a value of
        #: constraints, one column per filter; emptied when `facts_epoch` grows.
        self.answers: dict[Constraints, tuple[BoolColumn, ...]] = {}
        #: The same, of seed 001's targets on nodes.
        self.targeted: dict[tuple[Target, ...], BoolColumn] = {}
        #: plan/liking/node_facts keeps here what facts of nodes are worth to those with these constraints and
        #: preferences; emptied when `facts_epoch` grows or images change.
        self.points: dict[tuple[Constraints, Preferences], FloatColumn | None] = {}
        #: The same, of topology keys.
        self.domains: dict[str, Domains] = {}
        self.cells: dict[tuple[bool, tuple[str, ...]], Cells] = {}
        self.attributes = Attributes()
        self.pods_on_nodes = NodePods()
        #: plan/scoring keeps here 1 / capacity per resource; emptied when a capacity changes.
        self.reciprocals: dict[str, FloatColumn] = {}
        #: plan/scoring keeps here how shapes see the nodes.
        self.score_cache = NodeScoreCache()
        self._cordoned = Flags()
        #: By plan/'s shape: nodes that the resource manager refused for it when it was asked, and its reason.
        self.refused: dict[Hashable, dict[NodeId, str]] = {}
        self._records: dict[NodeId, NodeRecord] = {}
        self._capacity = Amounts()
        self._available = Amounts()
        self._occupied = Amounts()
        #: Held for asks that wait (state/reservations.py).
        self._claimed = Amounts()
        #: Of foreign allocations and of those that may run on no other node.
        self._permanent = Amounts()
        #: What is taken by the last report less what was allocated when it came; 0 without a report.
        self._measured = Amounts()
        self._open = Flags()

    def __contains__(self, node: object) -> bool:
        return node in self._records

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._records)

    def add(self, spec: NodeSpec, *, draining: bool) -> int:
        """Take a node in; returns its row. Raises DuplicateSubject."""
        row = self.rows.add(spec.id)
        size = self.rows.size
        for amounts in self._amounts():
            amounts.reach(size)
        self._capacity.change(row, spec.capacity, 1)
        self._occupied.change(row, spec.occupied, 1)
        self._available.change(row, spec.capacity - spec.occupied, 1)
        self.capacity_total += spec.capacity
        self._enter(row, spec)
        self.attributes.add(row, spec)
        self.images.add(row, spec.images)
        self.pods_on_nodes.attachments.node(row, spec.storage)
        self._open.set(row, value=not draining)
        self._records[spec.id] = NodeRecord(spec, NodeState.DRAINING if draining else NodeState.SCHEDULABLE)
        self.reciprocals.clear()
        self.score_cache.forget()
        self.gains.note(spec.id)
        self.epoch += 1
        self._facts_changed()
        return row

    def update(self, spec: NodeSpec) -> None:
        """Put new capacity, occupied amounts, labels, taints and attributes in force. Raises UnknownSubject."""
        row = self.rows.row(spec.id)
        record = self._records[spec.id]
        old = record.spec
        record.spec = spec
        self.score_cache.changed((row,))
        if spec.capacity != old.capacity:
            self._capacity.change(row, spec.capacity - old.capacity, 1)
            self.capacity_total += spec.capacity - old.capacity
            self.reciprocals.clear()
        self._occupied.change(row, spec.occupied - old.occupied, 1)
        gained = (spec.capacity - spec.occupied) - (old.capacity - old.occupied)
        self._available.change(row, gained, 1)
        grew = any(amount > 0 for _, amount in gained.items())
        if _filtered(spec) != _filtered(old):
            self._leave(row, old)
            self._enter(row, spec)
            self._facts_changed()
            grew = True
        if spec.labels != old.labels and self.pods_on_nodes.apart:
            self.epoch += 1  # anywhere: those who keep others away may do so in other domains
        if self.attributes.differ(spec, old):
            self.attributes.remove(row, old)
            self.attributes.add(row, spec)
            self._facts_changed()
            grew = True
        if spec.images != old.images:
            self.images.remove(row, old.images)
            self.images.add(row, spec.images)
            self.points.clear()
        if spec.storage != old.storage:
            self.pods_on_nodes.attachments.node(row, spec.storage)
            grew = True
        if grew:
            self.gains.note(spec.id)
            self.epoch += 1

    def remove(self, node: NodeId) -> None:
        """Forget a node; whatever was taken goes with it. Raises UnknownSubject."""
        row = self.rows.remove(node)
        spec = self._records.pop(node).spec
        self._leave(row, spec)
        self.attributes.remove(row, spec)
        self.images.remove(row, spec.images)
        self.pods_on_nodes.attachments.node(row, None)
        self._open.set(row, value=False)
        for amounts in self._amounts():
            amounts.clear(row)
        self.capacity_total -= spec.capacity
        self.reciprocals.clear()
        self.score_cache.forget()
        self._facts_changed()

    def set_draining(self, node: NodeId, *, draining: bool) -> None:
        """Close a node to new allocations, or open it again. Raises UnknownSubject."""
        row = self.rows.row(node)
        self._records[node].state = NodeState.DRAINING if draining else NodeState.SCHEDULABLE
        self._open.set(row, value=not draining)
        if not draining:
            self.gains.note(node)
            self.epoch += 1
        self._facts_changed()

    def record(self, node: NodeId) -> NodeRecord:
        """The node's own record. Raises UnknownSubject."""
        self.rows.row(node)
        return self._records[node]

    def take(self, node: NodeId, resources: Resources, count: int = 1, *, foreign: bool = False) -> None:
        """Charge a node with `count` of these amounts, fitting or not: the caller has checked.
        `foreign`: they belong to pods that the core does not schedule. Raises UnknownSubject.
        """
        row = self.rows.row(node)
        self._available.change(row, resources, -count)
        self.score_cache.changed((row,))
        if foreign:
            record = self._records[node]
            record.foreign = record.foreign.plus(resources, count)
            self._permanent.change(row, resources, count)

    def keep(self, node: NodeId, resources: Resources, times: int) -> None:
        """Count what was taken for a DaemonSet's pod as never freed, or (-1) no longer. Raises UnknownSubject."""
        self._permanent.change(self.rows.row(node), resources, times)

    def take_all(self, taken: Mapping[NodeId, int], resources: Resources) -> None:
        """`take` on many nodes at once, so often as each says. Raises UnknownSubject before the first write."""
        if len(taken) < _FEW:
            for node, count in taken.items():
                self.take(node, resources, count)
            return
        rows = self.rows.find(taken)
        if rows is None:
            raise UnknownSubject("node", next(node for node in taken if node not in self.rows))
        times = np.fromiter(taken.values(), dtype=np.int64, count=len(rows))
        self._available.change_all(np.array(rows, dtype=np.int64), resources, -times)
        self.score_cache.changed(rows)

    def without_room(self, wanted: Mapping[NodeId, int], resources: Resources) -> NodeId | None:
        """The first of the nodes that has no room for so many, or is not there; None = all have it."""
        rows = self.rows.find(wanted)
        if rows is None:
            return next(node for node in wanted if node not in self.rows)
        if len(rows) < _FEW:
            return next(
                (n for n, times in wanted.items() if not self.available(n).covers(resources.times(times))), None
            )
        times = np.fromiter(wanted.values(), dtype=np.int64, count=len(rows))
        position = self._available.first_below(np.array(rows, dtype=np.int64), resources, times)
        return None if position is None else self.rows.at(rows[position])

    def give_back(self, node: NodeId, resources: Resources, count: int = 1, *, foreign: bool = False) -> None:
        """Undo a `take`. Raises UnknownSubject."""
        self.take(node, resources, -count, foreign=foreign)
        self.gains.note(node)
        self.epoch += 1

    def claim(self, node: NodeId, resources: Resources, times: int, *, grows: bool = True) -> None:
        """Hold room on a node, or (-1) no longer; `grows`: others have more room for that. Raises UnknownSubject."""
        self._claimed.change(self.rows.row(node), resources, times)
        if times < 0:
            self._claimed.forget_empty(resources)
            if grows:
                self.gains.note(node)
                self.epoch += 1

    def node_reserved(self, node: NodeId) -> Resources:
        """What is held there for asks that wait. Raises UnknownSubject."""
        return self._claimed.at(self.rows.row(node))

    def available(self, node: NodeId) -> Resources:
        """What is left; negative amounts where capacity shrank below what is taken. Raises UnknownSubject."""
        return self._available.at(self.rows.row(node))

    def allocated(self, node: NodeId) -> Resources:
        """What applications took: neither foreign nor occupied. Raises UnknownSubject."""
        record = self.record(node)
        return record.spec.capacity - record.spec.occupied - record.foreign - self.available(node)

    def report(self, node: NodeId, used: Resources) -> None:
        """Keep what the node really uses; what is placed or given back from now on counts on top of it.
        A resource that is not reported counts as allocated. Raises UnknownSubject.
        """
        record = self.record(node)
        row = self.rows.row(node)
        record.utilization = used
        taken = record.spec.capacity - self.available(node)
        unreported = Resources({name: amount for name, amount in taken.items() if name not in used})
        before = self._measured.at(row)
        self.score_cache.changed((row,))
        self._measured.change(row, used - (taken - unreported) - before, 1)

    def measured(self, resource: str) -> IntColumn | None:
        """What every node uses beyond what is allocated there, by its last report; None where that is 0 everywhere."""
        return self._measured.column(resource, self.rows.size)

    def attribute(self, key: str) -> LabelColumn:
        """The column of a node attribute, or label, as seed 001's constraints name it."""
        return self.attributes.column(
            key, ((self.rows.row(name), record.spec) for name, record in self._records.items())
        )

    def permanent(self, node: NodeId) -> Resources:
        """What is never freed there for a pod that waits. Raises UnknownSubject."""
        return self._permanent.at(self.rows.row(node))

    def columns(self) -> Columns:
        """The view of plan/ on all nodes; void as soon as a node comes or goes."""
        size = self.rows.size
        return Columns(
            size,
            self._capacity,
            self._available,
            self._occupied,
            self._claimed,
            self._permanent,
            self._open.view(size),
            self._cordoned.view(size),
        )

    def _amounts(self) -> tuple[Amounts, ...]:
        """Every set of columns of amounts."""
        return self._capacity, self._available, self._occupied, self._claimed, self._permanent, self._measured

    def _enter(self, row: int, spec: NodeSpec) -> None:
        self.labels.add(row, spec.labels)
        self.taints.add(row, spec.taints)
        self.features.add(row, spec.features)
        self._cordoned.set(row, value=spec.cordoned)

    def _leave(self, row: int, spec: NodeSpec) -> None:
        self.labels.remove(row, spec.labels)
        self.taints.remove(row, spec.taints)
        self.features.remove(row, spec.features)
        self._cordoned.set(row, value=False)

    def _facts_changed(self) -> None:
        self.facts_epoch += 1
        self.answers.clear()
        self.targeted.clear()
        self.points.clear()
        self.domains.clear()
        self.cells.clear()
        if (
            self.pods_on_nodes.tags.is_on
        ):  # a domain that comes or goes may be what others wait for, wherever they may run
            self.gains.note_company()
            self.epoch += 1


def _filtered(spec: NodeSpec) -> tuple[Mapping[str, str], set[Taint], frozenset[str], bool]:
    """What filters of facts read of a node."""
    return spec.labels, set(spec.taints), spec.features, spec.cordoned
