"""NodeVolumeLimits: no node gets more volumes of a CSI driver than it can attach.

Counted are the volumes of pods there, each once, and what else is attached to
the node. A volume of the pod that other pods there have attached already needs
no place of its own; one that is attached for nobody counts twice, as with
kube-scheduler. A node whose limit nobody knows has none, and one without the
driver is not refused (VolumeLimitScaling is off in 1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from muster_core.model.facts import Volumes
from muster_core.model.storage import Handle
from muster_core.plan.draft import Draft
from muster_core.plan.shape import Shape
from muster_core.world.columns import BoolColumn, IntColumn

TOO_MANY: Final = "node(s) exceed max volume count"


class FreeSlots:
    """The volumes of a shape, as a guard."""

    __slots__ = ("_full",)

    def __init__(self, draft: Draft, wanted: frozenset[Handle]) -> None:
        attachments = draft.nodes.occupants.attachments
        self._full = np.zeros(draft.size, dtype=np.bool_)
        planned = _planned(draft)
        for driver, ours in _by_driver(wanted).items():
            limits = attachments.limits(driver, draft.size)
            if limits is None:
                continue
            more = np.full(draft.size, len(ours), dtype=np.int64)
            for row, shared in attachments.rows_with(ours).items():
                more[row] -= shared
            used = attachments.used(driver, draft.size)
            for row, volumes in planned.items():
                by_pods, counts = attachments.on_with(row, volumes)
                more[row], used[row] = len(ours - by_pods), counts[driver]
            self._full |= (more > 0) & (used + more > limits)

    def allows(self) -> BoolColumn:
        """Rows that can attach them."""
        return ~self._full

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """The same of some rows."""
        return ~self._full[rows]

    def refusals(self) -> Sequence[tuple[str, BoolColumn]]:
        """Rows that cannot."""
        return ((TOO_MANY, self._full),)

    def add(self, row: int) -> IntColumn | None:
        """One more of the shape shares what is attached for it."""
        self._full[row] = False
        return np.array([row], dtype=np.int64)


def guard(draft: Draft, shape: Shape) -> FreeSlots | None:
    """Of a shape with volumes that count."""
    volumes = shape.occupant.facts.volumes
    if not volumes.claims and not volumes.attached:
        return None
    storage = draft.nodes.occupants.attachments.storage
    found = (storage.handle(claim) for claim in volumes.claims)
    wanted = frozenset((*volumes.attached, *(handle for handle in found if handle is not None)))
    return FreeSlots(draft, wanted) if wanted else None


def _by_driver(handles: frozenset[Handle]) -> dict[str, set[Handle]]:
    found: dict[str, set[Handle]] = {}
    for handle in handles:
        found.setdefault(handle.driver, set()).add(handle)
    return found


def _planned(draft: Draft) -> dict[int, Counter[Volumes]]:
    """By row, how many more pods with which volumes the plan has there; less than 0 = went."""
    found: dict[int, Counter[Volumes]] = {}
    for occupant, rows in draft.came():
        volumes = occupant.facts.volumes
        if volumes.claims or volumes.attached:
            for row, count in rows.items():
                found.setdefault(row, Counter())[volumes] += count
    return found
