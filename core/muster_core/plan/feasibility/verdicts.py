"""Nodes that the resource manager refused for a shape when it was asked (seed 003, Predicates)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from muster_core.model.ids import NodeId
from muster_core.plan.draft import Draft
from muster_core.plan.shape import Shape
from muster_core.world.columns import BoolColumn, IntColumn


class Verdicts:
    """Its words, as a guard; nothing that the plan places changes them."""

    __slots__ = ("_allowed", "_reasons")

    def __init__(self, draft: Draft, refused: Mapping[NodeId, str]) -> None:
        rows = draft.nodes.rows
        self._reasons: dict[str, BoolColumn] = {}
        self._allowed = np.ones(draft.size, dtype=np.bool_)
        for node, why in refused.items():
            if node in rows:
                self._reasons.setdefault(why, np.zeros(draft.size, dtype=np.bool_))[rows.row(node)] = True
                self._allowed[rows.row(node)] = False

    def allows(self) -> BoolColumn:
        """Rows that were not refused."""
        return self._allowed

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """The same of some rows."""
        return self._allowed[rows]

    def refusals(self) -> Sequence[tuple[str, BoolColumn]]:
        """By the resource manager's own words."""
        return list(self._reasons.items())

    def add(self, row: int) -> IntColumn | None:
        """Changes nothing."""
        return None


def guard(draft: Draft, shape: Shape) -> Verdicts | None:
    """Of what was refused for this shape lately."""
    refused = draft.nodes.refused and draft.nodes.refused.get(shape)
    return Verdicts(draft, refused) if refused else None
