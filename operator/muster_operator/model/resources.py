"""Amounts by resource name: ``vcore`` in millicores, ``memory`` in bytes, everything else in whole units.

Absent means zero. Values are exact integers; what does not fit 64 bits is refused where it is read (semantics 23).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Resources = Mapping[str, int]

#: The largest amount that the Scheduler Interface can carry (seed 003, Quantity).
MAX_AMOUNT: Final = 2**63 - 1


def added(left: Resources, right: Resources) -> dict[str, int]:
    """The sum, name by name."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total


def larger(left: Resources, right: Resources) -> dict[str, int]:
    """The larger amount of each name."""
    peak = dict(left)
    for name, amount in right.items():
        peak[name] = max(peak.get(name, 0), amount)
    return peak


def times(amounts: Resources, count: int) -> dict[str, int]:
    """The amounts of ``count`` equal members."""
    return {name: amount * count for name, amount in amounts.items()}
