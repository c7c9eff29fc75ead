"""A temporarily slow core does not end the session: watches continue, and updates are coalesced per object."""

import asyncio
from typing import Any

import pytest

from muster_operator.model.cluster_events import ClusterEvent, NodeGone, PodGone, PodSeen
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.settings import Settings
from muster_operator.runtime.loop import PendingObjects
from muster_operator.si import session
from muster_operator.translate.pods import read_pod
from muster_si import si_pb2
from tests.unit.operator.controller.kubernetes import node_seen
from tests.unit.operator.controller.objects import a_node as a_model_node
from tests.unit.operator.runtime.test_loop import Operator, a_node, a_pod, running

PODS = 50


def pod_in(phase: str, node: str = "") -> PodSeen:
    raw = a_pod("p", node)
    raw["status"]["phase"] = phase
    pod = read_pod(raw, Settings())
    assert pod is not None
    return PodSeen(pod)


def merged(*facts: ClusterEvent) -> list[ClusterEvent | str]:
    """The remaining states of one object after merging unread ones."""
    pending = PendingObjects[str]()
    for number, fact in enumerate(facts):
        pending.put(number, "any", "p", fact)
    found = []
    while len(pending):
        found.append(pending.take())
    return found


GONE = PodGone(PodUid("uid-p"))


def test_the_newest_state_replaces_unread_older_states() -> None:
    assert merged(pod_in("Pending"), pod_in("Pending", "n1"), pod_in("Running", "n1")) == [pod_in("Running", "n1")]


def test_a_completion_and_a_deletion_are_both_read() -> None:
    assert merged(pod_in("Running", "n1"), pod_in("Succeeded", "n1"), GONE) == [
        pod_in("Succeeded", "n1"),
        GONE,
    ]


def test_a_deletion_is_read_before_a_recreation_with_the_same_name() -> None:
    gone, made = NodeGone(NodeName("n1")), node_seen(a_model_node("n1"))
    assert merged(made, gone, made, made) == [gone, made]


def test_repeated_creations_and_deletions_of_an_object_leave_one_deletion() -> None:
    comes_and_goes: list[ClusterEvent] = [node_seen(a_model_node("n1")), NodeGone(NodeName("n1"))]
    assert merged(*comes_and_goes * 100) == comes_and_goes[1:]


def test_a_mark_is_taken_after_the_objects_put_before_it() -> None:
    pending = PendingObjects[str]()
    pending.put(1, "pods", "p", pod_in("Pending"))
    pending.mark(2, "listed")
    pending.put(3, "pods", "p", GONE)
    assert [pending.take(), pending.take()] == [GONE, "listed"]


def moved(name: str, version: int, phase: str = "Running") -> dict[str, Any]:
    raw = a_pod(name, "n1", version=version)
    raw["spec"]["containers"][0]["resources"]["requests"]["cpu"] = f"{version % 97 + 1}m"
    raw["status"]["phase"] = phase
    return raw


async def test_a_slow_core_keeps_its_session_and_receives_the_newest_state_and_every_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "OUTBOX_FULL", 5)
    monkeypatch.setattr(session, "OUTBOX_ROOM", 2)
    names = [f"p{number}" for number in range(PODS)]
    async with running(Operator()) as operator:
        await operator.lists(nodes=[a_node("n1")], pods=[a_pod(name, "n1") for name in names])
        await operator.ready()
        operator.peer.received.clear()
        operator.peer.held = asyncio.Event()
        async with asyncio.timeout(10):
            for version in range(10, 60):
                for name in names:
                    await operator.inbox.watched("pods", "MODIFIED", moved(name, version))
                await operator.wait_until_idle()
        await operator.inbox.watched("pods", "MODIFIED", moved("p0", 60, "Succeeded"))
        await operator.inbox.watched("pods", "DELETED", moved("p1", 61))
        await operator.wait_until_idle()
        assert len(operator.inbox) <= PODS, "one state of each pod waits"
        coalesced = operator.metrics.registry.get_sample_value("muster_operator_coalesced_updates_total")
        assert coalesced is not None
        assert coalesced > 1000
        operator.peer.held.set()
        await operator.until(lambda: not len(operator.inbox) and not sum(operator.link.depths().values()))
        assert len(operator.peer.registrations) == 1
    requests = [message for message in operator.peer.received if isinstance(message, si_pb2.AllocationRequest)]
    newest = {
        allocation.allocationKey: allocation.resourcePerAlloc.resources["vcore"].value
        for request in requests
        for allocation in request.allocations
    }
    assert {newest[f"uid-{name}"] for name in names[2:]} == {59 % 97 + 1}
    released = {gone.allocationKey for request in requests for gone in request.releases.allocationsToRelease}
    assert released == {"uid-p0", "uid-p1"}
    assert sum(len(request.allocations) for request in requests) < 10 * PODS


async def test_results_and_messages_of_the_core_overtake_queued_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "OUTBOX_FULL", 0)
    async with running(Operator()) as operator:
        await operator.lists(nodes=[a_node("n1")], pods=[a_pod("bound", "n1"), a_pod("waiting")])
        await operator.ready()
        operator.peer.held = asyncio.Event()
        for version in (7, 8, 9):
            await operator.inbox.watched("pods", "MODIFIED", moved("bound", version))
            await operator.wait_until_idle()
        assert len(operator.inbox) == 1
        operator.peer.callback.update_allocation(
            si_pb2.AllocationResponse(
                new=[si_pb2.Allocation(applicationID="ns/app", allocationKey="uid-waiting", nodeID="n1")]
            )
        )
        await operator.until(lambda: bool(operator.commands))
        assert len(operator.inbox) == 1
        operator.peer.held.set()
        await operator.until(lambda: not len(operator.inbox))
