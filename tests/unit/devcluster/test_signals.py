"""SIGTERM ends a run with its cleanup, like Ctrl-C."""

import asyncio
import os
import signal
import sys

import pytest

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
