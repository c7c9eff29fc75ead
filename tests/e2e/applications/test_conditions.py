"""Conditions of waiting pods, as users and autoscalers read them, and their cost for the API server."""

import asyncio
from collections import Counter

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conditions import condition, scheduled, wait_for_event, wait_for_reason
from tests.e2e.configuration import a_queue, queue_file
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod, owned
from tests.e2e.scenario import Scenario

LIMIT = {"limit": "", "users": ["ann"], "maxresources": {"vcore": "1"}}
QUEUES = queue_file(
    a_queue("quota", maximum={"vcore": "1"}),
    a_queue("counted", maxapplications=1),
    a_queue("limited", limits=[LIMIT]),
    a_queue("turn", maximum={"vcore": "3"}),
    a_queue("free"),
)
TAINT = {"key": "dedicated", "value": "others", "effect": "NoSchedule"}
CUSTOM_CONDITION = "example.com/checked"


def at(queue: str, app: str, name: str, cpu: str = "1") -> Json:
    return a_pod(name, cpu=cpu, labels={"applicationId": app, "queue": f"root.{queue}"})


async def with_reason(scenario: Scenario, reason: str) -> set[str]:
    """Names of pods and placeholders that wait for this reason."""
    pods = await scenario.api.find("pods", scenario.namespace)
    return {pod["metadata"]["name"] for pod in pods if scheduled(pod).get("reason") == reason}


async def test_waiting_pods_report_the_reason_and_only_missing_nodes_are_unschedulable(
    open_scenario: OpenScenario,
) -> None:
    nodes = [FakeNode("node-0", cpu="16"), FakeNode("node-1", cpu="200", taints=[TAINT])]
    scenario = await open_scenario(nodes, QUEUES)
    await scenario.create(
        [at("quota", "q", "quota-0"), at("counted", "one", "counted-0"), owned(at("limited", "l", "limited-0"), "ann")]
    )
    await scenario.create([at("turn", "busy", "turn-0")])
    await scenario.all_bound(4)
    await scenario.create([at("quota", "q", "quota-1")])
    foreign = {"type": CUSTOM_CONDITION, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await scenario.api.patch(
        "pods", "quota-1", {"status": {"conditions": [foreign]}}, scenario.namespace, subresource="status"
    )
    await scenario.create([at("counted", "two", "counted-1"), owned(at("limited", "l", "limited-1"), "ann")])
    await scenario.create([at("free", "f", "big", "100")])
    await scenario.create(a_gang("gang", [Group("workers", 3)], queue="root.turn", timeout_s=600, placement="Reserve"))
    # The gang reserves the free quota and waits for the rest.
    texts = ("2 of 3 placeholders", "root.turn, requested cpu 1, available 0 of 3")
    await wait_for_reason(scenario, "gang-workers-0", "SchedulingSkipped", *texts)
    await scenario.create([at("turn", "late", "turn-late")])
    full = "requested cpu 1, available 0 of 1"
    await asyncio.gather(
        wait_for_reason(scenario, "quota-1", "SchedulingSkipped", f"Not enough queue quota: root.quota, {full}"),
        wait_for_reason(
            scenario, "counted-1", "SchedulingSkipped", "queue root.counted is running 1 of at most 1 application"
        ),
        wait_for_reason(
            scenario, "limited-1", "SchedulingSkipped", f"Not enough user quota: user ann in queue root.limited, {full}"
        ),
        wait_for_reason(scenario, "big", "Unschedulable", "1 Insufficient cpu, 1 node(s) had untolerated taint(s)."),
        wait_for_reason(scenario, "turn-late", "SchedulingSkipped", "queued behind gang gang in queue root.turn"),
        wait_for_reason(
            scenario, "gang-workers-2", "SchedulingSkipped", "(not enough queue quota); see pod gang-workers-0"
        ),
        wait_for_event(scenario, "gang-workers-2", "(not enough queue quota); see pod gang-workers-0"),
    )
    assert await with_reason(scenario, "Unschedulable") == {"big"}
    waiting = await scenario.api.get("pods", "quota-1", scenario.namespace)
    assert condition(waiting, CUSTOM_CONDITION)["status"] == "True", "a condition of another client is unchanged"
    await scenario.api.delete("pods", "quota-0", scenario.namespace)

    async def is_scheduled() -> bool:
        pod = await scenario.api.get("pods", "quota-1", scenario.namespace)
        return scheduled(pod).get("status") == "True" and condition(pod, CUSTOM_CONDITION).get("status") == "True"

    await scenario.eventually("the condition is true once the pod is bound", is_scheduled)


async def test_a_gang_waiting_for_nodes_reports_progress_once_without_further_writes(
    open_scenario: OpenScenario,
) -> None:
    """Five writes per member, two more for each member that reports why it waits, and two for the reserved node."""
    members = 3
    scenario = await open_scenario([FakeNode("node-0", cpu="3"), FakeNode("node-1", cpu="100", taints=[TAINT])])
    await scenario.create([a_pod("busy", labels={"applicationId": "busy"})])
    await scenario.all_bound(1)
    first_write = len(scenario.writes(of_operator=True))
    await scenario.create(a_gang("gang", [Group("workers", members)], timeout_s=600, placement="Reserve"))
    node_reason = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
    texts = ("2 of 3 placeholders are bound", node_reason)
    await wait_for_reason(scenario, "gang-workers-0", "SchedulingSkipped", *texts)
    await wait_for_reason(
        scenario, "gang-workers-2", "SchedulingSkipped", "(not enough suitable nodes); see pod gang-workers-0"
    )

    async def progress_is_reported() -> bool:
        pending = [name.startswith("tg-gang-workers-") for name in await with_reason(scenario, "Unschedulable")]
        events = [event for event in await scenario.events("GangScheduling") if event["type"] == "Normal"]
        series = [(event["action"], event["message"]) for event in events]
        return pending == [True] and series == [("PlaceholderAllocated", "2 of 3 placeholders are bound")]

    await scenario.eventually("a placeholder waits, and a series has the progress", progress_is_reported)

    async def all_have_reported() -> bool:
        patches = [write for write in scenario.writes(of_operator=True) if write.what == "patch pods/status"]
        return len({write.name for write in patches}) == members + 1

    await scenario.eventually(
        "every member and the placeholder without a node report why they wait", all_have_reported, 20
    )
    [waiting] = await with_reason(scenario, "Unschedulable")
    for pod, reason in ((waiting, "Unschedulable"), ("gang-workers-0", "SchedulingSkipped")):
        await wait_for_reason(scenario, pod, reason, node_reason, "node node-0 is reserved for the pod")
    before = len(scenario.writes(of_operator=True))
    await scenario.create(
        [a_pod("behind", cpu="64")]
    )  # its condition is written as late as a repeated one of the gang would be
    await wait_for_reason(scenario, "behind", "Unschedulable", "Insufficient cpu")
    after = scenario.writes(of_operator=True)[before:]
    assert [write for write in after if write.resource == "pods" and write.name != "behind"] == [], (
        "waiting causes no writes"
    )
    await scenario.api.delete("pods", "behind", scenario.namespace)
    await scenario.api.delete("pods", "busy", scenario.namespace)
    await scenario.all_bound(members)

    async def has_reported() -> Json | None:
        found = [event for event in await scenario.events("GangScheduling") if event["type"] == "Normal"]
        assert len(found) == 1, found
        return found[0] if found[0]["action"] == "GangReservationComplete" else None

    last = await scenario.eventually("the series ends with the reservation", has_reported)
    assert last is not None
    # "2 of 3 placeholders are bound" is preceded by "1 of 3" if the check came before the second bind.
    early = last["series"]["count"] - 3
    assert early in {0, 1}
    of_operator = scenario.writes(of_operator=True)[first_write:]
    writes = Counter(write.what for write in of_operator if not write.name.startswith("behind"))
    assert writes["create pods"] == writes["delete pods"] == members
    assert writes["create pods/binding"] == 2 * members
    of_reserved_node = 2  # once on the placeholder without a node, and on the originator
    assert members + 1 <= writes["patch pods/status"] <= members + 1 + of_reserved_node + early
    of_the_gang, of_busy = 5 + of_reserved_node, 1  # its placeholder without a node and its series; an event
    assert sum(writes.values()) <= 7 * members - 1 + of_the_gang + of_busy + 2 * early, writes
