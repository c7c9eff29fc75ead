"""Measures the latency of the admission webhook while the operator is idle, starts, and handles a replay of events.

The operator of `operator_scale` (20,000 pods and 2,000 nodes from the stub API server) runs with its webhook. It gets
100 requests per second about a new pod, over kept HTTPS connections. Run: `python -m benchmarks.admission_answers`.
"""

from __future__ import annotations

import asyncio
import ssl
import statistics
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson

from benchmarks.operator_scale import DEADLINE_S, Run, _kubeconfig, _start_stub_api, _until
from devcluster import ports
from muster_operator.webhook import certificates

RATE: Final = 100
EVENTS: Final = 5000
SECONDS: Final = 8.0
QUESTION: Final[dict[str, Any]] = {
    "uid": "u",
    "operation": "CREATE",
    "kind": {"group": "", "version": "v1", "kind": "Pod"},
    "namespace": "team-1",
    "userInfo": {"username": "ann", "groups": ["dev"]},
    "object": {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"schedulerName": "muster", "containers": []}},
}


@dataclass(slots=True)
class SteadyRequests:
    """Sends requests at a steady rate and records each latency by the phase of the operator."""

    url: str
    session: aiohttp.ClientSession
    phase: str = "start"
    took_ms: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def run(self) -> None:
        """Send requests until cancelled. A request does not wait for the previous one."""
        async with asyncio.TaskGroup() as questions:
            while True:
                questions.create_task(self._ask(self.phase))
                await asyncio.sleep(1 / RATE)

    async def answers(self) -> bool:
        """Whether the webhook answers."""
        try:
            async with self.session.post(self.url, data=orjson.dumps({"request": QUESTION})) as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def _ask(self, phase: str) -> None:
        began = time.monotonic()
        async with self.session.post(self.url, data=orjson.dumps({"request": QUESTION})) as answer:
            assert orjson.loads(await answer.read())["response"]["allowed"]
        self.took_ms[phase].append(1000 * (time.monotonic() - began))


async def measure(one: Run) -> dict[str, list[float]]:
    """Return latencies in milliseconds by phase."""
    server, core = await _start_stub_api(one), f"unix://{one.folder}/core.sock"
    health, webhook = ports.free(2)
    one.start("core", "muster_core", f"--listen={core}", "--rest-port=0")
    await _until((one.folder / "core.sock").exists)
    tls, flags = _certificate(one.folder)
    flags += [f"--webhook-url=https://127.0.0.1:{webhook}", f"--webhook-port={webhook}", f"--health-port={health}"]
    env = {"KUBECONFIG": str(_kubeconfig(one.folder, server))}
    one.start("operator", "muster_operator", f"--core={core}", *flags, env=env)
    connector, timeout = aiohttp.TCPConnector(ssl=tls, limit=50), aiohttp.ClientTimeout(total=DEADLINE_S)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        requests = SteadyRequests(f"https://127.0.0.1:{webhook}/mutate", session)
        await _until(requests.answers)
        task = asyncio.create_task(requests.run())

        async def is_ready() -> bool:
            async with session.get(f"http://127.0.0.1:{health}/readyz") as answer:
                return answer.status == 200

        await _until(is_ready)
        await asyncio.sleep(5)
        requests.phase = "idle"
        await asyncio.sleep(5)
        requests.phase = "replay"
        async with session.post(f"{server}/replay?rate={EVENTS}&seconds={SECONDS}") as answer:
            await answer.read()
        task.cancel()
        await asyncio.wait([task])
    return requests.took_ms


def _certificate(folder: Path) -> tuple[ssl.SSLContext, list[str]]:
    """Create a certificate. Returns a client context that trusts it and the operator's flags."""
    now = datetime.now(UTC)
    leaf = certificates.issue(certificates.kept_or_made((None, None), now), ["127.0.0.1"], now)
    trusted = b"".join(leaf.authorities)
    flags = []
    for option, content in (("cert", leaf.chain), ("key", leaf.key), ("ca", trusted)):
        (folder / option).write_bytes(content)
        flags.append(f"--webhook-{option}={folder / option}")
    return ssl.create_default_context(cadata=trusted.decode()), flags


def main() -> None:
    """Measure and print the latencies."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        found = asyncio.run(measure(Run(Path(folder), processes)))
    for phase, took in found.items():
        cuts = statistics.quantiles(took, n=100)
        print(
            f"{phase:8} {len(took):6} answers  p50 {cuts[49]:7.1f} ms  p99 {cuts[98]:7.1f} ms  max {max(took):7.1f} ms"
        )


if __name__ == "__main__":
    main()
