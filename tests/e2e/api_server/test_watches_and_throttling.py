"""Requests to the API server after interrupted watches and while it throttles."""

from aiohttp import web

from devcluster.nodes import FakeNode
from muster_operator.kube.watch import paths
from tests.e2e.conftest import OpenScenario
from tests.e2e.gate import Gate
from tests.e2e.manifests import Group, a_gang, a_pod
from tests.e2e.proxy import error_response

PODS = ("GET", "/api/v1/pods")
LONG_S = 600


async def test_an_interrupted_watch_continues_without_a_list_and_misses_nothing(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0")], gated=True)
    watches = scenario.gate.requests[*PODS, True]
    lists = scenario.gate.requests[*PODS, False]
    created = 0
    while scenario.gate.requests[*PODS, True] < watches + 3:  # a watch that is just being opened is not cut
        scenario.gate.cut_watches()
        await scenario.create([a_pod(f"pod-{created + number}", cpu="100m") for number in range(4)])
        created += 4
        await scenario.all_bound(created)
    assert scenario.gate.requests[*PODS, False] == lists


async def test_throttled_creates_wait_while_binds_continue(open_scenario: OpenScenario) -> None:
    """429 with Retry-After on one create: no other create is sent until then, and a bind does not wait for them.

    Only one of two writes in flight may be a create, so the other creates wait when the first one is answered.
    """
    scenario = await open_scenario([FakeNode("node-0")], {"kubernetes.concurrency": "2"}, gated=True)
    throttled = scenario.gate.fail("POST", r"/pods$", 429, retry_after_s=10)
    await scenario.create(a_gang("patient", [Group("workers", 3)], timeout_s=LONG_S, placement="Reserve"))
    await throttled.reached()
    await scenario.create([a_pod("single")])
    await scenario.all_bound(1)
    assert await scenario.pods(placeholders=True) == []
    await scenario.all_bound(4)


class WithoutStreamedLists:
    """Rejects streamed lists, as API servers do whose feature WatchList is disabled."""

    async def answer(self, gate: Gate, request: web.Request) -> web.Response | None:
        if "sendInitialEvents" in request.query:
            return error_response(400, "BadRequest", "sendInitialEvents is forbidden for watch")
        return None


async def test_without_streamed_lists_every_resource_is_listed_in_pages(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0")], {"kubernetes.deviceClaims": "true"}, gated=True, started=False)
    scenario.gate.faults = WithoutStreamedLists()
    await scenario.muster.start()
    await scenario.create([a_pod("single")])
    await scenario.all_bound(1)
    listed = paths(has_devices=True).values()
    assert {path for path in listed if not scenario.gate.requests["GET", path, False]} == set()
