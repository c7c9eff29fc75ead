"""kopf with an HTTP peer: the lists and watches that the fast path reports, and the errors that it handles."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from aiohttp import web
from kopf._core.reactor import processing

from muster_operator.handlers import framework
from muster_operator.handlers.registry import HandlerMemo
from muster_operator.kube.session import KubeSession
from muster_operator.kube.watch import STALE_S, WatchFreshness
from muster_operator.model.cluster_events import NamespaceSeen, PodGone, PodSeen
from muster_operator.model.ids import PodUid
from muster_operator.model.settings import Settings
from muster_operator.runtime.inputs import EventReceived, Input, Listed
from muster_operator.runtime.loop import Inbox
from muster_operator.runtime.metrics import Metrics
from muster_operator.translate.pods import read_pod
from tests.unit.operator.kube.apiserver import FixedCredentials
from tests.unit.operator.kube.test_freshness import FakeClock

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


def is_served(path: str) -> bool:
    """Whether discovery names the resource."""
    front, _, plural = path.rpartition("/")
    group = "/api/v1" if path.startswith("/api/") else front
    return any(resource["name"] == plural for resource in DISCOVERY.get(group, {}).get("resources", ()))


@dataclass
class Cluster:
    """Discovery, lists and watches of a few resources; `lines` are for the watches of pods, None = their end,
    `script` for those of others by path.

    `watches`: at which version each watch of pods began; `refusals`: answers to the next ones instead of a stream.
    `streams_lists`: whether a watch may begin with a list, `ends_lists`: and says where that ends; `version`: of lists.
    `held`: lists of pods wait for it with what they have read; `waiting`: one does.
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

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        if request.method != "GET":
            self.writes.append(f"{request.method} {request.path}")
        if request.path in DISCOVERY:
            return web.json_response(DISCOVERY[request.path])
        if request.query.get("watch"):
            return await self._watch(request)
        if not is_served(request.path):
            return web.json_response({"kind": "Status", "code": 404}, status=404)
        self.lists.put_nowait(request.path)
        if request.path == "/api/v1/pods" and self.failures:
            return web.json_response({"kind": "Status", "code": 500}, status=self.failures.pop(0))
        items = list(self.pods) if request.path == "/api/v1/pods" else []
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


async def reconfigure(name: str) -> None:
    """Does not read the configuration again."""


@asynccontextmanager
async def watching(server: Cluster, tokens: list[str] | None = None, *, is_fast: bool = True) -> AsyncIterator[Inbox]:
    """The operator's kopf at work against the server."""
    runner = web.AppRunner(app := web.Application(), access_log=None, shutdown_timeout=0.1)
    app.router.add_route("*", "/{tail:.*}", server.handle)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    credentials = FixedCredentials(f"http://127.0.0.1:{runner.addresses[0][1]}", tokens or ["t"])
    session, inbox = KubeSession(credentials), Inbox(Metrics())
    what = framework.Watching(HandlerMemo(inbox, session, reconfigure), session, "muster", is_fast)
    task = asyncio.create_task(framework.watch(what))
    try:
        yield inbox
    finally:
        task.cancel()
        await asyncio.wait({task})
        await session.close()
        await runner.cleanup()


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


async def test_a_list_is_reported_completely_and_the_watch_continues_from_it() -> None:
    server = Cluster(pods=[a_pod("a"), a_pod("b")])
    server.lines.put_nowait(change("MODIFIED", a_pod("a", 2)))
    async with watching(server) as inbox:
        found = await until(inbox, 4)
    assert found == [
        seen(a_pod("a")),
        seen(a_pod("b")),
        Listed("pods"),
        seen(a_pod("a", 2)),
    ]


async def test_after_410_the_new_list_is_reported_completely() -> None:
    server = Cluster(pods=[a_pod("a"), a_pod("b")])
    async with watching(server) as inbox:
        await until(inbox, 3)
        server.pods[:] = [a_pod("a", 5)]
        server.lines.put_nowait({"type": "ERROR", "object": {"code": 410}})
        found = await until(inbox, 3)
    assert found == [seen(a_pod("a", 5)), EventReceived(PodGone(PodUid("uid-b"))), Listed("pods")]


async def test_every_kind_is_listed_cluster_wide_and_config_maps_in_our_namespace_only() -> None:
    server = Cluster()
    wanted = {
        "/api/v1/namespaces",
        "/api/v1/namespaces/muster/configmaps",
        "/api/v1/nodes",
        "/api/v1/pods",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "/apis/storage.k8s.io/v1/csinodes",
    }
    found = set[str]()
    async with watching(server), asyncio.timeout(5):
        while len(found) < len(wanted):
            found.add(await server.lists.get())
    assert found == wanted


async def test_kopf_writes_nothing() -> None:
    server = Cluster(pods=[a_pod("a")])
    async with watching(server) as inbox:
        await until(inbox, 2)
    assert server.writes == []


@pytest.mark.parametrize("passes", range(12))
async def test_a_watch_that_is_cancelled_while_it_starts_ends_the_tasks_of_kopf(passes: int) -> None:
    own = asyncio.all_tasks()
    session = KubeSession(FixedCredentials("http://127.0.0.1:9", ["t"]))  # no server listens there
    memo = HandlerMemo(Inbox(Metrics()), session, reconfigure)
    task = asyncio.create_task(framework.watch(framework.Watching(memo, session, "muster")))
    for _ in range(passes):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    await session.close()
    # Tasks without a name of their own are requests of kopf's discovery, which end when the event loop closes.
    assert not [task for task in asyncio.all_tasks() - own if not task.get_name().startswith("Task-")]


async def test_a_resource_that_the_cluster_does_not_have_is_not_waited_for() -> None:
    server = Cluster()
    async with watching(server) as inbox:
        assert await until(inbox, 1, "csidrivers") == [Listed("csidrivers")]


async def test_without_the_fast_path_lists_watches_and_deletions_arrive_through_kopf() -> None:
    server = Cluster(pods=[a_pod("a"), a_pod("b")])
    async with watching(server, is_fast=False) as inbox:
        first = await until(inbox, 3)
        assert Listed("pods") in first
        assert seen(a_pod("a")) in first
        for event in (change("MODIFIED", a_pod("a", 2)), change("DELETED", a_pod("b", 3))):
            server.lines.put_nowait(event)
        assert {repr(it) for it in await until(inbox, 2)} == {
            repr(it) for it in (seen(a_pod("a", 2)), EventReceived(PodGone(PodUid("uid-b"))))
        }


async def test_events_arrive_without_the_fast_path_when_kopf_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framework, "missing", lambda: ["something"])
    server = Cluster(pods=[a_pod("a")])
    async with watching(server) as inbox:
        await until(inbox, 2)
        server.lines.put_nowait(change("DELETED", a_pod("a", 3)))
        assert await until(inbox, 1) == [EventReceived(PodGone(PodUid("uid-a")))]


async def test_without_the_fast_path_a_watch_with_only_bookmarks_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a standby of a quiet cluster is not ready, and a leader does not bind."""
    monkeypatch.setattr(framework, "CHECK_INTERVAL_S", 0.01)
    server = Cluster(pods=[a_pod("a")])
    async with watching(server, is_fast=False) as inbox:
        await until(inbox, 2)
        await server.watches.get()
        clock = FakeClock()
        inbox.freshness = WatchFreshness(clock)
        inbox.freshness.note("pods")
        clock.now += STALE_S + 1
        assert not inbox.freshness.may_decide()
        server.lines.put_nowait({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}})
        async with asyncio.timeout(5):
            await inbox.freshness.until_fresh()


async def test_without_the_fast_path_a_watch_error_fatal_to_kopf_ends_only_that_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(framework, "BACKOFF_S", (0.01,))
    server = Cluster(pods=[a_pod("a")])
    async with watching(server, is_fast=False) as inbox:
        await until(inbox, 2)
        server.lines.put_nowait({"type": "ERROR", "object": {"code": 500, "message": "etcd is away"}})
        server.lines.put_nowait(None)
        server.lines.put_nowait(change("MODIFIED", a_pod("a", 7)))
        assert await until(inbox, 1) == [seen(a_pod("a", 7))]


async def test_low_rate_resources_use_the_queues_of_kopf_and_their_watch_survives_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(framework, "BACKOFF_S", (0.01,))
    path = "/api/v1/namespaces"
    server = Cluster()
    server.script[path] = asyncio.Queue()
    handled = list[str]()
    original = processing.process_resource_event

    async def processed(**kwargs: Any) -> Any:
        handled.append(kwargs["resource"].plural)
        return await original(**kwargs)

    monkeypatch.setattr(processing, "process_resource_event", processed)
    namespace = {"metadata": {"name": "dev", "uid": "u", "resourceVersion": "4"}}
    async with watching(server) as inbox:
        await until(inbox, 1, "namespaces")
        for line in ({"type": "ERROR", "object": {"code": 500}}, None, change("ADDED", namespace)):
            server.script[path].put_nowait(line)
        [item] = await until(inbox, 1, "namespaces", NamespaceSeen)
        assert isinstance(item, EventReceived)
    assert handled == ["namespaces"]


async def test_a_full_inbox_blocks_the_stream() -> None:
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
