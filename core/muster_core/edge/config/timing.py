"""Spans of time as settings write them (Go durations: 15m, 1h30m, 500ms), and the clocks' settings.

Source: Go, time.ParseDuration; settings `gang.*` and `service.*` of muster_si.keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from muster_core.model.config import Timing
from muster_core.model.errors import ConfigurationError
from muster_si import keys

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign
    "\u03bcs": 1_000,  # Greek letter mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"([0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(" + "|".join(sorted(_UNITS, reverse=True)) + ")")
_LONGEST = 2**63 - 1
_FIX = "write a duration such as 15m, 1h30m or 500ms"


def duration_ns(text: str, path: str) -> int:
    """Nanoseconds of a Go duration. Raises ConfigurationError; negative ones are refused too."""
    if text == "0":
        return 0
    if text.startswith("-"):
        raise ConfigurationError(path, text, "is negative", _FIX)
    rest, total = text.removeprefix("+"), Decimal(0)
    if not rest:
        raise ConfigurationError(path, text, "is not a duration", _FIX)
    while rest:
        part = _PART.match(rest)
        if part is None:
            raise ConfigurationError(path, text, "is not a duration", _FIX)
        total += Decimal(part[1]) * _UNITS[part[2]]
        rest = rest[part.end() :]
    if total > _LONGEST:
        raise ConfigurationError(path, text, "is longer than 292 years", _FIX)
    return int(total)


def timing(extra: Mapping[str, str]) -> Timing:
    """The clocks' lengths, the default where a setting is absent or empty. Raises ConfigurationError."""
    default = Timing()
    return Timing(
        placeholder_timeout_ns=_positive(extra, keys.EXTRA_PLACEHOLDER_TIMEOUT, default.placeholder_timeout_ns),
        max_placeholder_timeout_ns=_positive(
            extra, keys.EXTRA_MAX_PLACEHOLDER_TIMEOUT, default.max_placeholder_timeout_ns
        ),
        wait_timeout_ns=_span(extra, keys.EXTRA_WAIT_TIMEOUT, default.wait_timeout_ns),
        starvation_age_ns=_span(extra, keys.EXTRA_STARVATION_AGE, default.starvation_age_ns),
        completing_timeout_ns=_span(extra, keys.EXTRA_COMPLETING_TIMEOUT, default.completing_timeout_ns),
        release_timeout_ns=_positive(extra, keys.EXTRA_CONFIRM_TIMEOUT, default.release_timeout_ns),
        manager_timeout_ns=_positive(extra, keys.EXTRA_MANAGER_TIMEOUT, default.manager_timeout_ns),
        reservation_delay_ns=_span(extra, keys.EXTRA_RESERVATION_DELAY, default.reservation_delay_ns),
        reservation_timeout_ns=_positive(extra, keys.EXTRA_RESERVATION_TIMEOUT, default.reservation_timeout_ns),
        preemption_interval_ns=_positive(extra, keys.EXTRA_PREEMPTION_INTERVAL, default.preemption_interval_ns),
        empty_node_interval_ns=_span(extra, keys.EXTRA_EMPTY_NODE_INTERVAL, default.empty_node_interval_ns),
        expiry_ns=_span(extra, keys.EXTRA_EXPIRY, default.expiry_ns),
    )


def _span(extra: Mapping[str, str], key: str, default: int) -> int:
    text = extra.get(key, "").strip()
    return duration_ns(text, key) if text else default


def _positive(extra: Mapping[str, str], key: str, default: int) -> int:
    span = _span(extra, key, default)
    if span == 0:
        raise ConfigurationError(key, extra[key], "must be longer than 0", _FIX)
    return span
