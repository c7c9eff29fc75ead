"""Properties of queues: which are known, which come down from the parent, what they mean.

A value that means nothing falls back to the default, as YuniKorn's users know
it; unlike there, the log says so.

Child queues inherit `quota.preemption.delay`, as in YuniKorn; a child that sets
`0s` keeps its allocations. Queues that are created on demand never have it.

Source: contract 2.5, 14 (17).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from muster_core.edge.config.document import below
from muster_core.edge.config.notes import Notes
from muster_core.edge.config.timing import duration_ns
from muster_core.model.errors import ConfigurationError
from muster_core.model.policies import (
    DEFAULT_POLICIES,
    ApplicationOrder,
    PreemptionPolicy,
    PriorityPolicy,
    QueuePolicies,
)

_SORT: Final = "application.sort.policy"
_PRIORITY: Final = "priority.policy"
_OFFSET: Final = "priority.offset"
_PREEMPTION: Final = "preemption.policy"
_QUOTA_DELAY: Final = "quota.preemption.delay"
_OWN_ONLY: Final = frozenset({_PRIORITY, _OFFSET})
_MOST_OFFSET: Final = 2**31 - 1
_MOST_COUNT: Final = 2**64 - 1
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}")

_ORDERS: Final = {
    "fifo": ApplicationOrder.FIFO,
    "fair": ApplicationOrder.FAIR,
    "stateaware": ApplicationOrder.FIFO,  # its meaning since 1.6
}


def _one_of(choices: Mapping[str, object]) -> Callable[[str], object]:
    return lambda text: choices[text.lower()]


def _number(least: int, most: int) -> Callable[[str], object]:
    def read(text: str) -> int:
        if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
            raise ValueError(text)
        return int(text)

    return read


def _span(least: int) -> Callable[[str], object]:
    def read(text: str) -> int:
        span = duration_ns(text, "")
        if span < least:
            raise ValueError(text)
        return span

    return read


#: Per property: the field of QueuePolicies, how it is read, and what it should have been.
_READERS: Final[Mapping[str, tuple[str, Callable[[str], object], str]]] = {
    _SORT: ("order", _one_of(_ORDERS), "neither fifo nor fair"),
    "application.sort.priority": (
        "sorts_by_priority",
        _one_of({"enabled": True, "disabled": False}),
        "neither enabled nor disabled",
    ),
    _PRIORITY: ("priority", _one_of({policy.value: policy for policy in PriorityPolicy}), "neither default nor fence"),
    _OFFSET: ("priority_offset", _number(-_MOST_OFFSET - 1, _MOST_OFFSET), "no whole number of 32 bits"),
    _PREEMPTION: (
        "preemption",
        _one_of({policy.value: policy for policy in PreemptionPolicy}),
        "none of default, fence, disabled",
    ),
    "preemption.delay": ("preemption_delay_ns", _span(1), "no duration longer than 0"),
    _QUOTA_DELAY: ("quota_preemption_delay_ns", _span(0), "no duration"),
    "application.unschedasks.backoff": ("backoff_after", _number(0, _MOST_COUNT), "no whole number of 0 or more"),
    "application.unschedasks.backoff.delay": ("backoff_delay_ns", _span(1), "no duration longer than 0"),
}


def inherited(properties: Mapping[str, str]) -> dict[str, str]:
    """What a configured child has of its parent's properties."""
    return {
        key: value
        for key, value in properties.items()
        if key not in _OWN_ONLY and (key != _PREEMPTION or value.strip().lower() == PreemptionPolicy.DISABLED)
    }


def policies(properties: Mapping[str, str]) -> QueuePolicies:
    """What effective properties mean; the default for what means nothing."""
    known: dict[str, Any] = {}
    for key, text in properties.items():
        if key in _READERS and (value := _value(key, text)) is not None:
            known[_READERS[key][0]] = value
    return replace(DEFAULT_POLICIES, **known)


def of_root(effective: QueuePolicies) -> QueuePolicies:
    """The same without what has no effect on root: there is nobody beside it to be put before or kept from."""
    return replace(
        effective,
        priority=DEFAULT_POLICIES.priority,
        priority_offset=DEFAULT_POLICIES.priority_offset,
        preemption=DEFAULT_POLICIES.preemption,
        quota_preemption_delay_ns=DEFAULT_POLICIES.quota_preemption_delay_ns,
    )


def on_demand(effective: QueuePolicies) -> QueuePolicies:
    """The same for a queue that is made on demand: its maximum is never lowered by a configuration (contract 10.3)."""
    return replace(effective, quota_preemption_delay_ns=DEFAULT_POLICIES.quota_preemption_delay_ns)


def check(properties: Mapping[str, str], path: str, notes: Notes) -> None:
    """Say which of a queue's own properties are not known or mean nothing."""
    for key, text in properties.items():
        if key not in _READERS:
            notes.odd(below(path, key), "is not a known property and has no effect")
        elif _value(key, text) is None:
            notes.odd(below(path, key), f"{text[:80]!r} is {_READERS[key][2]}, the default is used")


def check_root(properties: Mapping[str, str], path: str, notes: Notes) -> None:
    """Say which properties do nothing on root itself."""
    for key in (_PRIORITY, _OFFSET, _PREEMPTION, _QUOTA_DELAY):
        if key in properties:
            notes.odd(below(path, key), "has no effect on root itself")


def check_on_demand(properties: Mapping[str, str], path: str, notes: Notes) -> None:
    """Say which properties do nothing in a template."""
    if _QUOTA_DELAY in properties:
        notes.odd(below(path, _QUOTA_DELAY), "has no effect on queues that are made on demand")


def _value(key: str, text: str) -> object:
    """What the text of a known property means, None where it means nothing."""
    try:
        return _READERS[key][1](text.strip())
    except (KeyError, ValueError, ConfigurationError):
        return None
