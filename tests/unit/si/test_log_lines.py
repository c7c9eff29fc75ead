"""All log lines have one format, whichever library writes them; tested in separate processes."""

import functools
import json
import os
import subprocess
import sys
from typing import Any, Final

BEGINNING: Final = """
import asyncio, gc, logging, sys, threading, warnings
import structlog
from muster_si.log_lines import LogFormat, configure, log_uncaught_exceptions

class Logger(structlog.WriteLogger):
    def __init__(self, name):
        super().__init__(sys.stderr)
        self.name = name

def prepare():
    configure(LogFormat(sys.argv[1]), [], Logger)

prepare()
"""

SEVERAL: Final = """
secret = 'hush'
try:
    1 / 0
except ZeroDivisionError as error:
    structlog.get_logger("muster.kube").exception("ours", pod="a")
    logging.getLogger("aiohttp.server").exception("of a %s", "library")
"""

PYTHONS: Final = """
async def lost():
    raise ValueError("lost")

async def main():
    task = asyncio.create_task(lost())
    await asyncio.sleep(0)

warnings.warn("careful")
asyncio.run(main())
gc.collect()
"""

CRASHES: Final = """
class Bad:
    def __del__(self):
        raise ValueError("while it goes")

log_uncaught_exceptions()
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
Bad()
raise RuntimeError("the end")
"""


@functools.cache
def written(source: str, form: str = "json") -> str:
    """What a process writes to standard error while it runs the source."""
    command = [sys.executable, "-c", BEGINNING + source, form]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.stdout == ""
    return done.stderr


def lines(source: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written(source).splitlines()]


def test_muster_and_library_log_lines_have_the_same_keys() -> None:
    ours, foreign = lines(SEVERAL)
    assert ours.pop("pod") == "a"
    assert ours.keys() == foreign.keys() == {"event", "level", "logger", "timestamp", "exception"}
    assert [ours["event"], ours["logger"]] == ["ours", "muster.kube"]
    assert [foreign["event"], foreign["logger"]] == ["of a library", "aiohttp.server"]
    assert {line["level"] for line in (ours, foreign)} == {"error"}
    for line in (ours, foreign):
        assert line["timestamp"].endswith("Z")
        assert line["exception"].endswith("ZeroDivisionError: division by zero")


def test_warnings_and_unawaited_task_errors_are_logged() -> None:
    found = lines(PYTHONS)
    assert [(line["logger"], line["level"]) for line in found] == [("py.warnings", "warning"), ("asyncio", "error")]
    assert "UserWarning: careful" in found[0]["event"]
    assert found[1]["exception"].endswith("ValueError: lost")


def test_a_crash_is_logged_with_its_traceback() -> None:
    found = lines(CRASHES)
    assert [line["level"] for line in found] == ["error", "error", "critical"]
    ends = ["ZeroDivisionError: division by zero", "ValueError: while it goes", "RuntimeError: the end"]
    assert [line["exception"].splitlines()[-1] for line in found] == ends


def test_an_interrupt_keeps_the_python_report() -> None:
    assert written("log_uncaught_exceptions()\nraise KeyboardInterrupt").splitlines()[-1] == "KeyboardInterrupt"


def test_console_logs_have_no_local_variables_and_no_colours_without_a_terminal() -> None:
    text = written(SEVERAL, "console")
    assert "ours" in text
    assert "of a library" in text
    assert text.count("ZeroDivisionError: division by zero") == 2
    assert "hush" not in text
    assert "\x1b" not in text


def test_a_repeated_setup_writes_each_line_once() -> None:
    assert [line["event"] for line in lines("prepare()\nlogging.getLogger('aiohttp.x').error('once')")] == ["once"]
