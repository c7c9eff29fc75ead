"""An HTTP peer with the lists and watches of a few resources, and the operator's streams at work against it."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from muster_operator.kube.session import KubeSession
from muster_operator.kube.watch import streams
from muster_operator.model.cluster_events import PodGone, PodSeen
from muster_operator.model.settings import Settings
from muster_operator.runtime.inputs import EventReceived, Input
from muster_operator.runtime.loop import Inbox
from muster_operator.runtime.metrics import Metrics
from muster_operator.translate.pods import read_pod
from tests.unit.operator.kube.apiserver import FixedCredentials

CONFIG_MAPS = "/api/v1/namespaces/muster/configmaps"
VERBS = ["get", "list", "watch", "create", "patch", "delete"]
NAMESPACED = frozenset({"ConfigMap", "Event"})


def _resources(**kinds: str) -> dict[str, Any]:
    """The response of the discovery of a group, from plural to kind."""
    return {
        "resources": [
            {
                "name": plural,
                "kind": kind,
                "singularName": kind.lower(),
                "namespaced": kind in NAMESPACED,
                "verbs": VERBS,
            }
            for plural, kind in kinds.items()
        ]
    }


def _group(name: str) -> dict[str, Any]:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


#: What kopf discovers: ConfigMaps, and the kinds that it needs for itself.
DISCOVERY: dict[str, Any] = {
    "/api": {"versions": ["v1"]},
    "/apis": {"groups": [_group("apiextensions.k8s.io"), _group("events.k8s.io")]},
    "/api/v1": _resources(configmaps="ConfigMap", namespaces="Namespace", events="Event"),
    "/apis/apiextensions.k8s.io/v1": _resources(customresourcedefinitions="CustomResourceDefinition"),
    "/apis/events.k8s.io/v1": _resources(events="Event"),
}


def a_pod(name: str, version: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version)},
    }


@dataclass
class Cluster:
    """Discovery, lists and watches of a few resources; `lines` are for the watches of pods, None = their end,
    `script` for those of others by path. `missing`: paths that the cluster does not have;
    `forbidden`: paths without a permission; `missed`: requests of both.

    `watches`: at which version each watch of pods began; `refusals`: answers to the next ones instead of a stream.
    `streams_lists`: whether a watch may begin with a list, `ends_lists`: and says where that ends; `version`: of lists.
    `held`: lists of pods wait for it with what they have read; `waiting`: one does. `items`: of the lists of others.
    `unauthorized`: number of requests that are answered with 401.
    """

    pods: list[dict[str, Any]] = field(default_factory=list)
    lists: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    writes: list[str] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    lines: asyncio.Queue[dict[str, Any] | None] = field(default_factory=asyncio.Queue)
    script: defaultdict[str, asyncio.Queue[dict[str, Any] | None]] = field(
        default_factory=lambda: defaultdict(asyncio.Queue)
    )
    watches: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    refusals: list[Callable[[], web.Response]] = field(default_factory=list)
    streams_lists: bool = False
    ends_lists: bool = True
    version: int = 1
    held: asyncio.Event | None = None
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    seen: list[web.Request] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)
    forbidden: set[str] = field(default_factory=set)
    missed: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    items: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    unauthorized: int = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        if request.method != "GET":
            self.writes.append(f"{request.method} {request.path}")
        if self.unauthorized:
            self.unauthorized -= 1
            return web.json_response({"kind": "Status", "code": 401}, status=401)
        if request.path in DISCOVERY and request.path not in self.missing:
            return web.json_response(DISCOVERY[request.path])
        if request.path in self.forbidden:
            self.missed.put_nowait(request.path)
            return web.json_response({"kind": "Status", "status": "Failure", "code": 403}, status=403)
        if request.path in self.missing:
            self.missed.put_nowait(request.path)
            return web.json_response({"kind": "Status", "code": 404}, status=404)
        if request.query.get("watch"):
            return await self._watch(request)
        self.lists.put_nowait(request.path)
        if request.path == "/api/v1/pods" and self.failures:
            return web.json_response({"kind": "Status", "code": 500}, status=self.failures.pop(0))
        items = list(self.pods if request.path == "/api/v1/pods" else self.items.get(request.path, []))
        if self.held is not None and request.path == "/api/v1/pods":
            self.waiting.set()
            await self.held.wait()
        return web.json_response({"kind": "List", "metadata": {"resourceVersion": str(self.version)}, "items": items})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        if "sendInitialEvents" in request.query:
            return await self._streamed_list(request)
        if request.path == "/api/v1/pods":
            self.watches.put_nowait(request.query["resourceVersion"])
            if self.refusals:
                return self.refusals.pop(0)()
        response = web.StreamResponse()
        await response.prepare(request)
        lines = self.lines if request.path == "/api/v1/pods" else self.script[request.path]
        while (line := await lines.get()) is not None:
            await response.write(orjson.dumps(line) + b"\n")
        return response

    async def _streamed_list(self, request: web.Request) -> web.StreamResponse:
        request["is_served"] = self.streams_lists
        if not self.streams_lists:
            return web.json_response({"kind": "Status", "code": 422}, status=422)
        self.lists.put_nowait(request.path)
        await (response := web.StreamResponse()).prepare(request)
        for pod in self.pods if request.path == "/api/v1/pods" else []:
            await response.write(orjson.dumps(change("ADDED", pod)) + b"\n")
        metadata = {"resourceVersion": str(self.version), "annotations": {"k8s.io/initial-events-end": "true"}}
        if self.ends_lists:
            await response.write(orjson.dumps(change("BOOKMARK", {"metadata": metadata})) + b"\n")
        await asyncio.sleep(60)
        return response


@asynccontextmanager
async def serving(server: Cluster, tokens: list[str] | None = None) -> AsyncIterator[KubeSession]:
    """Run the server, with a session of it."""
    runner = web.AppRunner(app := web.Application(), access_log=None, shutdown_timeout=0.1)
    app.router.add_route("*", "/{tail:.*}", server.handle)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    session = KubeSession(FixedCredentials(f"http://127.0.0.1:{runner.addresses[0][1]}", tokens or ["t"]))
    try:
        yield session
    finally:
        await session.close()
        await runner.cleanup()


@asynccontextmanager
async def watching(
    server: Cluster, tokens: list[str] | None = None, *, has_devices: bool = False
) -> AsyncIterator[Inbox]:
    """The operator's streams at work against the server."""
    inbox = Inbox(Metrics())
    async with serving(server, tokens) as session:
        tasks = [asyncio.create_task(stream.run()) for stream in streams(session, inbox, has_devices=has_devices)]
        try:
            yield inbox
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def until(inbox: Inbox, wanted: int, plural: str = "pods", fact: Any = PodSeen | PodGone) -> list[Input]:
    """The first inputs about a resource, or facts of that kind."""
    found: list[Input] = []
    async with asyncio.timeout(10):
        while len(found) < wanted:
            await inbox.something(1.0)
            while (item := inbox.take()) is not None:
                is_fact = isinstance(item, EventReceived) and isinstance(item.fact, fact)
                found += [item] if is_fact or getattr(item, "plural", "") == plural else []
    return found


def seen(raw: dict[str, Any]) -> EventReceived:
    """The input that a pod becomes."""
    pod = read_pod(raw, Settings())
    assert pod is not None
    return EventReceived(PodSeen(pod))


def change(kind: str, pod: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": pod}
