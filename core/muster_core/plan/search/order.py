"""In which order members of several shapes are placed: the hardest first, who needs others after them.

Hard is who has few nodes to choose from, then who takes the largest share of
the cluster. Who could not be placed is moved forward, before the one that
took its room; who needs others (affinity) and did not find them goes last.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster_core.model.placement import matches
from muster_core.plan.draft import Draft
from muster_core.plan.fit import feasible_nodes
from muster_core.plan.search.demand import Demand, needs_others, share
from muster_core.plan.shape import Shape


def hardest_first(draft: Draft, demands: Sequence[Demand]) -> list[int]:
    """Positions of the demands; those that need others last."""

    def hardness(index: int) -> tuple[bool, int, float, int]:
        shape, _ = demands[index]
        return needs_others(shape), feasible_nodes(draft, shape), -share(draft, shape), index

    return sorted(range(len(demands)), key=hardness)


def needed_first(draft: Draft, demands: Sequence[Demand], queue: Sequence[int]) -> list[int]:
    """The same order with those in front that members of another shape need beside them, and right after the
    last of them who needs them.
    """
    needed = [
        index
        for index in queue
        if any(_needs(draft, one, demands[index][0]) for other, (one, _) in enumerate(demands) if other != index)
    ]
    needy = [index for index in queue if needs_others(demands[index][0]) and index not in needed]
    return [*needed, *needy, *(index for index in queue if index not in needed and index not in needy)]


def linked(draft: Draft, demands: Sequence[Demand]) -> tuple[frozenset[int], tuple[str, ...]]:
    """Those that want members of the gang near them, or their like, and those that are wanted; and the labels that say
    what is near.
    """
    keys: dict[str, None] = {}
    found: set[int] = set()
    for index, (shape, count) in enumerate(demands):
        others = (other for other, (one, _) in enumerate(demands) if _needs(draft, shape, one))
        wanted = {other for other in others if other != index or count > 1}
        if wanted:
            found |= {index} | wanted
            keys.update(dict.fromkeys(term.topology for term in shape.occupant.facts.company.near))
            if shape.affinity is not None:
                keys[shape.affinity.scope] = None
    return frozenset(found), tuple(keys)


def moved(queue: Sequence[int], demands: Sequence[Demand], refused: int) -> list[int]:
    """The order after this one found no place."""
    others = [index for index in queue if index != refused]
    return [*others, refused] if needs_others(demands[refused][0]) else [refused, *others]


def _needs(draft: Draft, shape: Shape, other: Shape) -> bool:
    occupants = draft.nodes.occupants
    if any(occupants.is_meant(term, other.occupant) for term in shape.occupant.facts.company.near):
        return True
    affinity = shape.affinity
    if affinity is None or not affinity.required or affinity.at_least <= 0:
        return False
    return matches(affinity.targets, dict(other.occupant.tags))
