"""The sentences of invariants.py about volumes: what is in use where, what is assumed, and what is free.

Counted anew from the allocations and asks that have a place, and from the facts as they were told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from muster_core.model.facts import Volumes
from muster_core.model.storage import AVAILABLE, Handle
from muster_core.world.pools import meets
from muster_core.world.storage import Storage
from muster_core.world.world import Partition

Key = TypeVar("Key")


def check(partition: Partition, there: Iterable[tuple[int, Volumes]]) -> Iterator[str]:
    """`there`: the volumes of everybody who has a place, with its row."""
    used = list(there)
    attachments = partition.nodes.occupants.attachments
    claims = Counter((claim, row) for row, volumes in used for claim in set(volumes.claims))
    disks = Counter((disk, row) for row, volumes in used for disk in set(volumes.disks))
    if claims != _flat(attachments.claims):
        yield f"claims in use are kept as {attachments.claims}, counted as {dict(claims)}"
    if disks != _flat(attachments.disks):
        yield f"disks in use are kept as {attachments.disks}, counted as {dict(disks)}"
    yield from _attached(partition, used)
    yield from _assumed(attachments.storage, attachments.claims)
    yield from _pools(attachments.storage)


def _flat(kept: Mapping[Key, Mapping[int, int]]) -> Counter[tuple[Key, int]]:
    return Counter({(key, row): count for key, rows in kept.items() for row, count in rows.items()})


def _attached(partition: Partition, used: list[tuple[int, Volumes]]) -> Iterator[str]:
    """Each volume of a driver counts once on a row, whether pods use it, it is attached, or both."""
    nodes = partition.nodes
    attachments = nodes.occupants.attachments
    by_pods: dict[int, set[Handle]] = {}
    for row, volumes in used:
        handles = {attachments.storage.handle(claim) for claim in volumes.claims}
        by_pods.setdefault(row, set()).update(volumes.attached, *({one} for one in handles if one is not None))
    for node in nodes:
        row, told = nodes.rows.row(node), nodes.record(node).spec.storage
        mine = by_pods.get(row, set())
        if mine != attachments.on(row):
            yield f"node {node}: volumes of pods are kept as {attachments.on(row)}, counted as {mine}"
        for driver, count in Counter(one.driver for one in mine.union(told.attached if told else ())).items():
            kept = int(attachments.used(driver, nodes.rows.size)[row])
            if kept != count:
                yield f"node {node}: volumes of {driver} are kept as {kept}, counted as {count}"


def _assumed(storage: Storage, in_use: Iterable[str]) -> Iterator[str]:
    """Only of claims that somebody uses and that are not bound to the last; each volume for one."""
    users = set(in_use)
    for claim, assumed in storage.assumed.items():
        found = storage.claims.get(claim)
        volume = storage.volumes.get(assumed.volume)
        is_done = found is None or (found.is_bound and (volume is None or volume.reference is not None))
        if claim not in users or is_done:
            yield f"claim {claim} is to get {assumed}, and nobody waits for that"
        if assumed.volume and storage.taken.get(assumed.volume) != claim:
            yield f"claim {claim} is to get {assumed.volume}, which is kept for {storage.taken.get(assumed.volume)}"
    if len(storage.taken) != sum(bool(assumed.volume) for assumed in storage.assumed.values()):
        yield f"volumes are kept for claims that do not get them: {storage.taken}"


def _pools(storage: Storage) -> Iterator[str]:
    for demand, pool in storage.pools().items():
        free = {
            name
            for name, volume in storage.volumes.items()
            if meets(volume, demand) and volume.phase == AVAILABLE and not volume.deleting
            if volume.reference is None and name not in storage.taken
        }
        if free != set(pool.members()):
            yield f"free volumes for {demand} are kept as {sorted(pool.members())}, counted as {sorted(free)}"
