"""Restarts while a queue waits, and suspended processes."""

import asyncio
import signal
import time
from collections import Counter

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conditions import wait_for_event, wait_for_reason
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod
from tests.e2e.scenario import DEADLINE_S, Scenario

LONG_S = 600
TIMEOUT_S = 45


async def is_so(
    scenario: Scenario, count: int, of: str, *, placeholders: bool, bound: bool = True, deadline_s: float = DEADLINE_S
) -> None:
    """Wait until ``count`` pods of a gang exist, or are bound."""

    async def holds() -> bool:
        pods = await (scenario.bound if bound else scenario.pods)(placeholders=placeholders)
        return sum(of in pod["metadata"]["name"] for pod in pods) == count

    await scenario.eventually(f"{count} pods of {of} are {'bound' if bound else 'there'}", holds, deadline_s)


async def test_queue_order_timers_and_reported_events_survive_a_restart(open_scenario: OpenScenario) -> None:
    """The queue order is kept, timers continue, and events are not sent again."""
    scenario = await open_scenario([FakeNode("node-0", cpu="8500m")])
    await scenario.occupy("node-0", "6")
    groups = [Group("s", 1), Group("b", 1, cpu="7")]
    created_at = time.monotonic()
    await scenario.create(a_gang("timed", groups, timeout_s=TIMEOUT_S, placement="Reserve"))
    await is_so(scenario, 1, "tg-timed-s", placeholders=True)
    await scenario.create(
        [a_pod(f"line-{number}", cpu="2", labels={"applicationId": f"app-{number}"}) for number in (0, 1)]
    )
    for number in (0, 1):
        await wait_for_reason(scenario, f"line-{number}", "Unschedulable", "Insufficient cpu")
    for number in (0, 1):
        await has_event(scenario, f"line-{number}")  # events are sent after conditions
    await wait_for_event(scenario, "timed-s-0", "1 of 2 placeholders are bound", kind="Normal")
    await wait_for_event(scenario, "timed-s-0", "gang timed is waiting for its reservation")
    await wait_for_event(scenario, "timed-b-0", "gang timed is waiting for its reservation")
    before = await reported_events(scenario)
    await scenario.muster.operator.kill()
    await scenario.muster.core.kill()
    restarted_at = time.monotonic()
    await scenario.muster.start()
    # Events of a later pod are written after any repeated events of the earlier ones.
    await scenario.create([a_pod("later", cpu="2", labels={"applicationId": "app-later"})])
    await wait_for_reason(scenario, "later", "Unschedulable", "Insufficient cpu")
    await has_event(scenario, "later")
    assert {what: count for what, count in (await reported_events(scenario)).items() if what[0] != "later"} == before
    await scenario.api.delete("pods", "later", scenario.namespace, grace_s=0)
    await is_so(scenario, 0, "tg-timed", placeholders=True, bound=False, deadline_s=TIMEOUT_S + 10)
    assert created_at + TIMEOUT_S - 1 < time.monotonic() < restarted_at + TIMEOUT_S, "the timer was not continued"
    for pod in ("timed-s-0", "timed-b-0"):
        await scenario.api.delete("pods", pod, scenario.namespace, grace_s=0)
    await is_so(scenario, 1, "line-0", placeholders=False)
    await scenario.api.delete("pods", "line-0", scenario.namespace, grace_s=0)
    await is_so(scenario, 1, "line-1", placeholders=False)


async def has_event(scenario: Scenario, pod: str) -> None:
    """Wait for an event of the pod."""

    async def is_there() -> bool:
        return any(name == pod for name, _, _ in await reported_events(scenario))

    await scenario.eventually(f"an event of {pod}", is_there)


async def reported_events(scenario: Scenario) -> Counter[tuple[str, str, str]]:
    """The events of the scenario, with their counts."""
    return Counter(event_key for event in await scenario.events() for event_key in [key(event)] * times(event))


def key(event: Json) -> tuple[str, str, str]:
    return event["involvedObject"]["name"], event["reason"], event.get("message", "")


def times(event: Json) -> int:
    """The count of an event."""
    return int((event.get("series") or {}).get("count") or event.get("count") or 1)


async def test_a_suspended_core_or_operator_continues(open_scenario: OpenScenario) -> None:
    """The operator is suspended for longer than its lease, then the core while pods are created."""
    scenario = await open_scenario([FakeNode("node-0")], env={"MUSTER_LEASE_DURATION": "3"})
    await scenario.create(a_gang("first", [Group("g", 2)], timeout_s=LONG_S))
    await is_so(scenario, 2, "first", placeholders=False)
    for process, gang in ((scenario.muster.operator, "second"), (scenario.muster.core, "third")):
        process.signal(signal.SIGSTOP)
        await scenario.create(a_gang(gang, [Group("g", 2)], timeout_s=LONG_S))
        await asyncio.sleep(5)  # longer than the lease; no event shows it
        process.signal(signal.SIGCONT)
        await is_so(scenario, 2, gang, placeholders=False)
    await scenario.all_bound(6)
    assert await scenario.muster.samples("muster_operator_state_comparisons_total")
