"""No decision is based on the cluster state of stale watches."""

import asyncio

import pytest

from muster_operator.kube.leadership import Candidacy, Leadership, NoElection
from muster_operator.kube.session import KubeSession, LeadershipGuard
from muster_operator.kube.watch import PATHS, STALE_S, WatchFreshness
from muster_operator.kube.write_queue import Pool
from muster_operator.model.commands import Command, PostEvent
from muster_operator.running import LeaderReadiness
from muster_operator.runtime.loop import Inbox
from muster_operator.runtime.metrics import Metrics
from muster_operator.serving import hold_while_stale, run_sessions
from tests.unit.operator.kube.apiserver import FixedCredentials
from tests.unit.operator.kube.commands import a_bind, a_condition, a_create
from tests.unit.operator.runtime.test_loop import Operator, a_node, running


class FakeClock:
    """A clock that only the test advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_lists_events_and_bookmarks_count_as_deliveries() -> None:
    inbox, clock = Inbox(Metrics()), FakeClock()
    inbox.freshness = WatchFreshness(clock)
    assert inbox.freshness.stale == "", "at the start nothing is waited for that the first lists do not bring"
    inbox.list_begun("pods")
    await inbox.listed("pods")
    inbox.list_begun("nodes")
    await inbox.listed("nodes")
    inbox.record_activity("namespaces")
    clock.now += STALE_S - 1
    inbox.record_activity("nodes")
    assert inbox.freshness.stale == ""
    clock.now += 2
    assert inbox.freshness.stale == "namespaces, pods"


async def test_a_standby_with_stale_watches_registers_after_all_watches_deliver_again() -> None:
    clock, operator, leading = FakeClock(), Operator(), NoElection(LeadershipGuard())
    freshness = operator.inbox.freshness = WatchFreshness(clock)
    await operator.lists()
    while len(operator.inbox):
        operator.loop.iterate()
    assert operator.loop.unlisted == ""
    clock.now += 3600
    assert operator.loop.unlisted == f"stale watches: {', '.join(sorted(PATHS))}"
    talking = asyncio.create_task(run_sessions(operator.link, freshness, leading))
    leading.begun.set()
    for plural in PATHS.keys() - {"priorityclasses"}:
        freshness.note(plural)
        await operator.wait_until_idle()
    assert operator.peer.registrations == []
    operator.inbox.list_begun("priorityclasses")
    await operator.inbox.listed("priorityclasses")
    await operator.until(lambda: bool(operator.peer.registrations))
    talking.cancel()
    await asyncio.gather(talking, return_exceptions=True)


@pytest.mark.parametrize("plural", ["pods", "nodes"])
async def test_decisions_wait_while_the_pod_or_node_watch_is_stale_and_resume_with_its_next_byte(
    plural: str,
) -> None:
    clock, executed = FakeClock(), list[Command]()
    freshness = WatchFreshness(clock)

    async def execute(command: Command) -> None:
        executed.append(command)

    pool = Pool(execute, may_decide=freshness.may_decide)
    freshness.note("pods")
    freshness.note("nodes")
    tasks = [asyncio.create_task(pool.run())]
    leading = NoElection(LeadershipGuard())
    leading.begun.set()
    clock.now += STALE_S + 1
    freshness.note("nodes" if plural == "pods" else "pods")
    tasks.append(asyncio.create_task(hold_while_stale(freshness, pool, leading)))
    for command in (a_bind(), a_create(), a_condition("q")):
        pool.submit(command)
    for _ in range(50):
        await asyncio.sleep(0)
    assert executed == [a_condition("q")], "a report is no decision"
    freshness.note(plural)
    await pool.drained()
    assert sorted(map(repr, executed[1:])) == sorted(map(repr, [a_bind(), a_create()]))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_leader_with_a_stale_watch_is_reachable_and_reports_it_in_readyz_and_on_its_lease() -> None:
    clock, operator = FakeClock(), Operator()
    freshness = operator.inbox.freshness = WatchFreshness(clock)
    session = KubeSession(FixedCredentials("http://127.0.0.1:9", ["t"]))
    leading = Leadership(session, Candidacy("muster", "muster", "me"), LeadershipGuard())
    leading.begun.set()
    posted = list[Command]()

    async def post(command: Command) -> None:
        posted.append(command)

    pool = Pool(post)
    tasks = [asyncio.create_task(pool.run()), asyncio.create_task(hold_while_stale(freshness, pool, leading))]
    async with running(operator):
        await operator.lists(nodes=[a_node("n1")])
        await operator.ready()
        standing = LeaderReadiness(leading, operator.loop)
        assert (standing.missing, standing.role) == ("", "")
        clock.now += STALE_S + 1
        assert standing.missing == "", "an unready pod is no endpoint of its webhook and of REST"
        assert standing.role.startswith("not binding, stale watches: ")
        assert "pods" in standing.role
    tasks[1].cancel()
    tasks[1] = asyncio.create_task(hold_while_stale(freshness, pool, leading))
    await operator.until(lambda: len(posted) >= 1)
    freshness.note("pods")
    freshness.note("nodes")
    await operator.until(lambda: len(posted) >= 2)
    events = [command for command in posted if isinstance(command, PostEvent)]
    assert [(event.name, event.reason) for event in events] == [("muster", "WatchesStale"), ("muster", "WatchesFresh")]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await session.close()
