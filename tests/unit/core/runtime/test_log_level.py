"""The log follows `log.level` and the levels of subsystems, and REST may set another in between."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from muster_core.config.load import load
from muster_core.main import configure_logs
from muster_core.runtime.log_level import LogLevel, SubsystemLogger, Threshold, subsystem
from muster_core.runtime.service import Scheduler
from muster_si import si_pb2
from muster_si.log_lines import LogFormat
from tests.unit.core.conftest import Bench
from tests.unit.core.messages import RM


@pytest.fixture(autouse=True)
def _standard_library() -> Iterator[None]:
    """Leaves the level of the standard library's log as it was."""
    before = logging.getLogger().level
    yield
    logging.getLogger().setLevel(before)


def is_written(threshold: Threshold, module: str, method: str) -> bool:
    try:
        threshold(SubsystemLogger(io.StringIO(), module), method, {})
    except structlog.DropEvent:
        return False
    return True


def follow(threshold: Threshold, **extra: str) -> None:
    threshold.follow(load("", {key.replace("_", "."): value for key, value in extra.items()}).settings)


REST, LOOP, ELSE = "muster_core.rest.server", "muster_core.runtime.loop", "muster_core.runtime.journal"


@pytest.mark.parametrize(
    "module, name",
    [(REST, "core.rest"), (LOOP, "core.scheduler"), ("muster_si.transport.streams", "core.rpc"), (ELSE, "core")],
)
def test_a_module_belongs_to_the_subsystem_of_the_nearest_package(module: str, name: str) -> None:
    assert subsystem(module) == name


def test_a_subsystem_has_its_own_level_and_the_others_that_of_all() -> None:
    threshold = Threshold(LogLevel.INFO)
    follow(threshold, log_level="ERROR", log_core_rest_level="DEBUG")
    assert threshold.level is LogLevel.ERROR
    assert is_written(threshold, REST, "debug")
    assert not is_written(threshold, LOOP, "warning")
    assert is_written(threshold, LOOP, "error")


def test_a_level_of_the_core_is_that_of_all_its_subsystems() -> None:
    threshold = Threshold(LogLevel.INFO)
    follow(threshold, log_core_level="WARN")
    assert not any(is_written(threshold, module, "info") for module in (REST, LOOP, ELSE))
    assert is_written(threshold, ELSE, "warning")


def test_a_level_removed_from_the_settings_returns_to_the_start_level() -> None:
    threshold = Threshold(LogLevel.WARNING)
    follow(threshold, log_level="DEBUG", log_core_rest_level="ERROR")
    follow(threshold)
    assert threshold.level is LogLevel.WARNING
    assert is_written(threshold, REST, "warning")


def test_a_level_set_by_rest_stays_until_the_levels_in_the_settings_change() -> None:
    threshold = Threshold(LogLevel.INFO)
    follow(threshold, log_level="WARN")
    threshold.set(LogLevel.DEBUG)
    follow(threshold, log_level="WARN", event_maxStreams="3")
    found = [threshold.level]
    follow(threshold, log_level="FATAL")
    assert [*found, threshold.level] == [LogLevel.DEBUG, LogLevel.ERROR]


async def test_the_settings_of_a_registration_and_of_an_update_reach_the_log(bench: Bench) -> None:
    threshold = Threshold(LogLevel.INFO)
    core: Scheduler = bench.core
    core.dispatcher.followers.append(threshold.follow)
    await bench.register(**{"log.level": "WARN"})
    found = [threshold.level]
    update = si_pb2.UpdateConfigurationRequest(rmID=RM, extraConfig={"log.level": "ERROR"})
    await core.update_configuration(update)
    assert [*found, threshold.level] == [LogLevel.WARNING, LogLevel.ERROR]


def test_lines_of_the_core_and_of_its_libraries_have_one_form_and_one_level(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = structlog.get_config()
    levels = configure_logs(LogLevel.INFO, LogFormat.JSON)

    def logged() -> list[tuple[str, str]]:
        for log in (structlog.get_logger(REST), logging.getLogger("aiohttp.server")):
            log.info("said")
            log.warning("said")
        found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        assert {frozenset(line) for line in found} == {frozenset({"event", "level", "logger", "timestamp"})}
        return [(line["logger"], line["level"]) for line in found]

    at_info = logged()
    levels.set(LogLevel.WARNING)
    at_warning = logged()
    structlog.configure(**before)
    assert at_warning == [(REST, "warning"), ("aiohttp.server", "warning")]
    assert at_info == [(REST, "info"), at_warning[0], ("aiohttp.server", "info"), at_warning[1]]
