"""The log level of each part of the operator, from the settings or the command line."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from muster_operator.runtime import logs
from muster_si.log_lines import ConvertedRecord, LogFormat


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
    assert written(capsys, "muster.fast_path") == ["warning"]


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


URL = "https://127.0.0.1:6443/api/v1/pods?watch=true"
STATUS = "{'kind': 'Status', 'message': '" + "very " * 100 + "long'}"


def a_record(text: str, level: int = logging.ERROR) -> logging.LogRecord:
    return logging.LogRecord("kopf._cogs.clients.watching", level, __file__, 1, text, (), None)


def test_a_request_retried_by_kopf_is_a_warning_without_the_response_body() -> None:
    reported_again = logs.convert(
        a_record(f"Request attempt #1/30 failed; will retry: GET {URL} -> APIServerError({STATUS})")
    )
    assert reported_again is not None
    error = reported_again.fields["error"]
    assert reported_again == ConvertedRecord(
        logging.WARNING,
        "a request failed; will retry",
        {"method": "GET", "url": URL, "attempt": "#1/30", "error": error},
    )
    assert error.startswith("APIServerError({'kind': 'Status'")
    assert len(error) == 200


def test_an_unreachable_server_is_logged_with_the_system_error() -> None:
    key = "ConnectionKey(host='127.0.0.1', port=6443, is_ssl=True, ssl=True, proxy=None, server_hostname=None)"
    error = f"ClientConnectorError({key}, ConnectionRefusedError(111, 'Connect call failed'))"
    reported_again = logs.convert(a_record(f"Request attempt #1/30 failed; will retry: GET {URL} -> {error}"))
    assert reported_again is not None
    assert reported_again.fields["error"] == "ClientConnectorError(ConnectionRefusedError(111, 'Connect call failed'))"


def test_a_session_reopened_by_kopf_is_a_warning() -> None:
    reported_again = logs.convert(a_record(f"Request attempt #2 failed; TCP closed; will re-authenticate: PATCH {URL}"))
    event, fields = "a request failed; TCP closed; will re-authenticate", {"method": "PATCH", "url": URL}
    assert reported_again == ConvertedRecord(logging.WARNING, event, {**fields, "attempt": "#2"})


@pytest.mark.parametrize(
    "record",
    [
        a_record(f"Request attempt #30/30 failed; escalating: GET {URL} -> TimeoutError()"),
        a_record("Something else failed; will retry: never"),
        a_record(f"Request attempt #2/30 failed; will retry: GET {URL}", logging.DEBUG),
    ],
)
def test_final_kopf_failures_and_other_log_records_are_unchanged(record: logging.LogRecord) -> None:
    assert logs.convert(record) is None


def test_a_converted_record_follows_the_level_of_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    def logged() -> list[str]:
        text = f"Request attempt #1/30 failed; will retry: GET {URL} -> TimeoutError()"
        logging.getLogger("kopf._cogs.clients.watching").error(text)
        return [json.loads(line)["level"] for line in capsys.readouterr().err.splitlines()]

    found = [logged()]
    logs.follow({"kubernetes": "ERROR"})
    assert [*found, logged()] == [["warning"], []]
