"""Storage objects are sent to the core, before applications or as attributes of nodes."""

from typing import Any

import orjson
import pytest

from muster_operator.controller import recovery
from muster_operator.controller.volume_binding import reaches
from muster_operator.model.cluster_events import ClusterEvent, NodeGone
from muster_operator.model.commands import (
    BindPod,
    ClaimVolume,
    Command,
    CommandSucceeded,
    CommandUnanswered,
    Outcome,
    PostEvent,
    SelectNode,
)
from muster_operator.model.core_messages import (
    AllocationReleased,
    ApplicationSubmitted,
    AskSubmitted,
    ClusterObjectReported,
    CoreRequest,
    Node,
    NodeCreated,
    NodeUpdated,
)
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.pods import PodRef
from muster_operator.model.settings import Settings
from muster_operator.runtime.loop import ObjectDecoder, key_of
from muster_operator.translate.nodes import read_node
from muster_operator.translate.objects import read_deletion
from muster_operator.translate.storage import read_volume
from muster_si import keys
from tests.unit.operator.controller.driver import (
    Driver,
    done,
    events,
    live,
    live_with_pod,
    orders,
    refused,
    waiting,
    whole,
)
from tests.unit.operator.controller.kubernetes import node_seen
from tests.unit.operator.controller.objects import a_node, a_pod
from tests.unit.operator.controller.storage import DATA, a_claim, a_volume, claim_seen, gone, seen, volume_seen
from tests.unit.operator.model.signing import a_bind

CLASS = {"metadata": {"name": "late"}, "provisioner": "p"}
CSI_NODE = {"metadata": {"name": "n1"}, "spec": {"drivers": [{"name": "d", "allocatable": {"count": 2}}]}}


def an_attachment(volume: str = "disk", node: str = "n1") -> dict[str, Any]:
    spec = {"attacher": "d", "nodeName": node, "source": {"persistentVolumeName": volume}}
    return {"metadata": {"name": f"attached-{volume}"}, "spec": spec}


def reported_storage(requests: list[CoreRequest]) -> list[tuple[str, bool]]:
    return [(item.fact.name, item.fact.gone) for item in requests if isinstance(item, ClusterObjectReported)]


def attributes(requests: list[CoreRequest]) -> list[dict[str, Any]]:
    """Attach limits and attached volumes in the attributes of nodes."""
    nodes = [item.node for item in requests if isinstance(item, NodeUpdated | NodeCreated)]
    tags = (keys.NODE_VOLUME_LIMITS, keys.NODE_ATTACHED)
    return [{tag: orjson.loads(node.attributes[tag]) for tag in tags if tag in node.attributes} for node in nodes]


def test_an_object_is_reported_once_per_change_and_once_when_deleted() -> None:
    driver = live()
    assert reported_storage(driver.fact(claim_seen()).requests) == [("dev/data", False)]
    assert reported_storage(driver.fact(claim_seen()).requests) == []
    assert reported_storage(driver.fact(claim_seen(selected="n1")).requests) == [("dev/data", False)]
    assert reported_storage(driver.fact(gone("persistentvolumeclaims", a_claim())).requests) == [("dev/data", True)]
    assert reported_storage(driver.fact(gone("persistentvolumeclaims", a_claim())).requests) == []


def test_a_session_reports_all_objects_before_the_first_application() -> None:
    driver = live_with_pod()
    for fact in (claim_seen(), volume_seen(), seen("storageclasses", CLASS)):
        driver.fact(fact)
    requests = whole(recovery.begin(driver.ledger, 0.0)).requests
    kinds = [type(item) for item in requests]
    assert kinds == [ClusterObjectReported] * (len(requests) - 1) + [ApplicationSubmitted]
    assert {"dev/data", "disk", "late"} <= {name for name, _ in reported_storage(requests)}


def test_a_node_is_reported_with_its_volume_limits_and_attached_volumes() -> None:
    driver = live()
    disk = volume_seen(csi={"driver": "d", "volumeHandle": "h"})
    assert attributes(driver.fact(seen("csinodes", CSI_NODE)).requests) == [{keys.NODE_VOLUME_LIMITS: {"d": 2}}]
    assert driver.fact(seen("volumeattachments", an_attachment())).requests == [], "of a volume that nobody knows yet"
    whole_node = {keys.NODE_VOLUME_LIMITS: {"d": 2}, keys.NODE_ATTACHED: {"d": ["h"]}}
    assert attributes(driver.fact(disk).requests) == [whole_node]
    assert attributes(whole(recovery.report_nodes(driver.ledger, 0.0)).requests) == [whole_node]
    assert attributes(driver.fact(node_seen(a_node(labels={"a": "b"}))).requests) == [whole_node]
    assert attributes(driver.fact(gone("volumeattachments", an_attachment())).requests) == [
        {keys.NODE_VOLUME_LIMITS: {"d": 2}}
    ]
    assert attributes(driver.fact(gone("csinodes", CSI_NODE)).requests) == [{}]


def test_a_deleted_or_moved_volume_is_no_longer_attached() -> None:
    driver = live("n1", "n2")
    driver.fact(volume_seen(csi={"driver": "d", "volumeHandle": "h"}))
    driver.fact(seen("volumeattachments", an_attachment()))
    assert attributes(driver.fact(seen("volumeattachments", an_attachment(node="n2"))).requests) == [
        {},
        {keys.NODE_ATTACHED: {"d": ["h"]}},
    ]
    assert attributes(driver.fact(gone("persistentvolumes", a_volume())).requests) == [{}]


MISSED = {
    "persistentvolumes": a_volume(),
    "persistentvolumeclaims": a_claim(),
    "storageclasses": CLASS,
    "csinodes": CSI_NODE,
    "csidrivers": {"metadata": {"name": "d"}},
    "csistoragecapacities": {"metadata": {"name": "p", "namespace": "dev"}},
    "volumeattachments": an_attachment(),
}


@pytest.mark.parametrize("plural", MISSED)
def test_a_missed_deletion_is_found_by_a_list(plural: str) -> None:
    at, raw = ObjectDecoder(Settings), MISSED[plural]
    at.begin_list(plural, is_reset=False)
    at.fact(plural, key_of(plural, raw), None, raw)
    assert list(at.end_list(plural, "1")) == []
    at.begin_list(plural, is_reset=False)
    [(_, missed)] = at.end_list(plural, "2")
    assert missed == read_deletion(plural, key_of(plural, raw))


TERMS = {
    "in": ({"key": "zone", "operator": "In", "values": ["a", "b"]}, True),
    "not in": ({"key": "zone", "operator": "NotIn", "values": ["a"]}, False),
    "not in what is absent": ({"key": "disk", "operator": "NotIn", "values": ["a"]}, True),
    "exists": ({"key": "zone", "operator": "Exists"}, True),
    "is absent": ({"key": "zone", "operator": "DoesNotExist"}, False),
    "greater": ({"key": "gen", "operator": "Gt", "values": ["3"]}, True),
    "less": ({"key": "gen", "operator": "Lt", "values": ["4"]}, False),
    "no number": ({"key": "zone", "operator": "Gt", "values": ["3"]}, False),
    "unknown": ({"key": "zone", "operator": "Like", "values": ["a"]}, False),
}


def a_zonal_node() -> Node:
    node = read_node(a_node(labels={"zone": "a", "gen": "4"}), Settings())
    assert node is not None
    return node


@pytest.mark.parametrize("requirement, holds", TERMS.values(), ids=TERMS)
def test_node_labels_decide_whether_a_node_reaches_a_volume(requirement: dict[str, Any], holds: object) -> None:
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}
    volume = read_volume(a_volume(nodeAffinity=affinity))
    assert volume is not None
    assert reaches(a_zonal_node(), volume) is holds


def test_node_selector_terms_are_ored_and_an_empty_term_matches_nothing() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    for terms, holds in (([{}], False), ([], False), ([{}, {"matchExpressions": [zone]}], True)):
        volume = read_volume(a_volume(nodeAffinity={"required": {"nodeSelectorTerms": terms}}))
        assert volume is not None
        assert reaches(a_zonal_node(), volume) is holds


# -- A pod is bound after its claims: the writes for them, the wait, and their reversal.

POD = PodRef("dev", "w0", PodUid("uid-w0"))
BIND = a_bind(POD, "n1")
CLAIM_DISK = ClaimVolume(POD, DATA, "disk")
SELECT_N1 = SelectNode(POD, DATA, NodeName("n1"))
FREE_DISK = ClaimVolume(POD, DATA, "disk", undo=True)
UNSELECT_N1 = SelectNode(POD, DATA, NodeName("n1"), undo=True)


def a_driver(*facts: ClusterEvent) -> Driver:
    """A pod that waits, two nodes, an unbound claim, a free disk, and whatever else is there."""
    driver = live()
    for name in ("n1", "n2"):
        driver.fact(node_seen(a_node(name, labels={"kubernetes.io/hostname": name})))
    for fact in (claim_seen(), volume_seen(), *facts):
        driver.fact(fact)
    waiting(driver)
    return driver


def allocated_with(driver: Driver, volume: str) -> list[Command]:
    """The core allocates the pod to node n1 with this volume for its claim; empty = to be provisioned."""
    return orders(driver.allocated("uid-w0", volumes={"dev/data": volume}))


def avoided_nodes(out: Outcome) -> str:
    """The nodes that the new ask avoids, after the allocation was released."""
    released, ask = [item for item in out.requests if isinstance(item, AllocationReleased | AskSubmitted)]
    assert isinstance(released, AllocationReleased)
    assert isinstance(ask, AskSubmitted)
    return ask.ask.tags[keys.TAG_AVOID_NODES]


def note_of(out: Outcome) -> str:
    """The message of the event on the pod."""
    [event] = [command for command in out.commands if isinstance(command, PostEvent)]
    return event.note


def test_a_pod_is_bound_after_its_claim_is_bound_to_the_chosen_volume() -> None:
    driver = a_driver()
    assert allocated_with(driver, "disk") == [CLAIM_DISK]
    assert orders(driver.result(done(CLAIM_DISK))) == []
    assert orders(driver.fact(volume_seen(claim="data"))) == []
    assert orders(driver.fact(volume_seen(claim="data", phase="Bound"))) == []
    assert orders(driver.fact(claim_seen(volume="disk"))) == [BIND]
    assert driver.ledger.storage.waiting == {}


def test_a_claim_without_a_volume_gets_the_node_and_the_pod_is_bound_after_provisioning() -> None:
    driver = a_driver()
    assert allocated_with(driver, "") == [SELECT_N1]
    assert orders(driver.fact(claim_seen(selected="n1"))) == []
    assert orders(driver.result(done(SELECT_N1))) == []
    assert orders(driver.fact(volume_seen("made", claim="data", node="n1", phase="Bound"))) == []
    assert orders(driver.fact(claim_seen(volume="made", selected="n1"))) == [BIND]


def test_a_pod_waits_for_a_volume_received_after_its_claim() -> None:
    """They arrive on separate watches; only with both it is known whether the node can use the volume."""
    driver = a_driver()
    allocated_with(driver, "")
    assert orders(driver.fact(claim_seen(volume="made", selected="n1"))) == []
    assert orders(driver.fact(volume_seen("made", claim="data", node="n1", phase="Bound"))) == [BIND]


def test_a_pod_whose_claims_are_all_bound_needs_only_its_bind() -> None:
    driver = a_driver(claim_seen(volume="disk"))
    assert orders(driver.allocated("uid-w0")) == [BIND]


def test_all_claims_of_a_pod_are_written_together_and_the_last_one_triggers_its_bind() -> None:
    driver = a_driver(claim_seen("more"), volume_seen("other"))
    out = driver.allocated("uid-w0", volumes={"dev/data": "disk", "dev/more": "other"})
    assert [command.volume for command in orders(out) if isinstance(command, ClaimVolume)] == ["disk", "other"]
    driver.fact(volume_seen("other", claim="more", phase="Bound"))
    assert orders(driver.fact(claim_seen("more", volume="other"))) == []
    driver.fact(volume_seen(claim="data", phase="Bound"))
    assert orders(driver.fact(claim_seen(volume="disk"))) == [BIND]


def test_after_a_restart_a_claim_that_has_its_node_is_not_written_again() -> None:
    """The write is looked at before it is done; a claim that has its node needs none."""
    driver = a_driver(claim_seen(selected="n1"))
    allocated_with(driver, "")
    assert orders(driver.fact(volume_seen("made", claim="data", node="n1", phase="Bound"))) == []
    assert orders(driver.fact(claim_seen(volume="made", selected="n1"))) == [BIND]


FAILURES = {
    "taken": (volume_seen(claim="other"), "disk", 'persistentvolume "disk" was taken by claim dev/other', []),
    "gone": (gone("persistentvolumes", a_volume()), "disk", 'persistentvolume "disk" no longer exists', [FREE_DISK]),
    "claim gone": (
        gone("persistentvolumeclaims", a_claim()),
        "disk",
        'persistentvolumeclaim "data" no longer exists',
        [FREE_DISK],
    ),
    "created again": (claim_seen(uid="uid-new"), "disk", 'persistentvolumeclaim "data" no longer exists', [FREE_DISK]),
    "claim leaves": (
        claim_seen(deletionTimestamp="2026-01-01T00:00:00Z"),
        "",
        'persistentvolumeclaim "data" is being deleted',
        [UNSELECT_N1],
    ),
    "elsewhere": (
        claim_seen(selected="n2"),
        "",
        'persistentvolumeclaim "data" is provisioned for node n2',
        [UNSELECT_N1],
    ),
}


@pytest.mark.parametrize("fact, volume, why, undone", FAILURES.values(), ids=FAILURES)
def test_a_volume_that_cannot_be_bound_on_the_node_releases_it_with_an_event(
    fact: ClusterEvent, volume: str, why: str, undone: list[Command]
) -> None:
    driver = a_driver()
    allocated_with(driver, volume)
    out = driver.fact(fact)
    assert avoided_nodes(out) == "n1"
    assert [order for order in orders(out) if order in undone] == undone
    assert note_of(out) == f"binding volumes for node n1 failed: {why}"
    assert events(out) == [("w0", "PodVolumesBindFailure", "PodVolumesBindFailure")]
    assert driver.ledger.storage.waiting == {}


def test_failed_provisioning_releases_the_node_and_the_pod_is_rescheduled() -> None:
    driver = a_driver()
    allocated_with(driver, "")
    driver.fact(claim_seen(selected="n1"))
    out = driver.fact(claim_seen())
    assert avoided_nodes(out) == "n1"
    assert note_of(out) == 'binding volumes for node n1 failed: provisioning failed for PVC "data"'
    assert orders(driver.allocated("uid-w0", "n2", volumes={"dev/data": ""})) == [SelectNode(POD, DATA, NodeName("n2"))]


def test_a_selected_node_missing_from_a_newer_claim_means_failed_provisioning() -> None:
    """The watch may show only the last state of a claim that changed twice in a short time."""
    driver = a_driver()
    allocated_with(driver, "")
    before, after = (claim_seen(resourceVersion=version) for version in ("6", "8"))
    driver.result(CommandSucceeded(SELECT_N1, version=7))
    assert not driver.fact(before).commands, "older than the write"
    out = driver.fact(after)
    assert note_of(out) == 'binding volumes for node n1 failed: provisioning failed for PVC "data"'


def test_a_claim_that_lost_its_volume_releases_the_node() -> None:
    driver = a_driver()
    allocated_with(driver, "disk")
    driver.fact(volume_seen(claim="data"))
    out = driver.fact(volume_seen())
    assert avoided_nodes(out) == "n1"
    assert note_of(out) == 'binding volumes for node n1 failed: ClaimRef got reset for pv "disk"'


def test_an_older_state_received_after_the_write_is_not_a_failure() -> None:
    driver = a_driver()
    allocated_with(driver, "disk")
    driver.result(done(CLAIM_DISK))
    assert not driver.fact(volume_seen(phase="Available", capacity={"storage": "1Gi"})).commands


def test_a_claim_bound_to_a_volume_with_another_node_affinity_releases_the_node() -> None:
    driver = a_driver(volume_seen("far", claim="data", node="n2", phase="Bound"))
    allocated_with(driver, "")
    out = driver.fact(claim_seen(volume="far", selected="n1"))
    assert avoided_nodes(out) == "n1"
    assert note_of(out) == 'binding volumes for node n1 failed: pv "far" node affinity doesn\'t match node "n1"'
    assert orders(out) == [], "a claim that is bound is nobody's to take back"


def test_a_rejected_write_releases_the_node() -> None:
    driver = a_driver()
    allocated_with(driver, "disk")
    out = driver.result(refused(CLAIM_DISK, 409, 'persistentvolume "disk" was taken by claim dev/other'))
    assert avoided_nodes(out) == "n1"
    assert orders(out) == [FREE_DISK], "which frees it only if it is this claim's"


def test_an_unanswered_write_is_given_up_after_three_attempts() -> None:
    driver = a_driver()
    allocated_with(driver, "disk")
    for _ in range(2):
        assert orders(driver.result(CommandUnanswered(CLAIM_DISK))) == [CLAIM_DISK]
    assert avoided_nodes(driver.result(CommandUnanswered(CLAIM_DISK))) == "n1"


def test_a_pod_loses_its_node_when_its_claims_are_not_bound_in_time() -> None:
    driver = a_driver()
    allocated_with(driver, "")
    driver.fact(claim_seen(selected="n1"))
    assert not driver.wait(599).requests
    out = driver.wait(1)
    assert avoided_nodes(out) == "n1"
    assert orders(out) == [UNSELECT_N1]
    assert note_of(out) == "binding volumes for node n1 failed: not bound within 600 s: dev/data"


def test_a_pod_bound_in_time_gets_no_timeout_message() -> None:
    driver = a_driver()
    allocated_with(driver, "disk")
    driver.fact(volume_seen(claim="data", phase="Bound"))
    driver.fact(claim_seen(volume="disk"))
    driver.result(done(BIND))
    assert not driver.wait(700)


def test_a_deleted_pod_reverts_its_volume_writes() -> None:
    driver = a_driver()
    allocated_with(driver, "disk")
    driver.fact(volume_seen(claim="data"))
    out = driver.gone("w0")
    assert orders(out) == [FREE_DISK]
    assert isinstance(out.requests[0], AllocationReleased)
    assert driver.ledger.storage.waiting == {}


def test_a_deleted_pod_keeps_the_volume_writes_that_another_pod_needs() -> None:
    """Two pods of one node may share a claim: what is written for one is there for the other."""
    driver = a_driver()
    driver.see(a_pod("w1", app="job"))
    allocated_with(driver, "")
    driver.allocated("uid-w1", volumes={"dev/data": ""})
    assert orders(driver.gone("w0")) == []
    driver.fact(volume_seen("made", claim="data", phase="Bound"))
    out = driver.fact(claim_seen(volume="made", selected="n1"))
    assert [command.pod.name for command in orders(out) if isinstance(command, BindPod)] == ["w1"]


def test_a_pod_is_requested_again_immediately_when_its_node_is_deleted() -> None:
    """The core removed the allocation with the node, so no release is needed."""
    driver = a_driver()
    allocated_with(driver, "")
    out = driver.fact(NodeGone(NodeName("n1")))
    assert orders(out) == [UNSELECT_N1]
    assert [item.ask.key for item in out.requests if isinstance(item, AskSubmitted)] == ["uid-w0"]
    assert not [item for item in out.requests if isinstance(item, AllocationReleased)]


def test_the_result_of_a_reverted_write_is_ignored() -> None:
    driver = a_driver()
    allocated_with(driver, "disk")
    driver.fact(volume_seen(claim="other"))
    driver.fact(volume_seen("second"))
    driver.allocated("uid-w0", "n2", volumes={"dev/data": "second"})
    assert not driver.result(refused(CLAIM_DISK, 409))
    assert not driver.result(done(FREE_DISK))


def test_a_pod_bound_by_another_client_no_longer_waits_for_volumes() -> None:
    driver = a_driver()
    allocated_with(driver, "disk")
    assert orders(driver.see(a_pod("w0", app="job", nodeName="n1"))) == []
    assert driver.ledger.storage.waiting == {}
