"""Volumes that nobody has claimed, by what claims ask of them, so that a claim finds its volume without looking at all.

Written by world/storage.py; read by plan/feasibility/volumes/matching.py, which knows what nodes reach.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import numpy as np

from muster_core.model.constraints import Term
from muster_core.model.placement import matches
from muster_core.model.storage import Demand, Volume
from muster_core.world.columns import BoolColumn, IntColumn

#: Which nodes a volume is reached from, as its object says it.
Affinity = tuple[Term, ...] | None
#: The rows of these nodes.
Reach = Callable[[Affinity], BoolColumn]
#: Sizes for which the rows are kept; one more, and all are counted anew when they are asked for.
_MOST_SIZES: Final = 64
#: A group that more rows reach is not listed for each of them.
_MANY: Final = 64


def meets(volume: Volume, demand: Demand) -> bool:
    """Whether a volume is of the kind that is asked for, whatever its size (1.36, FindMatchingVolume)."""
    return (
        volume.storage_class == demand.storage_class
        and volume.mode == demand.mode
        and volume.attributes_class == demand.attributes_class
        and set(demand.access_modes) <= set(volume.access_modes)
        and (demand.selector is None or matches(demand.selector, dict(volume.labels)))
    )


class Pool:
    """The free volumes that meet one demand. `groups`: (capacity, name), smallest first, by where they are reached."""

    __slots__ = ("_changes", "_covers", "_epoch", "_members", "_near", "_near_epoch", "_unsorted", "_wide", "groups")

    def __init__(self) -> None:
        self.groups: dict[Affinity, list[tuple[int, str]]] = {}
        self._members: dict[str, tuple[int, Affinity]] = {}
        #: By size, how many volumes of at least that size each row reaches; true of the facts of nodes of `_epoch`.
        self._covers: dict[int, IntColumn] = {}
        self._epoch = -1
        #: What came (1) or went (-1) since the columns were last counted.
        self._changes: list[tuple[int, Affinity, int]] = []
        #: Groups by the rows that reach them, those that many do, and those not looked at yet; some are empty by now.
        self._near: dict[int, dict[Affinity, None]] = {}
        self._wide: dict[Affinity, None] = {}
        self._unsorted: list[Affinity] = []
        self._near_epoch = -1

    def put(self, name: str, volume: Volume | None) -> None:
        """The volume of that name is in the pool as it is now; None = it is not."""
        now = None if volume is None else (volume.capacity, volume.affinity)
        before = self._members.get(name)
        if now == before:
            return
        if before is not None:
            capacity, affinity = self._members.pop(name)
            group = self.groups[affinity]
            del group[bisect_left(group, (capacity, name))]
            if not group:
                del self.groups[affinity]
            self._changes.append((capacity, affinity, -1))
        if now is not None:
            self._members[name] = now
            if now[1] not in self.groups:
                self.groups[now[1]] = []
                self._unsorted.append(now[1])
            insort(self.groups[now[1]], (now[0], name))
            self._changes.append((*now, 1))

    def cover(self, size: int, epoch: int, reach: Reach, rows: int) -> IntColumn:
        """How many of at least that size each of the rows reaches; to be read only. `epoch`: of nodes' facts."""
        if epoch != self._epoch or len(self._covers) > _MOST_SIZES:
            self._covers.clear()
            self._epoch = epoch
        for capacity, affinity, count in self._changes:
            for asked, column in self._covers.items():
                if capacity >= asked:
                    np.add(column, count, out=column, where=reach(affinity))
        self._changes.clear()
        known = self._covers.get(size)
        if known is None:
            known = self._covers[size] = np.zeros(rows, dtype=np.int64)
            for affinity, group in self.groups.items():
                enough = len(group) - bisect_left(group, (size, ""))
                if enough:
                    np.add(known, enough, out=known, where=reach(affinity))
        return known

    def near(self, row: int, epoch: int, reach: Reach) -> list[Affinity]:
        """The groups that the row reaches."""
        if epoch != self._near_epoch:
            self._near.clear()
            self._wide.clear()
            self._unsorted = list(self.groups)
            self._near_epoch = epoch
        for affinity in self._unsorted:
            rows = np.flatnonzero(reach(affinity))
            if len(rows) > _MANY:
                self._wide[affinity] = None
                continue
            for reached in rows.tolist():
                self._near.setdefault(reached, {})[affinity] = None
        self._unsorted.clear()
        wide = (affinity for affinity in self._wide if reach(affinity)[row])
        return [affinity for affinity in (*self._near.get(row, {}), *wide) if affinity in self.groups]

    def of_size(self, affinity: Affinity, size: int) -> Iterator[tuple[int, str]]:
        """Of a group those of at least that size, smallest first."""
        group = self.groups[affinity]
        return islice(group, bisect_left(group, (size, "")), None)

    def offer(self, name: str) -> tuple[int, Affinity] | None:
        """Capacity of a volume of the pool, and where it is reached; None = it is not in the pool."""
        return self._members.get(name)

    def members(self) -> dict[str, tuple[int, Affinity]]:
        """What is in the pool, for those who count anew."""
        return dict(self._members)
