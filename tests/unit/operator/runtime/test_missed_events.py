"""Changes during an interrupted watch are found in the following list."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster_si import keys, si_pb2
from tests.unit.operator.runtime.test_loop import INFO, Operator, a_node, a_pod, running


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    """A pod that runs, one that waits, a node."""
    async with running(Operator()) as started:
        await started.lists(nodes=[a_node("n1")], pods=[a_pod("bound", "n1"), a_pod("waiting")])
        await started.ready()
        started.peer.received.clear()
        yield started


def reports(operator: Operator) -> tuple[list[str], list[str], list[str]]:
    """Keys of requests, of reported allocations, and of both when released."""
    requests = [message for message in operator.peer.received if isinstance(message, si_pb2.AllocationRequest)]
    released = [gone.allocationKey for request in requests for gone in request.releases.allocationsToRelease]
    taken_back = [gone.allocationKey for request in requests for gone in request.releases.allocationAsksToRelease]
    return (
        [ask.allocationKey for request in requests for ask in request.asks],
        [allocation.allocationKey for request in requests for allocation in request.allocations],
        released + taken_back,
    )


def recreated(raw: dict[str, Any]) -> dict[str, Any]:
    """Another object of the same name."""
    raw["metadata"] |= {"uid": f"{raw['metadata']['uid']}-2", "resourceVersion": "20"}
    return raw


async def test_pods_recreated_under_their_names_are_different_pods(operator: Operator) -> None:
    pods = [recreated(a_pod("bound")), recreated(a_pod("waiting"))]
    await operator.lists(nodes=[a_node("n1")], pods=pods)
    await operator.until(lambda: len(reports(operator)[2]) == 2)
    asks, reported, released = reports(operator)
    assert (sorted(asks), reported) == (["uid-bound-2", "uid-waiting-2"], [])
    assert sorted(released) == ["uid-bound", "uid-waiting"]


async def test_a_bound_pod_and_a_resized_pod_are_reported_again(operator: Operator) -> None:
    larger = a_pod("bound", "n1", version=8)
    larger["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    await operator.lists(nodes=[a_node("n1")], pods=[larger, a_pod("waiting", "n1", version=9)])
    await operator.until(lambda: len(reports(operator)[1]) == 2)
    # Its ask, and what may have been answered to it meanwhile.
    assert reports(operator) == ([], ["uid-bound", "uid-waiting"], ["uid-waiting", "uid-waiting"])


async def test_a_finished_pod_releases_its_resources(operator: Operator) -> None:
    ended = a_pod("bound", "n1", version=8)
    ended["status"]["phase"] = "Succeeded"
    await operator.lists(nodes=[a_node("n1")], pods=[ended, a_pod("waiting")])
    await operator.until(lambda: reports(operator)[2] == ["uid-bound"])


async def test_a_node_recreated_smaller_and_cordoned_is_updated_and_drained(operator: Operator) -> None:
    node = recreated(a_node("n1"))
    node["status"]["allocatable"]["cpu"] = "2"
    node["spec"] = {"unschedulable": True}
    await operator.lists(nodes=[node], pods=[a_pod("bound", "n1"), a_pod("waiting")])
    await operator.until(lambda: len(operator.reported_nodes()) == 2)
    assert operator.reported_nodes() == [("n1", INFO.UPDATE), ("n1", INFO.DRAIN_NODE)]
    assert reports(operator) == ([], [], [])


async def test_a_changed_quota_is_reported(operator: Operator) -> None:
    namespace = {
        "metadata": {
            "name": "ns",
            "uid": "uid-ns",
            "resourceVersion": "5",
            "annotations": {"yunikorn.apache.org/namespace.quota": '{"cpu": "7"}'},
        }
    }
    pods = [a_pod("bound", "n1"), a_pod("waiting")]
    await operator.lists(namespaces=[namespace], nodes=[a_node("n1")], pods=pods)

    def renewed() -> list[si_pb2.AddApplicationRequest]:
        requests = [one for one in operator.peer.received if isinstance(one, si_pb2.ApplicationRequest)]
        return [new for request in requests for new in request.new]

    await operator.until(lambda: len(renewed()) == 1)
    assert renewed()[0].tags[keys.APP_TAG_RESOURCE_QUOTA] == '{"resources":{"vcore":{"value":7000}}}'


async def test_a_changed_priority_class_updates_its_pods(operator: Operator) -> None:
    pods = [a_pod("bound", "n1", version=7), a_pod("waiting", version=7)]
    for raw in pods:
        raw["spec"]["priorityClassName"] = "kept"
    await operator.lists(nodes=[a_node("n1")], pods=pods)
    operator.peer.received.clear()
    kept = {
        "metadata": {
            "name": "kept",
            "uid": "uid-kept",
            "resourceVersion": "5",
            "annotations": {"yunikorn.apache.org/allow-preemption": "false"},
        },
        "value": 7,
    }
    await operator.lists(priorityclasses=[kept], nodes=[a_node("n1")], pods=pods)
    await operator.until(lambda: reports(operator)[:2] == (["uid-waiting"], ["uid-bound"]))


async def test_an_unchanged_list_reports_nothing(operator: Operator) -> None:
    await operator.lists(nodes=[a_node("n1")], pods=[a_pod("bound", "n1"), a_pod("waiting")])
    await operator.wait_until_idle()
    assert operator.peer.received == []
