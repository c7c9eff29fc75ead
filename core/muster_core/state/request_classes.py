"""Scheduling classes: requests that filters and quotas cannot tell apart, and the cache of classes that do not fit.

A plan evaluates classes, not pods. The cache holds an upper bound of how many more requests of a class can fit. The
bound may be too high but never too low, so a skipped class never hides a feasible node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

from muster_core.model.constraints import NO_TAGS, Constraints, PlacementConstraint, Tags
from muster_core.model.decisions import UnschedulableReason
from muster_core.model.ids import NO_APPLICATION, NO_NODE, ApplicationId, NodeId, TaskGroup
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import NO_POD, NO_PROPERTIES, AskSpec, PodOnNode, PodProperties
from muster_core.state.columns import AmountIndex

#: Labels that do not distinguish node pools.
_COMMON_LABELS: Final = frozenset({"kubernetes.io/os", "kubernetes.io/arch"})


#: Classes of slots that are kept although no gang requests them.
_MOST_LEFT: Final = 256


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
    #: The application whose topology domain it must be in (`NodeTable.homes`); empty = any domain.
    home: ApplicationId = NO_APPLICATION
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Computes the hash once, because lookups are much more frequent than creation."""
        parts = (self.resources, self.constraints, self.avoid, self.priority, self.group, self.placeholder)
        object.__setattr__(
            self, "_hash", hash((parts, self.as_usual, self.placement, self.pod_on_node, self.required_node, self.home))
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
        spec.home,
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
        and known.home == spec.home
    ):
        return known
    return class_of(spec, as_usual=as_usual, tags=tags)


def pool_of(constraints: Constraints) -> int:
    """Returns a mark for a node label that the class requires; 0 = none. Few labels select all nodes of a cluster.

    Node pools are selected by one label. Only nodes with this label can make the class schedulable.
    """
    pairs = [pair for pair in constraints.node_selector if pair[0] not in _COMMON_LABELS]
    if not pairs and constraints.affinity is not None and len(constraints.affinity) == 1:
        expressions = constraints.affinity[0].expressions
        pairs = [(one.key, one.values[0]) for one in expressions if one.operator == "In" and len(one.values) == 1]
    return label_mark(*pairs[0]) if pairs else 0


def label_mark(key: str, value: str) -> int:
    """Returns the mark of a node label, never 0. Different labels rarely have the same one."""
    return crc32(f"{key}={value}".encode()) + 1


@dataclass(slots=True, eq=False)
class UnschedulableClass:
    """A class of which at most `room` more requests fit, and the reason why not more."""

    room: int
    why: UnschedulableReason


class UnschedulableClasses:
    """Cache of the classes of a partition that do not fit.

    A class may be woken, because a change may have made room for it. It must be evaluated before its entry is read.
    """

    def __init__(self) -> None:
        self._offered = NOTHING
        self.clear()

    def clear(self) -> None:
        """Removes all entries."""
        self._known: dict[AskClass, UnschedulableClass] = {}
        #: Classes of slots that no gang requests now, oldest first.
        self._left: dict[AskClass, None] = {}
        #: Classes with a resource that no node offers, and one such resource. Users invent such names, so the indices
        #: of amounts have none of these classes, and no column for such a name.
        self._unoffered: dict[AskClass, str] = {}
        #: The other classes by their requests: those that only depend on the node, and those that depend on other pods.
        self.independent: AmountIndex[AskClass] = AmountIndex()
        self.dependent: AmountIndex[AskClass] = AmountIndex()
        #: Classes that have room. It must be counted again before it is read.
        self.grown: dict[AskClass, None] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[AskClass]:
        return iter(list(self._known))

    def get(self, kind: AskClass) -> UnschedulableClass | None:
        """Returns the entry of the class, or None."""
        return self._known.get(kind)

    def put(self, kind: AskClass, room: int, why: UnschedulableReason) -> None:
        """Stores that at most `room` requests of the class fit now."""
        self.grown.pop(kind, None)
        self._left.pop(kind, None)
        self._known[kind] = UnschedulableClass(room, why)
        self._sleep(kind)

    def drop(self, kind: AskClass) -> None:
        """Removes the entry of the class."""
        if self._known.pop(kind, None) is not None:
            self.grown.pop(kind, None)
            self._left.pop(kind, None)
            self._unoffered.pop(kind, None)
            self._index(kind).drop(kind)

    def leave(self, kind: AskClass) -> None:
        """Removes the entry of a class that no application requests any more.

        Those of slots are kept for some time, so that a gang does not request slots again that do not fit.
        """
        if not kind.placeholder:
            self.drop(kind)
        elif kind in self._known:
            self._left[kind] = None
            if len(self._left) > _MOST_LEFT:
                self.drop(next(iter(self._left)))

    def offer(self, offered: Resources) -> None:
        """Sets the resources that some node offers. Wakes the classes that only waited for one of them."""
        is_more = any(not self._offered[name] for name in offered)
        self._offered = offered
        for kind, name in list(self._unoffered.items()) if is_more else ():
            if offered[name]:
                self._sleep(kind)
                self.set_woken(kind, value=True)

    def take(self, count: int) -> list[AskClass]:
        """Returns woken classes, up to `count` of each index, and has them sleep."""
        return [*self.independent.take(count), *self.dependent.take(count)]

    def set_woken(self, kind: AskClass, *, value: bool) -> None:
        """Wakes one class whose resources are all offered, or records that it was evaluated."""
        self._index(kind).set_woken(kind, value=value)

    def is_woken(self, kind: AskClass) -> bool:
        """Whether the class is woken."""
        return self._index(kind).is_woken(kind)

    @property
    def is_any_woken(self) -> bool:
        """Whether some class is woken."""
        return self.independent.is_any_woken or self.dependent.is_any_woken

    def _sleep(self, kind: AskClass) -> None:
        """Lets a class wait for a resource that no node offers, or else for its amounts."""
        index, amounts = self._index(kind), kind.resources.on_nodes
        missing = None if kind in index else next((name for name in amounts if not self._offered[name]), None)
        if missing is None:
            self._unoffered.pop(kind, None)
            index.put(kind, amounts, pool_of(kind.constraints))
        else:
            self._unoffered[kind] = missing

    def _index(self, kind: AskClass) -> AmountIndex[AskClass]:
        return self.dependent if kind.depends_on_others else self.independent
