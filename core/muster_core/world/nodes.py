"""The nodes of a partition: what each has, what is taken, who is on it, what its labels and taints are.

Written by engine/ only. What plan/ asks about all nodes at once it asks the
columns; what one wants to know of one node is in its NodeRecord.

Capacity may shrink below what is taken: availability is then negative and
nothing fits that asks for the resource. Units as in Resources.
Source: seed 003, NodeInfo; semantics 21-23.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from muster_core.model.constraints import Constraints, Taint
from muster_core.model.errors import UnknownSubject
from muster_core.model.facts import Preferences
from muster_core.model.ids import AllocationId, AllocationKey, NodeId
from muster_core.model.placement import Target
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import NodeSpec
from muster_core.model.states import NodeState
from muster_core.world.attributes import Attributes
from muster_core.world.columns import Amounts, BoolColumn, Flags, FloatColumn, IntColumn, Rows
from muster_core.world.domains import Cells, Domains
from muster_core.world.gains import Gains
from muster_core.world.images import Images
from muster_core.world.labels import LabelColumn, Labels, Marks
from muster_core.world.occupants import Occupants
from muster_core.world.standings import Standings

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
    foreigners: dict[AllocationId, None] = field(default_factory=dict)
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
    claimed: Amounts
    permanent: Amounts
    open: BoolColumn
    cordoned: BoolColumn


class NodeTable:  # long: every write to a node goes through here
    """All nodes of a partition, one row each.

    `epoch` grows whenever something may fit that did not fit before, and `gains` tells where;
    whoever only adds to `epoch` means anywhere.
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
        "occupants",
        "points",
        "reciprocals",
        "refused",
        "rows",
        "standings",
        "taints",
        "targeted",
    )

    def __init__(self) -> None:
        self.epoch = 0
        self.facts_epoch = 0
        self.gains = Gains()
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
        self.occupants = Occupants()
        #: plan/scoring keeps here 1 / capacity per resource; emptied when a capacity changes.
        self.reciprocals: dict[str, FloatColumn] = {}
        #: plan/scoring keeps here how shapes see the nodes.
        self.standings = Standings()
        self._cordoned = Flags()
        #: By plan/'s shape: nodes that the resource manager refused for it when it was asked, and its reason.
        self.refused: dict[Hashable, dict[NodeId, str]] = {}
        self._records: dict[NodeId, NodeRecord] = {}
        self._capacity = Amounts()
        self._available = Amounts()
        self._occupied = Amounts()
        #: Held for asks that wait (world/reservations.py).
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
        self.occupants.attachments.node(row, spec.storage)
        self._open.set(row, value=not draining)
        self._records[spec.id] = NodeRecord(spec, NodeState.DRAINING if draining else NodeState.SCHEDULABLE)
        self.reciprocals.clear()
        self.standings.forget()
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
        self.standings.changed((row,))
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
        if spec.labels != old.labels and self.occupants.apart:
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
            self.occupants.attachments.node(row, spec.storage)
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
        self.occupants.attachments.node(row, None)
        self._open.set(row, value=False)
        for amounts in self._amounts():
            amounts.clear(row)
        self.capacity_total -= spec.capacity
        self.reciprocals.clear()
        self.standings.forget()
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
        """Charge a node with `count` of these amounts, fitting or not: whoever decides has checked.
        `foreign`: they belong to nobody whom the core schedules. Raises UnknownSubject.
        """
        row = self.rows.row(node)
        self._available.change(row, resources, -count)
        self.standings.changed((row,))
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
        self.standings.changed(rows)

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

    def claimed(self, node: NodeId) -> Resources:
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
        self.standings.changed((row,))
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
        if self.occupants.tags.is_on:  # a domain that comes or goes may be what others wait for, wherever they may run
            self.gains.note_company()
            self.epoch += 1


def _filtered(spec: NodeSpec) -> tuple[Mapping[str, str], set[Taint], frozenset[str], bool]:
    """What filters of facts read of a node."""
    return spec.labels, set(spec.taints), spec.features, spec.cordoned
