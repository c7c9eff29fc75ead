"""Nodes are added, changed, cordoned and deleted; pods of other schedulers use their resources."""

from muster_operator.model.cluster_events import NodeGone
from muster_operator.model.commands import PostEvent, Subject
from muster_operator.model.core_messages import (
    AllocationReleased,
    AllocationReported,
    AskSubmitted,
    NodeCreated,
    NodeDecommissioned,
    NodeDrained,
    NodeOpened,
    NodeRecommended,
    NodeResponse,
    NodeUpdated,
    Recommendations,
    TerminationType,
)
from muster_operator.model.ids import AllocationId, NodeName, PodUid
from muster_si import keys
from tests.unit.operator.controller.driver import (
    APP,
    done,
    events,
    live,
    live_with_pod,
    orders,
    refused,
    requested_keys,
    waiting,
)
from tests.unit.operator.controller.kubernetes import node_seen
from tests.unit.operator.controller.objects import Raw, a_node, a_pod

N1 = NodeName("n1")


def foreign(name: str = "dns", node: str = "n1") -> Raw:
    return a_pod(name, schedulerName="default-scheduler", nodeName=node)


def test_a_new_node_is_created_open_or_drained() -> None:
    driver = live()
    opened = driver.fact(node_seen(a_node("n2"))).requests[0]
    cordoned = driver.fact(node_seen(a_node("n3", unschedulable=True))).requests[0]
    assert isinstance(opened, NodeCreated)
    assert isinstance(cordoned, NodeCreated)
    assert (opened.drained, cordoned.drained) == (False, True)


def test_a_heartbeat_is_not_reported() -> None:
    raw = a_node("n1")
    raw["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:00:00Z"
    assert not live().fact(node_seen(raw))


def test_capacity_label_and_cordon_changes_are_reported_separately() -> None:
    driver = live()
    larger = a_node("n1", labels={"gpu": "yes"}, unschedulable=True)
    larger["status"]["allocatable"]["cpu"] = "16"
    assert [type(item) for item in driver.fact(node_seen(larger)).requests] == [NodeUpdated, NodeDrained]
    uncordoned = driver.fact(node_seen({**larger, "spec": {}})).requests
    assert [type(item) for item in uncordoned] == [NodeUpdated, NodeOpened]


def test_new_images_are_reported_but_a_different_order_is_not() -> None:
    driver, raw = live(), a_node("n1")
    images = [{"names": [f"app:{number}"], "sizeBytes": 7} for number in range(2)]
    raw["status"]["images"] = images
    updated = driver.fact(node_seen(raw)).requests
    assert [type(item) for item in updated] == [NodeUpdated]
    raw["status"]["images"] = images[::-1]
    assert not driver.fact(node_seen(raw))


def test_a_foreign_pod_is_counted_on_its_node_until_it_finishes_or_is_deleted() -> None:
    driver = live()
    reported = driver.see(foreign()).requests[0]
    assert isinstance(reported, AllocationReported)
    assert (reported.allocation.ask.app, reported.allocation.node) == (None, "n1")
    assert dict(reported.allocation.ask.tags)["foreign"] == "default"
    assert not driver.see(foreign())
    assert driver.see(foreign(), phase="Succeeded").requests == [AllocationReleased(None, PodUid("uid-dns"))]
    assert not driver.gone("dns")


def test_a_foreign_pod_is_reported_again_when_resized_but_not_when_it_starts() -> None:
    driver = live()
    driver.see(foreign())
    assert not driver.see(foreign(), phase="Running")
    larger = foreign()
    larger["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"
    (update,) = driver.see(larger).requests
    assert isinstance(update, AllocationReported)
    assert (update.allocation.ask.key, update.allocation.ask.resources["vcore"]) == ("uid-dns", 3000)
    assert not driver.see(larger)
    assert driver.gone("dns").requests == [AllocationReleased(None, PodUid("uid-dns"))]


def test_a_foreign_pod_is_reported_again_when_its_labels_change_or_it_terminates() -> None:
    """For those that keep away from it, and for spread, which counts none that is to go."""
    driver = live()
    driver.see(foreign())
    raw = foreign()
    raw["metadata"]["labels"] = {"app": "web"}
    (update,) = driver.see(raw).requests
    assert isinstance(update, AllocationReported)
    assert update.allocation.ask.tags[keys.TAG_POD_LABEL_PREFIX + "app"] == "web"
    raw["metadata"] = {**raw["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    (update,) = driver.see(raw).requests
    assert isinstance(update, AllocationReported)
    assert update.allocation.ask.tags[keys.TAG_TERMINATING] == "true"
    assert not driver.see(raw, phase="Running")


def test_the_priority_of_a_foreign_pod_is_reported() -> None:
    """The core decides which pods can be preempted."""
    (update,) = live().see({**foreign(), "spec": {**foreign()["spec"], "priority": 2_000_000_000}}).requests
    assert isinstance(update, AllocationReported)
    assert update.allocation.ask.priority == 2_000_000_000


def test_a_foreign_pod_without_a_node_is_ignored() -> None:
    driver = live()
    raw = foreign()
    del raw["spec"]["nodeName"]
    assert not driver.see(raw)
    assert len(driver.see(foreign()).requests) == 1
    assert driver.gone("dns").requests == [AllocationReleased(None, PodUid("uid-dns"))]


def nominated(node: str | None) -> Raw:
    """A pod for which kube-scheduler preempts on a node; None: no longer."""
    raw = foreign()
    del raw["spec"]["nodeName"]
    raw["status"] = {"phase": "Pending", "nominatedNodeName": node} if node else {"phase": "Pending"}
    return raw


def test_resources_on_a_nominated_node_of_another_scheduler_are_counted_as_used() -> None:
    """Otherwise Muster would allocate them, and its pod would be preempted, repeatedly."""
    driver = live()
    (update,) = driver.see(nominated("n1")).requests
    assert isinstance(update, AllocationReported)
    assert (update.allocation.node, update.allocation.ask.key) == ("n1", "uid-dns")
    assert not driver.see(foreign())
    assert driver.gone("dns").requests == [AllocationReleased(None, PodUid("uid-dns"))]


def test_resources_are_free_again_when_a_nomination_changes_or_is_removed() -> None:
    driver = live("n1", "n2")
    driver.see(nominated("n1"))
    removed, update = driver.see(foreign(node="n2")).requests
    assert removed == AllocationReleased(None, PodUid("uid-dns"))
    assert isinstance(update, AllocationReported)
    assert update.allocation.node == "n2"
    other = live()
    other.see(nominated("n1"))
    assert other.see(nominated(None)).requests == [AllocationReleased(None, PodUid("uid-dns"))]
    assert not other.gone("dns")


def test_a_new_node_does_not_list_a_pod_that_is_now_nominated_elsewhere() -> None:
    driver = live()
    driver.see(nominated("n2"))
    driver.see(nominated("n1"))
    created = driver.fact(node_seen(a_node("n2"))).requests[0]
    assert isinstance(created, NodeCreated)
    assert created.existing == ()


def test_pods_on_an_unknown_node_are_reported_with_the_node() -> None:
    driver = live()
    assert not driver.see(foreign("a", "n2"))
    assert not driver.see(foreign("b", "n2"))
    assert not driver.gone("b")
    created = driver.fact(node_seen(a_node("n2"))).requests[0]
    assert isinstance(created, NodeCreated)
    assert [allocation.ask.key for allocation in created.existing] == ["uid-a"]


def test_a_node_that_is_added_again_is_reported_with_its_pods() -> None:
    driver = live()
    driver.see(foreign())
    waiting(driver)
    driver.allocated("uid-w0")
    driver.see(a_pod("w0", app=APP, nodeName="n1"))
    assert driver.fact(NodeGone(N1)).requests == [NodeDecommissioned(N1)]
    assert not driver.fact(NodeGone(N1))
    created = driver.fact(node_seen(a_node("n1"))).requests[0]
    assert isinstance(created, NodeCreated)
    assert sorted(allocation.ask.key for allocation in created.existing) == ["uid-dns", "uid-w0"]


def test_a_pod_whose_bind_was_in_flight_is_reported_again_with_its_node() -> None:
    driver = live_with_pod()
    [bind] = orders(driver.allocated("uid-w0"))
    driver.fact(NodeGone(N1))
    driver.result(done(bind))
    driver.see(a_pod("w0", app=APP, nodeName="n1"))
    created = driver.fact(node_seen(a_node("n1"))).requests[0]
    assert isinstance(created, NodeCreated)
    assert [allocation.ask.key for allocation in created.existing] == ["uid-w0"]
    assert driver.gone("w0").requests == [
        AllocationReleased(APP, PodUid("uid-w0"), allocation_id=AllocationId("uid-w0-0"))
    ]


def test_a_pod_allocated_to_a_node_that_was_deleted_and_added_again_is_reported_again() -> None:
    """The core allocated before it received the deletion, and then released the allocation; the pod is bound there."""
    driver = live_with_pod()
    driver.fact(NodeGone(N1))
    driver.fact(node_seen(a_node("n1")))
    [bind] = orders(driver.allocated("uid-w0"))
    driver.result(done(bind))
    [update] = driver.released("uid-w0", TerminationType.STOPPED_BY_RM).requests
    assert isinstance(update, AllocationReported)
    assert (update.allocation.node, update.allocation.ask.key) == ("n1", "uid-w0")


def test_a_pod_whose_bind_failed_is_not_reported_with_the_node() -> None:
    driver = live_with_pod("n1", "n2")
    [bind] = orders(driver.allocated("uid-w0"))
    driver.fact(NodeGone(N1))
    out = driver.result(refused(bind))
    assert requested_keys(out) == ["uid-w0"]
    assert not [item for item in out.requests if isinstance(item, AllocationReleased)]
    created = driver.fact(node_seen(a_node("n1"))).requests[0]
    assert isinstance(created, NodeCreated)
    assert created.existing == ()


def test_a_release_of_a_returned_allocation_is_not_confirmed_for_the_next_one() -> None:
    """The next one has the same key, and may have the same id: it would go with the confirmation."""
    driver = live_with_pod()
    driver.fact(NodeGone(N1))
    given_back = driver.allocated("uid-w0", node="n1")
    assert [type(item) for item in given_back.requests] == [AllocationReleased, AskSubmitted]
    assert not driver.released("uid-w0", TerminationType.TIMEOUT)


def test_a_recommendation_becomes_an_event_only_on_an_existing_node() -> None:
    driver = live()
    known = NodeRecommended(N1, "3 pods could not be bound to it")
    posted = driver.receive(Recommendations((known, NodeRecommended(NodeName("gone"), "it could be emptied")))).commands
    assert [(item.subject, item.name, item.reason, item.note) for item in posted if isinstance(item, PostEvent)] == [
        (Subject.NODE, "n1", "NodeRecommendation", "3 pods could not be bound to it")
    ]


def test_an_accepted_new_node_is_reported_but_the_nodes_of_a_start_are_not() -> None:
    """5,000 nodes are not 5,000 events at every restart."""
    driver = live("n1")
    assert events(driver.receive(NodeResponse(accepted=(N1,)))) == []
    driver.fact(node_seen(a_node("n2")))
    assert events(driver.receive(NodeResponse(accepted=(NodeName("n2"),)))) == [("n2", "NodeAccepted", "NodeAccepted")]
    assert events(driver.receive(NodeResponse(accepted=(NodeName("n2"),)))) == []
    driver.fact(node_seen(a_node("n3")))
    driver.fact(NodeGone(NodeName("n3")))
    assert events(driver.receive(NodeResponse(accepted=(NodeName("n3"),)))) == []


def test_a_recreated_node_whose_delete_was_missed_keeps_its_pods() -> None:
    """Pods are bound to names: what is still listed on it is still on it."""
    driver = live()
    driver.see(foreign())
    waiting(driver)
    driver.allocated("uid-w0")
    driver.see(a_pod("w0", app=APP, nodeName="n1"))
    second = a_node("n1")
    second["metadata"]["uid"] = "uid-n1-again"
    assert not driver.fact(node_seen(second))
    second["status"]["allocatable"]["cpu"] = "4"
    assert [type(item) for item in driver.fact(node_seen(second)).requests] == [NodeUpdated]
    assert driver.gone("w0").requests == [
        AllocationReleased(APP, PodUid("uid-w0"), allocation_id=AllocationId("uid-w0-0"))
    ]


def test_a_node_that_is_not_ready_is_reported_and_stays_open_until_it_is_tainted() -> None:
    """As kube-scheduler does it: the node controller's taint keeps pods off, the condition alone does not."""
    driver = live()
    raw = a_node("n1")
    raw["status"]["conditions"][0]["status"] = "Unknown"
    (updated,) = driver.fact(node_seen(raw)).requests
    assert isinstance(updated, NodeUpdated)
    assert updated.node.attributes["ready"] == "false"
    raw["spec"]["taints"] = [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]
    (updated,) = driver.fact(node_seen(raw)).requests
    assert isinstance(updated, NodeUpdated)
    assert "unreachable" in updated.node.attributes["muster/taints"]


def test_a_node_without_a_status_has_no_capacity_and_is_no_error() -> None:
    (created,) = live().fact(node_seen({"metadata": {"name": "bare", "uid": "u"}})).requests
    assert isinstance(created, NodeCreated)
    assert dict(created.node.capacity) == {}
