"""Restarts with gangs in every phase, and suspended processes."""

import asyncio
import signal
import time
from collections import Counter

import pytest

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conditions import wait_for_event, wait_for_reason
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod
from tests.e2e.scenario import DEADLINE_S, Scenario

LONG_S = 600
TIMEOUT_S = 90
DELETE_OF = "/pods/tg-{}-[^/]*$"


async def is_so(
    scenario: Scenario, count: int, of: str, *, placeholders: bool, bound: bool = True, deadline_s: float = DEADLINE_S
) -> None:
    """Wait until ``count`` pods of a gang exist, or are bound."""

    async def holds() -> bool:
        pods = await (scenario.bound if bound else scenario.pods)(placeholders=placeholders)
        return sum(of in pod["metadata"]["name"] for pod in pods) == count

    await scenario.eventually(f"{count} pods of {of} are {'bound' if bound else 'there'}", holds, deadline_s)


async def in_every_phase(scenario: Scenario) -> None:
    """Create gangs that complete, replace placeholders in two phases, fail, and reserve."""
    # Completing: one of two members has a real pod; the unused placeholder is being deleted.
    scenario.gate.hold("DELETE", DELETE_OF.format("ends"))
    await scenario.create(a_gang("ends", [Group("g", 2, real=1)], timeout_s=LONG_S, placement="Reserve"))
    await is_so(scenario, 2, "tg-ends", placeholders=True)
    # Replacing: the deletes were sent and are not answered.
    deletes = scenario.gate.hold("DELETE", DELETE_OF.format("swaps"))
    await scenario.create(a_gang("swaps", [Group("g", 2)], timeout_s=LONG_S, placement="Reserve"))
    await deletes.reached(2)
    # Replacing: the placeholders are deleted, and one of their three members is bound.
    binds = scenario.gate.hold("POST", r"/pods/binds-[^/]*/binding$", skip=1)
    await scenario.create(a_gang("binds", [Group("g", 3)], timeout_s=LONG_S, placement="Reserve"))
    await binds.reached(2)
    # Failing: the gang timed out, and the status of its pods is being written.
    status = scenario.gate.hold("PATCH", r"/pods/fails-[^/]*/status$")
    await scenario.create(
        a_gang("fails", [Group("s", 1), Group("b", 1, cpu="20")], timeout_s=1, style="Hard", placement="Reserve")
    )
    await status.reached(2)
    # Creating: two of four placeholders exist.
    creations = scenario.gate.hold("POST", r"/pods$", skip=2)
    await scenario.create(a_gang("begins", [Group("g", 4)], timeout_s=LONG_S, placement="Reserve"))
    await creations.reached(2)


async def test_gangs_in_every_phase_finish_correctly_after_both_are_killed(open_scenario: OpenScenario) -> None:
    """The final checks look for pods that were bound twice."""
    scenario = await open_scenario([FakeNode("node-0", cpu="32"), FakeNode("node-1", cpu="32")], gated=True)
    for node in ("node-0", "node-1"):
        await scenario.occupy(node, "16")
    await in_every_phase(scenario)
    await scenario.muster.operator.kill()
    await scenario.muster.core.kill()
    scenario.gate.clear()
    await scenario.muster.start()
    for gang, members in (("swaps-", 2), ("binds-", 3), ("begins-", 4)):
        await is_so(scenario, members, gang, placeholders=False)
    await failed(scenario, "fails-", 2)
    await is_so(scenario, 1, "ends-", placeholders=False)
    created = [write for write in scenario.writes(of_operator=True) if write.what == "create pods" and write.succeeded]
    assert sum(write.name.startswith("tg-binds") for write in created) == 3


async def failed(scenario: Scenario, of: str, count: int) -> None:
    async def have_failed() -> bool:
        pods = [pod for pod in await scenario.pods() if pod["metadata"]["name"].startswith(of)]
        return len(pods) == count and all(pod["status"]["phase"] == "Failed" for pod in pods)

    await scenario.eventually(f"{count} pods of {of} failed", have_failed)


@pytest.mark.timeout(400, func_only=True)  # includes TIMEOUT_S
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
