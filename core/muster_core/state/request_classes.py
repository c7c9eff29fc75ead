"""Scheduling classes: requests that filters and quotas cannot tell apart, and the cache of classes that do not fit.

A plan evaluates classes, not pods. The cache holds an upper bound of how many more requests of a class can fit. The
bound may be too high but never too low, so a skipped class never hides a feasible node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from muster_core.model.constraints import NO_TAGS, Constraints, PlacementConstraint, Tags
from muster_core.model.decisions import UnschedulableReason
from muster_core.model.ids import NO_NODE, NodeId, TaskGroup
from muster_core.model.resources import Resources
from muster_core.model.specs import NO_POD, NO_PROPERTIES, AskSpec, PodOnNode, PodProperties
from muster_core.state.columns import Flags, IntColumn, ResourceColumns


@dataclass(frozen=True, slots=True)
class AskClass:
    """Scheduling class of a request in its application: everything that filters and quotas read of the request.

    Queue, user and namespace are those of the application. See docs/internals/semantics.md, rule 21.
    """

    resources: Resources
    constraints: Constraints
    avoid: frozenset[NodeId]
    priority: int
    group: TaskGroup
    placeholder: bool
    #: It does not wait for a placeholder any more (docs/internals/semantics.md, rules 14 and 15).
    as_usual: bool
    #: Placement constraint of the Scheduler Interface; None = none.
    placement: PlacementConstraint | None = None
    #: What filters of other pods see of its allocations: the tags that some selector reads, and its properties.
    pod_on_node: PodOnNode = NO_POD
    #: The only node that may run it (DaemonSet pods); empty = any node.
    required_node: NodeId = NO_NODE
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Computes the hash once, because lookups are much more frequent than creation."""
        parts = (self.resources, self.constraints, self.avoid, self.priority, self.group, self.placeholder)
        object.__setattr__(
            self, "_hash", hash((parts, self.as_usual, self.placement, self.pod_on_node, self.required_node))
        )

    def __hash__(self) -> int:
        return self._hash

    @property
    def depends_on_others(self) -> bool:
        """Whether other allocations may change which nodes are feasible."""
        return self.placement is not None or self.pod_on_node.facts.is_particular


def pod_on_node_of(facts: PodProperties, tags: Tags) -> PodOnNode:
    """Returns what filters see of an allocation with these properties and stored tags."""
    return PodOnNode(tags, facts) if tags or facts is not NO_PROPERTIES else NO_POD


def class_of(spec: AskSpec, *, as_usual: bool, tags: Tags = NO_TAGS) -> AskClass:
    """Returns the scheduling class of a request. `tags`: the stored tags of the request."""
    return AskClass(
        spec.resources,
        spec.constraints,
        spec.avoid,
        spec.priority,
        spec.group,
        spec.placeholder,
        as_usual,
        spec.placement,
        pod_on_node_of(spec.facts, tags),
        spec.required_node,
    )


def class_like(known: AskClass | None, spec: AskSpec, *, as_usual: bool, tags: Tags) -> AskClass:
    """Like `class_of`, but returns `known` if it is equal. Comparing is faster than hashing.

    `known`: the class of the previous request, which usually is the same. The decoder shares equal values, so most
    comparisons are by identity. If equal values are not shared, a new equal class is created.
    """
    if (
        known is not None
        and known.resources is spec.resources
        and known.constraints is spec.constraints
        and known.placement is spec.placement
        and known.pod_on_node.facts is spec.facts
        and known.priority == spec.priority
        and known.group == spec.group
        and known.placeholder is spec.placeholder
        and known.as_usual is as_usual
        and known.pod_on_node.tags == tags
        and known.avoid == spec.avoid
        and known.required_node == spec.required_node
    ):
        return known
    return class_of(spec, as_usual=as_usual, tags=tags)


NO_ROWS: Final[IntColumn] = np.zeros(0, dtype=np.int64)


@dataclass(slots=True, eq=False)
class UnschedulableClass:
    """A class of which at most `room` more requests fit, and the reason why not more.

    `known`: room at the last evaluation; `then`: room per row at that time, None = none. `room` is `known` plus the
    additional room on rows that gained since. `seen`: number of node changes when the additional room was last counted;
    `roomy`: rows that had some then.
    """

    known: int
    why: UnschedulableReason
    room: int = 0
    seen: int = 0
    then: IntColumn | None = None
    roomy: IntColumn = field(default_factory=lambda: NO_ROWS)


class UnschedulableClasses:
    """Cache of the classes of a partition that do not fit."""

    __slots__ = ("_amounts", "_changes", "_free", "_gained", "_kinds", "_known", "_rows", "_used", "grown")

    def __init__(self) -> None:
        self._known: dict[AskClass, UnschedulableClass] = {}
        self._rows: dict[AskClass, int] = {}
        self._kinds: list[AskClass | None] = []
        self._free: list[int] = []
        self._amounts = ResourceColumns()
        self._used = Flags()
        #: Number of the last gain of each row; 0 = none.
        self._gained: IntColumn = np.zeros(0, dtype=np.int64)
        self._changes = 0
        #: Classes with possibly more room on some node. Their room must be counted before it is read.
        self.grown: dict[AskClass, UnschedulableClass] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[AskClass]:
        return iter(list(self._known))

    def get(self, kind: AskClass) -> UnschedulableClass | None:
        """Returns the entry of the class, or None."""
        return self._known.get(kind)

    def put(self, kind: AskClass, room: int, why: UnschedulableReason, then: IntColumn | None = None) -> None:
        """Stores that at most `room` requests of the class fit. `then`: room per row, or a lower bound of it."""
        self.grown.pop(kind, None)
        known = self._known.get(kind)
        if known is not None:
            known.known, known.room, known.why = room, room, why
            known.then, known.roomy = then, NO_ROWS
            known.seen = self._changes
            return
        row = self._free.pop() if self._free else len(self._kinds)
        if row == len(self._kinds):
            self._kinds.append(kind)
        else:
            self._kinds[row] = kind
        self._amounts.reach(row + 1)
        self._amounts.change(row, kind.resources, 1)
        self._used.set(row, value=True)
        self._rows[kind] = row
        self._known[kind] = UnschedulableClass(room, why, room, self._changes, then)

    def drop(self, kind: AskClass) -> None:
        """Removes the entry of the class."""
        if kind not in self._known:
            return
        del self._known[kind]
        self.grown.pop(kind, None)
        row = self._rows.pop(kind)
        self._kinds[row] = None
        self._free.append(row)
        self._used.set(row, value=False)
        self._amounts.clear(row)

    def clear(self) -> None:
        """Removes all entries."""
        for kind in self:
            self.drop(kind)

    def gained(self, rows: IntColumn, size: int) -> None:
        """Records that these node rows, of `size` in total, have more available resources."""
        if size > len(self._gained):
            longer = np.zeros(size, dtype=np.int64)
            longer[: len(self._gained)] = self._gained
            self._gained = longer
        self._changes += 1
        self._gained[rows] = self._changes

    def since(self, unschedulable_class: UnschedulableClass) -> IntColumn:
        """Returns the rows that may have additional room: those that gained since it was counted, and `roomy`."""
        seen, roomy = unschedulable_class.seen, unschedulable_class.roomy
        gained = NO_ROWS if seen == self._changes else np.flatnonzero(self._gained > seen)
        return np.concatenate((gained, roomy[self._gained[roomy] <= seen])) if len(roomy) else gained

    def counted(self, kind: AskClass, rows: IntColumn, more: int) -> None:
        """Stores the additional room of the class and the rows that have it. Other rows have some after a gain only."""
        unschedulable_class = self._known[kind]
        unschedulable_class.room = unschedulable_class.known + more
        unschedulable_class.seen, unschedulable_class.roomy = self._changes, rows
        if not more:
            self.grown.pop(kind, None)

    def grow(self, kind: AskClass) -> None:
        """Records that a node on which the class may run gained resources."""
        self.grown[kind] = self._known[kind]

    def within(self, most: Callable[[str], int]) -> list[AskClass]:
        """Returns the classes of which one request fits into this amount of each resource."""
        size = len(self._kinds)
        found = self._used.view(size).copy()
        for name in self._amounts:
            column = self._amounts.column(name, size)
            if column is not None:
                found &= column <= max(most(name), 0)
        return [kind for row in np.flatnonzero(found).tolist() if (kind := self._kinds[row]) is not None]
