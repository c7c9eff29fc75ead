"""Volumes, claims and storage classes of a partition, and the volumes that plans assume for unbound claims."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, assert_never

import numpy as np

from muster_core.model.constraints import Selector, Term, matches
from muster_core.model.ids import NodeId
from muster_core.model.storage import (
    AVAILABLE,
    Bytes,
    Choice,
    Claim,
    ClaimDemand,
    ObjectGone,
    ObjectKind,
    StorageCapacity,
    StorageClass,
    StorageDriver,
    StorageFact,
    Volume,
    VolumeHandle,
)
from muster_core.state import indexes
from muster_core.state.columns import BoolColumn, IntColumn
from muster_core.state.indexes import EpochCache

#: Node affinity of a volume.
Affinity = tuple[Term, ...] | None

#: Function that returns the rows that a node affinity allows.
Reach = Callable[[Affinity], BoolColumn]

#: Number of sizes with cached columns. If it is exceeded, the cache is cleared.
_MOST_SIZES: Final = 64

#: A group that more rows can access is not indexed by row.
_MANY: Final = 64


def meets(volume: Volume, demand: ClaimDemand) -> bool:
    """Whether a volume meets a demand except for its size, as in FindMatchingVolume of Kubernetes 1.37."""
    return (
        volume.storage_class == demand.storage_class
        and volume.mode == demand.mode
        and volume.attributes_class == demand.attributes_class
        and set(demand.access_modes) <= set(volume.access_modes)
        and (demand.selector is None or matches(demand.selector, dict(volume.labels)))
    )


class VolumePool:
    """The free volumes that meet one demand. `groups`: (capacity, name) by node affinity, smallest first."""

    def __init__(self) -> None:
        self.groups: dict[Affinity, list[tuple[Bytes, str]]] = {}
        self._members: dict[str, tuple[Bytes, Affinity]] = {}
        #: By size: number of volumes of at least this size per row, valid for the node properties of `_epoch`.
        self._covers: dict[Bytes, IntColumn] = {}
        self._epoch = -1
        #: Volumes that were added (1) or removed (-1) since the columns were computed.
        self._changes: list[tuple[Bytes, Affinity, int]] = []
        #: Groups by the rows that can access them, groups that many rows can access, and new groups. Some may be empty.
        self._reachable: dict[int, dict[Affinity, None]] = {}
        self._wide: dict[Affinity, None] = {}
        self._unsorted: list[Affinity] = []
        self._reachable_epoch = -1

    def put(self, name: str, volume: Volume | None) -> None:
        """Adds or updates the volume; None = removes it."""
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

    def cover(self, size: Bytes, epoch: int, reach: Reach, rows: int) -> IntColumn:
        """Returns the number of volumes of at least this size per row, read-only. `epoch`: of the node properties."""
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

    def reachable(self, row: int, epoch: int, reach: Reach) -> list[Affinity]:
        """Returns the groups that the row can access."""
        if epoch != self._reachable_epoch:
            self._reachable.clear()
            self._wide.clear()
            self._unsorted = list(self.groups)
            self._reachable_epoch = epoch
        for affinity in self._unsorted:
            rows = np.flatnonzero(reach(affinity))
            if len(rows) > _MANY:
                self._wide[affinity] = None
                continue
            for reached in rows.tolist():
                self._reachable.setdefault(reached, {})[affinity] = None
        self._unsorted.clear()
        wide = (affinity for affinity in self._wide if reach(affinity)[row])
        return [affinity for affinity in (*self._reachable.get(row, {}), *wide) if affinity in self.groups]

    def of_size(self, affinity: Affinity, size: Bytes) -> Iterator[tuple[Bytes, str]]:
        """Yields the volumes of a group with at least this size, smallest first."""
        group = self.groups[affinity]
        return islice(group, bisect_left(group, (size, "")), None)

    def offer(self, name: str) -> tuple[Bytes, Affinity] | None:
        """Returns capacity and node affinity of a volume in the pool, or None."""
        return self._members.get(name)

    def members(self) -> dict[str, tuple[Bytes, Affinity]]:
        """Returns a copy of the content, for the invariant checks."""
        return dict(self._members)


#: Number of cached results of placement/volumes: rows of node affinities and selectors, and of volume sizes.
_MOST_REACHED: Final = 8192
_MOST_ROOMS: Final = 1024

#: Number of cached pools.
_MOST_POOLS: Final = 256

#: Prefix of the handle of a volume that does not exist yet. No driver uses it.
_UNMADE: Final = "\0"


@dataclass(frozen=True, slots=True)
class Assumed:
    """Planned binding of a claim: this volume, or a new one for the node if `volume` is empty."""

    volume: str
    node: NodeId


class Storage:  # long: every fact and every assumption goes through here
    """Storage objects of a partition."""

    def __init__(self) -> None:
        self.volumes: dict[str, Volume] = {}
        self.claims: dict[str, Claim] = {}
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, StorageDriver] = {}
        self._capacities: dict[str, StorageCapacity] = {}
        #: Planned bindings by claim, and the claim by planned volume.
        self.assumed: dict[str, Assumed] = {}
        self.taken: dict[str, str] = {}
        #: Incremented when a class, driver or capacity changes.
        self.epoch = 0
        #: Caches of placement/volumes with the epoch of the node properties; `rooms` also depends on `epoch`.
        self.memory: EpochCache[object, BoolColumn] = EpochCache(_MOST_REACHED)
        self.rooms: EpochCache[object, BoolColumn] = EpochCache(_MOST_ROOMS)
        #: Cached rows that the selector of a capacity matches.
        self.selected: EpochCache[Selector, IntColumn] = EpochCache(_MOST_REACHED)
        self._by_class: dict[str, dict[str, None]] = {}
        #: Volumes whose `claimRef` names a claim, by claim; and claims that name a volume, by volume.
        self._referring: dict[str, dict[str, None]] = {}
        self._users: dict[str, dict[str, None]] = {}
        self._pools: dict[ClaimDemand, VolumePool] = {}

    def update(self, fact: StorageFact) -> list[str] | None:
        """Adds, updates or removes an object. Returns the claims whose attached volume may differ now; None = all."""
        match fact:
            case Volume():
                return self._volume(fact.name, fact)
            case Claim():
                return self._claim(fact.name, fact)
            case StorageClass():
                self.classes[fact.name] = fact
            case StorageDriver():
                self.drivers[fact.name] = fact
            case StorageCapacity():
                self._capacities[fact.name] = fact
            case ObjectGone():
                return self._gone(fact)
            case _:
                assert_never(fact)
        self.epoch += 1
        return None if isinstance(fact, StorageClass) else []

    def assume(self, claim: str, volume: str, node: NodeId) -> None:
        """Assumes that the claim gets this volume, or a new one for the node if `volume` is empty."""
        self.forget(claim)
        self.assumed[claim] = Assumed(volume, node)
        if volume:
            self.taken[volume] = claim
            self._offer(volume)

    def forget(self, claim: str) -> None:
        """Removes the assumption about the claim."""
        before = self.assumed.pop(claim, None)
        if before is not None and before.volume:
            del self.taken[before.volume]
            self._offer(before.volume)

    def is_open(self, claim: str) -> bool:
        """Whether the claim exists and is not bound."""
        found = self.claims.get(claim)
        return found is not None and not found.is_bound

    def is_free(self, volume: str, claim: str) -> bool:
        """Whether the volume is available to the claim, by its objects and by the assumptions."""
        found = self.volumes.get(volume)
        if found is None or self.taken.get(volume, claim) != claim:
            return False
        return found.reference is None or found.reference.claim == claim

    def choice(self, claims: Iterable[str]) -> Choice:
        """Returns the assumed volumes of those of the claims that are not bound."""
        wanted = (claim for claim in dict.fromkeys(claims) if claim in self.assumed)
        return tuple((claim, self.assumed[claim].volume) for claim in wanted if not self.claims[claim].is_bound)

    def handle(self, claim: str) -> VolumeHandle | None:
        """Returns the volume that a node attaches for the claim, as in getCSIDriverInfo of Kubernetes 1.37.

        None = nothing that counts towards attach limits.
        """
        found = self.claims.get(claim)
        if found is None:
            return None
        volume = self.volumes.get(found.volume) if found.volume else None
        if volume is not None:
            return volume.handle if volume.handle and volume.handle.driver and volume.handle.id else None
        of_class = self.classes.get(found.demand.storage_class)
        return VolumeHandle(of_class.driver, _UNMADE + claim) if of_class is not None and of_class.driver else None

    def is_in_tree(self, claim: str) -> bool:
        """Whether the handle of the claim is that of an in-tree volume or class. Requires that it has one."""
        found = self.claims[claim]
        volume = self.volumes.get(found.volume) if found.volume else None
        if volume is not None:
            return volume.is_in_tree
        of_class = self.classes[found.demand.storage_class]
        return of_class.driver != of_class.provisioner

    def pool(self, demand: ClaimDemand) -> VolumePool:
        """Returns the free volumes that meet a demand."""
        return indexes.cached(self._pools, demand, _MOST_POOLS, lambda: self._new_pool(demand))

    def _new_pool(self, demand: ClaimDemand) -> VolumePool:
        pool = VolumePool()
        for name in self._by_class.get(demand.storage_class, ()):
            pool.put(name, self._free(name, demand))
        return pool

    def pools(self) -> Mapping[ClaimDemand, VolumePool]:
        """The cached pools."""
        return self._pools

    def referring(self, claim: str) -> list[str]:
        """Returns the sorted names of the volumes whose `claimRef` names the claim."""
        return sorted(self._referring.get(claim, ()))

    def capacities(self, storage_class: str) -> Iterator[StorageCapacity]:
        """Yields the capacities of a storage class."""
        return (one for one in self._capacities.values() if one.storage_class == storage_class)

    def _volume(self, name: str, volume: Volume | None) -> list[str]:
        before = self.volumes.pop(name, None)
        if before is not None:
            indexes.remove(self._by_class, before.storage_class, name)
            if before.reference is not None:
                indexes.remove(self._referring, before.reference.claim, name)
        if volume is not None:
            self.volumes[name] = volume
            self._by_class.setdefault(volume.storage_class, {})[name] = None
            if volume.reference is not None:
                self._referring.setdefault(volume.reference.claim, {})[name] = None
        self._offer(name, before)
        if name in self.taken:
            self._settle(self.taken[name])
        return list(self._users.get(name, ()))

    def _claim(self, name: str, claim: Claim | None) -> list[str]:
        before = self.claims.pop(name, None)
        if before is not None and before.volume:
            indexes.remove(self._users, before.volume, name)
        if claim is not None:
            self.claims[name] = claim
            if claim.volume:
                self._users.setdefault(claim.volume, {})[name] = None
        self._settle(name)
        return [name]

    def _settle(self, name: str) -> None:
        """Removes the assumption about a claim that was deleted, is bound to another volume, or is completely bound.

        Claim and volume are reported separately. Until both are bound, the volume must not look free.
        """
        assumed, claim = self.assumed.get(name), self.claims.get(name)
        if assumed is None or (claim is not None and not claim.is_bound):
            return
        volume = self.volumes.get(assumed.volume)
        if claim is None or claim.volume != assumed.volume or volume is None or volume.reference is not None:
            self.forget(name)

    def _gone(self, fact: ObjectGone) -> list[str] | None:
        match fact.kind:
            case ObjectKind.VOLUME:
                return self._volume(fact.name, None)
            case ObjectKind.CLAIM:
                return self._claim(fact.name, None)
            case ObjectKind.CLASS:
                self.classes.pop(fact.name, None)
            case ObjectKind.DRIVER:
                self.drivers.pop(fact.name, None)
            case ObjectKind.CAPACITY:
                self._capacities.pop(fact.name, None)
            case _:
                assert_never(fact.kind)
        self.epoch += 1
        return None if fact.kind is ObjectKind.CLASS else []

    def _offer(self, name: str, before: Volume | None = None) -> None:
        """Updates a volume in the pools of its storage class."""
        now = self.volumes.get(name)
        classes = {one.storage_class for one in (now, before) if one is not None}
        for demand, pool in self._pools.items():
            if demand.storage_class in classes:
                pool.put(name, self._free(name, demand))

    def _free(self, name: str, demand: ClaimDemand) -> Volume | None:
        volume = self.volumes.get(name)
        if volume is None or name in self.taken or volume.reference is not None:
            return None
        is_offered = volume.phase == AVAILABLE and not volume.deleting
        return volume if is_offered and meets(volume, demand) else None
