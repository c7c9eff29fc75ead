"""kopf against an HTTP peer: what the fast lane tells of lists and watches, and what it survives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from aiohttp import web

from muster_operator.handlers import fastlane, framework
from muster_operator.handlers.memo import Memo
from muster_operator.link.api.session import KubeSession
from muster_operator.link.inbox import Inbox, Input, ListBegun, Listed, Seen
from muster_operator.link.metrics import Metrics
from muster_operator.model.facts import PodSeen
from muster_operator.model.settings import Settings
from muster_operator.translate.pods import read_pod
from tests.unit.operator.link.api.apiserver import FixedCredentials

DISCOVERY: dict[str, Any] = {
    "/api": {"versions": ["v1"]},
    "/apis": {
        "groups": [
            {
                "name": group,
                "versions": [{"groupVersion": f"{group}/v1", "version": "v1"}],
                "preferredVersion": {"groupVersion": f"{group}/v1", "version": "v1"},
            }
            for group in ("scheduling.k8s.io", "storage.k8s.io", "apiextensions.k8s.io", "events.k8s.io")
        ]
    },
}
VERBS = ["get", "list", "watch", "create", "patch", "delete"]


def kind(plural: str, name: str, *, namespaced: bool) -> dict[str, Any]:
    return {"name": plural, "kind": name, "singularName": name.lower(), "namespaced": namespaced, "verbs": VERBS}


DISCOVERY["/api/v1"] = {
    "resources": [
        kind("pods", "Pod", namespaced=True),
        kind("nodes", "Node", namespaced=False),
        kind("namespaces", "Namespace", namespaced=False),
        kind("configmaps", "ConfigMap", namespaced=True),
        kind("events", "Event", namespaced=True),
    ]
}
DISCOVERY["/apis/storage.k8s.io/v1"] = {"resources": [kind("csinodes", "CSINode", namespaced=False)]}
DISCOVERY["/apis/scheduling.k8s.io/v1"] = {"resources": [kind("priorityclasses", "PriorityClass", namespaced=False)]}
DISCOVERY["/apis/apiextensions.k8s.io/v1"] = {
    "resources": [kind("customresourcedefinitions", "CustomResourceDefinition", namespaced=False)]
}
DISCOVERY["/apis/events.k8s.io/v1"] = {"resources": [kind("events", "Event", namespaced=True)]}


def a_pod(name: str, version: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version)},
    }


@dataclass
class Cluster:
    """Discovery, lists and watches of a few resources; `lines` are for the watches of pods, None = their end.

    `watches`: at which version each watch of pods began; `refusals`: answers to the next ones instead of a stream.
    """

    pods: list[dict[str, Any]] = field(default_factory=list)
    lists: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    writes: list[str] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    lines: asyncio.Queue[dict[str, Any] | None] = field(default_factory=asyncio.Queue)
    watches: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    refusals: list[Callable[[], web.Response]] = field(default_factory=list)
    seen: list[web.Request] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        if request.method != "GET":
            self.writes.append(f"{request.method} {request.path}")
        if request.path in DISCOVERY:
            return web.json_response(DISCOVERY[request.path])
        if request.query.get("watch"):
            return await self._watch(request)
        self.lists.put_nowait(request.path)
        if request.path == "/api/v1/pods" and self.failures:
            return web.json_response({"kind": "Status", "code": 500}, status=self.failures.pop(0))
        items = self.pods if request.path == "/api/v1/pods" else []
        return web.json_response({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/api/v1/pods":
            self.watches.put_nowait(request.query["resourceVersion"])
            if self.refusals:
                return self.refusals.pop(0)()
        response = web.StreamResponse()
        await response.prepare(request)
        while request.path == "/api/v1/pods" and (line := await self.lines.get()) is not None:
            await response.write(orjson.dumps(line) + b"\n")
        if request.path != "/api/v1/pods":
            await asyncio.sleep(60)
        return response


@asynccontextmanager
async def watching(server: Cluster, tokens: list[str] | None = None) -> AsyncIterator[Inbox]:
    """The operator's kopf at work against the server."""
    runner = web.AppRunner(app := web.Application(), access_log=None, shutdown_timeout=0.1)
    app.router.add_route("*", "/{tail:.*}", server.handle)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    credentials = FixedCredentials(f"http://127.0.0.1:{runner.addresses[0][1]}", tokens or ["t"])
    session, inbox = KubeSession(credentials), Inbox(Metrics())

    async def reconfigure(name: str) -> None: ...

    try:
        async with framework.watching_cluster(Memo(inbox, session, reconfigure), session, "muster"):
            yield inbox
    finally:
        await session.close()
        await runner.cleanup()


async def until(inbox: Inbox, wanted: int, plural: str = "pods") -> list[Input]:
    """The first inputs about a resource."""
    found: list[Input] = []
    async with asyncio.timeout(10):
        while len(found) < wanted:
            await inbox.something(1.0)
            while (item := inbox.take()) is not None:
                found += [item] if isinstance(item, Seen) or getattr(item, "plural", "") == plural else []
    return found


def seen(raw: dict[str, Any]) -> Seen:
    """The input that a pod becomes."""
    pod = read_pod(raw, Settings())
    assert pod is not None
    return Seen(PodSeen(pod))


def change(kind: str, pod: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": pod}


async def test_a_list_is_told_whole_and_the_watch_goes_on_from_it() -> None:
    server = Cluster(pods=[a_pod("a"), a_pod("b")])
    server.lines.put_nowait(change("MODIFIED", a_pod("a", 2)))
    async with watching(server) as inbox:
        found = await until(inbox, 5)
    assert found == [
        ListBegun("pods"),
        seen(a_pod("a")),
        seen(a_pod("b")),
        Listed("pods", frozenset({"uid-a", "uid-b"})),
        seen(a_pod("a", 2)),
    ]


async def test_after_410_the_new_list_is_told_whole_too() -> None:
    server = Cluster(pods=[a_pod("a"), a_pod("b")])
    async with watching(server) as inbox:
        await until(inbox, 4)
        server.pods[:] = [a_pod("a", 5)]
        server.lines.put_nowait({"type": "ERROR", "object": {"code": 410}})
        found = await until(inbox, 3)
    assert found == [ListBegun("pods"), seen(a_pod("a", 5)), Listed("pods", frozenset({"uid-a"}))]


async def test_every_kind_is_listed_cluster_wide_and_config_maps_in_our_namespace_only() -> None:
    server = Cluster()
    async with watching(server) as inbox:
        await until(inbox, 2)
        async with asyncio.timeout(5):
            lists = [await server.lists.get() for _ in range(6)]
    assert sorted(lists) == [
        "/api/v1/namespaces",
        "/api/v1/namespaces/muster/configmaps",
        "/api/v1/nodes",
        "/api/v1/pods",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "/apis/storage.k8s.io/v1/csinodes",
    ]


async def test_kopf_writes_nothing() -> None:
    server = Cluster(pods=[a_pod("a")])
    async with watching(server) as inbox:
        await until(inbox, 3)
    assert server.writes == []


async def test_of_a_kind_that_the_cluster_does_not_have_nothing_is_listed_or_waited_for() -> None:
    server = Cluster()
    async with watching(server) as inbox:
        assert await until(inbox, 2, "csidrivers") == [ListBegun("csidrivers"), Listed("csidrivers", frozenset())]
        async with asyncio.timeout(10):
            while await server.lists.get() != "/apis/storage.k8s.io/v1/csinodes":
                pass
    assert "/apis/storage.k8s.io/v1/csidrivers" not in {request.path for request in server.seen}


async def test_without_the_fast_lane_lists_and_watches_still_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastlane, "missing", lambda: ["something"])
    server = Cluster(pods=[a_pod("a")])
    server.lines.put_nowait(change("MODIFIED", a_pod("a", 2)))
    async with watching(server) as inbox:
        found = await until(inbox, 4)
    assert Listed("pods", frozenset({"uid-a"})) in found
    assert found.count(seen(a_pod("a"))) == 2  # as it is listed, once, and as the watch shows it


async def test_the_inbox_holds_a_stream_back_while_it_is_full() -> None:
    inbox = Inbox(Metrics(), limit=2)
    for name in ("a", "b"):
        await inbox.watched("pods", None, a_pod(name))
    third = asyncio.create_task(inbox.watched("pods", None, a_pod("c")))
    await asyncio.sleep(0.01)
    assert not third.done()
    inbox.take()
    inbox.take()
    await asyncio.wait_for(third, 1)
    assert len(inbox) == 1
