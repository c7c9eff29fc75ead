"""Properties of queues: which are known, which come down from the parent, what they mean.

A value that means nothing falls back to the default, as YuniKorn's users know
it; unlike there, the log says so.
Source: contract 2.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster_core.edge.config.document import below
from muster_core.edge.config.notes import Notes
from muster_core.model.policies import ApplicationOrder

_SORT: Final = "application.sort.policy"
_ORDERS: Final = {
    "fifo": ApplicationOrder.FIFO,
    "fair": ApplicationOrder.FAIR,
    "stateaware": ApplicationOrder.FIFO,  # its meaning since 1.6
}
#: Known, and without effect so far.
_IDLE: Final = frozenset(
    {
        "application.sort.priority",
        "priority.policy",
        "priority.offset",
        "preemption.policy",
        "preemption.delay",
        "quota.preemption.delay",
        "application.unschedasks.backoff",
        "application.unschedasks.backoff.delay",
    }
)
_OWN_ONLY: Final = frozenset({"priority.policy", "priority.offset"})
_PREEMPTION: Final = "preemption.policy"
_DISABLED: Final = "disabled"


def inherited(properties: Mapping[str, str]) -> dict[str, str]:
    """What a configured child has of its parent's properties."""
    return {
        key: value
        for key, value in properties.items()
        if key not in _OWN_ONLY and (key != _PREEMPTION or value.lower() == _DISABLED)
    }


def order(properties: Mapping[str, str]) -> ApplicationOrder:
    """How a leaf with these properties sorts its applications."""
    return _ORDERS.get(properties.get(_SORT, "").lower(), ApplicationOrder.FIFO)


def check(properties: Mapping[str, str], path: str, notes: Notes) -> None:
    """Say what is not known or has no effect."""
    for key, value in properties.items():
        spot = below(path, key)
        if key == _SORT and value.lower() not in _ORDERS:
            notes.odd(spot, f"{value!r} is neither fifo nor fair, fifo is used")
        elif key in _IDLE:
            notes.idle(spot)
        elif key != _SORT:
            notes.odd(spot, "is not a known property and has no effect")
