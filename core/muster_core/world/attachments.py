"""Which claims, disks and volumes are in use on which row, and how many more a node can attach.

What a claim's volume is may become known, or another, while its pod is there:
rows are counted when they are asked about, those of which something changed
anew. Written by world/occupants.py and world/nodes.py; read by plan/.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import numpy as np

from muster_core.model.facts import Disk, Volumes
from muster_core.model.storage import Handle, NodeStorage
from muster_core.world.columns import IntColumn, room_for
from muster_core.world.storage import Storage

#: More than any node attaches.
NO_LIMIT: Final = 2**62
_NOTHING: Final[frozenset[Handle]] = frozenset()

Key = TypeVar("Key")


class Attachments:
    """In use, by row. A claim counts once for each pod, however often the pod names it."""

    __slots__ = (
        "_changed",
        "_limits",
        "_on",
        "_own",
        "_per_row",
        "_spots",
        "_used",
        "_where",
        "claims",
        "disks",
        "migrated",
        "storage",
    )

    def __init__(self) -> None:
        self.storage = Storage()
        #: Row → how many pods there use it.
        self.claims: dict[str, dict[int, int]] = {}
        self.disks: dict[Disk, dict[int, int]] = {}
        self._per_row: dict[int, Counter[str]] = {}
        self._own: dict[int, Counter[Handle]] = {}
        #: By plugin, rows whose nodes' CSI drivers took it over.
        self.migrated: dict[str, dict[int, None]] = {}
        #: Of the rows' nodes.
        self._spots: dict[int, NodeStorage] = {}
        self._limits: dict[str, IntColumn] = {}
        #: What pods have attached, by row; how many volumes are, by driver.
        self._on: dict[int, frozenset[Handle]] = {}
        self._used: dict[str, IntColumn] = {}
        self._where: dict[Handle, dict[int, None]] = {}
        self._changed: dict[int, None] = {}

    def use(self, row: int, volumes: Volumes, count: int) -> None:
        """So many more pods with these volumes are on the row; less than 0 = went. What was assumed of a claim that
        nobody uses any more is forgotten.
        """
        for claim in dict.fromkeys(volumes.claims):
            _change(self.claims, claim, row, count)
            _add(self._per_row, row, claim, count)
            if claim not in self.claims:
                self.storage.forget(claim)
        for disk in dict.fromkeys(volumes.disks):
            _change(self.disks, disk, row, count)
        for handle in dict.fromkeys(volumes.attached):
            _add(self._own, row, handle, count)
        if volumes.claims or volumes.attached:
            self._changed[row] = None

    def node(self, row: int, told: NodeStorage | None) -> None:
        """What the row's node can attach and has attached; None = nothing is known of it."""
        before = self._spots.pop(row, None)
        if told is not None:
            self._spots[row] = told
        for driver in {*(before.limits if before else ()), *(told.limits if told else ())}:
            limit = told.limits.get(driver) if told else None
            column = self._limits[driver] = _reaching(self._limits.get(driver), row, NO_LIMIT)
            column[row] = NO_LIMIT if limit is None else limit
        for plugin in before.migrated if before else ():
            del self.migrated[plugin][row]
        for plugin in told.migrated if told else ():
            self.migrated.setdefault(plugin, {})[row] = None
        self._changed[row] = None

    def resolved(self, claims: Iterable[str] | None) -> None:
        """Something else may be attached for these claims now; None = for any."""
        if claims is None:
            self._changed.update(dict.fromkeys(self._per_row))
            return
        for claim in claims:
            self._changed.update(dict.fromkeys(self.claims.get(claim, ())))

    def limits(self, driver: str, size: int) -> IntColumn | None:
        """Most volumes per row; None = none has a limit."""
        column = self._limits.get(driver)
        return None if column is None else _padded(column, size, NO_LIMIT)

    def used(self, driver: str, size: int) -> IntColumn:
        """Volumes that are attached per row, for pods or otherwise; a copy."""
        self._count()
        return _padded(self._used.get(driver), size, 0).copy()

    def on(self, row: int) -> frozenset[Handle]:
        """Volumes that pods have attached to the row."""
        self._count()
        return self._on.get(row, _NOTHING)

    def on_with(self, row: int, more: Mapping[Volumes, int]) -> tuple[frozenset[Handle], Counter[str]]:
        """What pods would have attached to the row if so many more were there, and how many volumes by driver."""
        claims, own = self._per_row.get(row, Counter[str]()).copy(), self._own.get(row, Counter[Handle]()).copy()
        for volumes, count in more.items():
            for claim in dict.fromkeys(volumes.claims):
                claims[claim] += count
            for handle in dict.fromkeys(volumes.attached):
                own[handle] += count
        by_pods = self._handles(claims, own)
        return by_pods, self._by_driver(row, by_pods)

    def rows_with(self, handles: Iterable[Handle]) -> dict[int, int]:
        """Rows where pods have some of these attached, and how many of them."""
        self._count()
        return Counter(row for handle in handles for row in self._where.get(handle, ()))

    def _count(self) -> None:
        for row in self._changed:
            before, by_pods = self._on.pop(row, _NOTHING), self._handles(self._per_row.get(row), self._own.get(row))
            if by_pods:
                self._on[row] = by_pods
            for handle in before - by_pods:
                del self._where[handle][row]
                if not self._where[handle]:
                    del self._where[handle]
            for handle in by_pods - before:
                self._where.setdefault(handle, {})[row] = None
            now = self._by_driver(row, by_pods)
            for driver in {*now, *(handle.driver for handle in before), *self._used}:
                column = self._used[driver] = _reaching(self._used.get(driver), row, 0)
                column[row] = now[driver]
        self._changed.clear()

    def _handles(self, claims: Mapping[str, int] | None, own: Mapping[Handle, int] | None) -> frozenset[Handle]:
        resolved = (self.storage.handle(claim) for claim, count in (claims or {}).items() if count > 0)
        return frozenset(
            (*(one for one in resolved if one is not None), *(one for one, n in (own or {}).items() if n > 0))
        )

    def _by_driver(self, row: int, by_pods: frozenset[Handle]) -> Counter[str]:
        told = self._spots.get(row)
        return Counter(handle.driver for handle in (by_pods.union(told.attached) if told else by_pods))


def _change(index: dict[Key, dict[int, int]], key: Key, row: int, count: int) -> None:
    rows = index.setdefault(key, {})
    rows[row] = rows.get(row, 0) + count
    if not rows[row]:
        del rows[row]
    if not rows:
        del index[key]


def _add(index: dict[int, Counter[Key]], row: int, key: Key, count: int) -> None:
    there = index.setdefault(row, Counter())
    there[key] += count
    if not there[key]:
        del there[key]
    if not there:
        del index[row]


def _reaching(column: IntColumn | None, row: int, filler: int) -> IntColumn:
    """A column that has the row."""
    length = 0 if column is None else len(column)
    return _padded(column, length if row < length else room_for(length, row + 1), filler)


def _padded(column: IntColumn | None, size: int, filler: int) -> IntColumn:
    """The first rows of a column, those that it does not have with the filler."""
    if column is not None and len(column) >= size:
        return column[:size]
    padded = np.full(size, filler, dtype=np.int64)
    if column is not None:
        padded[: len(column)] = column
    return padded
