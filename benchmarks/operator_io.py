"""Measures the operator's binds and watch events, with a trivial HTTP server in another process.

`binds`: binding POSTs through the connection pool, one per pod. `events`: pod events of 6 KB from a watch through
its stream and the inbox, without translation. `translated`: the same with the controller. All are per
CPU second of this process. Run: `python -m benchmarks.operator_io`. Goals: 5,000 binds, 15,000 events.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import uvloop
from aiohttp import web

from muster_operator.controller.state import Ledger
from muster_operator.kube.commands import Attempts, Kube, Placeholders
from muster_operator.kube.session import KubeSession
from muster_operator.kube.watch import streams
from muster_operator.kube.write_queue import Pool
from muster_operator.model.commands import BindPod
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.pods import PodRef
from muster_operator.model.settings import Settings
from muster_operator.runtime.loop import Inbox, Loop
from muster_operator.runtime.metrics import Metrics
from muster_operator.translate.pod_classes import PartialPod
from muster_operator.translate.values import Raw
from muster_si.kubeconfig import Access, Credentials

BINDS = 20_000
EVENTS = 40_000
SETTINGS = Settings()


def pod(number: int) -> dict[str, Any]:
    """Return a pod of about 6 KB."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{number:06d}",
            "namespace": "load",
            "uid": f"uid-{number:06d}",
            "resourceVersion": str(number + 10),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"applicationId": f"app-{number % 50}", "queue": "root.load"},
            "managedFields": [{"manager": "m", "fieldsV1": {f"f:{key}": {} for key in range(250)}}],
        },
        "spec": {
            "schedulerName": "muster",
            "containers": [
                {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
            ],
            "tolerations": [{"key": f"k{key}", "operator": "Exists", "effect": "NoSchedule"} for key in range(20)],
        },
        "status": {"phase": "Pending"},
    }


def serve(port: Any, events: int) -> None:
    """Run the server: it answers every write and serves one watch of pods."""
    created = orjson.dumps({"kind": "Status", "status": "Success"})
    lines = b"".join(orjson.dumps({"type": "ADDED", "object": pod(n)}) + b"\n" for n in range(events))

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.method == "POST":
            await request.read()
            return web.Response(status=201, body=created, content_type="application/json")
        if "sendInitialEvents" in request.query:
            return web.json_response({"kind": "Status", "code": 422}, status=422)
        if not request.query.get("watch"):
            return web.json_response({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []})
        response = web.StreamResponse()
        await response.prepare(request)
        if request.path == "/api/v1/pods":
            for start in range(0, len(lines), 2**18):
                await response.write(lines[start : start + 2**18])
        await asyncio.sleep(60)
        return response

    async def main() -> None:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port.put(runner.addresses[0][1])
        await asyncio.Event().wait()

    uvloop.run(main())


@contextmanager
def server(events: int) -> Iterator[str]:
    """Run the server in its own process."""
    context = multiprocessing.get_context("spawn")
    port = context.Queue()
    process = context.Process(target=serve, args=(port, events), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{port.get(timeout=60)}"
    finally:
        process.kill()
        process.join()


class Counting(Inbox):
    """An inbox that counts pods."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics, lambda: SETTINGS)  # new settings would clear the cache of pod classes
        self.pods, self.first = 0, asyncio.Event()

    def changed(self, plural: str, kind: str | None, raw: Raw | PartialPod) -> None:
        """Count the pod and process it."""
        if plural == "pods":
            self.pods += 1
            self.first.set()
        super().changed(plural, kind, raw)


async def binds(url: str) -> tuple[float, float]:
    """Return (wall-clock seconds, CPU seconds of this process) for BINDS binds."""
    metrics, session = Metrics(), KubeSession(Credentials(lambda: Access(url)))
    attempts = Attempts(retried=lambda kind, status: None, ended=lambda kind, status: None)
    kube = Kube(session, Placeholders(lambda spec: {}, lambda raw, spec: True), Inbox(metrics), attempts)
    pool = Pool(kube.execute)
    running = asyncio.create_task(pool.run())
    gc.collect()
    gc.freeze()  # as the operator does after a recovery; else one full collection decides the result
    began, cpu = time.perf_counter(), time.process_time()
    for number in range(BINDS):
        pool.submit(BindPod(PodRef("load", f"p{number}", PodUid(str(number))), NodeName("n")))
    await pool.drained()
    took = time.perf_counter() - began, time.process_time() - cpu
    running.cancel()
    await session.close()
    return took


async def events(url: str, *, translated: bool) -> tuple[float, float]:
    """Return (wall-clock seconds, CPU seconds of this process) for EVENTS pod events."""
    metrics = Metrics()
    inbox, session = Counting(metrics), KubeSession(Credentials(lambda: Access(url)))
    loop = Loop(Ledger(), inbox, lambda command: None, metrics)

    watches = [asyncio.create_task(stream.run()) for stream in streams(session, inbox)]
    await inbox.first.wait()
    began, cpu, first = time.perf_counter(), time.process_time(), inbox.pods
    while inbox.pods < EVENTS or len(inbox):
        await inbox.something(1)
        if translated:
            loop.iterate()
        else:
            while inbox.take() is not None:
                pass
        await asyncio.sleep(0)
    took = time.perf_counter() - began, time.process_time() - cpu
    for watch in watches:
        watch.cancel()
    await asyncio.wait(watches)
    await session.close()
    share = EVENTS / (EVENTS - first)
    return took[0] * share, took[1] * share


def main() -> None:
    """Measure and print."""
    with server(0) as url:
        wall, cpu = uvloop.run(binds(url))
        print(f"binds:              {BINDS / wall:8,.0f}/s   {BINDS / cpu:8,.0f} a second of CPU")
    for name, translated in (("events", False), ("events, translated", True)):
        with server(EVENTS) as url:
            wall, cpu = uvloop.run(events(url, translated=translated))
            print(f"{name + ':':19} {EVENTS / wall:8,.0f}/s   {EVENTS / cpu:8,.0f} a second of CPU")


if __name__ == "__main__":
    main()
