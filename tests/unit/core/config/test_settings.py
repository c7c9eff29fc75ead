"""Settings of the core: each key sets its field; an invalid value is reported and the default is used."""

from dataclasses import fields

import pytest

from muster_core.config.load import load
from muster_core.config.settings import MOST_KEPT, CoreSettings, Severity, duration_ns
from muster_core.model.config import Timing
from muster_core.model.errors import ConfigurationError

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


# -- The settings of timers are Go durations; an invalid one is rejected with its key.


@pytest.mark.parametrize(
    "text, nanoseconds",
    [
        ("15m", 900 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("500ms", SECOND // 2),
        ("1.5h", 5400 * SECOND),
        (".5s", SECOND // 2),
        ("2.s", 2 * SECOND),
        ("+3s", 3 * SECOND),
        ("0", 0),
        ("0s", 0),
        ("7ns", 7),
        ("1us2µs", 3000),
        ("1s1s", 2 * SECOND),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, nanoseconds: int) -> None:
    assert duration_ns(text, "here") == nanoseconds


@pytest.mark.parametrize(
    "text, rule",
    [
        ("15", "is not a duration"),
        ("5 min", "is not a duration"),
        ("1d", "is not a duration"),
        ("s", "is not a duration"),
        ("+", "is not a duration"),
        ("1m-5s", "is not a duration"),
        ("-5s", "is negative"),
        ("9999999999h", "is longer than 292 years"),
        ("9" * 50 + "h", "is not a duration"),
    ],
)
def test_an_invalid_duration_is_rejected(text: str, rule: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load("", {"gang.waitTimeout": text})
    assert (caught.value.path, caught.value.value, caught.value.rule) == ("gang.waitTimeout", text, rule)
    assert "15m" in caught.value.fix


def test_absent_and_empty_settings_are_the_defaults_and_foreign_ones_are_left_alone() -> None:
    assert load("", {}).configuration.timing == Timing()
    assert load("", {"gang.waitTimeout": " ", "kubernetes.qps": "many"}).configuration.timing == Timing()


SETTINGS = {
    "placeholder_timeout_ns": "gang.placeholderTimeout",
    "max_placeholder_timeout_ns": "gang.maxPlaceholderTimeout",
    "wait_timeout_ns": "gang.waitTimeout",
    "starvation_age_ns": "gang.starvationAge",
    "completing_timeout_ns": "service.completingTimeout",
    "release_timeout_ns": "service.releaseTimeout",
    "manager_timeout_ns": "service.managerTimeout",
    "reservation_delay_ns": "service.reservationDelay",
    "reservation_timeout_ns": "service.reservationTimeout",
    "preemption_interval_ns": "service.preemptionInterval",
    "scale_up_delay_ns": "preemption.scaleUpDelay",
    "empty_node_interval_ns": "service.emptyNodeInterval",
    "expiry_ns": "service.expiry",
}


def test_every_setting_sets_its_timer_and_every_timer_has_a_setting() -> None:
    extra = {key: f"{count}s" for count, key in enumerate(SETTINGS.values(), start=1)}
    spans = {name: count * SECOND for count, name in enumerate(SETTINGS, start=1)}
    assert load("", extra).configuration.timing == Timing(**spans)
    assert [field.name for field in fields(Timing)] == list(SETTINGS)


@pytest.mark.parametrize(
    "key",
    [
        "gang.placeholderTimeout",
        "gang.maxPlaceholderTimeout",
        "service.releaseTimeout",
        "service.managerTimeout",
        "service.reservationTimeout",
        "service.preemptionInterval",
    ],
)
def test_a_timer_that_must_run_cannot_be_zero(key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load("", {key: "0s"})
    assert (caught.value.path, caught.value.rule) == (key, "must be longer than 0")
