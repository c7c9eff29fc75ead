"""Measures the operator with 20,000 pods and 2,000 nodes from a stub API server, and the real core.

It measures the time from process start to the first bind, and the resident memory during and after the list. Then it
sends 5,000 pod events per second. It measures the time from the server's write until the controller has handled the
event, and the longest pause of the operator's event loop, which delays probes and lease renewals.

`scale` uses 150,000 pods and 15,000 nodes. It measures the time until the operator is ready, then a comparison with a
list of all pods during 1,000 pod events per second. Its pauses are CPU time of the event loop's thread, so that other
processes on the machine do not count.

Run: `python -m benchmarks.operator_scale`, with `--scale` for that.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson
import psutil
import yaml

from benchmarks import recorded

PODS: Final = 20_000
RATE: Final = 5000
SECONDS: Final = 20.0
DEADLINE_S: Final = 120.0
MANY_PODS: Final = 50_000
#: The size of the largest Kubernetes clusters, and the rate of events during a comparison.
SCALE_PODS: Final = 150_000
SCALE_NODES: Final = 15_000
SCALE_RATE: Final = 1_000
SCALE_SECONDS: Final = 40.0
#: Name to unit and goal; lower is better.
SCALE: Final[Mapping[str, tuple[str, float | None]]] = {
    "ready": ("s", 45.0),
    "start-cpu": ("s", None),
    "memory-peak": ("MiB", 1536.0),
    "memory-steady": ("MiB", None),
    "memory-core": ("MiB", None),
    "pause-start": ("ms", 100.0),
    "pause-compare": ("ms", 100.0),
    "lag-compare": ("ms", 1000.0),
}
#: Name to goal in MiB.
MEMORY: Final[Mapping[str, float | None]] = {"both": 1024.0, "operator": None, "core": None, "at-rest": None}
#: Seconds after the last bind until the operator is idle, and after the last event until all are handled.
REST_S: Final = 3.0

#: Name to unit and goal; lower is better, except for the rate.
GOALS: Final[Mapping[str, tuple[str, float | None]]] = {
    "first-decision": ("s", 5.0),
    "start-cpu": ("s", None),
    "memory-peak": ("MiB", 400.0),
    "memory-steady": ("MiB", 400.0),
    "rate": ("/s", 0.99 * RATE),  # the offered rate, without a backlog
    "lag-p50": ("ms", None),
    "lag-p99": ("ms", 100.0),
    "cpu-per-event": ("us", None),
    "pause-start": ("ms", 100.0),
    "pause-replay": ("ms", 100.0),
}


@dataclass(slots=True)
class Run:
    """One measurement: its folder, its size, the start time of the operator, and the results."""

    folder: Path
    processes: ExitStack
    pods: int = PODS
    nodes: int = recorded.NODES
    seconds: float = SECONDS
    found: dict[str, float] = field(default_factory=dict)
    before: dict[str, Any] = field(default_factory=dict)
    began_ns: int = 0

    def start(self, name: str, *arguments: str, env: Mapping[str, str] | None = None) -> psutil.Process:
        """Start a process that runs until the measurement ends. Its log is in the folder."""
        return self.processes.enter_context(_process(self.folder / f"{name}.log", arguments, env or {}))


@contextmanager
def _process(log: Path, arguments: tuple[str, ...], env: Mapping[str, str]) -> Iterator[psutil.Process]:
    with log.open("w") as output:
        command = [sys.executable, "-m", *arguments]
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **env})
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def run(*, quick: bool = False) -> dict[str, float]:
    """Run one measurement. GOALS has the keys of the result."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        one = Run(Path(folder), processes)
        if quick:
            one.pods, one.seconds = 2000, 3.0
        asyncio.run(_measure(one))
    return one.found


def memory(*, quick: bool = False) -> dict[str, float]:
    """Measure the peak and idle memory of both processes with 50,000 pods, in MiB. MEMORY has the keys."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        one = Run(Path(folder), processes, pods=2000 if quick else MANY_PODS)
        asyncio.run(_measure_memory(one))
    return one.found


def scale(*, quick: bool = False) -> dict[str, float]:
    """Measure the operator with 15,000 nodes and 150,000 pods. SCALE has the keys."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        one = Run(Path(folder), processes, pods=5_000 if quick else SCALE_PODS, nodes=500 if quick else SCALE_NODES)
        one.seconds = 3.0 if quick else SCALE_SECONDS
        asyncio.run(_measure_scale(one))
    return one.found


async def _measure_scale(one: Run) -> None:
    """Wait until the operator is ready, then compare with a list during pod events."""
    url, notes, port = await _start_stub_api(one), one.folder / "notes.json", _free_port()
    core, operator = await _both(one, url, notes, f"--health-port={port}")
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=DEADLINE_S)) as client:

        async def is_ready() -> bool:
            try:
                async with client.get(f"http://127.0.0.1:{port}/readyz") as answer:
                    return answer.status == 200
            except aiohttp.ClientError:
                return False

        await _until(is_ready)
        one.found["ready"] = (time.monotonic_ns() - one.began_ns) / 1e9
        await _until(lambda: _watches(client, url))
        await asyncio.sleep(REST_S)
        start = await _noted(operator, notes)
        one.found |= {"start-cpu": start["cpu_s"], "pause-start": start["busy_ms"]}
        operator.send_signal(signal.SIGUSR2)
        async with client.post(f"{url}/replay?rate={SCALE_RATE}&seconds={one.seconds}") as answer:
            written: int = (await answer.json())["written"]
        await asyncio.sleep(REST_S)
        after = await _noted(operator, notes)
        if after["events"] != written:
            print(f"operator: {written} events written, {after['events']} handled by now", file=sys.stderr)
        one.found |= {
            "lag-compare": after["lag_ms"]["max"],
            "pause-compare": after["busy_ms"],
            "memory-peak": _peak_mib(operator),
            "memory-steady": operator.memory_info().rss / 2**20,
            "memory-core": _peak_mib(core),
        }


async def _watches(client: aiohttp.ClientSession, url: str) -> bool:
    """Whether the server has an open watch of pods."""
    async with client.get(f"{url}/seen") as answer:
        return bool((await answer.json())["watches"])


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


async def _measure_memory(one: Run) -> None:
    url, notes = await _start_stub_api(one), one.folder / "notes.json"
    core, operator = await _both(one, url, notes)
    async with aiohttp.ClientSession(url, timeout=aiohttp.ClientTimeout(total=DEADLINE_S)) as server:
        await _decided(one, server)
    await asyncio.sleep(REST_S)
    peaks = {name: _peak_mib(process) for name, process in (("operator", operator), ("core", core))}
    at_rest = sum(process.memory_info().rss for process in (operator, core)) / 2**20
    one.found |= {"both": sum(peaks.values()), **peaks, "at-rest": at_rest}


def _peak_mib(process: psutil.Process) -> float:
    """Return the peak resident memory."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


async def _both(
    one: Run, url: str, notes: Path, health: str = "--health-port=0"
) -> tuple[psutil.Process, psutil.Process]:
    """Start core and operator. Returns when the core listens."""
    core = f"unix://{one.folder}/core.sock"
    scheduler = one.start("core", "muster_core", f"--listen={core}", "--rest-port=0", "--log-level=warning")
    await _until((one.folder / "core.sock").exists)
    one.began_ns = time.monotonic_ns()
    operator = one.start(
        "operator",
        *("benchmarks.measured_operator", str(notes), f"--core={core}", health, "--log-level=warning"),
        env={"KUBECONFIG": str(_kubeconfig(one.folder, url))},
    )
    return scheduler, operator


async def _measure(one: Run) -> None:
    url, notes = await _start_stub_api(one), one.folder / "notes.json"
    _, operator = await _both(one, url, notes)
    began = one.began_ns
    async with aiohttp.ClientSession(url, timeout=aiohttp.ClientTimeout(total=DEADLINE_S)) as server:
        one.found["first-decision"] = (await _decided(one, server) - began) / 1e9
        await asyncio.sleep(REST_S)
        one.before = await _noted(operator, notes)
        one.found["memory-steady"] = operator.memory_info().rss / 2**20
        async with server.post(f"/replay?rate={RATE}&seconds={one.seconds}") as answer:
            written: int = (await answer.json())["written"]
        await asyncio.sleep(REST_S)
        _note(one, await _noted(operator, notes), written)


def _note(one: Run, after: Mapping[str, Any], written: int) -> None:
    """Record the operator's values of startup and replay."""
    if after["events"] != written:
        print(f"operator: {written} events written, {after['events']} handled by now", file=sys.stderr)
    cpu_s = after["cpu_s"] - one.before["cpu_s"]
    one.found |= {
        "start-cpu": one.before["cpu_s"],
        "memory-peak": after["peak_rss_mib"],
        "rate": written / one.seconds,
        "lag-p50": after["lag_ms"]["p50"],
        "lag-p99": after["lag_ms"]["p99"],
        "cpu-per-event": 1e6 * cpu_s / max(1, after["events"]),
        "pause-start": one.before["pause_ms"]["max"],
        "pause-replay": after["pause_ms"]["max"],
    }


async def _start_stub_api(one: Run) -> str:
    """Start the stub of the API server. Returns its address when it serves."""
    port_file = one.folder / "port"
    one.start("server", "benchmarks.stand_in", str(port_file), str(one.pods), str(one.nodes))
    await _until(port_file.exists)
    return f"http://127.0.0.1:{port_file.read_text()}"


async def _decided(one: Run, server: aiohttp.ClientSession) -> int:
    """Wait for all binds. Returns the time of the first one, in nanoseconds of the monotonic clock."""
    waiting = sum(recorded.is_pending(number) for number in range(one.pods))
    first = 0

    async def all_came() -> bool:
        nonlocal first
        async with server.get("/seen") as answer:
            seen = await answer.json()
        first = seen["first_bind_ns"]
        return bool(seen["bound"] >= waiting)

    await _until(all_came)
    return first


async def _noted(operator: psutil.Process, notes: Path) -> dict[str, Any]:
    """Return the operator's values since the last report."""
    await asyncio.to_thread(notes.unlink, missing_ok=True)
    operator.send_signal(signal.SIGUSR1)
    await _until(notes.exists)
    found: dict[str, Any] = orjson.loads(await asyncio.to_thread(notes.read_bytes))
    return found


async def _until(is_so: Callable[[], bool | Awaitable[bool]]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            answer = is_so()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.05)


def _kubeconfig(folder: Path, url: str) -> Path:
    path = folder / "kubeconfig"
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "not checked"}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


if __name__ == "__main__":
    is_scale = "--scale" in sys.argv
    for name, value in (scale if is_scale else run)(quick="--quick" in sys.argv).items():
        unit, goal = (SCALE if is_scale else GOALS)[name]
        print(f"{name:16} {value:9.2f} {unit:4}" + (f" (goal: {goal:g})" if goal else ""))
