"""An interrupted watch continues at its version, and a list is requested only when needed."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime

import orjson
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from muster_operator.kube import watch
from muster_operator.model.cluster_events import DeviceClaimGone, DeviceClaimSeen, PodGone, PodGroupGone, PodGroupSeen
from muster_operator.model.ids import PodUid
from muster_operator.model.pod_groups import PodGroup
from muster_operator.runtime.inputs import EventReceived, Listed
from muster_operator.runtime.loop import Inbox
from muster_operator.runtime.metrics import Metrics
from tests.unit.operator.kube.cluster import Cluster, a_pod, change, seen, until, watching

PODS = "/api/v1/pods"
NEWEST = watch.PATHS["podgroups"]
[OLDER] = watch.OPTIONAL["podgroups"]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "BACKOFF_S", (0.01,))


def a_pod_group() -> dict[str, object]:
    """Return a PodGroup `train` that needs two pods."""
    return {
        "metadata": {"name": "train", "namespace": "ns", "uid": "u1", "resourceVersion": "1"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }


GROUP_SEEN = EventReceived(PodGroupSeen(PodGroup("ns", "train", "u1", min_count=2)))


def bookmark(version: int) -> dict[str, object]:
    return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}


def refusal(status: int, **headers: str) -> Callable[[], web.Response]:
    body = {"kind": "Status", "status": "Failure", "code": status, "message": "no"}
    return lambda: web.json_response(body, status=status, headers=headers)


async def began(server: Cluster) -> str:
    """At which version the next watch of pods began."""
    async with asyncio.timeout(10):
        return await server.watches.get()


def is_list(request: web.Request) -> bool:
    """Whether the request lists all pods, in pages or as a stream."""
    return "watch" not in request.query or ("sendInitialEvents" in request.query and request["is_served"])


def lists(server: Cluster) -> int:
    """How often pods were listed so far."""
    found = [server.lists.get_nowait() for _ in range(server.lists.qsize())]
    for path in found:
        server.lists.put_nowait(path)
    return found.count(PODS)


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


async def test_every_resource_of_a_recovery_is_listed_in_all_namespaces() -> None:
    server = Cluster()
    found = set[str]()
    async with watching(server), asyncio.timeout(20):
        while len(found) < len(watch.PATHS):
            found.add(await server.lists.get())
    assert found == set(watch.PATHS.values())


async def test_a_resource_that_the_cluster_does_not_have_is_not_waited_for() -> None:
    server = Cluster(missing={watch.PATHS["csidrivers"]})
    async with watching(server) as inbox:
        assert await until(inbox, 1, "csidrivers") == [Listed("csidrivers")]


async def test_a_missing_path_is_an_error_if_every_cluster_has_the_resource() -> None:
    """A proxy without a backend may answer 404 to everything, which must not delete all pods."""
    server = Cluster(pods=[a_pod("a")], missing={PODS})
    async with watching(server) as inbox:
        await until(inbox, 1, "nodes")
        async with asyncio.timeout(20):
            for _ in range(3):
                await server.missed.get()
        server.missing.clear()
        assert await until(inbox, 2) == [seen(a_pod("a")), Listed("pods")]


async def test_a_listed_resource_whose_path_is_missing_later_keeps_its_objects() -> None:
    path = watch.PATHS["priorityclasses"]
    server = Cluster()
    async with watching(server) as inbox:
        await until(inbox, 1, "priorityclasses")
        server.missing.add(path)
        await server.script[path].put({"type": "ERROR", "object": {"code": 410}})
        async with asyncio.timeout(20):
            for _ in range(3):
                await server.missed.get()
        assert not [item for item in iter(inbox.take, None) if item == Listed("priorityclasses")]


async def test_pod_groups_are_read_in_the_first_version_that_is_served() -> None:
    server = Cluster(missing={NEWEST})
    server.items[OLDER] = [a_pod_group()]
    async with watching(server) as inbox:
        assert await until(inbox, 2, "podgroups", PodGroupSeen) == [GROUP_SEEN, Listed("podgroups")]
        server.items[NEWEST] = [a_pod_group()]
        server.missing = {OLDER}
        await server.script[OLDER].put({"type": "ERROR", "object": {"code": 410}})
        assert await until(inbox, 1, "podgroups", PodGroupGone) == [Listed("podgroups")]


async def test_pod_groups_that_no_version_serves_are_not_waited_for() -> None:
    server = Cluster(missing={NEWEST, OLDER})
    async with watching(server) as inbox:
        assert await until(inbox, 1, "podgroups") == [Listed("podgroups")]
    assert [request.path for request in server.seen if "podgroups" in request.path].count(NEWEST) <= 2


@pytest.mark.parametrize("plural", ["podgroups", "podgroups.scheduling.x-k8s.io"])
async def test_a_missing_permission_for_pod_groups_is_logged_once(plural: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "NOT_SERVED_S", 0.01)
    path = watch.PATHS[plural]
    server = Cluster(forbidden={path, *watch.OPTIONAL[plural]})
    with capture_logs() as lines:
        async with watching(server) as inbox:
            assert await until(inbox, 2, plural) == [Listed(plural)] * 2
    found = [line for line in lines if "permission" in line["event"]]
    assert [(line["log_level"], line["resource"], line["path"]) for line in found] == [("warning", plural, path)]


async def test_claims_whose_permission_is_lost_keep_their_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty list would give the devices of running pods to others."""
    monkeypatch.setattr(watch, "ABSENCES", 1)
    path = watch.DEVICE_PATHS["resourceclaims"]
    server = Cluster()
    server.items[path] = [{"metadata": {"name": "c", "namespace": "ns", "uid": "u", "resourceVersion": "1"}}]
    async with watching(server, has_devices=True) as inbox:
        await until(inbox, 2, "resourceclaims", DeviceClaimSeen)
        server.forbidden.add(path)
        await server.script[path].put({"type": "ERROR", "object": {"code": 410}})
        async with asyncio.timeout(5):
            for _ in range(3):
                await server.missed.get()
        server.forbidden.clear()
        assert await until(inbox, 1, "resourceclaims", DeviceClaimGone) == [Listed("resourceclaims")]


async def test_pod_groups_that_are_refused_for_a_moment_stay_as_they_are() -> None:
    server = Cluster(missing={OLDER})
    server.items[NEWEST] = [a_pod_group()]
    async with watching(server) as inbox:
        await until(inbox, 2, "podgroups", PodGroupSeen)
        server.missing.add(NEWEST)
        await server.script[NEWEST].put({"type": "ERROR", "object": {"code": 410}})
        async with asyncio.timeout(20):
            while await server.missed.get() != OLDER:
                pass
        server.missing.clear()
        assert await until(inbox, 1, "podgroups", PodGroupGone) == [Listed("podgroups")]


async def test_pod_groups_are_gone_if_the_cluster_refuses_them_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "ABSENCES", 2)
    server = Cluster()
    server.items[NEWEST] = [a_pod_group()]
    async with watching(server) as inbox:
        await until(inbox, 2, "podgroups", PodGroupSeen)
        server.missing |= {NEWEST, OLDER}
        await server.script[NEWEST].put({"type": "ERROR", "object": {"code": 410}})
        gone = EventReceived(PodGroupGone("ns/train"))
        assert await until(inbox, 2, "podgroups", PodGroupGone) == [gone, Listed("podgroups")]


async def test_a_closed_watch_resumes_at_the_last_event_without_a_list() -> None:
    server = Cluster(pods=[a_pod("a")])
    server.lines.put_nowait(change("MODIFIED", a_pod("a", 7)))
    async with watching(server) as inbox:
        await until(inbox, 3)
        assert await began(server) == "1"
        server.lines.put_nowait(None)
        assert await began(server) == "7"
        server.lines.put_nowait(change("MODIFIED", a_pod("a", 8)))
        assert await until(inbox, 1) == [seen(a_pod("a", 8))]
    assert lists(server) == 1


async def test_a_bookmark_advances_the_resource_version_of_the_watch() -> None:
    server = Cluster(pods=[a_pod("a")])
    async with watching(server) as inbox:
        await until(inbox, 2)
        await began(server)
        for line in (bookmark(50), None):
            server.lines.put_nowait(line)
        assert await began(server) == "50"
    assert lists(server) == 1


async def test_a_watch_error_does_not_cause_a_list() -> None:
    server = Cluster(pods=[a_pod("a")])
    async with watching(server) as inbox:
        await until(inbox, 2)
        await began(server)
        server.lines.put_nowait({"type": "ERROR", "object": {"code": 500, "message": "etcd is away"}})
        assert await began(server) == "1"
    assert lists(server) == 1


async def test_a_resource_version_rejected_repeatedly_causes_a_list() -> None:
    server = Cluster(pods=[a_pod("a")])
    async with watching(server) as inbox:
        await until(inbox, 2)
        for _ in range(watch.REFUSALS):
            await began(server)
            for line in ({"type": "ERROR", "object": {"code": 400, "message": "no such version"}}, None):
                server.lines.put_nowait(line)
        assert await until(inbox, 2) == [seen(a_pod("a")), Listed("pods")]


async def test_temporary_rejections_of_a_version_do_not_count_as_permanent_ones() -> None:
    """A list that replaces the known state says that the store was restored, which it was not."""
    server = Cluster(pods=[a_pod("a")], refusals=[refusal(403)] * (watch.REFUSALS - 1) + [refusal(400)])
    async with watching(server) as inbox:
        await until(inbox, 2)
        for _ in range(watch.REFUSALS + 1):
            assert await began(server) == "1"
    assert lists(server) == 1


async def test_a_watch_rejected_with_410_lists_again() -> None:
    server = Cluster(pods=[a_pod("a")])
    async with watching(server) as inbox:
        await until(inbox, 2)
        await began(server)
        server.refusals.append(refusal(410))
        server.lines.put_nowait(None)
        assert await until(inbox, 1) == [Listed("pods")]


async def test_a_resource_version_that_goes_back_causes_a_list() -> None:
    """A restored backup: its objects are older than our version, so the watch would not report them."""
    server = Cluster(pods=[a_pod("a")])
    async with watching(server) as inbox:
        await until(inbox, 2)
        for line in (bookmark(50), bookmark(20)):
            server.lines.put_nowait(line)
        assert await until(inbox, 2) == [seen(a_pod("a")), Listed("pods")]


@pytest.mark.parametrize("recorder", ["0", format_datetime(datetime(2020, 1, 1, tzinfo=UTC), usegmt=True)])
@pytest.mark.parametrize("status", [429, 503])
async def test_a_watch_rejected_with_retry_after_reconnects_and_continues(status: int, recorder: str) -> None:
    server = Cluster(pods=[a_pod("a")], refusals=[refusal(status, **{"Retry-After": recorder})])
    async with watching(server) as inbox:
        await until(inbox, 2)
        assert [await began(server), await began(server)] == ["1", "1"]
        server.lines.put_nowait(change("MODIFIED", a_pod("a", 2)))
        assert await until(inbox, 1) == [seen(a_pod("a", 2))]


async def test_a_watch_waits_for_retry_after_before_it_reconnects() -> None:
    server = Cluster(pods=[a_pod("a")], refusals=[refusal(503, **{"Retry-After": "1"})])
    async with watching(server) as inbox:
        await until(inbox, 2)
        await began(server)
        since = asyncio.get_running_loop().time()
        await began(server)
        assert asyncio.get_running_loop().time() - since > 0.9


async def test_a_watch_whose_token_is_rejected_continues_with_the_next_token() -> None:
    server = Cluster(pods=[a_pod("a")], refusals=[refusal(401)])
    async with watching(server, ["old", "new"]) as inbox:
        await until(inbox, 2)
        assert [await began(server), await began(server)] == ["1", "1"]
    tokens = [request.headers["Authorization"] for request in server.seen if "watch" in request.query]
    assert {"Bearer old", "Bearer new"} == set(tokens)


async def test_a_watch_whose_token_stays_rejected_is_retried() -> None:
    server = Cluster(pods=[a_pod("a")], refusals=[refusal(401)] * 4)
    async with watching(server) as inbox:
        await until(inbox, 2)
        server.lines.put_nowait(change("MODIFIED", a_pod("a", 2)))
        assert seen(a_pod("a", 2)) in await until(inbox, 1)


@pytest.mark.parametrize("lists", ["streamed", "in pages"])
async def test_a_comparison_finds_missed_events_without_closing_the_watch(lists: str) -> None:
    server = Cluster(pods=[a_pod("a", 1), a_pod("b", 2)], streams_lists=lists == "streamed", version=2)
    async with watching(server) as inbox:
        await until(inbox, 3)
        assert await began(server) == "2"
        server.pods[:], server.version = [a_pod("a", 1), a_pod("c", 8)], 9
        inbox.suspect("pods")
        found = await until(inbox, 3)
        assert found == [seen(a_pod("c", 8)), EventReceived(PodGone(PodUid("uid-b"))), Listed("pods")]
        server.lines.put_nowait(change("MODIFIED", a_pod("a", 10)))
        assert await until(inbox, 1) == [seen(a_pod("a", 10))]
    assert server.watches.empty(), "the watch was cut for the list"
    [first, second] = [request.query for request in server.seen if request.path == PODS and is_list(request)]
    assert ("resourceVersion" in first, second["resourceVersion"]) == (False, "2")
    assert second["resourceVersionMatch"] == "NotOlderThan"


async def test_a_pod_that_changes_during_a_comparison_keeps_its_newer_state() -> None:
    server = Cluster(pods=[a_pod("a", 1)], version=2)
    async with watching(server) as inbox:
        await until(inbox, 2)
        await began(server)
        server.held = asyncio.Event()
        inbox.suspect("pods")
        async with asyncio.timeout(10):
            await server.waiting.wait()
        server.lines.put_nowait(change("MODIFIED", a_pod("a", 10)))
        server.lines.put_nowait(change("ADDED", a_pod("new", 11)))
        assert await until(inbox, 2) == [seen(a_pod("a", 10)), seen(a_pod("new", 11))]
        server.held.set()
        assert await until(inbox, 1) == [Listed("pods")]


async def test_a_streamed_list_that_never_ends_is_replaced_by_a_paged_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "SILENT_LIST_S", 0.05)
    server = Cluster(pods=[a_pod("a")], streams_lists=True, ends_lists=False)
    async with watching(server) as inbox:
        assert await until(inbox, 2) == [seen(a_pod("a")), Listed("pods")]


async def test_streams_send_our_user_agent() -> None:
    server = Cluster(pods=[a_pod("a")])
    async with watching(server) as inbox:
        await until(inbox, 2)
        await began(server)
    assert {request.headers["User-Agent"].partition("/")[0] for request in server.seen} == {"muster-operator"}


async def test_a_pod_of_an_unfinished_streamed_list_missing_from_the_paged_list_is_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "SILENT_LIST_S", 0.5)
    server = Cluster(pods=[a_pod("a", 1), a_pod("b", 2)], streams_lists=True, ends_lists=False, version=2)
    async with watching(server) as inbox:
        assert await until(inbox, 2) == [seen(a_pod("a", 1)), seen(a_pod("b", 2))]
        server.pods[:], server.version = [a_pod("a", 1)], 9
        assert await until(inbox, 2) == [EventReceived(PodGone(PodUid("uid-b"))), Listed("pods")]


class Pieces(Cluster):
    """A server whose first watch of pods sends these bytes one after the other. The client reads each by itself."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__(pods=[a_pod("a")], refusals=[])
        self.pieces = list(pieces)
        self.received = asyncio.Event()

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        if request.path != PODS or "sendInitialEvents" in request.query or not self.pieces:
            return await super()._watch(request)
        response = web.StreamResponse()
        await response.prepare(request)
        while self.pieces:
            self.received.clear()
            await response.write(self.pieces.pop(0))
            async with asyncio.timeout(10):
                await self.received.wait()
        return response


@pytest.fixture
def sending(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pieces]:
    """Create a server that is told what the client has read."""

    def send(*pieces: bytes) -> Pieces:
        server, record = Pieces(*pieces), Inbox.record_activity

        def recorded(inbox: Inbox, plural: str) -> None:
            record(inbox, plural)
            if plural == "pods":
                server.received.set()

        monkeypatch.setattr(Inbox, "record_activity", recorded)
        return server

    return send


LINES = orjson.dumps(change("MODIFIED", a_pod("a", 2))) + b"\n" + orjson.dumps(change("ADDED", a_pod("b", 3))) + b"\n"


@pytest.mark.parametrize(
    "at", [1, 40, LINES.index(b"\n"), LINES.index(b"\n") + 1, LINES.index(b"\n") + 2, len(LINES) - 1]
)
async def test_events_are_read_from_lines_that_are_split_over_two_pieces(
    at: int, sending: Callable[..., Pieces]
) -> None:
    async with watching(sending(LINES[:at], LINES[at:])) as inbox:
        await until(inbox, 2)
        assert await until(inbox, 2) == [seen(a_pod("a", 2)), seen(a_pod("b", 3))]


async def test_an_event_is_read_from_a_line_that_is_split_over_many_pieces(sending: Callable[..., Pieces]) -> None:
    async with watching(sending(*(LINES[at : at + 40] for at in range(0, len(LINES), 40)))) as inbox:
        await until(inbox, 2)
        assert await until(inbox, 2) == [seen(a_pod("a", 2)), seen(a_pod("b", 3))]


async def test_blank_lines_of_a_watch_are_ignored(sending: Callable[..., Pieces]) -> None:
    blank = b"\n\r\n" + LINES.replace(b"\n", b"\n\n \n") + b"\n"
    server = sending(blank[:1], blank[1:])
    async with watching(server) as inbox:
        await until(inbox, 2)
        assert await until(inbox, 2) == [seen(a_pod("a", 2)), seen(a_pod("b", 3))]
        assert await began(server) == "3", "the watch continues after the last event"


async def test_a_full_inbox_blocks_the_stream() -> None:
    inbox = Inbox(Metrics(), limit=2)
    for name in ("a", "b"):
        await inbox.watched("pods", None, a_pod(name))
    third = asyncio.create_task(inbox.watched("pods", None, a_pod("c")))
    await asyncio.sleep(0)
    assert not third.done()
    inbox.take()
    inbox.take()
    await asyncio.wait_for(third, 1)
    assert len(inbox) == 1
