"""Seed 001's placement constraint: affinity to nodes' attributes and to other allocations' tags, as a value.

Carried with an ask in the tag `muster/placement-constraint`. Equal constraints
are equal values, so they are part of a scheduling class (semantics 21).
Source: seed 001, PlacementConstraint.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


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
    """How many allocations that match all `targets` there have to be, at least and at most, among the nodes
    that share this ask's node's value of the attribute `scope`, before it is placed. Nodes without the attribute
    are in no group. `required`: else it is a preference.
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
