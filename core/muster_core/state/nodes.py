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
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import NodeSpec, Preferences
from muster_core.model.states import NodeState
from muster_core.state import indexes
from muster_core.state.columns import (
    Attributes,
    BoolColumn,
    CodeColumn,
    Flags,
    FloatColumn,
    IntColumn,
    LabelColumn,
    Labels,
    ResourceColumns,
    Rows,
)
from muster_core.state.devices import DeviceChanges
from muster_core.state.node_pods import NodePods

#: Stands for a change that any claim may wait for.
ANY_CLAIM: Final = ""


class WakeUpNodes:
    """Where something may fit that did not fit before, since the reader has emptied it. `epoch`: number of changes."""

    def __init__(self, devices: DeviceChanges) -> None:
        self.epoch = 0
        #: Changes of devices, which the devices note themselves.
        self.devices = devices
        self.clear()

    def clear(self) -> None:
        """Forgets where. The epoch stays."""
        #: Nodes with additional resources or properties. They may have been removed since.
        self.nodes: dict[NodeId, None] = {}
        self.is_anywhere = False
        #: Pods or topology domains changed that inter-pod terms may refer to.
        self.inter_pod = False
        self.claims: dict[str, None] = {}
        if self.has_devices:
            self.devices.clear()

    def note(self, node: NodeId) -> None:
        """Something may fit on this node."""
        self.epoch += 1
        self.nodes[node] = None

    def note_anywhere(self) -> None:
        """Something may fit on any node."""
        self.epoch += 1
        self.is_anywhere = True

    def note_inter_pod(self) -> None:
        """Requests that depend on other pods may fit on any node."""
        self.epoch += 1
        self.inter_pod = True

    @property
    def has_devices(self) -> bool:
        """Whether changes of devices are noted."""
        changes = self.devices
        return bool(changes.claims or changes.classes or changes.pools)

    def note_devices(self) -> None:
        """Requests with claims of devices may fit, as `devices` has it."""
        self.epoch += 1

    def note_claim(self, claim: str) -> None:
        """Requests that use this claim may fit on any node."""
        self.epoch += 1
        self.claims[claim] = None

    def __bool__(self) -> bool:
        return bool(self.nodes or self.is_anywhere or self.inter_pod or self.claims or self.has_devices)


#: Number of recorded changes. A reader that missed more computes all rows again.
_MOST_CHANGES: Final = 4096


@dataclass(slots=True, eq=False)
class CachedNodeScores:
    """A key per row, valid except for rows that changed after the first `seen` changes.

    `liked`: the score column that is part of the keys. With another column the cached keys are invalid.
    """

    keys: FloatColumn
    liked: FloatColumn | None
    seen: int


class NodeScoreCache:
    """Cached node keys by request shape and node order."""

    def __init__(self) -> None:
        self.kept: dict[Hashable, CachedNodeScores] = {}
        self._changes: list[int] = []
        self._forgotten = 0

    @property
    def now(self) -> int:
        """Number of changes so far."""
        return self._forgotten + len(self._changes)

    def changed(self, rows: Iterable[int]) -> None:
        """Records that used or available amounts of these rows changed."""
        if not self.kept:
            return
        self._changes += rows
        if len(self._changes) > _MOST_CHANGES:
            self._forgotten += len(self._changes)
            self._changes.clear()

    def since(self, seen: int) -> list[int] | None:
        """Returns the rows that changed after the first `seen` changes, with duplicates. None = unknown."""
        return self._changes[seen - self._forgotten :] if seen >= self._forgotten else None

    def forget(self) -> None:
        """Clears the cache, because rows were added or removed."""
        self.kept.clear()
        self._changes.clear()
        self._forgotten = 0


#: With fewer rows per cell on average, each row is its own cell.
_WORTH: Final = 2

#: Largest code of combined keys in an int64.
_MOST_CODES: Final = 2**62


class Domains:
    """Topology domains of one key. `codes`: number of the value per row, -1 = none. `count`: upper bound of the
    numbers.
    """

    def __init__(self, codes: CodeColumn) -> None:
        self.codes: IntColumn = codes.astype(np.int64)
        self.codes.flags.writeable = False
        self.count = int(codes.max(initial=-1)) + 1
        #: Rows sorted by their codes, and the start of each code.
        self._order: IntColumn | None = None
        self._starts: list[int] = []

    def members(self, code: int) -> IntColumn:
        """Rows with this value."""
        if self._order is None:
            self._order = np.argsort(self.codes, kind="stable")
            self._starts = np.cumsum(np.bincount(self.codes + 1, minlength=self.count + 1)).tolist()
        return self._order[self._starts[code] : self._starts[code + 1]]


class Cells:
    """Sets of rows that are in the same domain for each of several keys, so they share everything that domains decide.

    `of`: cell per row. `codes`: by key, the number of the domain per cell. `first`: one row per cell.
    """

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
            if span * (one.count + 1) > _MOST_CODES:  # renumber, because there are at most `size` combinations
                combined = np.unique(combined, return_inverse=True)[1]
                span = size
            combined = combined * (one.count + 1) + one.codes + 1
            span *= one.count + 1
        _, self.first, self.of = np.unique(combined, return_index=True, return_inverse=True)
        self.codes = {key: one.codes[self.first] for key, one in domains.items()}

    @property
    def count(self) -> int:
        """Number of cells."""
        return len(self.first)

    def within(self, key: str, code: int) -> IntColumn:
        """Cells in a domain."""
        if self.first is self.of:
            return self._domains[key].members(code)
        found: IntColumn = (self.codes[key] == code).nonzero()[0]
        return found

    def rows(self, cells: IntColumn) -> IntColumn:
        """Rows of the cells."""
        if self.first is self.of:
            return cells
        parts = [self.rows_of(cell) for cell in cells.tolist()]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def rows_of(self, cell: int) -> IntColumn:
        """Rows of one cell."""
        if self.first is self.of:
            return self.of[cell : cell + 1]
        if not self._members:
            order = np.argsort(self.of, kind="stable")
            self._members = np.split(order, np.searchsorted(self.of[order], np.arange(1, self.count)))
        return self._members[cell]

    def put(self, column: FloatColumn, cells: IntColumn, values: FloatColumn) -> None:
        """Writes one value per cell to all rows of the cells."""
        if self.first is self.of:
            column[cells] = values
            return
        for cell, value in zip(cells.tolist(), values.tolist(), strict=True):
            column[self.rows_of(cell)] = value


_NO_ROWS: Final[Mapping[int, int]] = MappingProxyType({})


class Images:
    """Size in bytes by image name and row."""

    def __init__(self) -> None:
        self._sizes: dict[str, dict[int, int]] = {}

    def sizes(self, name: str) -> Mapping[int, int]:
        """Rows that have an image of this name, with its size in bytes."""
        return self._sizes.get(name, _NO_ROWS)

    def add(self, row: int, images: Mapping[str, int]) -> None:
        """Sets the images of a row that has none."""
        for name, size in images.items():
            self._sizes.setdefault(name, {})[row] = size

    def remove(self, row: int, images: Mapping[str, int]) -> None:
        """Removes the images of a row."""
        for name in images:
            indexes.remove(self._sizes, name, row)


#: Number of failed binds that are stored per node.
_REFUSALS_KEPT: Final = 16

#: Below this number of nodes, a loop is faster than NumPy indexing.
_FEW: Final = 6


@dataclass(slots=True, eq=False)
class ReleasedAtOnce:
    """Placeholders that were released at once, and what their node needs for them beside its allocations.

    First that is the request that replaces the placeholder, then the container, which ends after its pod.
    """

    #: The resources of the replacing request, by placeholder.
    requests: dict[tuple[ApplicationId, AllocationId], Resources] = field(default_factory=dict)
    #: When the containers of deleted pods end, in this order, with their resources.
    ending: deque[tuple[int, Resources]] = field(default_factory=deque)
    #: Sum of both.
    total: Resources = NOTHING

    def needed(self, now_ns: int) -> Resources:
        """Forgets the containers that have ended, and returns the sum of the others."""
        while self.ending and self.ending[0][0] <= now_ns:
            self.total -= self.ending.popleft()[1]
        return self.total

    def add(self, placeholder: tuple[ApplicationId, AllocationId], request: Resources) -> None:
        """The placeholder is released; the request replaces it."""
        self.requests[placeholder] = request
        self.total += request

    def deleted(self, placeholder: tuple[ApplicationId, AllocationId], container: Resources, until_ns: int) -> None:
        """The pod of the placeholder is gone, if it was released at once."""
        request = self.requests.pop(placeholder, None)
        if request is not None:
            self.ending.append((until_ns, container))
            self.total += container - request


@dataclass(slots=True, eq=False)
class NodeRecord:
    """Properties of one node. Its amounts are in the columns, except those of foreign allocations."""

    spec: NodeSpec
    state: NodeState
    #: Foreign allocations on the node. `scheduling` maintains them; the table never reads them.
    foreign_pods: dict[AllocationId, None] = field(default_factory=dict)
    #: Total of the foreign allocations, in addition to `spec.occupied`.
    foreign: Resources = NOTHING
    #: Last reported utilization; None = never reported.
    utilization: Resources | None = None
    #: Placeholders that were released at once. `scheduling` maintains it; the table never reads it.
    released_at_once: ReleasedAtOnce = field(default_factory=ReleasedAtOnce)
    #: The newest requests whose bind failed here, with the times.
    refused: deque[tuple[int, AllocationKey]] = field(default_factory=lambda: deque(maxlen=_REFUSALS_KEPT))


@dataclass(frozen=True, slots=True)
class Columns:
    """All nodes at once, in `size` rows.

    `open`: nodes that accept new allocations. `cordoned`: nodes that accept only pods that tolerate the cordon.
    `permanent`: amounts that never become free for pending pods: foreign allocations, including mirror pods, and pods
    of DaemonSets.
    """

    size: int
    capacities: ResourceColumns
    availables: ResourceColumns
    occupied: ResourceColumns
    node_reserved: ResourceColumns
    permanent: ResourceColumns
    open: BoolColumn
    cordoned: BoolColumn


class NodeTable:  # long: every write to a node goes through here
    """All nodes of a partition, one row each.

    `wake_up_nodes` records where something may fit that did not fit before. `facts_epoch` grows when rows, labels,
    taints or schedulable flags change.
    """

    def __init__(self) -> None:
        self.facts_epoch = 0
        self.capacity_total = NOTHING
        self.rows = Rows()
        self.labels: Labels[str] = Labels()
        self.taints: Labels[Taint] = Labels()
        self.features: Labels[str] = Labels()
        self.images = Images()
        #: Cache of the filters of placement/plugins/node_properties, a column each. Cleared when `facts_epoch` grows.
        self.answers: dict[Constraints, tuple[BoolColumn, ...]] = {}
        #: Cache of extensions/placement_constraints, cleared in the same way.
        self.targeted: dict[tuple[Target, ...], BoolColumn] = {}
        #: Cache of the scores in placement/plugins/node_properties. Cleared when `facts_epoch` grows or images change.
        self.points: dict[tuple[Constraints, Preferences], FloatColumn | None] = {}
        #: Cache of topology domains, cleared when `facts_epoch` grows.
        self.domains: dict[str, Domains] = {}
        self.cells: dict[tuple[bool, tuple[str, ...]], Cells] = {}
        self.attributes = Attributes()
        #: Label and value of the topology domain of each application that requires one and has members in it.
        self.homes: dict[ApplicationId, tuple[str, str]] = {}
        self.pods_on_nodes = NodePods()
        self.wake_up_nodes = WakeUpNodes(self.pods_on_nodes.devices.changes)
        #: Cache of placement/node_search: 1 / capacity per resource. Cleared when a capacity changes.
        self.reciprocals: dict[str, FloatColumn] = {}
        #: Cache of placement/node_search: node keys per request shape.
        self.score_cache = NodeScoreCache()
        #: Nodes with a node reservation. `scheduling` maintains it; the table never reads it.
        self.reserved = Flags()
        self._cordoned = Flags()
        #: Nodes that the predicate callback refused, with its reason, per request shape.
        self.refused: dict[Hashable, dict[NodeId, str]] = {}
        self._records: dict[NodeId, NodeRecord] = {}
        self._capacity = ResourceColumns()
        self._available = ResourceColumns(self._capacity)
        self._occupied = ResourceColumns(self._capacity)
        #: Resources of node reservations (state/reservations.py).
        self._node_reserved = ResourceColumns(self._capacity)
        #: Resources of foreign allocations and of pods that require this node.
        self._permanent = ResourceColumns(self._capacity)
        #: Last reported usage minus what was allocated at that time; 0 without a report.
        self._measured = ResourceColumns(self._capacity)
        self._open = Flags()

    def __contains__(self, node: object) -> bool:
        return node in self._records

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._records)

    def add(self, spec: NodeSpec, *, draining: bool) -> int:
        """Adds a node and returns its row. Raises DuplicateSubject."""
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
        self.reserved.set(row, value=False)
        self._records[spec.id] = NodeRecord(spec, NodeState.DRAINING if draining else NodeState.SCHEDULABLE)
        self.reciprocals.clear()
        self.score_cache.forget()
        self.wake_up_nodes.note(spec.id)
        self._facts_changed()
        return row

    def update(self, spec: NodeSpec) -> None:
        """Updates capacity, occupied amounts, labels, taints and attributes of a node. Raises UnknownSubject."""
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
        if spec.labels != old.labels and self.pods_on_nodes.anti_affinity:
            self.wake_up_nodes.note_anywhere()  # pods with anti-affinity may now exclude other domains
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
            self.wake_up_nodes.note(spec.id)

    def remove(self, node: NodeId) -> None:
        """Removes a node with everything that is charged to it. Raises UnknownSubject."""
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
        """Drains a node, or makes it schedulable again. Raises UnknownSubject."""
        row = self.rows.row(node)
        self._records[node].state = NodeState.DRAINING if draining else NodeState.SCHEDULABLE
        self._open.set(row, value=not draining)
        if not draining:
            self.wake_up_nodes.note(node)
        self._facts_changed()

    @property
    def epoch(self) -> int:
        """Grows whenever something may fit that did not fit before."""
        return self.wake_up_nodes.epoch

    def record(self, node: NodeId) -> NodeRecord:
        """Returns the record of a node. Raises UnknownSubject."""
        self.rows.row(node)
        return self._records[node]

    def take(self, node: NodeId, resources: Resources, count: int = 1, *, foreign: bool = False) -> None:
        """Charges a node with `count` times these amounts, without a check that they fit. Raises UnknownSubject.

        `foreign`: the amounts belong to an allocation of another scheduler.
        """
        row, resources = self.rows.row(node), resources.on_nodes
        self._available.change(row, resources, -count)
        self.score_cache.changed((row,))
        if foreign:
            record = self._records[node]
            record.foreign = record.foreign.plus(resources, count)
            self._permanent.change(row, resources, count)

    def keep(self, node: NodeId, resources: Resources, times: int) -> None:
        """Counts amounts of a DaemonSet pod as permanent, or (-1) no longer. Raises UnknownSubject."""
        self._permanent.change(self.rows.row(node), resources.on_nodes, times)

    def take_all(self, taken: Mapping[NodeId, int], resources: Resources) -> None:
        """Like `take`, for many nodes with their counts. Raises UnknownSubject before the first write."""
        if len(taken) < _FEW:
            for node, count in taken.items():
                self.take(node, resources, count)
            return
        rows = self.rows.find(taken)
        if rows is None:
            raise UnknownSubject("node", next(node for node in taken if node not in self.rows))
        times = np.fromiter(taken.values(), dtype=np.int64, count=len(rows))
        self._available.change_all(np.array(rows, dtype=np.int64), resources.on_nodes, -times)
        self.score_cache.changed(rows)

    def without_room(self, wanted: Mapping[NodeId, int], resources: Resources) -> NodeId | None:
        """Returns the first node that is unknown or has no room for its count. None = all have room."""
        rows, resources = self.rows.find(wanted), resources.on_nodes
        if rows is None:
            return next(node for node in wanted if node not in self.rows)
        if len(rows) < _FEW:
            for (node, count), row in zip(wanted.items(), rows, strict=True):
                if not self._available.holds(row, resources, count):
                    return node
            return None
        times = np.fromiter(wanted.values(), dtype=np.int64, count=len(rows))
        position = self._available.first_below(np.array(rows, dtype=np.int64), resources, times)
        return None if position is None else self.rows.at(rows[position])

    def give_back(self, node: NodeId, resources: Resources, count: int = 1, *, foreign: bool = False) -> None:
        """Reverts `take`. Raises UnknownSubject."""
        self.take(node, resources, -count, foreign=foreign)
        self.wake_up_nodes.note(node)

    def reserve(self, node: NodeId, resources: Resources, times: int, *, grows: bool = True) -> None:
        """Reserves resources on a node, or (-1) releases them. Raises UnknownSubject.

        `grows`: the release makes the resources available to others.
        """
        resources = resources.on_nodes
        self._node_reserved.change(self.rows.row(node), resources, times)
        if times < 0:
            self._node_reserved.forget_empty(resources)
            if grows:
                self.wake_up_nodes.note(node)

    def node_reserved(self, node: NodeId) -> Resources:
        """Returns the resources of the node reservations. Raises UnknownSubject."""
        return self._node_reserved.at(self.rows.row(node))

    def available(self, node: NodeId) -> Resources:
        """Returns what is left; negative if the capacity fell below the usage. Raises UnknownSubject."""
        return self._available.at(self.rows.row(node))

    def allocated(self, node: NodeId) -> Resources:
        """Returns what applications use, without foreign and occupied amounts. Raises UnknownSubject."""
        record = self.record(node)
        return record.spec.capacity - record.spec.occupied - record.foreign - self.available(node)

    def report(self, node: NodeId, used: Resources) -> None:
        """Stores the real usage of a node. Later allocations and releases are added to it. Raises UnknownSubject.

        A resource that is not reported counts as allocated.
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
        """Returns the reported usage beyond the allocated amount per row. None = 0 everywhere."""
        return self._measured.column(resource, self.rows.size)

    def attribute(self, key: str) -> LabelColumn:
        """Returns the column of a node attribute or label for placement constraints."""
        return self.attributes.column(
            key, ((self.rows.row(name), record.spec) for name, record in self._records.items())
        )

    def permanent(self, node: NodeId) -> Resources:
        """Returns the amounts that never become free for pending pods. Raises UnknownSubject."""
        return self._permanent.at(self.rows.row(node))

    def columns(self) -> Columns:
        """Returns a view of all nodes for plans. It is invalid as soon as a node is added or removed."""
        size = self.rows.size
        return Columns(
            size,
            self._capacity,
            self._available,
            self._occupied,
            self._node_reserved,
            self._permanent,
            self._open.view(size),
            self._cordoned.view(size),
        )

    def _amounts(self) -> tuple[ResourceColumns, ...]:
        """All sets of amount columns."""
        return self._capacity, self._available, self._occupied, self._node_reserved, self._permanent, self._measured

    def _enter(self, row: int, spec: NodeSpec) -> None:
        self.labels.add(row, spec.labels)
        self.taints.add(row, dict.fromkeys(spec.taints, ""))
        self.features.add(row, dict.fromkeys(spec.features, ""))
        self._cordoned.set(row, value=spec.cordoned)

    def _leave(self, row: int, spec: NodeSpec) -> None:
        self.labels.remove(row, spec.labels)
        self.taints.remove(row, dict.fromkeys(spec.taints, ""))
        self.features.remove(row, dict.fromkeys(spec.features, ""))
        self._cordoned.set(row, value=False)

    def _facts_changed(self) -> None:
        self.facts_epoch += 1
        self.answers.clear()
        self.targeted.clear()
        self.points.clear()
        self.domains.clear()
        self.cells.clear()
        if self.pods_on_nodes.tags.is_on:  # requests anywhere may wait for a change of the topology domains
            self.wake_up_nodes.note_inter_pod()


def _filtered(spec: NodeSpec) -> tuple[Mapping[str, str], set[Taint], frozenset[str], bool]:
    """Returns what the filters of node properties read of a node."""
    return spec.labels, set(spec.taints), spec.features, spec.cordoned
