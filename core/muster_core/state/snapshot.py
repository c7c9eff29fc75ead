"""What-if snapshot of the node table, and the allocation plan that is made on it.

All placement code reads and charges a snapshot, never the node table. Dropping the snapshot is the undo. A column is
copied at the first write, so an unused snapshot costs nothing. Resources of node reservations count as used. Amounts
are integers in the units of `muster_core.model.resources`; columns are indexed by node row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

import numpy as np

from muster_core.model.claims import NOTHING_CHOSEN, ClaimChoice
from muster_core.model.constraints import (
    ANYWHERE,
    AllocationAffinity,
    Constraints,
    PlacementConstraint,
    Target,
    matches,
)
from muster_core.model.decisions import Decision, ReasonKind, UnschedulableReason
from muster_core.model.ids import NO_APPLICATION, NO_NODE, AllocationKey, ApplicationId, NodeId
from muster_core.model.resources import Resources
from muster_core.model.specs import NO_POD, PodOnNode
from muster_core.model.storage import Choice
from muster_core.state.applications import Application
from muster_core.state.columns import BoolColumn, IntColumn
from muster_core.state.devices import PlannedDevices
from muster_core.state.nodes import NodeTable
from muster_core.state.request_classes import AskClass
from muster_core.state.scheduling_queue import BlockingReason
from muster_core.state.storage import Assumed, Storage


@dataclass(frozen=True, slots=True)
class RequestShape:
    """Everything that the node filters and scores read of a request. Equal requests share one shape."""

    resources: Resources
    constraints: Constraints = ANYWHERE
    #: Nodes where a bind failed for good (docs/internals/semantics.md, rule 5).
    avoid: frozenset[NodeId] = frozenset()
    placement: PlacementConstraint | None = None
    #: What filters see of the pod once it is on a node.
    pod_on_node: PodOnNode = NO_POD
    #: The only node that may run it; empty = any node.
    required: NodeId = NO_NODE
    #: The application whose topology domain it must be in (`NodeTable.homes`); empty = any domain.
    home: ApplicationId = NO_APPLICATION

    @property
    def affinity(self) -> AllocationAffinity | None:
        """The affinity to other allocations of the placement constraint, or None."""
        return None if self.placement is None else self.placement.allocations


class Assumptions:
    """What-if view of volume binding in one partition: the volume that each unbound claim would get."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._ours: dict[str, Assumed] = {}
        #: Number of planned pods that use the claim.
        self._counts: dict[str, int] = {}
        self._taken: dict[str, str] = {}

    def of(self, claim: str) -> Assumed | None:
        """Returns what the claim would get, by this plan or by an earlier decision. None = nothing is assumed."""
        return self._ours.get(claim) or self._storage.assumed.get(claim)

    def taken_for(self, volume: str) -> str | None:
        """Returns the claim that would get the volume, or None."""
        return self._taken.get(volume) or self._storage.taken.get(volume)

    def taken(self) -> Iterator[str]:
        """Names of the volumes that this plan takes."""
        return iter(self._taken)

    def assume(self, claim: str, assumed: Assumed, count: int = 1) -> None:
        """Counts `count` more planned pods that use the claim and records what the claim would get."""
        self._ours[claim] = assumed
        self._counts[claim] = self._counts.get(claim, 0) + count
        if assumed.volume:
            self._taken[assumed.volume] = claim

    def release(self, claim: str, count: int = 1) -> None:
        """Counts `count` fewer planned pods that use the claim. The assumption ends with the last of them."""
        if claim not in self._counts:
            return
        self._counts[claim] -= count
        if self._counts[claim] <= 0:
            del self._counts[claim]
            self._taken.pop(self._ours.pop(claim).volume, None)

    def choice(self, claims: Iterable[str]) -> Choice:
        """Returns the planned volume of each of the claims that this plan assumes something about."""
        return tuple((claim, self._ours[claim].volume) for claim in dict.fromkeys(claims) if claim in self._ours)

    def fork(self) -> Assumptions:
        """Returns an independent copy of these assumptions."""
        twin = Assumptions(self._storage)
        twin._ours, twin._counts, twin._taken = dict(self._ours), dict(self._counts), dict(self._taken)
        return twin


#: Below this number of rows, charging them one by one is faster than NumPy indexing.
_FEW: Final = 6


def emptied(nodes: NodeTable) -> Snapshot:
    """Returns a snapshot of empty nodes: only foreign pods (`occupied`) use resources, and no pod affects a filter."""
    snapshot = Snapshot(nodes)
    snapshot.empty()
    snapshot.is_emptied = True
    return snapshot


class Snapshot:  # long: every what-if change goes through this class
    """What-if view of a node table: planned allocations, planned pods, volumes and devices on top of the real state."""

    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        #: The only rows that the plan may use (the topology domain of a gang); None = all rows.
        self.within: BoolColumn | None = None
        #: True = filters ignore the pods that really run and see only the planned ones.
        self.is_emptied = False
        self._columns = nodes.columns()
        #: Number of rows of every column.
        self.size = self._columns.size
        self._is_reserved = bool(self._columns.node_reserved)
        self._written: dict[str, IntColumn] = {}
        #: Planned pods minus removed pods per row, only for pods that filters look at.
        self._came: dict[PodOnNode, dict[int, int]] = {}
        #: The volumes that claims would get.
        self.assumptions = Assumptions(nodes.pods_on_nodes.attachments.storage)
        self._devices: PlannedDevices | None = None

    @property
    def devices(self) -> PlannedDevices:
        """The devices that claims would get."""
        if self._devices is None:
            self._devices = PlannedDevices(self.nodes.pods_on_nodes.devices)
        return self._devices

    @property
    def is_bare(self) -> bool:
        """Whether `available` equals the node table: nothing is planned and nothing is reserved."""
        return not (self._written or self._is_reserved)

    def available(self, resource: str) -> IntColumn | None:
        """Returns the available amount per row, read-only. None = no node has the resource."""
        written = self._written.get(resource)
        if written is not None:
            return written
        left = self._columns.availables.column(resource, self.size)
        held = self._columns.node_reserved.column(resource, self.size) if self._is_reserved else None
        if held is None:
            return left
        # The table drops a column of zeros, but reservations still reduce what is available.
        self._written[resource] = left = -held if left is None else left - held
        return left

    def capacity(self, resource: str) -> IntColumn | None:
        """Returns the capacity per row. None = no node has the resource."""
        return self._columns.capacities.column(resource, self.size)

    def take(self, node: NodeId, resources: Resources, count: int = 1) -> None:
        """Plans `count` allocations of `resources` on the node. Raises UnknownSubject."""
        self.charge(self.nodes.rows.row(node), resources, count)

    def free(self, node: NodeId, resources: Resources, count: int = 1) -> None:
        """Plans the release of `count` allocations of `resources` on the node. Raises UnknownSubject."""
        self.charge(self.nodes.rows.row(node), resources, -count)

    def charge(self, row: int, resources: Resources, count: int) -> None:
        """Like `take`, for a row. A negative count releases."""
        for name, amount in resources.on_nodes.items():
            column = self._own(name)
            column[row] = column.item(row) - count * amount

    def charge_all(self, charges: Sequence[tuple[int, int]], resources: Resources) -> None:
        """Like `charge`, for several (row, count) pairs. Each row may occur once."""
        if len(charges) < _FEW:
            for row, count in charges:
                self.charge(row, resources, count)
            return
        rows, counts = np.array(charges, dtype=np.int64).T
        for name, amount in resources.on_nodes.items():
            self._own(name)[rows] -= counts * amount

    def enter(self, row: int, pod_on_node: PodOnNode, count: int = 1) -> None:
        """Adds `count` pods to a row as filters see them; a negative count removes pods. Resources are unchanged."""
        if self.nodes.pods_on_nodes.is_noted(pod_on_node.facts):
            rows = self._came.setdefault(pod_on_node, {})
            rows[row] = rows.get(row, 0) + count

    def came(self) -> Iterator[tuple[PodOnNode, Mapping[int, int]]]:
        """Yields each planned pod description with its count per row; a negative count is a removal."""
        return iter(self._came.items())

    @property
    def has_changes(self) -> bool:
        """Whether pods that filters look at are planned or removed."""
        return bool(self._came)

    def tagged(self, targets: tuple[Target, ...]) -> Iterator[Mapping[int, int]]:
        """Yields row → count mappings of the allocations whose tags match all targets, real and planned."""
        if not self.is_emptied:
            yield from self.nodes.pods_on_nodes.tags.matching(targets)
        for pod_on_node, rows in self._came.items():
            if matches(targets, dict(pod_on_node.tags)):
                yield rows

    def available_at(self, resource: str, rows: IntColumn) -> IntColumn | None:
        """Like `available`, for some rows."""
        written = self._written.get(resource)
        if written is not None:
            return written[rows]
        left = self._columns.availables.column(resource, self.size)
        held = self._columns.node_reserved.column(resource, self.size) if self._is_reserved else None
        if held is None:
            return None if left is None else left[rows]
        return -held[rows] if left is None else left[rows] - held[rows]

    def at_best(self, resource: str, rows: IntColumn) -> IntColumn | None:
        """Returns the available amount of these rows once all pods that may end have ended. None = unknown resource."""
        capacity = self.capacity(resource)
        if capacity is None:
            return None
        most = capacity[rows]
        for kept in (self._columns.occupied, self._columns.permanent):
            column = kept.column(resource, self.size)
            if column is not None:
                most -= column[rows]
        return most

    @property
    def schedulable(self) -> BoolColumn:
        """Rows of nodes that are neither drained nor cordoned."""
        return self._columns.open

    def empty(self) -> None:
        """Plans the end of all allocations. Only foreign pods (`occupied`) still use resources."""
        for name in self._columns.capacities:
            capacity, occupied = self.capacity(name), self._columns.occupied.column(name, self.size)
            if capacity is not None:
                self._written[name] = capacity.copy() if occupied is None else capacity - occupied

    def drain(self) -> None:
        """Plans the end of all pods that may end. Reservations and what was planned before still count."""
        for name in self._columns.capacities:
            best, left = self.at_best(name, np.arange(self.size)), self.available(name)
            unplanned = self._columns.availables.column(name, self.size)
            if best is not None:
                planned = (0 if unplanned is None else unplanned) - (0 if left is None else left)
                self._written[name] = best - planned

    def _own(self, name: str) -> IntColumn:
        """Returns the writable copy of an `available` column."""
        column = self._written.get(name)
        if column is None:
            current = self.available(name)
            column = np.zeros(self.size, dtype=np.int64) if current is None else current.copy()
            self._written[name] = column
        return column

    def fork(self) -> Snapshot:
        """Returns an independent copy of this snapshot."""
        twin = Snapshot(self.nodes)
        twin.within = self.within
        twin.is_emptied = self.is_emptied
        twin._written = {name: column.copy() for name, column in self._written.items()}
        twin._came = {pod_on_node: dict(rows) for pod_on_node, rows in self._came.items()}
        twin.assumptions = self.assumptions.fork()
        twin._devices = self._devices and self._devices.fork()
        return twin

    def absorb(self, fork: Snapshot) -> None:
        """Takes over the plan of a fork of this snapshot."""
        self._written = fork._written
        self._came = fork._came
        self.assumptions = fork.assumptions
        self._devices = fork._devices


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Requests of one class that the plan could not place."""

    kind: AskClass
    why: UnschedulableReason
    #: How many requests of the class fit on the nodes in their present state; None = not evaluated.
    room: int | None = None
    #: The gang member that does not fit; empty = not about a gang.
    about: str = ""

    @property
    def reported_reason(self) -> UnschedulableReason:
        """The reason to report, with the gang member in front. `why` alone holds for all requests of the class."""
        if not self.about:
            return self.why
        message = f"{self.about}: {self.why.message}" if self.why.message else self.about
        return replace(self.why, message=message)


@dataclass(slots=True)
class AllocationPlan:
    """Result of planning for one application: decisions to commit in this order, and why the rest waits."""

    decisions: list[Decision] = field(default_factory=list)
    unplaced: list[Unplaced] = field(default_factory=list)
    blocking_reasons: list[BlockingReason] = field(default_factory=list)
    #: The plan stopped at a bound; another attempt may place more requests.
    more: bool = False
    #: Number of classes that the time budget of the cycle left out. The next cycle plans them.
    left: int = 0
    #: No application of the leaf that has not started may pass this one (docs/internals/semantics.md, rule 11).
    blocks: bool = False
    #: The gang was also tested on empty nodes.
    checked: bool = False
    #: A search for nodes for all members of the gang failed.
    in_vain: bool = False
    #: Warning for the user of the gang.
    notice: str = ""
    #: The task group that `notice` is about, if more nodes would help.
    short_of: str = ""
    #: Why the gang can never be reserved with the present queues and limits.
    impossible: str = ""


def shape_of(kind: AskClass) -> RequestShape:
    """Returns the shape that the nodes are filtered by for requests of the class."""
    return RequestShape(
        kind.resources.on_nodes,
        kind.constraints,
        kind.avoid,
        kind.placement,
        kind.pod_on_node,
        kind.required_node,
        kind.home,
    )


def wanted(app: Application, kind: AskClass, at_most: int) -> int:
    """Returns how many allocations the class still needs, at most `at_most`."""
    if not app.has_multiple:
        return min(len(app.waiting[kind]), at_most)
    total = 0
    for key in app.waiting[kind]:
        total += app.asks[key].left
        if total >= at_most:
            return at_most
    return total


def assign(
    app: Application, kind: AskClass, spots: list[tuple[NodeId, int]]
) -> tuple[tuple[AllocationKey, NodeId], ...]:
    """Assigns the (node, count) pairs to the requests of a class, oldest first. A request may get several nodes."""
    nodes = [node for node, count in spots for _ in range(count)]
    waiting: Iterable[AllocationKey] = app.waiting[kind]
    if app.has_multiple:
        waiting = (key for key in waiting for _ in range(app.asks[key].left))
    return tuple(zip(islice(waiting, len(nodes)), nodes, strict=True))


def chosen_for(snapshot: Snapshot, *kinds: AskClass) -> ClaimChoice:
    """Returns what the plan chose for the claims of these classes."""
    facts = [kind.pod_on_node.facts for kind in kinds if kind.pod_on_node.facts.has_claims]
    if not facts:
        return NOTHING_CHOSEN
    volumes = snapshot.assumptions.choice(claim for one in facts for claim in one.volumes.claims)
    return ClaimChoice(volumes, snapshot.devices.choice(claim for one in facts for claim in one.devices))


_WAITING_FOR_NODES: Final = (ReasonKind.NODES, ReasonKind.CLUSTER, ReasonKind.RESERVED)


def has_unreported(app: Application, kind: AskClass) -> bool:
    """Whether a request of the class is not reported as waiting for nodes. New requests are last, or in `to_report`."""
    reported = app.asks[next(reversed(app.waiting[kind]))].reported_kind
    return reported not in _WAITING_FOR_NODES or bool(app.to_report.get(kind))
