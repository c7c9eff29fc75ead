"""Scheduling classes: what live filters and quotas read of an ask, so that a plan looks at classes and not at pods.

Source: semantics 21.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from muster_core.model.constraints import Constraints
from muster_core.model.facts import NO_FACTS, NOBODY, Occupant, PodFacts
from muster_core.model.ids import NO_NODE, NodeId, TaskGroup
from muster_core.model.placement import NO_TAGS, PlacementConstraint, Tags
from muster_core.model.resources import Resources
from muster_core.model.specs import AskSpec


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
    occupant: Occupant = NOBODY
    #: The one node it may run on (DaemonSets); empty = any.
    required_node: NodeId = NO_NODE
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Hash once: a class is looked up far more often than it is made."""
        parts = (self.resources, self.constraints, self.avoid, self.priority, self.group, self.placeholder)
        object.__setattr__(
            self, "_hash", hash((parts, self.as_usual, self.placement, self.occupant, self.required_node))
        )

    def __hash__(self) -> int:
        return self._hash

    @property
    def depends_on_others(self) -> bool:
        """Whether what is placed elsewhere may change where it may go, so that room on nodes is not all it needs."""
        return self.placement is not None or self.occupant.facts.is_particular


def occupant_of(facts: PodFacts, tags: Tags) -> Occupant:
    """What filters see of an allocation with these facts and read tags."""
    return Occupant(tags, facts) if tags or facts is not NO_FACTS else NOBODY


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
        and kind.occupant.facts is spec.facts
        and kind.priority == spec.priority
        and kind.group == spec.group
        and kind.placeholder is spec.placeholder
        and kind.as_usual is as_usual
        and kind.occupant.tags == tags
        and kind.avoid == spec.avoid
        and kind.required_node == spec.required_node
    )
