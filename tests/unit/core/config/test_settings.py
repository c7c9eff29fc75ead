"""Settings of the core: each key sets its field; an invalid value is reported and the default is used."""

import pytest

from muster_core.config.load import load
from muster_core.config.settings import MOST_KEPT, CoreSettings, Severity

SECOND = 1_000_000_000


def test_absent_and_empty_settings_are_the_defaults_of_the_contract() -> None:
    expected = CoreSettings(True, 100_000, 1_000, 10_000, 100, 15, 30 * SECOND)
    for extra in ({}, {"event.maxStreams": " ", "log.level": "", "log..level": "INFO"}):
        loaded = load("", extra)
        assert (loaded.settings, loaded.warnings) == (expected, ())


def test_every_setting_sets_its_field() -> None:
    extra = {
        "event.trackingEnabled": "false",
        "event.ringBufferCapacity": "1",
        "event.requestCapacity": "2",
        "event.RESTResponseSize": "3",
        "event.maxStreams": "0",
        "event.maxStreamsPerHost": "5",
        "health.checkInterval": "1m",
        "gang.repairAcrossQueues": "false",
        "metrics.yunikornQueueNames": "false",
    }
    loaded = load("", extra)
    expected = CoreSettings(False, 1, 2, 3, 0, 5, 60 * SECOND, repairs_across_queues=False, queue_names=False)
    assert loaded.settings == expected
    assert not loaded.configuration.repairs_across_queues


def test_both_spellings_of_the_ring_capacity_are_read_and_one_takes_precedence() -> None:
    assert load("", {"event.ringbufferCapacity": "7"}).settings.ring_capacity == 7
    both = {"event.ringbufferCapacity": "7", "event.ringBufferCapacity": "8"}
    assert load("", both).settings.ring_capacity == 8


@pytest.mark.parametrize("text", ["0", "0s", "-1s", "-5m"])
def test_an_interval_of_nothing_or_less_turns_the_health_checks_off(text: str) -> None:
    loaded = load("", {"health.checkInterval": text})
    assert (loaded.settings.health_interval_ns, loaded.warnings) == (0, ())


@pytest.mark.parametrize(
    "key, text, effects",
    [
        ("event.trackingEnabled", "yes", "is neither true nor false, true is used"),
        ("gang.repairAcrossQueues", "no", "is neither true nor false, true is used"),
        ("metrics.yunikornQueueNames", "no", "is neither true nor false, true is used"),
        ("event.RESTResponseSize", "0", f"is not a whole number from 1 to {MOST_KEPT}, 10000 is used"),
        ("event.ringBufferCapacity", "-1", f"is not a whole number from 1 to {MOST_KEPT}, 100000 is used"),
        ("event.ringBufferCapacity", "9" * 30, f"is not a whole number from 1 to {MOST_KEPT}, 100000 is used"),
        ("event.requestCapacity", "1e3", f"is not a whole number from 1 to {MOST_KEPT}, 1000 is used"),
        ("event.maxStreams", "٣", f"is not a whole number from 0 to {MOST_KEPT}, 100 is used"),
        ("health.checkInterval", "soon", "is not a duration, 30s is used"),
        ("health.checkInterval", "--5s", "is negative, 30s is used"),
        ("log.level", "LOUD", "is not a level of the log, the level above it is used"),
    ],
)
def test_a_bad_value_is_reported_and_the_default_used(key: str, text: str, effects: str) -> None:
    loaded = load("", {key: text})
    assert (loaded.settings, loaded.warnings) == (CoreSettings(), (f"{key}: {text!r} {effects}",))


def test_a_subsystem_has_the_level_of_the_nearest_above_it() -> None:
    extra = {"log.level": "WARN", "log.core.level": "-1", "log.core.scheduler.queue.level": "FATAL"}
    levels = load("", extra).settings
    found = [levels.severity(name) for name in ("core", "core.scheduler", "core.scheduler.queue", "shim.cache", "")]
    assert found == [Severity.DEBUG, Severity.DEBUG, Severity.CRITICAL, Severity.WARNING, Severity.WARNING]
    assert load("", {"log.core.level": "error"}).settings.severity("shim") is None


@pytest.mark.parametrize(
    "text, severity",
    [
        ("DEBUG", "debug"),
        ("0", "info"),
        ("warn", "warning"),
        ("2", "error"),
        ("DPANIC", "critical"),
        ("4", "critical"),
        ("5", "critical"),
    ],
)
def test_levels_are_names_in_either_case_or_numbers(text: str, severity: str) -> None:
    assert load("", {"log.level": text}).settings.severity("core") == severity


@pytest.mark.parametrize("text, tracks", [("", True), ("true", True), ("false", False), ("F", False)])
def test_the_tracking_setting_is_read(text: str, *, tracks: bool) -> None:
    assert load("", {"event.trackingEnabled": text}).configuration.tracking is tracks
