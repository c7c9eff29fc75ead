"""Snapshot of the node table with planned allocations, and the plan that is made on it.

Plans write to the snapshot and never to the table, so dropping the snapshot is the undo. A column is copied at the
first write, so an unused snapshot costs nothing. Resources of node reservations count as used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

import numpy as np

from muster_core.model.constraints import (
    ANYWHERE,
    AllocationAffinity,
    Constraints,
    PlacementConstraint,
    Target,
    matches,
)
from muster_core.model.decisions import Decision, UnschedulableReason
from muster_core.model.ids import NO_NODE, AllocationKey, NodeId
from muster_core.model.resources import Resources
from muster_core.model.specs import NO_POD, PodOnNode
from muster_core.model.storage import Choice
from muster_core.state.applications import Application
from muster_core.state.columns import BoolColumn, IntColumn
from muster_core.state.nodes import NodeTable
from muster_core.state.request_classes import AskClass
from muster_core.state.scheduling_queue import BlockingReason
from muster_core.state.storage import Assumed, Storage


@dataclass(frozen=True, slots=True)
class RequestShape:
    """What the nodes are asked about. `avoid`: semantics 5; `pod_on_node`: as others see one that is placed."""

    resources: Resources
    constraints: Constraints = ANYWHERE
    avoid: frozenset[NodeId] = frozenset()
    placement: PlacementConstraint | None = None
    pod_on_node: PodOnNode = NO_POD
    #: The one node it may run on; empty = any.
    required: NodeId = NO_NODE

    @property
    def affinity(self) -> AllocationAffinity | None:
        """To other allocations (seed 001); None = none."""
        return None if self.placement is None else self.placement.allocations


class Assumptions:
    """What-ifs over the storage of a partition."""

    __slots__ = ("_counts", "_ours", "_storage", "_taken")

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._ours: dict[str, Assumed] = {}
        #: How many of the plan's places use the claim.
        self._counts: dict[str, int] = {}
        self._taken: dict[str, str] = {}

    def of(self, claim: str) -> Assumed | None:
        """What the claim is to get; None = nothing is assumed of it."""
        return self._ours.get(claim) or self._storage.assumed.get(claim)

    def taken_for(self, volume: str) -> str | None:
        """The claim that is to get the volume."""
        return self._taken.get(volume) or self._storage.taken.get(volume)

    def taken(self) -> Iterator[str]:
        """Volumes that the plan takes."""
        return iter(self._taken)

    def assume(self, claim: str, assumed: Assumed, count: int = 1) -> None:
        """So many more places of the plan use the claim, which gets this."""
        self._ours[claim] = assumed
        self._counts[claim] = self._counts.get(claim, 0) + count
        if assumed.volume:
            self._taken[assumed.volume] = claim

    def release(self, claim: str, count: int = 1) -> None:
        """So many places less do; with the last of them the plan gives it nothing."""
        if claim not in self._counts:
            return
        self._counts[claim] -= count
        if self._counts[claim] <= 0:
            del self._counts[claim]
            self._taken.pop(self._ours.pop(claim).volume, None)

    def choice(self, claims: Iterable[str]) -> Choice:
        """What the plan gives these claims, where it gives them anything."""
        return tuple((claim, self._ours[claim].volume) for claim in dict.fromkeys(claims) if claim in self._ours)

    def fork(self) -> Assumptions:
        """Assumptions that start from these and leave them alone."""
        twin = Assumptions(self._storage)
        twin._ours, twin._counts, twin._taken = dict(self._ours), dict(self._counts), dict(self._taken)
        return twin


#: Fewer rows than this are quicker charged one by one.
_FEW: Final = 6


def emptied(nodes: NodeTable) -> Snapshot:
    """The draft in which nobody but `occupied` uses the nodes, and nobody is there to stay away from."""
    snapshot = Snapshot(nodes)
    snapshot.empty()
    snapshot.is_deserted = True
    return snapshot


class Snapshot:  # long: everything that is supposed goes through here
    """What-ifs over a node table."""

    __slots__ = ("_came", "_columns", "_written", "assumptions", "is_deserted", "nodes", "within")

    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        #: Rows that the plan keeps to (a gang's topology domain); None = all.
        self.within: BoolColumn | None = None
        #: Only those that are supposed to have come are there.
        self.is_deserted = False
        self._columns = nodes.columns()
        self._written: dict[str, IntColumn] = {}
        #: What came, less what went, of allocations that filters look at, per row.
        self._came: dict[PodOnNode, dict[int, int]] = {}
        #: Which volumes claims would get.
        self.assumptions = Assumptions(nodes.pods_on_nodes.attachments.storage)

    @property
    def size(self) -> int:
        """Rows of every column."""
        return self._columns.size

    @property
    def is_bare(self) -> bool:
        """Whether what is left is what the table says: nothing is supposed, and nothing held."""
        return not self._written and not any(self._columns.node_reserved)

    def available(self, resource: str) -> IntColumn | None:
        """What is left on every node, to be read only; None where no node has the resource."""
        written = self._written.get(resource)
        if written is not None:
            return written
        left = self._columns.availables.column(resource, self.size)
        held = self._columns.node_reserved.column(resource, self.size)
        if held is None:
            return left
        # A column goes when there is nothing but zeros left in it: what is held counts all the same.
        self._written[resource] = left = -held if left is None else left - held
        return left

    def capacity(self, resource: str) -> IntColumn | None:
        """What every node has; None where no node has the resource."""
        return self._columns.capacities.column(resource, self.size)

    def take(self, node: NodeId, resources: Resources, count: int = 1) -> None:
        """Suppose that `count` of these amounts are taken. Raises UnknownSubject."""
        self.charge(self.nodes.rows.row(node), resources, count)

    def free(self, node: NodeId, resources: Resources, count: int = 1) -> None:
        """Suppose that `count` of these amounts are given back. Raises UnknownSubject."""
        self.charge(self.nodes.rows.row(node), resources, -count)

    def charge(self, row: int, resources: Resources, count: int) -> None:
        """`take` by row; a negative count frees."""
        for name, amount in resources.items():
            column = self._own(name)
            column[row] = column.item(row) - count * amount

    def charge_all(self, charges: Sequence[tuple[int, int]], resources: Resources) -> None:
        """The same of many rows, all different, with their counts."""
        if len(charges) < _FEW:
            for row, count in charges:
                self.charge(row, resources, count)
            return
        rows, counts = np.array(charges, dtype=np.int64).T
        for name, amount in resources.items():
            self._own(name)[rows] -= counts * amount

    def enter(self, row: int, pod_on_node: PodOnNode, count: int = 1) -> None:
        """Suppose that so many of these came to a row, as filters see them; negative = went. Room is `charge`'s."""
        if self.nodes.pods_on_nodes.is_noted(pod_on_node.facts):
            rows = self._came.setdefault(pod_on_node, {})
            rows[row] = rows.get(row, 0) + count

    def came(self) -> Iterator[tuple[PodOnNode, Mapping[int, int]]]:
        """What is supposed to have come, or gone (less than 0), per row."""
        return iter(self._came.items())

    def tagged(self, targets: tuple[Target, ...]) -> Iterator[Mapping[int, int]]:
        """Rows and how many allocations, for part after part of those that meet the targets."""
        if not self.is_deserted:
            yield from self.nodes.pods_on_nodes.tags.matching(targets)
        for pod_on_node, rows in self._came.items():
            if matches(targets, dict(pod_on_node.tags)):
                yield rows

    def at_best(self, resource: str) -> IntColumn | None:
        """What every node could give once all have ended that may end; None where no node has the resource."""
        most = self.capacity(resource)
        for kept in (self._columns.occupied, self._columns.permanent):
            column = kept.column(resource, self.size)
            if most is not None and column is not None:
                most = most - column
        return most

    @property
    def schedulable(self) -> BoolColumn:
        """Nodes that are neither drained nor cordoned."""
        return self._columns.open

    def empty(self) -> None:
        """Suppose that nothing is taken but what others occupy."""
        for name in self._columns.capacities:
            capacity, occupied = self.capacity(name), self._columns.occupied.column(name, self.size)
            if capacity is not None:
                self._written[name] = capacity.copy() if occupied is None else capacity - occupied

    def _own(self, name: str) -> IntColumn:
        """The column of what is left, to be written to."""
        column = self._written.get(name)
        if column is None:
            current = self.available(name)
            column = np.zeros(self.size, dtype=np.int64) if current is None else current.copy()
            self._written[name] = column
        return column

    def fork(self) -> Snapshot:
        """A draft that starts from this one and leaves it alone."""
        twin = Snapshot(self.nodes)
        twin.within = self.within
        twin.is_deserted = self.is_deserted
        twin._written = {name: column.copy() for name, column in self._written.items()}
        twin._came = {pod_on_node: dict(rows) for pod_on_node, rows in self._came.items()}
        twin.assumptions = self.assumptions.fork()
        return twin

    def absorb(self, fork: Snapshot) -> None:
        """Go on from where a fork of this draft arrived."""
        self._written = fork._written
        self._came = fork._came
        self.assumptions = fork.assumptions


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Asks of one class that got no place, and why. `room`: only so many of the class fit
    while the nodes are as they are; None = that was not asked. `about`: who lacks it, of a gang.
    """

    kind: AskClass
    why: UnschedulableReason
    room: int | None = None
    about: str = ""

    @property
    def told(self) -> UnschedulableReason:
        """Why, as those who wait are told; `why` alone is true of others of the class, too."""
        if not self.about:
            return self.why
        message = f"{self.about}: {self.why.message}" if self.why.message else self.about
        return replace(self.why, message=message)


@dataclass(slots=True)
class AllocationPlan:
    """To be committed in order; `blocking_reasons`: what is in the way of the rest. `more`: there may be
    room for more, it was not looked for. `blocks`: no application of the leaf that has not
    started may go before this one (semantics 11). `checked`: the empty cluster was
    asked about; `in_vain`: places for all of a gang were looked for and not found; `notice`: a
    warning for people, `short_of`: the task group it is about, if nodes would help. `impossible`: why the gang
    can never be reserved under the present queues and limits.
    """

    decisions: list[Decision] = field(default_factory=list)
    unplaced: list[Unplaced] = field(default_factory=list)
    blocking_reasons: list[BlockingReason] = field(default_factory=list)
    more: bool = False
    #: Classes that were not looked at, because the time of the cycle was up: they are in the next one.
    left: int = 0
    blocks: bool = False
    checked: bool = False
    in_vain: bool = False
    notice: str = ""
    short_of: str = ""
    impossible: str = ""


def shape_of(kind: AskClass) -> RequestShape:
    """What of a class the nodes are asked about."""
    return RequestShape(
        kind.resources, kind.constraints, kind.avoid, kind.placement, kind.pod_on_node, kind.required_node
    )


def wanted(app: Application, kind: AskClass, at_most: int) -> int:
    """How many places the class still wants, `at_most` if more."""
    total = 0
    for key in app.waiting[kind]:
        total += app.asks[key].left
        if total >= at_most:
            return at_most
    return total


def assign(
    app: Application, kind: AskClass, spots: list[tuple[NodeId, int]]
) -> tuple[tuple[AllocationKey, NodeId], ...]:
    """Deal places out to the asks of a class, oldest first; an ask comes as often as it wants."""
    nodes = (node for node, count in spots for _ in range(count))
    total = sum(count for _, count in spots)
    keys = (key for key in app.waiting[kind] for _ in range(app.asks[key].left))
    return tuple(zip(islice(keys, total), nodes, strict=True))


def volumes_of(snapshot: Snapshot, *kinds: AskClass) -> Choice:
    """What a plan gives the claims of these classes that are not bound."""
    claims = (claim for kind in kinds for claim in kind.pod_on_node.facts.volumes.claims)
    return snapshot.assumptions.choice(claims)


def has_untold(app: Application, kind: AskClass) -> bool:
    """Whether an ask joined the class after the others were told why they wait (newcomers are last), or lost a hold."""
    keys = app.waiting[kind]
    return app.asks[next(reversed(keys))].said is None or any(key in keys for key in app.unheld)
