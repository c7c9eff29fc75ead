"""Invariants of devices. `invariants` calls them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from muster_core.model.devices import DeviceAllocation, DeviceId, PodClaim
from muster_core.state.devices import Devices


def broken(devices: Devices, there: Iterable[tuple[PodClaim, ...]]) -> Iterator[str]:
    """Yields the violated invariants. `there`: the device claims of each pod on a node."""
    users = Counter(one.claim for claims in there for one in claims)
    if users != devices.users():
        yield f"users of device claims are recorded as {devices.users()}, counted as {dict(users)}"
    shown = Counter(_used(claim.allocation for claim in devices.claims.values() if claim.allocation is not None))
    assumed = Counter(_used(one.allocation for one in devices.assumed.values()))
    if shown + assumed != devices.used:
        yield f"devices in use are recorded as {devices.used}, counted as {dict(shown + assumed)}"
    for device, count in assumed.items():
        if count > 1:
            yield f"device {device} is assumed for {count} claims"
    for name, one in devices.assumed.items():
        claim = devices.claims.get(name)
        if name not in users:
            yield f"devices are assumed for claim {name}, which no pod on a node uses"
        if claim is None or claim.uid != one.uid or claim.allocation is not None:
            yield f"devices are assumed for claim {name}, which is gone or allocated"


def _used(allocations: Iterable[DeviceAllocation]) -> Iterator[DeviceId]:
    return (result.device for one in allocations for result in one.results if not result.admin)
