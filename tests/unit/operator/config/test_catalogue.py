"""Warnings for the author of a ConfigMap about its keys, and about values that need a restart."""

from __future__ import annotations

import pytest

from muster_operator.config.catalog import MEANINGLESS, SETTINGS, awaiting_restart, setting_warnings


def warnings_of(entries: dict[str, str]) -> list[str]:
    return [finding.line for finding in setting_warnings(entries)]


def test_every_known_key_and_level_gives_no_warning() -> None:
    known = {key: setting.default for key, setting in SETTINGS.items() if "<" not in key}
    levels = {"log.core.scheduler.level": "DEBUG", "log.shim.level": "WARN", "log.admission.webhook.level": "INFO"}
    assert warnings_of(known | levels | {"queues.yaml": ""}) == []


@pytest.mark.parametrize(
    "key,message",
    [
        ("service.placeholderimage", "is not a setting of Muster; did you mean service.placeholderImage?"),
        ("gang.placeholderTimout", "is not a setting of Muster; did you mean gang.placeholderTimeout?"),
        ("colour", "is not a setting of Muster"),
        ("log.schim.level", "is not a setting of Muster; did you mean log.level?"),
    ],
)
def test_an_unknown_key_is_reported_with_a_similar_known_key(key: str, message: str) -> None:
    assert warnings_of({key: "x"}) == [f"{key} {message}"]


@pytest.mark.parametrize("key", sorted(MEANINGLESS))
def test_a_yunikorn_key_without_effect_is_reported_with_its_alternative(key: str) -> None:
    assert warnings_of({key: "1s"}) == [f"{key} has no effect here: {MEANINGLESS[key]}"]


def test_a_queue_configuration_under_another_name_is_reported_if_none_is_in_force() -> None:
    reads = "is not read: the queue configuration in force is"
    assert warnings_of({"queue.yaml": ""}) == [f"queue.yaml {reads} queues.yaml (see service.policyGroup)"]
    assert warnings_of({"queues.yaml": "", "service.policyGroup": "ours"}) == [
        f"queues.yaml {reads} ours.yaml (see service.policyGroup)"
    ]
    assert warnings_of({"queues.yaml": "", "other.yaml": ""}) == []


def test_only_settings_that_are_read_at_startup_await_a_restart() -> None:
    old = {"service.clusterId": "a", "gang.waitTimeout": "1s"}
    assert [late.line for late in awaiting_restart(old, {"gang.waitTimeout": "2s"})] == [
        "service.clusterId = mycluster takes effect after a restart; the present value is a"
    ]
    assert [late.line for late in awaiting_restart({}, {"service.schedulerName": "yunikorn"})] == [
        "service.schedulerName = yunikorn takes effect after a restart; the present value is the default"
    ]
    assert awaiting_restart({}, {"service.clusterId": " mycluster "}) == []
