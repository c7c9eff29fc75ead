"""What a request takes of the capacity of a device, as the allocator of Kubernetes 1.37 calculates it.

Amounts are in billionths. An amount that Kubernetes' arithmetic cannot represent is an error of the pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from muster_core.model.devices import Capacities, CapacityLimit, Device

_BILLION: Final = 10**9
_MILLI: Final = 10**6
_MOST: Final = 2**63 - 1


@lru_cache(maxsize=1024)
def consumption(limits: tuple[CapacityLimit, ...], requests: Capacities) -> Capacities | str | None:
    """Returns what the requests take of each capacity of a device, None if it does not have that, or an error."""
    wanted = dict(requests)
    if not wanted.keys() <= {limit.name for limit in limits}:
        return None
    taken = []
    for limit in limits:
        amount = _rounded(limit, wanted.get(limit.name))
        if amount is None or amount < 0:
            return f"capacity {limit.name}: the request cannot be represented"
        taken.append((limit.name, amount))
    is_valid = all(_is_valid(limit, amount) for limit, (_, amount) in zip(limits, taken, strict=True))
    return tuple(taken) if is_valid else None


def _rounded(limit: CapacityLimit, wanted: int | None) -> int | None:
    """Returns the least valid amount that is enough, the amount itself if there is none, or None = an error."""
    if wanted is None:
        return limit.value if limit.default is None else limit.default
    if limit.least is None:
        return next((value for value in limit.values if value >= wanted), wanted)
    if wanted < limit.least:
        return limit.least
    if limit.step is None:
        return wanted
    unit = _unit(limit)
    if unit == _MILLI and wanted % unit:
        return None
    least, step = _in_units(limit.least, unit), _in_units(limit.step, unit)
    if step <= 0 or _in_units(wanted, unit) > _MOST:
        return None
    found = least + -((least - _in_units(wanted, unit)) // step) * step
    return found * unit if found <= _MOST else None


def _is_valid(limit: CapacityLimit, amount: int) -> bool:
    if amount == limit.default:
        return True
    if limit.least is not None:
        if limit.most is not None and amount > limit.most:
            return False
        unit = _unit(limit)
        return limit.step is None or not (
            (unit == _MILLI and amount % unit)
            or (_in_units(amount, unit) - _in_units(limit.least, unit)) % _in_units(limit.step, unit)
        )
    return not limit.values or amount in limit.values


def _unit(limit: CapacityLimit) -> int:
    """Returns the unit of calculations with steps: a thousandth if it represents all of them, else 1."""
    amounts = [amount for amount in (limit.least, limit.most, limit.step) if amount is not None]
    fits = all(amount % _MILLI == 0 and abs(amount) // _MILLI <= _MOST for amount in amounts)
    return _MILLI if fits and (limit.step is None or limit.step >= _MILLI) else _BILLION


def _in_units(amount: int, unit: int) -> int:
    """Returns the amount in units, rounded up."""
    return -(-amount // unit)


def fits(
    device: Device, requests: Capacities, shares: Mapping[str, int] | None, more: Mapping[str, int] | None = None
) -> bool | str:
    """Whether the device has the capacity beside what `shares` and `more` of them take, or an error."""
    if not (requests or device.kind.is_shared or device.has_policy or shares or more):
        return True
    found = consumption(device.limits, requests)
    if found is None or isinstance(found, str):
        return found or False
    first, second = shares or {}, more or {}
    for limit, (name, amount) in zip(device.limits, found, strict=True):
        if amount + first.get(name, 0) + second.get(name, 0) > limit.value:
            return False
    return True
