"""Volumes that nobody has claimed, by what claims ask of them, so that a claim finds its volume without looking at all.

Written by world/storage.py; read by plan/feasibility/volumes/matching.py, which knows what nodes reach.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
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

    __slots__ = ("_changes", "_covers", "_epoch", "_members", "groups")

    def __init__(self) -> None:
        self.groups: dict[Affinity, list[tuple[int, str]]] = {}
        self._members: dict[str, tuple[int, Affinity]] = {}
        #: By size, how many volumes of at least that size each row reaches; true of the facts of nodes of `_epoch`.
        self._covers: dict[int, IntColumn] = {}
        self._epoch = -1
        #: What came (1) or went (-1) since the columns were last counted.
        self._changes: list[tuple[int, Affinity, int]] = []

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
            insort(self.groups.setdefault(now[1], []), (now[0], name))
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

    def smallest(self, size: int) -> Iterator[tuple[Affinity, Iterator[tuple[int, str]]]]:
        """Of each group those of at least that size, smallest first."""
        for affinity, group in self.groups.items():
            start = bisect_left(group, (size, ""))
            if start < len(group):
                yield affinity, (group[at] for at in range(start, len(group)))

    def members(self) -> dict[str, tuple[int, Affinity]]:
        """What is in the pool, for those who count anew."""
        return dict(self._members)
