"""What is in use: devices, shares of their capacity, and counters that the devices of a pool share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from muster_core.model.devices import Counters, DeviceAllocation, DeviceId, DeviceSlice, PoolId

#: CounterAmounts in billionths by counter set and counter.
CounterAmounts = Mapping[tuple[str, str], int]


#: Number of shares of a device, beside what they take of its capacities.
SHARES: Final = ""


def add_use(
    whole: dict[DeviceId, int], shared: dict[DeviceId, Counter[str]], allocation: DeviceAllocation, count: int
) -> dict[PoolId, None]:
    """Counts an allocation so many times. Returns the pools of devices of which the use has changed."""
    changed: dict[PoolId, None] = {}
    for result in allocation.results:
        device = result.device
        if result.admin:
            continue
        if result.consumed is None:
            before = whole.pop(device, 0)
            if before + count:
                whole[device] = before + count
            if before and before + count:
                continue
        else:
            taken = shared.setdefault(device, Counter())
            for name, amount in ((SHARES, 1), *result.consumed):
                taken[name] += count * amount
            if not any(taken.values()):
                del shared[device]
        changed[PoolId(device.driver, device.pool)] = None
    return changed


@dataclass(frozen=True, slots=True, eq=False)
class PoolCounters:
    """The counters of a pool, and what its devices consume of them, whatever nodes can access the devices.

    `is_invalid`: slices have equal counter sets, or a device consumes a counter that there is not.
    """

    pool: PoolId
    amounts: CounterAmounts
    consumers: Mapping[DeviceId, Counters]
    is_invalid: bool = False

    def left(self, use: DeviceUse) -> CounterAmounts:
        """Returns what the devices in use leave. If they consume too much of one counter, no counter is left."""
        left = dict(self.amounts)
        for device, consumed in self.consumers.items():
            if use.is_used(device) or use.shares(device) is not None:
                for counter, amount in consumed:
                    left[counter] -= amount
        return dict.fromkeys(left, -1) if min(left.values(), default=0) < 0 else left

    def is_exceeded(self, available: CounterAmounts, devices: Iterable[DeviceId]) -> bool:
        """Whether these devices together consume more than is available."""
        total = Counter[tuple[str, str]]()
        for device in devices:
            for counter, amount in self.consumers.get(device, ()):
                total[counter] += amount
        return any(amount > available[counter] for counter, amount in total.items())


class DeviceUse(Protocol):
    """What is in use, as it is or as planned."""

    def is_used(self, device: DeviceId) -> bool:
        """Whether a claim has the whole device."""

    def shares(self, device: DeviceId) -> Mapping[str, int] | None:
        """Returns what shares of the device take of its capacities; None = it has none."""

    def available(self, counters: PoolCounters) -> CounterAmounts:
        """Returns what is left of the counters."""


def shared_counters(pool: PoolId, slices: Iterable[DeviceSlice]) -> PoolCounters:
    """Returns the counters of all slices of a pool."""
    amounts: dict[tuple[str, str], int] = {}
    consumers: dict[DeviceId, Counters] = {}
    names: list[str] = []
    for one in slices:
        names += {name for (name, _), _ in one.counters}
        amounts.update(one.counters)
        for device in one.devices if not one.counters else ():
            if device.consumes:
                name = DeviceId(*pool, device.name)
                consumers[name] = consumers.get(name, ()) + device.consumes
    is_known = all(counter in amounts for consumed in consumers.values() for counter, _ in consumed)
    return PoolCounters(pool, amounts, consumers, not is_known or len(set(names)) < len(names))
