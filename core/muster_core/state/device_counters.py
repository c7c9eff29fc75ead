"""Counters that the devices of a pool share, such as the memory of a GPU and of its partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from muster_core.model.devices import Counters, DeviceId, DeviceSlice, PoolId

#: CounterAmounts in billionths by counter set and counter.
CounterAmounts = Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True, eq=False)
class PoolCounters:
    """The counters of a pool, and what its devices consume of them, whatever nodes can access the devices.

    `is_invalid`: slices have equal counter sets, or a device consumes a counter that there is not.
    """

    pool: PoolId
    amounts: CounterAmounts
    consumers: Mapping[DeviceId, Counters]
    is_invalid: bool = False

    def available(self, is_used: Callable[[DeviceId], bool]) -> CounterAmounts:
        """Returns what the devices in use leave. If they consume too much of one counter, no counter is left."""
        left = dict(self.amounts)
        for device, consumed in self.consumers.items():
            if is_used(device):
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
        """Whether a claim has the device."""

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
