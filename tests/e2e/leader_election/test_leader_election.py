"""One of several operators writes. Another one takes over when it stops, is killed or loses its connection."""

import asyncio
import itertools
from signal import SIGTERM

import aiohttp

from devcluster.audit import Write
from devcluster.muster import LEASE, Muster
from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScenario
from tests.e2e.leader_election.conftest import Join
from tests.e2e.manifests import Group, a_gang
from tests.e2e.scenario import Scenario

DURATION_S = 4
QUICKLY = {"MUSTER_LEASE_DURATION": str(DURATION_S)}
#: So long that a leader that stalls for some seconds keeps the Lease.
SLOWLY = {"MUSTER_LEASE_DURATION": "12"}
NODES = [FakeNode("node-0", cpu="32"), FakeNode("node-1", cpu="32")]


async def leads(scenario: Scenario, muster: Muster) -> None:
    """Wait until this one leads and has recovered."""

    async def does() -> bool:
        return await muster.role() == "ok"

    await scenario.eventually(f"{muster.setup.identity} leads", does)


async def metric(muster: Muster, name: str) -> float:
    url = f"http://127.0.0.1:{muster.health_port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        lines = (await answer.text()).splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


def writers(scenario: Scenario) -> list[str]:
    """The operators that wrote objects other than the lease, in the order of the audit log, without repetitions."""
    found: list[str] = []
    for write in scenario.writes(of_operator=True):
        if write.resource not in {"leases", "events"} and (not found or found[-1] != writer(write)):
            found.append(writer(write))
    return found


def writer(write: Write) -> str:
    return write.agent.partition("(")[2].rstrip(")")


async def test_a_standby_replica_is_ready_writes_nothing_and_reports_the_leader(
    open_scenario: OpenScenario, join: Join
) -> None:
    scenario = await open_scenario(NODES, env=SLOWLY)
    other = await join(scenario, "muster-1")
    await scenario.create(a_gang("gang", [Group("workers", 2)]))
    await scenario.all_bound(2)
    assert await scenario.muster.role() == "ok"
    assert await other.role() == "ok, standing by, muster-0 leads"
    assert await metric(scenario.muster, "muster_operator_leader") == 1
    assert await metric(other, "muster_operator_leader") == 0
    await scenario.bindings(2)
    assert writers(scenario) == ["muster-0"]

    async def is_reported() -> bool:
        home = scenario.muster.setup.namespace
        events = await scenario.api.find("events", home, fieldSelector="reason=LeaderElection")
        return ("Lease", LEASE, "muster-0 became leader") in {
            (event["involvedObject"]["kind"], event["involvedObject"]["name"], event["message"]) for event in events
        }

    await scenario.eventually("an event on the Lease names the leader", is_reported)


async def test_no_decision_is_lost_or_repeated_across_leader_changes(open_scenario: OpenScenario, join: Join) -> None:
    """A rolling upgrade during gangs, then a kill of the new leader. The final checks find pods bound twice."""
    scenario = await open_scenario(NODES, env=SLOWLY, gated=True)
    first, second = scenario.muster, await join(scenario, "muster-1")
    rule = scenario.gate.hold("POST", r"/pods/[^/]*/binding$", skip=5)
    for number in range(6):
        await scenario.create(a_gang(f"early-{number}", [Group("workers", 3)], timeout_s=600))
    await rule.reached(1)
    first.operator.signal(SIGTERM)
    scenario.gate.clear()
    await leads(scenario, second)
    assert await first.operator.ended(90)
    assert first.operator.returncode == 0
    for number in range(6):
        await scenario.create(a_gang(f"late-{number}", [Group("workers", 3)], timeout_s=600))

    async def has_written() -> bool:
        return writers(scenario)[-1] == "muster-1"

    await scenario.eventually("the second one writes", has_written)
    await second.operator.kill()
    await second.core.kill()
    await scenario.create(a_gang("last", [Group("workers", 3)], timeout_s=600))
    await first.start()
    await leads(scenario, first)
    await scenario.all_bound(39)
    assert writers(scenario) == ["muster-0", "muster-1", "muster-0"]


async def test_a_leader_that_cannot_renew_stops_writing_before_another_starts(
    open_scenario: OpenScenario, join: Join
) -> None:
    """Only its requests for the lease fail, so the leadership guard alone stops its writes."""
    roomy = [FakeNode(f"node-{number}", cpu="512", memory="1Ti", pods="1000") for number in range(2)]
    scenario = await open_scenario(roomy, env=QUICKLY, gated=True)
    first, second = scenario.muster, await join(scenario, "muster-1")
    cut_off = [scenario.gate.hold(method, rf"/leases/{LEASE}$") for method in ("PUT", "GET")]
    await cut_off[0].reached(1)
    gangs = itertools.count(1)

    async def leads_while_there_is_always_something_to_write() -> bool:
        await scenario.create(a_gang(f"gang-{next(gangs)}", [Group("workers", 1)], timeout_s=600))
        return await second.role() == "ok"

    await scenario.eventually("the second one leads", leads_while_there_is_always_something_to_write)
    await scenario.all_bound(next(gangs) - 1)
    assert first.operator.is_running()
    assert writers(scenario) == ["muster-0", "muster-1"]
    scenario.gate.clear()
    assert await first.operator.ended(90)
    assert first.operator.returncode == 1
    assert "leadership ended: muster-1 took the lease muster/muster" in first.operator.tail()


async def test_an_api_server_outage_longer_than_the_lease_ends_no_replica(open_scenario: OpenScenario) -> None:
    """ADR 0012: no other replica can have led meanwhile, so the leader continues."""
    scenario = await open_scenario(NODES, env=QUICKLY)
    plane = scenario.cluster.plane
    assert plane is not None
    pid = scenario.muster.operator.pid
    await plane.apiserver.stop(grace_s=1.0)
    await asyncio.sleep(DURATION_S)  # the outage must exceed the lease duration; no event shows that

    async def leads_no_more() -> bool:
        role, leader = await scenario.muster.role(), await metric(scenario.muster, "muster_operator_leader")
        return role.startswith("the Lease cannot be read or renewed: ") and leader == 0

    await scenario.eventually("the operator reports that it does not lead", leads_no_more)
    await plane.start_apiserver()
    await scenario.create(a_gang("after", [Group("workers", 2)], timeout_s=600))
    await scenario.all_bound(2)
    assert scenario.muster.operator.pid == pid
    assert await metric(scenario.muster, "muster_operator_leader") == 1
