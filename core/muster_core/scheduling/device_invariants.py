"""Invariants of devices. `invariants` calls them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from muster_core.model.devices import DeviceId, PodClaim
from muster_core.state.device_use import add_use
from muster_core.state.devices import Devices


def broken(devices: Devices, there: Iterable[tuple[PodClaim, ...]]) -> Iterator[str]:
    """Yields the violated invariants. `there`: the device claims of each pod on a node."""
    users = Counter(one.claim for claims in there for one in claims)
    if users != devices.users():
        yield f"users of device claims are recorded as {devices.users()}, counted as {dict(users)}"
    whole: dict[DeviceId, int] = {}
    shared: dict[DeviceId, Counter[str]] = {}
    for one in devices.assumed.values():
        add_use(whole, shared, one.allocation, 1)
    assumed, parted = dict(whole), set(shared)
    for shown in devices.claims.values():
        if shown.allocation is not None:
            add_use(whole, shared, shown.allocation, 1)
    if (whole, shared) != (devices.used, devices.shared):
        recorded = f"{devices.used} and {devices.shared}"
        yield f"devices in use are recorded as {recorded}, counted as {whole} and {shared}"
    for device, count in assumed.items():
        if count > 1:
            yield f"device {device} is assumed for {count} claims"
        if device in parted:
            yield f"device {device} is assumed as a whole and in shares"
    for name, one in devices.assumed.items():
        claim = devices.claims.get(name)
        if name not in users:
            yield f"devices are assumed for claim {name}, which no pod on a node uses"
        if claim is None or claim.uid != one.uid or claim.allocation is not None:
            yield f"devices are assumed for claim {name}, which is gone or allocated"
