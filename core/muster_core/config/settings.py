"""Parses the settings of the core: timeouts, events, health checks and log levels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from muster_core.config.document import Findings
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
    """Converts a Go duration to nanoseconds. Raises ConfigurationError, also for a negative duration."""
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
    """Returns the lengths of the timeouts. Absent or empty settings get the default. Raises ConfigurationError."""
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
        scale_up_delay_ns=_span(extra, keys.EXTRA_SCALE_UP_DELAY, default.scale_up_delay_ns),
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


_SECOND: Final = 1_000_000_000

#: Largest number of objects in memory that a setting may request.
MOST_KEPT: Final = 10_000_000


class Severity(StrEnum):
    """Lowest level that is logged. `critical` stands for YuniKorn's DPANIC, PANIC and FATAL."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


_SEVERITIES: Final = {
    "debug": Severity.DEBUG,
    "-1": Severity.DEBUG,
    "info": Severity.INFO,
    "0": Severity.INFO,
    "warn": Severity.WARNING,
    "1": Severity.WARNING,
    "error": Severity.ERROR,
    "2": Severity.ERROR,
    "dpanic": Severity.CRITICAL,
    "3": Severity.CRITICAL,
    "panic": Severity.CRITICAL,
    "4": Severity.CRITICAL,
    "fatal": Severity.CRITICAL,
    "5": Severity.CRITICAL,
}

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """The active settings. The defaults are those of YuniKorn."""

    #: False = no new event records are stored; existing ones stay.
    tracks_events: bool = True
    #: Event records that are stored for the REST API. With a smaller value the oldest are dropped.
    ring_capacity: int = 100_000
    #: Event records that wait for the resource manager.
    request_capacity: int = 1_000
    #: Event records in one response.
    response_size: int = 10_000
    most_streams: int = 100
    most_streams_per_host: int = 15
    #: Interval of health checks; 0 = disabled.
    health_interval_ns: int = 30 * _SECOND
    #: Log level by subsystem ("" = all). Other subsystems have the level of the process.
    severities: Mapping[str, Severity] = field(default_factory=lambda: MappingProxyType({}))
    #: Whether lost members of gangs precede the applications of other queues.
    repairs_across_queues: bool = True
    #: Whether metrics include those of YuniKorn that have the path of a queue in their name.
    queue_names: bool = True

    def severity(self, subsystem: str) -> Severity | None:
        """Returns the level of a subsystem, or that of its nearest ancestor (`core.scheduler`, `core`, all). None = not
        set.
        """
        while subsystem and subsystem not in self.severities:
            subsystem = subsystem.rpartition(".")[0]
        return self.severities.get(subsystem)


DEFAULT_SETTINGS: Final = CoreSettings()


def settings(extra: Mapping[str, str], notes: Findings) -> CoreSettings:
    """Parses the settings among the keys that are not files. Raises nothing: errors become warnings in `notes`."""
    read = _Reader(extra, notes)
    default = DEFAULT_SETTINGS
    ring = keys.SETTING_EVENT_RING if keys.SETTING_EVENT_RING in extra else keys.SETTING_EVENT_RING_OTHER
    return CoreSettings(
        tracks_events=read.flag(keys.SETTING_EVENT_TRACKING, default=default.tracks_events),
        queue_names=read.flag(keys.EXTRA_QUEUE_NAMES, default=default.queue_names),
        repairs_across_queues=read.flag(keys.EXTRA_REPAIR_ACROSS_QUEUES, default=default.repairs_across_queues),
        ring_capacity=read.count(ring, default.ring_capacity, least=1),
        request_capacity=read.count(keys.SETTING_EVENT_REQUESTS, default.request_capacity, least=1),
        response_size=read.count(keys.SETTING_EVENT_RESPONSE, default.response_size, least=1),
        most_streams=read.count(keys.SETTING_EVENT_STREAMS, default.most_streams),
        most_streams_per_host=read.count(keys.SETTING_EVENT_STREAMS_PER_HOST, default.most_streams_per_host),
        health_interval_ns=read.interval(keys.SETTING_HEALTH_INTERVAL, default.health_interval_ns),
        severities=MappingProxyType(read.severities()),
    )


class _Reader:
    """Parses single keys. Absent and empty values get the default without a warning."""

    def __init__(self, extra: Mapping[str, str], notes: Findings) -> None:
        self._extra = extra
        self._notes = notes

    def flag(self, key: str, *, default: bool) -> bool:
        """Parses a bool like Go."""
        text = self._text(key)
        if text in _TRUE | _FALSE:
            return text in _TRUE
        if text:
            self._odd(key, text, "is neither true nor false", str(default).lower())
        return default

    def count(self, key: str, default: int, least: int = 0) -> int:
        """Parses an integer from `least` to MOST_KEPT."""
        text = self._text(key)
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(MOST_KEPT))
        if is_number and least <= int(text) <= MOST_KEPT:
            return int(text)
        if text:
            self._odd(key, text, f"is not a whole number from {least} to {MOST_KEPT}", str(default))
        return default

    def interval(self, key: str, default: int) -> int:
        """Parses a Go duration into nanoseconds; 0 for 0 and less."""
        text = self._text(key)
        if not text:
            return default
        try:
            span = duration_ns(text.removeprefix("-"), key)
        except ConfigurationError as error:
            self._odd(key, text, error.rule, f"{default // _SECOND}s")
            return default
        return 0 if text.startswith("-") else span

    def severities(self) -> dict[str, Severity]:
        """Returns the levels by subsystem: `log.level` as "", `log.<subsystem>.level` as its subsystem."""
        found = {}
        for key in sorted(self._extra):
            subsystem = _subsystem(key)
            text = self._text(key)
            if subsystem is None or not text:
                continue
            if text.lower() in _SEVERITIES:
                found[subsystem] = _SEVERITIES[text.lower()]
            else:
                self._odd(key, text, "is not a level of the log", "the level above it")
        return found

    def _text(self, key: str) -> str:
        return self._extra.get(key, "").strip()

    def _odd(self, key: str, text: str, rule: str, used: str) -> None:
        self._notes.odd(key, f"{text[:80]!r} {rule}, {used} is used")


def _subsystem(key: str) -> str | None:
    if key == keys.SETTING_LOG_LEVEL:
        return ""
    if key.startswith(keys.SETTING_LOG_PREFIX) and key.endswith(keys.SETTING_LOG_SUFFIX):
        return key[len(keys.SETTING_LOG_PREFIX) : -len(keys.SETTING_LOG_SUFFIX)] or None
    return None
