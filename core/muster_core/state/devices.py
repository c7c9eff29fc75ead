"""Device slices, classes and claims of a partition, the devices in use, and those that plans assume for claims.

A device is in use while the allocation of a claim has it, or while a pod on a node waits for its claim to show the
devices that were chosen for it. Rows of the node table that can access the same slices share one view of the devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from muster_core.model.devices import (
    CONSUMERS_PER_CLAIM,
    UNREACHABLE,
    ChosenDevices,
    Device,
    DeviceAllocation,
    DeviceChoice,
    DeviceClaim,
    DeviceClass,
    DeviceFact,
    DeviceId,
    DeviceObject,
    DeviceObjectGone,
    DeviceSlice,
    NodeAccess,
    PodClaim,
    PoolId,
)
from muster_core.model.ids import NodeId
from muster_core.state.columns import BoolColumn, IntColumn, Rows
from muster_core.state.device_use import SHARES, CounterAmounts, PoolCounters, add_use, shared_counters

#: Function that returns the rows of the nodes that can access something.
Reacher = Callable[[NodeAccess], BoolColumn]

#: Changes of use that are recorded; after more of them, all cached answers are dropped.
_MOST_CHANGES: Final = 4096

#: Views that are kept: for each present one, and in addition.
_MOST_VIEWS_PER_PRESENT: Final = 8
_SPARE_VIEWS: Final = 1024


@dataclass(slots=True)
class DeviceChanges:
    """What may have made devices available, since the reader has emptied it."""

    claims: dict[str, None] = field(default_factory=dict)
    classes: dict[str, None] = field(default_factory=dict)
    pools: dict[PoolId, None] = field(default_factory=dict)

    def clear(self) -> None:
        """Forgets the changes."""
        self.claims.clear()
        self.classes.clear()
        self.pools.clear()


@dataclass(frozen=True, slots=True, eq=False)
class DeviceCandidate:
    """A device of a view. `reach`: nodes that can access it. `counters`: those of its pool if it consumes some."""

    id: DeviceId
    device: Device
    reach: NodeAccess
    counters: PoolCounters | None = None


#: Sets of selectors whose results are kept for a pool.
_MOST_SELECTORS: Final = 64


@dataclass(frozen=True, slots=True, eq=False)
class PoolView:
    """The devices of one pool that some rows can access, until the pool changes. Pools with conditions come last.

    A pool that is incomplete or invalid has none that can be allocated. Caches of placement/devices: `memory`, the
    results of selectors by device, and `local`, the devices of a class that only the node of this view can access.
    """

    id: PoolId
    candidates: tuple[DeviceCandidate, ...] = ()
    is_incomplete: bool = False
    is_invalid: bool = False
    has_conditions: bool = False
    memory: dict[object, list[object]] = field(default_factory=dict)
    local: dict[object, list[DeviceId]] = field(default_factory=dict)

    def results(self, selectors: object) -> list[object]:
        """Returns the results of selectors by position of the device, None = not known yet. The list is updated."""
        known = self.memory.get(selectors)
        if known is None:
            if len(self.memory) >= _MOST_SELECTORS:
                self.memory.clear()
            known = self.memory[selectors] = [None] * len(self.candidates)
        return known


class DeviceView:
    """Pools in the order of the search: those that some rows can access, or those of them that matter for a demand."""

    __slots__ = ("_candidates", "id", "pools")

    def __init__(self, number: int, pools: tuple[PoolView, ...]) -> None:
        self.id, self.pools = number, pools
        self._candidates: tuple[DeviceCandidate, ...] | None = None

    @property
    def candidates(self) -> tuple[DeviceCandidate, ...]:
        """The devices of all pools, in the order of the search."""
        if self._candidates is None:
            self._candidates = tuple(device for pool in self.pools for device in pool.candidates)
        return self._candidates


CANNOT: Final = "cannot allocate all claims"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the claims cannot be allocated in a view.

    `is_fatal`: on no node, because a claim or class is wrong. `is_cut`: the search was ended before it was complete.
    """

    text: str = CANNOT
    is_fatal: bool = False
    is_cut: bool = False


@dataclass(slots=True, eq=False)
class Answers:
    """Cache of placement/devices: whether some demands can be met.

    Rows whose views have the same pools that matter for the demands, share one answer. `group_of`: by number of the
    view, that of the view of these pools; -1 = not known yet. `codes`: answers by number of this view. `by_pool`: such
    views by pool. `seen`: entries of the log that the codes include. `fatal`: a view of which the refusal holds for all
    nodes. `cut`: views whose searches were not complete, and `looks`: how often the answers were read.
    """

    group_of: IntColumn
    codes: IntColumn
    by_pool: dict[PoolId, dict[int, None]] = field(default_factory=dict)
    matters: dict[PoolView, bool] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    seen: int = 0
    fatal: tuple[int, Refusal] | None = None
    cut: list[int] = field(default_factory=list)
    looks: int = 0

    def planned(self) -> Answers:
        """Returns the answers of a plan, which so far are the same."""
        return replace(self, codes=self.codes.copy(), refusals=list(self.refusals), seen=0, cut=[])


#: A slice that a row can access, and the reach of those of its devices that it can access; None = all devices.
_Part = tuple[str, NodeAccess | None]


@dataclass(slots=True)
class _Pool:
    """All slices of a pool. `epoch`: number of the last change. `counters`: of the slices in `counted`."""

    slices: dict[str, DeviceSlice] = field(default_factory=dict)
    epoch: int = 0
    counted: list[DeviceSlice] = field(default_factory=list)
    counters: PoolCounters | None = None

    def count(self, pool: PoolId, slices: list[DeviceSlice]) -> PoolCounters:
        """Returns the counters of these slices."""
        if self.counters is None or self.counted != slices:
            self.counters, self.counted = shared_counters(pool, slices), slices
        return self.counters


class Devices:  # long: every fact and every assumption goes through here
    """Devices of a partition."""

    __slots__ = (
        "_available",
        "_built",
        "_by_node",
        "_epoch",
        "_known",
        "_pool_views",
        "_pools",
        "_shared",
        "_users",
        "answers",
        "assumed",
        "changes",
        "claims",
        "classes",
        "explained",
        "log",
        "log_number",
        "present",
        "shared",
        "slices",
        "used",
        "view_of",
        "views",
    )

    def __init__(self) -> None:
        self.slices: dict[str, DeviceSlice] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.claims: dict[str, DeviceClaim] = {}
        #: Devices chosen for claims that do not show them yet, by claim; the number of claims that have a whole device;
        #: and what claims have of shared ones.
        self.assumed: dict[str, ChosenDevices] = {}
        self.used: dict[DeviceId, int] = {}
        self.shared: dict[DeviceId, Counter[str]] = {}
        #: Number of pods on nodes that use a claim.
        self._users: dict[str, int] = {}
        self._pools: dict[PoolId, _Pool] = {}
        #: What is left of the counters of pools, until a device of the pool is taken or freed.
        self._available: dict[PoolId, tuple[PoolCounters, CounterAmounts]] = {}
        #: Slices that are local to a node, by node; and all others that some node can access.
        self._by_node: dict[NodeId, dict[str, None]] = {}
        self._shared: dict[str, None] = {}
        self._epoch = 0
        self._built: tuple[int, int] = (-1, -1)
        #: The number of each row's view; the present ones; all views by number; and those by their pools.
        self.view_of: IntColumn = np.zeros(0, dtype=np.int64)
        self.present: IntColumn = np.zeros(0, dtype=np.int64)
        self.views: list[DeviceView] = []
        self._known: dict[tuple[PoolView, ...], DeviceView] = {}
        self._pool_views: dict[object, PoolView | None] = {}
        #: Cache of placement/devices. Entries are valid except for pools in `log` that follow the last one seen.
        self.answers: dict[object, Answers] = {}
        self.log: list[PoolId] = []
        self.log_number = 0
        #: Cache of placement/devices: explanations by demands, each with the version that it holds for.
        self.explained: dict[object, tuple[object, str]] = {}
        self.changes = DeviceChanges()

    def update(self, fact: DeviceFact) -> None:
        """Adds, updates or removes an object, and notes in `changes` what may be available now."""
        match fact:
            case DeviceSlice():
                self._slice(fact.name, fact)
            case DeviceClass():
                self._class(fact.name, fact)
            case DeviceClaim():
                self._claim(fact.name, fact)
            case DeviceObjectGone(DeviceObject.SLICE, name):
                self._slice(name, None)
            case DeviceObjectGone(DeviceObject.CLASS, name):
                self._class(name, None)
            case DeviceObjectGone(_, name):
                self._claim(name, None)

    def use(self, claims: Iterable[PodClaim], count: int) -> None:
        """Adds `count` pods on nodes with these claims; a negative count removes.

        When no pod uses a claim any more, the devices that were assumed for it are free.
        """
        for one in claims:
            left = self._users.get(one.claim, 0) + count
            if left:
                self._users[one.claim] = left
            else:
                self._users.pop(one.claim, None)
                self.forget(one.claim)

    def users(self) -> Mapping[str, int]:
        """Number of pods on nodes by claim, for the invariant checks."""
        return self._users

    def assume(self, chosen: ChosenDevices) -> None:
        """Assumes that the claim gets these devices."""
        self.forget(chosen.claim)
        self.assumed[chosen.claim] = chosen
        self._count(chosen.allocation, 1)

    def forget(self, claim: str) -> None:
        """Removes the assumption about the claim."""
        before = self.assumed.pop(claim, None)
        if before is not None:
            self._count(before.allocation, -1)

    def allocation(self, one: PodClaim) -> DeviceAllocation | None:
        """Returns the allocation of a claim, as it shows or as it is assumed; None = it has none."""
        claim = self.claims.get(one.claim)
        if claim is not None and claim.allocation is not None:
            return claim.allocation
        assumed = self.assumed.get(one.claim)
        return None if assumed is None else assumed.allocation

    def choice(self, claims: Iterable[PodClaim]) -> DeviceChoice:
        """Returns the assumed devices of those of the claims that do not show them yet."""
        return tuple(self.assumed[one.claim] for one in claims if one.claim in self.assumed)

    def conflict(self, choice: DeviceChoice) -> str:
        """Returns why claims cannot get the chosen devices any more; empty = they can, or are assumed to have them."""
        whole: dict[DeviceId, int] = {}
        shared: dict[DeviceId, Counter[str]] = {}
        for chosen in choice:
            claim, assumed = self.claims.get(chosen.claim), self.assumed.get(chosen.claim)
            if claim is None or claim.uid != chosen.uid or claim.deleting or claim.allocation is not None:
                return f"claim {chosen.claim} is gone or allocated"
            if assumed is None:
                add_use(whole, shared, chosen.allocation, 1)
            elif assumed != chosen:
                return f"claim {chosen.claim} gets other devices"
        for device, count in whole.items():
            if count > 1 or device in self.used or device in self.shared or device in shared:
                return f"device {device} is not free any more"
        for device, more in shared.items():
            taken = more + self.shared.get(device, Counter())
            of_name = (one for one in self.devices_of(PoolId(*device[:2])) if one.name == device.device)
            if device in self.used or any(taken[name] > value for one in of_name for name, value, *_ in one.limits):
                return f"the capacity of device {device} is not free any more"
        new = [*whole, *(device for device in shared if device not in self.shared)]
        for pool in dict.fromkeys(PoolId(*one[:2]) for one in new):
            counters = self._pools[pool].counters if pool in self._pools else None
            if counters is not None and counters.is_invalid:
                return f"pool {pool} is invalid"
            if counters is not None and counters.is_exceeded(self.available(counters), new):
                return f"the counters of pool {pool} are not free any more"
        return ""

    def is_used(self, device: DeviceId) -> bool:
        """Whether a claim has the whole device."""
        return device in self.used

    def shares(self, device: DeviceId) -> Mapping[str, int] | None:
        """Returns what shares of the device take of its capacities; None = it has none."""
        return self.shared.get(device)

    def available(self, counters: PoolCounters) -> CounterAmounts:
        """Returns what is left of the counters of a pool."""
        known = self._available.get(counters.pool)
        if known is None or known[0] is not counters:
            known = self._available[counters.pool] = counters, counters.left(self)
        return known[1]

    @property
    def version(self) -> object:
        """A value that differs when views, classes or devices in use have changed."""
        return self._built, self.log_number, len(self.log)

    def devices_of(self, pool: PoolId) -> Iterator[Device]:
        """Yields all devices of a pool, whatever their generation."""
        found = self._pools.get(pool)
        for one in found.slices.values() if found is not None else ():
            yield from one.devices

    def build_views(self, nodes_epoch: int, rows: Rows, reach: Reacher) -> None:
        """Updates `views` and `view_of`. `reach`: valid for the node properties of the epoch."""
        if self._built == (nodes_epoch, self._epoch):
            return
        patterns, codes = self._patterns(rows.size, reach)
        local = {rows.row(node): node for node in self._by_node if node in rows}
        if len(self.views) > _MOST_VIEWS_PER_PRESENT * len(self.present) + _SPARE_VIEWS:
            self._drop_views()
        shared = [self._view(pattern).id for pattern in patterns]
        self.view_of = np.array(shared, dtype=np.int64)[codes]
        for row, node in local.items():
            parts = (*((name, None) for name in self._by_node[node]), *patterns[codes[row]])
            self.view_of[row] = self._view(parts).id
        self.present = np.unique(self.view_of)
        self._built = nodes_epoch, self._epoch

    def _patterns(self, size: int, reach: Reacher) -> tuple[list[tuple[_Part, ...]], IntColumn]:
        """Returns the different sets of shared parts that rows can access, and for each row the number of its set."""
        codes: IntColumn = np.zeros(size, dtype=np.int64)
        patterns: list[tuple[_Part, ...]] = [()]
        for name in self._shared:
            of_slice = self.slices[name]
            reaches = [of_slice.reach] if of_slice.reach else dict.fromkeys(one.reach for one in of_slice.devices)
            for one in reaches:
                part: _Part = (name, None if of_slice.reach else one)
                has = reach(one)
                if has.all():
                    patterns = [(*pattern, part) for pattern in patterns]
                elif has.any():
                    kept, codes = np.unique(2 * codes + has, return_inverse=True)
                    found = [(patterns[code // 2], code % 2) for code in kept.tolist()]
                    patterns = [(*pattern, part) if is_more else pattern for pattern, is_more in found]
        return patterns, codes

    def view(self, pools: tuple[PoolView, ...]) -> DeviceView:
        """Returns the view of these pools."""
        known = self._known.get(pools)
        if known is None:
            known = self._known[pools] = DeviceView(len(self.views), pools)
            self.views.append(known)
        return known

    def _view(self, parts: tuple[_Part, ...]) -> DeviceView:
        pools: dict[PoolId, list[_Part]] = {}
        for part in parts:
            pools.setdefault(self.slices[part[0]].pool, []).append(part)
        found: list[PoolView] = []
        for pool, some in sorted(pools.items()):
            key = pool, self._pools[pool].epoch, tuple(some)
            if key not in self._pool_views:
                self._pool_views[key] = self._pool_view(pool, some)
            if (one := self._pool_views[key]) is not None:
                found.append(one)
        found.sort(key=lambda one: one.has_conditions)
        return self.view(tuple(found))

    def _pool_view(self, pool: PoolId, parts: list[_Part]) -> PoolView | None:
        """Returns the devices of a pool, as in GatherPools of Kubernetes 1.37. None = the pool is being replaced."""
        all_slices = self._pools[pool].slices
        reaches: dict[str, dict[NodeAccess | None, None]] = {}
        for name, reach in parts:
            reaches.setdefault(name, {})[reach] = None
        newest = max(self.slices[name].generation for name in reaches)
        slices = [self.slices[name] for name in sorted(reaches) if self.slices[name].generation == newest]
        if len(slices) != slices[0].count:
            if any(one.generation > newest for one in all_slices.values()):
                return None
            if sum(one.generation == newest for one in all_slices.values()) != slices[0].count:
                return PoolView(pool, is_incomplete=True)
        names = [device.name for one in slices for device in one.devices if not one.counters]
        is_whole = len(slices) == slices[0].count
        every = slices if is_whole else [one for one in all_slices.values() if one.generation == newest]
        counters = self._pools[pool].count(pool, every)
        if len(set(names)) < len(names) or counters.is_invalid:
            return PoolView(pool, is_invalid=True)
        return PoolView(
            pool,
            tuple(
                DeviceCandidate(
                    DeviceId(*pool, device.name),
                    device,
                    one.reach or device.reach,
                    counters if device.consumes else None,
                )
                for one in slices
                if not one.counters
                for device in one.devices
                if one.reach is not None or device.reach in reaches[one.name]
            ),
            has_conditions=any(device.binding.required for one in slices for device in one.devices),
        )

    def _drop_views(self) -> None:
        self._known.clear()
        self._pool_views.clear()
        self.views.clear()
        self._forget_answers()

    def _forget_answers(self) -> None:
        self.answers.clear()
        self.log.clear()
        self.log_number += 1

    def _slice(self, name: str, new: DeviceSlice | None) -> None:
        old = self.slices.pop(name, None)
        if old is not None:
            pool = self._pools[old.pool]
            del pool.slices[name]
            self._shared.pop(name, None)
            if old.reach is not None and old.reach.node is not None:
                del self._by_node[old.reach.node][name]
                if not self._by_node[old.reach.node]:
                    del self._by_node[old.reach.node]
        if new is not None:
            self.slices[name] = new
            self._pools.setdefault(new.pool, _Pool()).slices[name] = new
            if new.reach is not None and new.reach.node is not None:
                self._by_node.setdefault(new.reach.node, {})[name] = None
            elif new.reach != UNREACHABLE:
                self._shared[name] = None
        self._epoch += 1
        for changed in dict.fromkeys(one.pool for one in (old, new) if one is not None):
            self._pools[changed].epoch = self._epoch
            if not self._pools[changed].slices:
                del self._pools[changed]
                self._available.pop(changed, None)
            self.changes.pools[changed] = None

    def _class(self, name: str, new: DeviceClass | None) -> None:
        self.classes.pop(name, None)
        if new is not None:
            self.classes[name] = new
        self.changes.classes[name] = None
        self._forget_answers()

    def _claim(self, name: str, new: DeviceClaim | None) -> None:
        old = self.claims.pop(name, None)
        if new is not None:
            self.claims[name] = new
            if new.allocation is not None:
                self._count(new.allocation, 1)
        if old is not None and old.allocation is not None:
            self._count(old.allocation, -1)
        assumed = self.assumed.get(name)
        if assumed is not None and (new is None or new.uid != assumed.uid or new.allocation is not None):
            self.forget(name)
        self.changes.claims[name] = None

    def _count(self, allocation: DeviceAllocation, count: int) -> None:
        for pool in add_use(self.used, self.shared, allocation, count):
            self.log.append(pool)
            self._available.pop(pool, None)
            if count < 0:
                self.changes.pools[pool] = None
        if len(self.log) > _MOST_CHANGES:
            self._forget_answers()


class PlannedDevices:
    """What-if view of devices: those that a plan chooses for claims, on top of the real state."""

    __slots__ = (
        "_available",
        "_counts",
        "_devices",
        "_gone",
        "_ours",
        "_shared",
        "_whole",
        "log",
        "overlays",
        "steps",
    )

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._ours: dict[str, ChosenDevices] = {}
        #: Number of planned pods that use the claim.
        self._counts: dict[str, int] = {}
        #: Number of pods on nodes that the plan removes, by claim.
        self._gone: dict[str, int] = {}
        #: How the plan changes the use of devices. Claims that no other pod uses give theirs back.
        self._whole: dict[DeviceId, int] = {}
        self._shared: dict[DeviceId, Counter[str]] = {}
        #: Steps that searches for this plan have taken.
        self.steps = 0
        #: Pools of which the plan took or returned devices; and a cache of placement/devices for them.
        self.log: list[PoolId] = []
        self.overlays: dict[object, Answers] = {}
        #: What is left of the counters of pools after so many entries of the log.
        self._available: dict[PoolCounters, tuple[int, CounterAmounts]] = {}

    def allocation(self, one: PodClaim) -> DeviceAllocation | None:
        """Returns the allocation of a claim as it shows, as it is assumed, or as planned; None = it has none."""
        ours = self._ours.get(one.claim)
        return self._devices.allocation(one) if ours is None else ours.allocation

    def is_used(self, device: DeviceId) -> bool:
        """Whether a claim or this plan has the whole device."""
        return self._devices.used.get(device, 0) + self._whole.get(device, 0) > 0

    def shares(self, device: DeviceId) -> Mapping[str, int] | None:
        """Returns what shares of the device take of its capacities; None = it has none."""
        real, changed = self._devices.shared.get(device), self._shared.get(device)
        if changed is None:
            return real
        total = Counter(real)
        total.update(changed)
        return total if total[SHARES] else None

    def available(self, counters: PoolCounters) -> CounterAmounts:
        """Returns what is left of the counters of a pool."""
        if not self.log:
            return self._devices.available(counters)
        known = self._available.get(counters)
        if known is None or known[0] != len(self.log):
            known = self._available[counters] = len(self.log), counters.left(self)
        return known[1]

    def leave(self, claims: Iterable[PodClaim], count: int) -> None:
        """Removes `count` pods on nodes that use the claims; a negative count adds them back.

        A claim that no other pod uses will be deallocated.
        """
        for one in claims:
            allocation, claim = self._devices.allocation(one), self._devices.claims.get(one.claim)
            if allocation is None or claim is None:
                continue
            users = max(self._devices.users().get(one.claim, 0), claim.reserved)
            before = self._gone.get(one.claim, 0)
            after = self._gone[one.claim] = before + count
            if (before >= users) != (after >= users):
                self._use(allocation, -1 if after >= users else 1)

    def plan(self, one: PodClaim, chosen: DeviceAllocation | None, count: int = 1) -> None:
        """Counts `count` more planned pods that use the claim. `chosen`: its devices if it has none yet."""
        if chosen is not None:
            self._ours[one.claim] = ChosenDevices(one.claim, one.uid, chosen)
            self._use(chosen, 1)
        self._counts[one.claim] = self._counts.get(one.claim, 0) + count

    def release(self, one: PodClaim, count: int = 1) -> None:
        """Counts `count` fewer planned pods that use the claim. Its devices are free with the last of them."""
        if one.claim not in self._counts:
            return
        self._counts[one.claim] -= count
        if self._counts[one.claim] <= 0:
            del self._counts[one.claim]
            ours = self._ours.pop(one.claim, None)
            if ours is not None:
                self._use(ours.allocation, -1)

    def _use(self, allocation: DeviceAllocation, count: int) -> None:
        self.log += add_use(self._whole, self._shared, allocation, count)

    def room(self, one: PodClaim) -> int:
        """Returns how many more pods may use the claim. Pods on nodes may have a reservation that it does not show."""
        claim = self._devices.claims[one.claim]
        there = max(claim.reserved, self._devices.users().get(one.claim, 0))
        return CONSUMERS_PER_CLAIM - there - self._counts.get(one.claim, 0) + one.reserved

    def choice(self, claims: Iterable[PodClaim]) -> DeviceChoice:
        """Returns the planned devices of each of the claims for which this plan chose some."""
        return tuple(self._ours[one.claim] for one in dict.fromkeys(claims) if one.claim in self._ours)

    def fork(self) -> PlannedDevices:
        """Returns an independent copy."""
        twin = PlannedDevices(self._devices)
        twin._ours, twin._counts, twin._gone = dict(self._ours), dict(self._counts), dict(self._gone)
        twin._whole = dict(self._whole)
        twin._shared = {device: Counter(taken) for device, taken in self._shared.items()}
        twin.log, twin.steps = list(self.log), self.steps
        twin.overlays = {about: replace(one, codes=one.codes.copy()) for about, one in self.overlays.items()}
        return twin
