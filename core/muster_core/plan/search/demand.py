"""What a search is asked, members of several shapes, and what it answers: places for all, or who is short."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster_core.model.ids import NodeId
from muster_core.model.shortfall import Shortfall
from muster_core.plan.draft import Draft
from muster_core.plan.feasibility import resources_fit
from muster_core.plan.shape import Shape
from muster_core.world.columns import BoolColumn, IntColumn

#: A shape and how many members have it.
Demand = tuple[Shape, int]
#: Nodes and how many go there.
Spots = tuple[tuple[NodeId, int], ...]


@dataclass(frozen=True, slots=True)
class Places:
    """Where all members go: for each demand, in the order given, nodes and how many."""

    per_demand: tuple[Spots, ...]


@dataclass(frozen=True, slots=True)
class Short:
    """Which demand (by its position, of so many members) lacks how many places, and why.
    `alone`: it would even if there were no other demand. `domain`: the node label and value within which;
    empty = anywhere.
    """

    demand: int
    missing: int
    why: Shortfall
    count: int = 0
    alone: bool = False
    domain: str = ""


def needs_others(shape: Shape) -> bool:
    """Whether it goes only where others are: these may be members of the same gang and come first."""
    affinity = shape.affinity
    is_needy = affinity is not None and affinity.required and affinity.at_least > 0
    return is_needy or bool(shape.occupant.facts.company.near)


def depends_on_members(shape: Shape) -> bool:
    """Whether members beside it may make room for it, so that what it finds alone is not the last word."""
    return needs_others(shape) or any(spread.required for spread in shape.occupant.facts.company.spread)


def is_entangled(shape: Shape) -> bool:
    """Whether places of its own, or of members beside it, may change where the next one goes."""
    return shape.placement is not None or shape.occupant.facts.is_particular


def rooms(draft: Draft, shape: Shape, among: BoolColumn, at_most: int) -> IntColumn:
    """How many of the shape each of the rows has room for, up to `at_most`."""
    return resources_fit.counts(draft.available, shape.resources, among, at_most)


def share(draft: Draft, shape: Shape) -> float:
    """The largest part of the cluster's capacity of one resource that one member takes."""
    total = draft.nodes.capacity_total
    return max((amount / max(total[name], 1) for name, amount in shape.resources.items()), default=0.0)


def weight(draft: Draft, shape: Shape, rows: IntColumn) -> IntColumn:
    """What is left on the rows of what the shape asks for, each resource as a part of the cluster's, in billionths."""
    left = np.zeros(len(rows), dtype=np.int64)
    for name in shape.resources:
        column, total = draft.available(name), draft.nodes.capacity_total[name]
        if column is not None:
            left += (column[rows] * (1e9 / max(total, 1))).astype(np.int64)
    return left
