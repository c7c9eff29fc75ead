"""The level of each part of the operator's log, as the settings have it or the command line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from muster_operator.link import logs
from muster_operator.link.logs import LogFormat


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    logs.configure("info", LogFormat.JSON)
    yield
    logs.follow({})
    logs.set_level("info")
    structlog.reset_defaults()


def written(capsys: pytest.CaptureFixture[str], name: str) -> list[str]:
    """Which levels of a logger reach standard error."""
    log = structlog.get_logger(name)
    for level in ("debug", "info", "warning"):
        getattr(log, level)("said")
    lines = capsys.readouterr().err.splitlines()
    return [level for level in ("debug", "info", "warning") if any(f'"level": "{level}"' in line for line in lines)]


def test_without_settings_the_command_line_decides(capsys: pytest.CaptureFixture[str]) -> None:
    assert written(capsys, "muster.kube") == ["info", "warning"]
    logs.set_level("warning")
    assert written(capsys, "muster.kube") == ["warning"]


def test_the_nearest_level_counts(capsys: pytest.CaptureFixture[str]) -> None:
    logs.follow({"": "WARNING", "shim": "INFO", "shim.client": "DEBUG"})
    assert written(capsys, "muster.kube") == ["debug", "info", "warning"]
    assert written(capsys, "muster.loop") == ["info", "warning"]
    assert written(capsys, "muster.fastlane") == ["warning"]


def test_a_level_that_is_taken_out_of_the_settings_is_the_command_lines_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.follow({"": "ERROR"})
    assert written(capsys, "muster.kube") == []
    logs.follow({})
    assert written(capsys, "muster.kube") == ["info", "warning"]


def test_every_logger_has_a_name_of_the_contract() -> None:
    assert [logs.subsystem(name) for name in ("muster", "muster.kube", "muster.admission.server", "other")] == [
        "shim",
        "shim.client",
        "admission.webhook",
        "shim",
    ]
