"""Scheduling classes: requests that filters and quotas cannot tell apart, and the cache of classes that do not fit.

A plan evaluates classes, not pods. The cache holds an upper bound of how many more requests of a class can fit. The
bound may be too high but never too low, so a skipped class never hides a feasible node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from muster_core.model.constraints import NO_TAGS, Constraints, PlacementConstraint, Tags
from muster_core.model.decisions import UnschedulableReason
from muster_core.model.ids import NO_NODE, NodeId, TaskGroup
from muster_core.model.resources import Resources
from muster_core.model.specs import NO_POD, NO_PROPERTIES, AskSpec, PodOnNode, PodProperties
from muster_core.state.columns import Amounts, Flags, IntColumn


@dataclass(frozen=True, slots=True)
class AskClass:
    """The scheduling class of an ask within its application: what live filters
    and quotas read of it (semantics 21). Queue, user and namespace are the application's.
    """

    resources: Resources
    constraints: Constraints
    avoid: frozenset[NodeId]
    priority: int
    group: TaskGroup
    placeholder: bool
    #: It no longer looks for a placeholder to take over from (semantics 14, 15).
    as_usual: bool
    #: Seed 001's constraint; None = none.
    placement: PlacementConstraint | None = None
    #: As others see what is placed of it: those of its tags that some selector of the partition reads, and its facts.
    pod_on_node: PodOnNode = NO_POD
    #: The one node it may run on (DaemonSets); empty = any.
    required_node: NodeId = NO_NODE
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Hash once: a class is looked up far more often than it is made."""
        parts = (self.resources, self.constraints, self.avoid, self.priority, self.group, self.placeholder)
        object.__setattr__(
            self, "_hash", hash((parts, self.as_usual, self.placement, self.pod_on_node, self.required_node))
        )

    def __hash__(self) -> int:
        return self._hash

    @property
    def depends_on_others(self) -> bool:
        """Whether what is placed elsewhere may change where it may go, so that room on nodes is not all it needs."""
        return self.placement is not None or self.pod_on_node.facts.is_particular


def occupant_of(facts: PodProperties, tags: Tags) -> PodOnNode:
    """What filters see of an allocation with these facts and read tags."""
    return PodOnNode(tags, facts) if tags or facts is not NO_PROPERTIES else NO_POD


def class_of(spec: AskSpec, *, as_usual: bool, tags: Tags = NO_TAGS) -> AskClass:
    """The scheduling class of an ask; `tags`: those of its tags that matter to others."""
    return AskClass(
        spec.resources,
        spec.constraints,
        spec.avoid,
        spec.priority,
        spec.group,
        spec.placeholder,
        as_usual,
        spec.placement,
        occupant_of(spec.facts, tags),
        spec.required_node,
    )


def class_like(known: AskClass | None, spec: AskSpec, *, as_usual: bool, tags: Tags) -> AskClass:
    """The same; `known`: that of the ask before it, which is returned itself where it is the one, as a rule: found by
    looking and not by hashing.
    """
    if known is not None and _is_of(known, spec, as_usual=as_usual, tags=tags):
        return known
    return class_of(spec, as_usual=as_usual, tags=tags)


def _is_of(kind: AskClass, spec: AskSpec, *, as_usual: bool, tags: Tags) -> bool:
    """Whether asks like this are of the class. The decoder shares equal values, so that most comparisons are of
    identity; values that are equal and not shared make a class that is equal and not shared.
    """
    return (
        kind.resources is spec.resources
        and kind.constraints is spec.constraints
        and kind.placement is spec.placement
        and kind.pod_on_node.facts is spec.facts
        and kind.priority == spec.priority
        and kind.group == spec.group
        and kind.placeholder is spec.placeholder
        and kind.as_usual is as_usual
        and kind.pod_on_node.tags == tags
        and kind.avoid == spec.avoid
        and kind.required_node == spec.required_node
    )


@dataclass(slots=True, eq=False)
class UnschedulableClass:
    """A class of which no more than `room` have a place on the nodes, and why not more.

    `known`: how many had when that was last looked at; `seen`: how often nodes had gained until then; `then`: how many
    each row held at that time, None = none. So `room` is `known` and what rows that gained since hold more than then.
    """

    known: int
    why: UnschedulableReason
    room: int = 0
    seen: int = 0
    then: IntColumn | None = None


class UnschedulableClasses:
    """All of a partition, by class."""

    __slots__ = ("_amounts", "_free", "_gained", "_gains", "_kinds", "_known", "_rows", "_used", "grown")

    def __init__(self) -> None:
        self._known: dict[AskClass, UnschedulableClass] = {}
        self._rows: dict[AskClass, int] = {}
        self._kinds: list[AskClass | None] = []
        self._free: list[int] = []
        self._amounts = Amounts()
        self._used = Flags()
        #: Which gain was the last of each row of the nodes; 0 = none.
        self._gained: IntColumn = np.zeros(0, dtype=np.int64)
        self._gains = 0
        #: Those that some node may hold more of than was found: their room is to be counted before it is read.
        self.grown: dict[AskClass, UnschedulableClass] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[AskClass]:
        return iter(list(self._known))

    def get(self, kind: AskClass) -> UnschedulableClass | None:
        """What is remembered of the class."""
        return self._known.get(kind)

    def put(self, kind: AskClass, room: int, why: UnschedulableReason, then: IntColumn | None = None) -> None:
        """Remember that only `room` of the class fit as the nodes are; `then`: how many each row holds, or less."""
        self.grown.pop(kind, None)
        known = self._known.get(kind)
        if known is not None:
            known.known, known.room, known.why = room, room, why
            known.then = then
            known.seen = self._gains
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
        self._known[kind] = UnschedulableClass(room, why, room, self._gains, then)

    def drop(self, kind: AskClass) -> None:
        """Remember nothing of the class."""
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
        """Remember nothing at all."""
        for kind in self:
            self.drop(kind)

    def gained(self, rows: IntColumn, size: int) -> None:
        """These rows of the nodes, of `size` in all, hold more than before."""
        if size > len(self._gained):
            longer = np.zeros(size, dtype=np.int64)
            longer[: len(self._gained)] = self._gained
            self._gained = longer
        self._gains += 1
        self._gained[rows] = self._gains

    def since(self, unschedulable_class: UnschedulableClass) -> IntColumn:
        """The rows that gained since a class was looked at."""
        return np.flatnonzero(self._gained > unschedulable_class.seen)

    def grow(self, kind: AskClass) -> None:
        """A node gained on which the class may run."""
        self.grown[kind] = self._known[kind]

    def within(self, most: Callable[[str], int]) -> list[AskClass]:
        """The classes of which one fits into this amount of each resource."""
        size = len(self._kinds)
        found = self._used.view(size).copy()
        for name in self._amounts:
            column = self._amounts.column(name, size)
            if column is not None:
                found &= column <= max(most(name), 0)
        return [kind for row in np.flatnonzero(found).tolist() if (kind := self._kinds[row]) is not None]
