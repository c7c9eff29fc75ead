"""A stub API server over HTTP: `python -m benchmarks.stand_in PORT_FILE PODS [NODES]`.

It serves paged lists and watches, accepts binds and shows their effect, and stores Leases and other small objects.
`POST /replay` writes pod events at a steady rate, each with the monotonic time of its writing. Objects are serialised
once, so that the server uses little CPU. `GET /seen` returns statistics.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
import uvloop
from aiohttp import web

from benchmarks import recorded
from muster_operator.kube.watch import PATHS
from tests.unit.operator.kube.cluster import DISCOVERY

#: Responses to the requests that the operator sends before it serves admission.
INTRODUCTION: Final[dict[str, Any]] = {
    "/version": {"major": "1", "minor": "34"},
    "/apis/authentication.k8s.io/v1/selfsubjectreviews": {"status": {"userInfo": {"username": "muster-operator"}}},
}
#: The annotation with the time of writing: nanoseconds of the monotonic clock, 20 digits.
STAMP: Final = "muster.dev/written"
_NO_TIME: Final = b"0" * 20
_NO_VERSION: Final = "9999999999"
#: Objects of a streamed list per write.
PIECE: Final = 50
#: Seconds between two writes of a replay.
TICK_S: Final = 0.01
_TEAMS: Final = ", ".join(f"{{name: team-{number}}}" for number in range(recorded.QUEUES))
QUEUES: Final = f"partitions: [{{name: default, queues: [{{name: root, submitacl: '*', queues: [{_TEAMS}]}}]}}]"


@dataclass(slots=True)
class Objects:
    """One resource: its objects as JSON, sorted by name."""

    plural: str
    items: list[bytes] = field(default_factory=list)
    watchers: list[web.StreamResponse] = field(default_factory=list)

    def page(self, limit: int, start: int) -> bytes:
        """Return a page of the list."""
        end = min(len(self.items), start + limit) if limit else len(self.items)
        token = str(end) if end < len(self.items) else ""
        head = orjson.dumps({"resourceVersion": "1000000", "continue": token})
        return b'{"kind":"List","metadata":' + head + b',"items":[' + b",".join(self.items[start:end]) + b"]}"

    async def send(self, lines: bytes) -> None:
        """Write events to every watch."""
        for watcher in list(self.watchers):
            try:
                await watcher.write(lines)
            except ConnectionError:
                self.watchers.remove(watcher)


class StandIn:
    """The server's state."""

    def __init__(self, pods: int, nodes: int = recorded.NODES) -> None:
        self.count, self.nodes = pods, nodes
        self.version = 2_000_000
        made = (orjson.dumps(recorded.pod(n, version=n + 1, nodes=nodes)) for n in range(pods))
        self.pods = Objects("pods", list(made))
        of_nodes = Objects("nodes", [orjson.dumps(recorded.node(n)) for n in range(nodes)])
        namespaces = Objects("namespaces", [_named(f"team-{n}") for n in range(recorded.NAMESPACES)])
        self.lists = {path: Objects(plural) for plural, path in PATHS.items()} | {
            "/api/v1/pods": self.pods,
            "/api/v1/nodes": of_nodes,
            "/api/v1/namespaces": namespaces,
        }
        of_drivers = self.lists["/apis/storage.k8s.io/v1/csinodes"].items
        of_drivers += [orjson.dumps(recorded.csi_node(n)) for n in range(nodes)]
        self.kept: dict[str, Any] = {
            "/api/v1/namespaces/default/configmaps/muster-configs": {
                "metadata": {"name": "muster-configs", "namespace": "default", "uid": "config", "resourceVersion": "1"},
                "data": {"queues.yaml": QUEUES},
            }
        }
        self.seen: Counter[str] = Counter()
        self.first_bind_ns = 0
        self._bound: dict[str, str] = {}
        self._templates: dict[int, tuple[bytes, bytes, bytes]] = {}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Handle any request."""
        is_watch = request.query.get("watch") in {"true", "1"}
        kind = request.path.rpartition("/")[2] if request.method == "POST" else request.path.partition("?")[0]
        self.seen[f"{'WATCH' if is_watch else request.method} {kind}"] += 1
        if request.path in INTRODUCTION:
            return web.json_response(INTRODUCTION[request.path], status=200 if request.method == "GET" else 201)
        if request.path in DISCOVERY:
            return web.json_response(DISCOVERY[request.path])
        if is_watch:
            return await self._watch(request)
        if request.method == "GET":
            return self._get(request)
        body = orjson.loads(await request.read() or b"{}")
        if request.path.endswith("/binding"):
            await self._bind(request.path, body["target"]["name"])
            return _json(201, {"kind": "Status", "status": "Success"})
        if request.method == "DELETE":
            return _json(200, {"kind": "Status", "status": "Success"})
        if "/leases" in request.path or "webhookconfigurations" in request.path:
            return self._keep(request, body)
        return _json(201 if request.method == "POST" else 200, body)

    async def replay(self, request: web.Request) -> web.Response:
        """`?rate=5000&seconds=20`: write pod events at this rate. Responds when they are written."""
        rate, seconds = int(request.query["rate"]), float(request.query["seconds"])
        began, written = time.monotonic(), 0
        while (passed := time.monotonic() - began) < seconds:
            due = int(rate * passed) - written
            if due > 0:
                lines = b"".join(self._event(written + number) for number in range(due))
                await self.pods.send(lines)
                written += due
            await asyncio.sleep(TICK_S)
        return _json(200, {"written": written, "seconds": time.monotonic() - began})

    async def cut(self, request: web.Request) -> web.Response:
        """Abort every watch of pods, as a load balancer does."""
        for watcher in self.pods.watchers:
            if watcher._req is not None and watcher._req.transport is not None:  # noqa: SLF001 - no other way to abort
                watcher._req.transport.abort()  # noqa: SLF001
        return _json(200, {})

    def _get(self, request: web.Request) -> web.Response:
        if request.path == "/seen":
            statistics = {"seen": dict(self.seen), "watches": len(self.pods.watchers), "bound": len(self._bound)}
            return _json(200, statistics | {"first_bind_ns": self.first_bind_ns})
        objects = self.lists.get(request.path)
        if "labelSelector" in request.query:  # no object has the labels that Muster selects
            return _json(200, {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []})
        if objects is not None:
            limit, start = int(request.query.get("limit", "0")), int(request.query.get("continue") or 0)
            return web.Response(body=objects.page(limit, start), content_type="application/json")
        if request.path in self.kept:
            return _json(200, self.kept[request.path])
        if request.path.rpartition("/")[2] in {"configmaps", "deployments", "leases"}:
            return _json(200, {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []})
        return _json(404, {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})

    def _keep(self, request: web.Request, body: dict[str, Any]) -> web.Response:
        path = request.path if request.method != "POST" else f"{request.path}/{body['metadata']['name']}"
        self.version += 1
        body.setdefault("metadata", {})["resourceVersion"] = str(self.version)
        self.kept[path] = {**self.kept.get(path, {}), **body}
        return _json(201 if request.method == "POST" else 200, self.kept[path])

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        objects = self.lists.get(request.path, Objects(""))
        if "sendInitialEvents" in request.query:
            await self._streamed(response, objects)
        objects.watchers.append(response)
        try:
            while True:
                await asyncio.sleep(30)
                bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}}
                await response.write(orjson.dumps(bookmark) + b"\n")
        finally:
            if response in objects.watchers:
                objects.watchers.remove(response)

    async def _streamed(self, response: web.StreamResponse, objects: Objects) -> None:
        """Write a streamed list: all objects, and the bookmark at the end."""
        for start in range(0, len(objects.items), PIECE):
            await response.write(b"".join(_line("ADDED", raw) for raw in objects.items[start : start + PIECE]))
        metadata = {"resourceVersion": str(self.version), "annotations": {"k8s.io/initial-events-end": "true"}}
        await response.write(_line("BOOKMARK", orjson.dumps({"metadata": metadata})))

    async def _bind(self, path: str, node: str) -> None:
        self.first_bind_ns = self.first_bind_ns or time.monotonic_ns()
        name = path.split("/")[-2]
        number = int(name.rpartition("-")[2])
        self._bound[name] = node
        self.version += 1
        raw = recorded.pod(number, version=self.version, node_name=node, nodes=self.nodes)
        await self.pods.send(_line("MODIFIED", orjson.dumps(raw)))

    def _event(self, number: int) -> bytes:
        """Return a status update of the next running pod."""
        which = (number * 7919) % self.count
        while recorded.is_pending(which):
            which += 1
        head, middle, tail = self._templates.get(which) or self._template(which)
        self.version += 1
        return b"%b%d%b%020d%b" % (head, self.version, middle, time.monotonic_ns(), tail)

    def _template(self, which: int) -> tuple[bytes, bytes, bytes]:
        raw = recorded.pod(which, version=0, nodes=self.nodes)
        raw["metadata"]["resourceVersion"] = _NO_VERSION
        raw["metadata"]["annotations"][STAMP] = _NO_TIME.decode()
        head, _, rest = _line("MODIFIED", orjson.dumps(raw)).partition(_NO_VERSION.encode())
        middle, _, tail = rest.partition(b'"' + _NO_TIME + b'"')
        self._templates[which] = parts = (head, middle + b'"', b'"' + tail)
        return parts


def _line(kind: str, raw: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), raw)


def _named(name: str) -> bytes:
    return orjson.dumps({"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}})


def _json(status: int, body: object) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(body), content_type="application/json")


async def serve(pods: int, nodes: int, ready: Callable[[int], None]) -> None:
    """Serve until killed. Calls `ready` with the port."""
    stand_in = StandIn(pods, nodes)
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/replay", stand_in.replay)
    app.router.add_post("/cut", stand_in.cut)
    app.router.add_route("*", "/{tail:.*}", stand_in.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    ready(runner.addresses[0][1])
    await asyncio.Event().wait()


if __name__ == "__main__":
    port_file = Path(sys.argv[1])

    def write_port(port: int) -> None:
        """Write the port file atomically, because a process waits for it."""
        part = port_file.with_suffix(".part")
        part.write_text(str(port))
        part.rename(port_file)

    uvloop.run(serve(int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else recorded.NODES, write_port))
