"""Children are stopped, killed and restarted, report why they ended, and end with their parent."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from devcluster.errors import ConditionNotMet, ProcessFailed
from devcluster.process import Process
from devcluster.waiting import until

SLEEPER = "import time\nprint('up', flush=True)\ntime.sleep(60)"
STUBBORN = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(60)"


def python(tmp_path: Path, program: str, name: str = "child") -> Process:
    return Process(name, [sys.executable, "-c", program], tmp_path / f"{name}.log")


async def is_up(process: Process) -> None:
    async def has_output() -> bool:
        return "up" in process.tail()

    await until("the child speaks", has_output, 10)


@pytest.mark.parametrize("options", [{"cwd": Path("/")}, {"tethered": False}])
def test_a_program_of_a_fork_server_takes_no_cwd_and_does_not_outlive_its_parent(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    child = Process("child", [], tmp_path / "child.log", module="json.tool", **options)
    with pytest.raises(ProcessFailed, match="fork server"):
        child.start()


async def test_sigterm_ends_a_child_and_sigkill_a_stubborn_one(tmp_path: Path) -> None:
    polite, stubborn = python(tmp_path, SLEEPER, "polite"), python(tmp_path, STUBBORN, "stubborn")
    for process in (polite, stubborn):
        process.start()
        await is_up(process)
    assert await polite.stop() == -signal.SIGTERM
    assert await stubborn.stop(grace_s=0.1) == -signal.SIGKILL
    assert polite.pid is None


async def test_a_killed_child_starts_again_and_continues_its_log(tmp_path: Path) -> None:
    process = python(tmp_path, SLEEPER)
    process.start()
    await is_up(process)
    await process.kill()
    process.start()

    async def spoke_twice() -> bool:
        return process.tail().splitlines() == ["up", "up"]

    await until("the child speaks again", spoke_twice, 10)
    await process.stop()


async def test_a_failed_child_reports_the_end_of_its_log(tmp_path: Path) -> None:
    process = python(tmp_path, "raise SystemExit('no such flag')")
    process.start()
    assert await process.ended(10)
    with pytest.raises(ProcessFailed, match="no such flag"):
        process.check()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a child to its parent")
async def test_a_child_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    parent = (
        "import sys, time\nfrom pathlib import Path\nfrom devcluster.process import Process\n"
        f"p = Process('child', [sys.executable, '-c', {SLEEPER!r}], Path({str(log)!r}))\n"
        "p.start()\nprint(p.pid, flush=True)\ntime.sleep(60)"
    )
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", parent),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert started.stdout is not None
    child = psutil.Process(int(await started.stdout.readline()))
    started.kill()
    await started.communicate()

    async def is_gone() -> bool:
        return not child.is_running() or child.status() == psutil.STATUS_ZOMBIE

    await until("the child is gone", is_gone, 10)


async def test_a_condition_that_is_never_met_reports_the_last_result() -> None:
    async def nothing() -> list[int]:
        return []

    with pytest.raises(ConditionNotMet, match=r"last result: \[\]"):
        await until("it rains", nothing, 0.05, every_s=0.01)


async def test_a_program_of_a_fork_server_has_its_own_group_environment_and_log(tmp_path: Path) -> None:
    process = Process("core", ["--no-such-option"], tmp_path / "core.log", env={"NO_COLOR": "1"}, module="muster_core")
    process.start()
    assert await process.ended(30)
    assert process.returncode == 2
    assert "No such option" in process.tail()

    listen = f"--listen=unix://{tmp_path}/core.sock"
    process.argv, process.env = [listen, "--log-level=debug"], {"MUSTER_REST_PORT": "0"}
    process.start()
    assert process.pid is not None
    assert os.getpgid(process.pid) == process.pid
    await until("the core listens", lambda: _listened(process, 1), 30)
    await process.kill()
    assert process.returncode == -signal.SIGKILL
    process.start()
    await until("the core listens again", lambda: _listened(process, 2), 30)
    assert await process.stop(grace_s=30.0) == 0


async def _listened(process: Process, times: int) -> bool:
    return process.tail().count("the core listens") == times


# -- SIGTERM ends a run with its cleanup, like Ctrl-C.

# A shell without job control starts background programs with SIGINT ignored, and they pass that on to their children.
PROGRAM = """
import asyncio, signal
from devcluster import signals

signal.signal(signal.SIGINT, signal.default_int_handler)

async def main():
    try:
        print("up", flush=True)
        await asyncio.sleep(60)
    finally:
        print("cleaned up", flush=True)

try:
    signals.run(main())
except KeyboardInterrupt:
    raise SystemExit(130)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_a_run_through_its_clean_up(number: signal.Signals) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", PROGRAM),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"up\n"
    process.send_signal(number)
    output, _ = await process.communicate()
    assert output == b"cleaned up\n"
    assert process.returncode == 130
