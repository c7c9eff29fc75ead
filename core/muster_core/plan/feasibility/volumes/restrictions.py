"""VolumeRestrictions: disks that a node may not use twice, and claims that one pod may use at a time.

The same disk of gce, iscsi or rbd may be used by several pods of a node if
all of them only read it, one of aws never. A claim that is ReadWriteOncePod
and in use anywhere keeps the pod from every node. Source: Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from muster_core.model.facts import Disk, Volumes
from muster_core.model.storage import ONE_POD
from muster_core.plan.draft import Draft
from muster_core.plan.feasibility.volumes.claims import Nowhere, missing
from muster_core.plan.shape import Shape
from muster_core.world.columns import BoolColumn, IntColumn

DISK: Final = "node(s) had no available disk"
IN_USE: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


class Unshared:
    """The disks and claims of a shape that others must not use, as a guard.

    `_users`: per row the disks of others that are in the way; `_elsewhere`: uses of its claims for one pod by others.
    """

    __slots__ = ("_clashes", "_elsewhere", "_single", "_users")

    def __init__(self, draft: Draft, volumes: Volumes) -> None:
        attachments = draft.nodes.occupants.attachments
        own = {name for name, _ in volumes.ephemeral}
        claims = attachments.storage.claims
        one_pod = {name for name in volumes.claims if name not in own and ONE_POD in claims[name].demand.access_modes}
        self._single = bool(one_pod)
        self._elsewhere = sum(sum(attachments.claims.get(name, {}).values()) for name in one_pod)
        self._users = np.zeros(draft.size, dtype=np.int64)
        if volumes.disks:
            for disk, rows in attachments.disks.items():
                if _clash(volumes.disks, (disk,)):
                    for row, count in rows.items():
                        self._users[row] += count
        for occupant, rows_of_it in draft.came():
            theirs = occupant.facts.volumes
            self._elsewhere += sum(rows_of_it.values()) * len(one_pod.intersection(theirs.claims))
            clashing = sum(_clash(volumes.disks, (disk,)) for disk in dict.fromkeys(theirs.disks))
            if clashing:
                for row, count in rows_of_it.items():
                    self._users[row] += count * clashing
        self._clashes = sum(_clash(volumes.disks, (disk,)) for disk in dict.fromkeys(volumes.disks))

    def allows(self) -> BoolColumn:
        """Rows where no disk is in the way, if no claim is."""
        return (self._users <= 0) & (self._elsewhere <= 0)

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """The same of some rows."""
        return (self._users[rows] <= 0) & (self._elsewhere <= 0)

    def refusals(self) -> Sequence[tuple[str, BoolColumn]]:
        """Where a disk is in the way; else everywhere if a claim is."""
        free = self._users <= 0
        return (DISK, ~free), (IN_USE, free & (self._elsewhere > 0))

    def add(self, row: int) -> IntColumn | None:
        """One more uses its disks there, and its claims."""
        self._users[row] += self._clashes
        self._elsewhere += int(self._single)
        return np.arange(len(self._users)) if self._single else np.array([row], dtype=np.int64)


def guard(draft: Draft, shape: Shape) -> Unshared | Nowhere | None:
    """Of a shape with disks or claims."""
    volumes = shape.occupant.facts.volumes
    if not volumes.claims and not volumes.disks:
        return None
    why = missing(draft, shape)
    return Nowhere(draft, why) if why else Unshared(draft, volumes)


def _clash(ours: Sequence[Disk], theirs: Sequence[Disk]) -> bool:
    return any(_is_in_the_way(one, other) for one in ours for other in theirs)


def _is_in_the_way(one: Disk, other: Disk) -> bool:
    if (one.kind, one.id) != (other.kind, other.id):
        return False
    if one.kind == "rbd" and not set(one.monitors) & set(other.monitors):
        return False
    return one.kind == "aws" or not (one.read_only and other.read_only)
