"""VolumeBinding: the node reaches volumes of claims that are bound, and there are, or will be, some for the others.

A claim that waits for its pod takes a free volume that the node reaches, or
has one made. What the plan so far gives to claims, and what is assumed already,
counts: no two claims get one volume, and who shares a claim follows it.
Source: Kubernetes 1.36, FindPodVolumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from muster_core.model.ids import NodeId
from muster_core.model.storage import Claim
from muster_core.plan.assumptions import Assumptions
from muster_core.plan.draft import Draft
from muster_core.plan.feasibility.volumes import provisioning
from muster_core.plan.feasibility.volumes.claims import Nowhere, Sorted, sorted_claims, unusable
from muster_core.plan.feasibility.volumes.matching import Matching
from muster_core.plan.feasibility.volumes.reach import reach_bound
from muster_core.plan.shape import Shape
from muster_core.world.columns import BoolColumn, IntColumn
from muster_core.world.nodes import NodeTable
from muster_core.world.storage import Assumed

NOT_REACHED: Final = "node(s) didn't match PersistentVolume's node affinity"
NONE_FREE: Final = "node(s) didn't find available persistent volumes to bind"
NO_SPACE: Final = "node(s) did not have enough free storage"
GONE: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class Bindable:
    """The claims of a shape, as a guard. A row may be refused for more than one reason."""

    __slots__ = ("_allowed", "_assumptions", "_claims", "_is_forked", "_nodes", "_refused")

    def __init__(self, draft: Draft, claims: Sorted) -> None:
        self._nodes, self._claims, self._assumptions = draft.nodes, claims, draft.assumptions
        self._is_forked = False
        self._look()

    def allows(self) -> BoolColumn:
        """Rows where each claim has its volume, or may get one."""
        return self._allowed

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """The same of some rows."""
        return self._allowed[rows]

    def refusals(self) -> Sequence[tuple[str, BoolColumn]]:
        """For what is bound, and for what is not."""
        return self._refused

    def add(self, row: int) -> IntColumn | None:
        """Whoever shares the claims of the first goes where their volumes are reached."""
        if not self._claims.delayed:
            return None
        if not self._is_forked:
            self._assumptions, self._is_forked = self._assumptions.fork(), True
        for claim, assumed in chosen(self._nodes, self._assumptions, self._claims.delayed, row):
            self._assumptions.assume(claim, assumed)
        self._look()
        return np.arange(len(self._allowed))

    def _look(self) -> None:
        out_of_reach, vanished = _bound(self._nodes, self._claims.bound)
        none_free, no_space = _delayed(self._nodes, self._assumptions, self._claims.delayed)
        self._refused = (
            (NOT_REACHED, out_of_reach),
            (NONE_FREE, none_free),
            (NO_SPACE, no_space),
            (GONE, vanished),
        )
        self._allowed = ~(out_of_reach | none_free | no_space | vanished)


def guard(draft: Draft, shape: Shape) -> Bindable | Nowhere | None:
    """Of a shape with claims."""
    volumes = shape.occupant.facts.volumes
    if not volumes.claims:
        return None
    why = unusable(draft, shape)
    if why:
        return Nowhere(draft, why)
    return Bindable(draft, sorted_claims(draft.nodes.occupants.attachments.storage, volumes))


def assume(draft: Draft, shape: Shape, row: int, count: int = 1) -> None:
    """Suppose that the claims of so many of the shape get their volumes on a row that its guard allows; less than 0 =
    they went.
    """
    volumes = shape.occupant.facts.volumes
    if not volumes.claims:
        return
    if count < 0:
        for claim in dict.fromkeys(volumes.claims):
            draft.assumptions.release(claim, -count)
        return
    delayed = sorted_claims(draft.nodes.occupants.attachments.storage, volumes).delayed
    for claim, assumed in chosen(draft.nodes, draft.assumptions, delayed, row):
        draft.assumptions.assume(claim, assumed, count)


def chosen(nodes: NodeTable, assumptions: Assumptions, delayed: Sequence[Claim], row: int) -> list[tuple[str, Assumed]]:
    """What each of the claims gets on a row that is allowed."""
    if not delayed:
        return []
    node = nodes.rows.at(row)
    _, waiting = _by_node(assumptions, delayed)
    matching = Matching(nodes, assumptions, waiting)
    found = {claim.name: Assumed("", node) for claim in delayed}
    for claim, volume in reversed(list(zip(matching.claims, matching.at(row), strict=True))):
        if volume:
            found[claim.name] = Assumed(volume, node)
    return list(found.items())


def _bound(nodes: NodeTable, claims: Sequence[Claim]) -> tuple[BoolColumn, BoolColumn]:
    """Rows that do not reach a volume, and those where one is missed; the first claim that is refused tells."""
    storage = nodes.occupants.attachments.storage
    out_of_reach, vanished = (np.zeros(nodes.rows.size, dtype=np.bool_) for _ in range(2))
    for claim in claims:
        volume = storage.volumes.get(claim.volume)
        if volume is None:
            vanished = ~out_of_reach
            break
        out_of_reach |= ~reach_bound(nodes, volume)
    return out_of_reach, vanished


def _delayed(nodes: NodeTable, assumptions: Assumptions, claims: Sequence[Claim]) -> tuple[BoolColumn, BoolColumn]:
    """Rows where no volume is free, and those where there is no space to make one."""
    size = nodes.rows.size
    none_free, no_space = (np.zeros(size, dtype=np.bool_) for _ in range(2))
    if not claims:
        return none_free, no_space
    on_nodes, waiting = _by_node(assumptions, claims)
    for _, node in on_nodes:
        elsewhere = np.ones(size, dtype=np.bool_)
        if node in nodes:
            elsewhere[nodes.rows.row(node)] = False
        none_free |= elsewhere
    matching = Matching(nodes, assumptions, waiting)
    made = [(claim, ~none_free) for claim, _ in on_nodes]
    made += [(claim, ~found) for claim, found in zip(matching.claims, matching.rows(), strict=True)]
    for claim, rows in made:
        left = rows & ~none_free & ~no_space
        if left.any():
            reached = provisioning.reached(nodes, claim)
            none_free |= left & ~reached
            no_space |= left & reached & ~provisioning.has_room(nodes, claim)
    return none_free, no_space


def _by_node(assumptions: Assumptions, claims: Sequence[Claim]) -> tuple[list[tuple[Claim, NodeId]], list[Claim]]:
    """Claims for which a node was chosen, where a volume is made, and the others."""
    on_nodes: list[tuple[Claim, NodeId]] = []
    waiting: list[Claim] = []
    for claim in claims:
        assumed = assumptions.of(claim.name)
        node = assumed.node if assumed is not None and not assumed.volume else claim.selected_node
        if node is None:
            waiting.append(claim)
        else:
            on_nodes.append((claim, node))
    return on_nodes, waiting
