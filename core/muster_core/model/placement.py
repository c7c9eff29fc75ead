"""Seed 001's placement constraint: affinity to nodes' attributes and to other allocations' tags, as a value.

Carried with an ask in the tag `muster/placement-constraint`. Equal constraints
are equal values, so they are part of a scheduling class (semantics 21).

Who lacks the key satisfies NOT_IN and NOT_EXIST, as with node affinity in
Kubernetes. Source: seed 001, PlacementConstraint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

#: Tags that some constraint reads, as (key, value), sorted.
Tags = tuple[tuple[str, str], ...]
NO_TAGS: Final[Tags] = ()


class TargetOperator(StrEnum):
    """How a target's key and values are meant."""

    IN = "IN"
    NOT_IN = "NOT_IN"
    EXIST = "EXIST"
    NOT_EXIST = "NOT_EXIST"


@dataclass(frozen=True, slots=True)
class Target:
    """One AffinityTargetExpression on a node's attribute or an allocation's tag."""

    key: str
    operator: TargetOperator = TargetOperator.IN
    values: tuple[str, ...] = ()


#: No upper bound on a cardinality.
UNBOUNDED: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class AllocationAffinity:
    """How many allocations that match all `targets` there have to be among the nodes that share the ask's node's
    value of the attribute `scope`: `at_least` before it is placed, `at_most` with it, if it matches them itself.
    Where fewer than `at_least` match in the whole partition, an ask that matches itself may join them where they
    all are, or begin (as the first pod of a series does in Kubernetes). Nodes without the attribute are in no group:
    none of it is counted there. `required`: else it is a preference.
    """

    scope: str
    targets: tuple[Target, ...]
    at_least: int = 0
    at_most: int = UNBOUNDED
    required: bool = True


@dataclass(frozen=True, slots=True)
class PlacementConstraint:
    """Both parts hold at once; node targets are ANDed."""

    nodes: tuple[Target, ...] = ()
    allocations: AllocationAffinity | None = None


def matches(targets: Iterable[Target], tags: Mapping[str, str]) -> bool:
    """Whether something with these tags meets all the targets."""
    return all(_meets(target, tags.get(target.key)) for target in targets)


def _meets(target: Target, value: str | None) -> bool:
    match target.operator:
        case TargetOperator.IN:
            return value in target.values
        case TargetOperator.NOT_IN:
            return value not in target.values
        case TargetOperator.EXIST:
            return value is not None
        case TargetOperator.NOT_EXIST:
            return value is None
        case _:
            assert_never(target.operator)
