"""The log level of each part of the operator, from the settings or the command line."""

import logging
from collections.abc import Iterator

import pytest
import structlog

from muster_operator.runtime import logs
from muster_si.log_lines import LogFormat


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = structlog.get_config()
    logs.configure("info", LogFormat.JSON)
    yield
    logs.follow({})
    logs.set_level("info")
    structlog.configure(**before)


def written(capsys: pytest.CaptureFixture[str], name: str) -> list[str]:
    """Which levels of a logger reach standard error."""
    log = structlog.get_logger(name)
    for level in ("debug", "info", "warning"):
        getattr(log, level)("said")
    lines = capsys.readouterr().err.splitlines()
    return [level for level in ("debug", "info", "warning") if any(f'"level": "{level}"' in line for line in lines)]


def test_without_settings_the_command_line_sets_the_log_level(capsys: pytest.CaptureFixture[str]) -> None:
    assert written(capsys, "muster.kube") == ["info", "warning"]
    logs.set_level("warning")
    assert written(capsys, "muster.kube") == ["warning"]


def test_the_most_specific_log_level_applies(capsys: pytest.CaptureFixture[str]) -> None:
    logs.follow({"": "WARNING", "shim": "INFO", "shim.client": "DEBUG"})
    assert written(capsys, "muster.kube") == ["debug", "info", "warning"]
    assert written(capsys, "muster.loop") == ["info", "warning"]
    assert written(capsys, "muster.kopf") == ["warning"]


def test_a_log_level_removed_from_the_settings_reverts_to_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.follow({"": "ERROR"})
    assert written(capsys, "muster.kube") == []
    logs.follow({})
    assert written(capsys, "muster.kube") == ["info", "warning"]


def test_every_logger_maps_to_a_subsystem() -> None:
    assert [logs.subsystem(name) for name in ("muster", "muster.kube", "muster.admission.server", "other")] == [
        "shim",
        "shim.client",
        "admission.webhook",
        "shim",
    ]


def shown(capsys: pytest.CaptureFixture[str], name: str, level: int) -> bool:
    """Whether a record of the standard library's logging reaches standard error."""
    logging.getLogger(name).log(level, "said")
    return "said" in capsys.readouterr().err


@pytest.mark.parametrize("level", ["DEBUG", "INFO"])
def test_kopf_logs_only_failed_handlers(capsys: pytest.CaptureFixture[str], level: str) -> None:
    """The operator reports why kopf has ended. kopf itself logs as an error what it repeats."""
    logs.follow({"kubernetes": level})
    assert not shown(capsys, "kopf.anything", logging.ERROR)
    assert not shown(capsys, "kopf.objects", logging.INFO)
    assert shown(capsys, "kopf.objects", logging.ERROR)
