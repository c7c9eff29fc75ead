"""The settings of timers are Go durations; an invalid one is rejected with its key."""

from dataclasses import fields

import pytest

from muster_core.config.load import load
from muster_core.config.settings import duration_ns
from muster_core.model.config import Timing
from muster_core.model.errors import ConfigurationError

SECOND = 1_000_000_000


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
