"""A pod is bound when its claims are: what is written for them, waited for, and taken back."""

from __future__ import annotations

import pytest

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
from muster_operator.model.core_requests import AllocationReleased, AskSubmitted
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.pods import PodRef
from muster_si import keys
from tests.unit.operator.controller.driver import Driver, done, events, live, orders, refused, waiting
from tests.unit.operator.controller.kubernetes import node_seen
from tests.unit.operator.controller.objects import a_node, a_pod
from tests.unit.operator.controller.storage import DATA, a_claim, a_volume, claim_seen, gone, volume_seen
from tests.unit.operator.model.signing import a_bind

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


def given(driver: Driver, volume: str) -> list[Command]:
    """The core gives the pod node n1, and its claim this volume, an empty one = one that is to be made."""
    return orders(driver.allocated("uid-w0", volumes={"dev/data": volume}))


def asked_again(out: Outcome) -> str:
    """The nodes that the new ask keeps off, after the allocation was given back."""
    released, ask = [item for item in out.news if isinstance(item, AllocationReleased | AskSubmitted)]
    assert isinstance(released, AllocationReleased)
    assert isinstance(ask, AskSubmitted)
    return ask.ask.tags[keys.TAG_AVOID_NODES]


def note_of(out: Outcome) -> str:
    """What the pod is told."""
    [event] = [command for command in out.commands if isinstance(command, PostEvent)]
    return event.note


def test_a_chosen_volume_is_claimed_and_the_pod_is_bound_when_the_claim_is() -> None:
    driver = a_driver()
    assert given(driver, "disk") == [CLAIM_DISK]
    assert orders(driver.result(done(CLAIM_DISK))) == []
    assert orders(driver.fact(volume_seen(claim="data"))) == []
    assert orders(driver.fact(volume_seen(claim="data", phase="Bound"))) == []
    assert orders(driver.fact(claim_seen(volume="disk"))) == [BIND]
    assert driver.ledger.storage.waiting == {}


def test_a_claim_without_a_volume_gets_the_node_and_the_pod_is_bound_when_a_volume_was_made() -> None:
    driver = a_driver()
    assert given(driver, "") == [SELECT_N1]
    assert orders(driver.fact(claim_seen(selected="n1"))) == []
    assert orders(driver.result(done(SELECT_N1))) == []
    assert orders(driver.fact(volume_seen("made", claim="data", node="n1", phase="Bound"))) == []
    assert orders(driver.fact(claim_seen(volume="made", selected="n1"))) == [BIND]


def test_a_volume_that_is_received_of_after_its_claim_is_waited_for() -> None:
    """Both come on streams of their own; whether the node reaches the volume is known only then."""
    driver = a_driver()
    given(driver, "")
    assert orders(driver.fact(claim_seen(volume="made", selected="n1"))) == []
    assert orders(driver.fact(volume_seen("made", claim="data", node="n1", phase="Bound"))) == [BIND]


def test_a_pod_whose_claims_are_all_bound_costs_no_write_but_its_bind() -> None:
    driver = a_driver(claim_seen(volume="disk"))
    assert orders(driver.allocated("uid-w0")) == [BIND]


def test_all_claims_of_a_pod_are_written_at_once_and_the_last_one_lets_it_go() -> None:
    driver = a_driver(claim_seen("more"), volume_seen("other"))
    out = driver.allocated("uid-w0", volumes={"dev/data": "disk", "dev/more": "other"})
    assert [command.volume for command in orders(out) if isinstance(command, ClaimVolume)] == ["disk", "other"]
    driver.fact(volume_seen("other", claim="more", phase="Bound"))
    assert orders(driver.fact(claim_seen("more", volume="other"))) == []
    driver.fact(volume_seen(claim="data", phase="Bound"))
    assert orders(driver.fact(claim_seen(volume="disk"))) == [BIND]


def test_what_a_restart_finds_written_already_is_written_as_it_is_and_waited_for() -> None:
    """The write is looked at before it is done; a claim that has its node needs none."""
    driver = a_driver(claim_seen(selected="n1"))
    given(driver, "")
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
    "claim anew": (claim_seen(uid="uid-new"), "disk", 'persistentvolumeclaim "data" no longer exists', [FREE_DISK]),
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
def test_what_can_never_be_bound_there_gives_the_node_back_and_tells_the_pod_why(
    fact: ClusterEvent, volume: str, why: str, undone: list[Command]
) -> None:
    driver = a_driver()
    given(driver, volume)
    out = driver.fact(fact)
    assert asked_again(out) == "n1"
    assert [order for order in orders(out) if order in undone] == undone
    assert note_of(out) == f"volumes for node n1 failed: {why}"
    assert events(out) == [("w0", "PodVolumesBindFailure", "PodVolumesBindFailure")]
    assert driver.ledger.storage.waiting == {}


def test_a_provisioner_that_gives_up_takes_the_node_off_the_claim_and_the_pod_goes_elsewhere() -> None:
    driver = a_driver()
    given(driver, "")
    driver.fact(claim_seen(selected="n1"))
    out = driver.fact(claim_seen())
    assert asked_again(out) == "n1"
    assert note_of(out) == 'volumes for node n1 failed: provisioning failed for PVC "data"'
    assert orders(driver.allocated("uid-w0", "n2", volumes={"dev/data": ""})) == [SelectNode(POD, DATA, NodeName("n2"))]


def test_a_node_that_the_watch_never_shows_on_the_claim_was_removed_by_the_provisioner() -> None:
    """The watch may show only the newest state of a claim that is changed twice at once."""
    driver = a_driver()
    given(driver, "")
    before, after = (claim_seen(resourceVersion=version) for version in ("6", "8"))
    driver.result(CommandSucceeded(SELECT_N1, version=7))
    assert not driver.fact(before).commands, "older than the write"
    out = driver.fact(after)
    assert note_of(out) == 'volumes for node n1 failed: provisioning failed for PVC "data"'


def test_a_claim_that_lost_its_volume_again_gives_the_node_back() -> None:
    driver = a_driver()
    given(driver, "disk")
    driver.fact(volume_seen(claim="data"))
    out = driver.fact(volume_seen())
    assert asked_again(out) == "n1"
    assert note_of(out) == 'volumes for node n1 failed: ClaimRef got reset for pv "disk"'


def test_an_older_state_that_is_received_after_the_write_is_no_failure() -> None:
    driver = a_driver()
    given(driver, "disk")
    driver.result(done(CLAIM_DISK))
    assert not driver.fact(volume_seen(phase="Available", capacity={"storage": "1Gi"})).commands


def test_a_claim_that_was_bound_to_a_volume_beyond_reach_gives_the_node_back() -> None:
    driver = a_driver(volume_seen("far", claim="data", node="n2", phase="Bound"))
    given(driver, "")
    out = driver.fact(claim_seen(volume="far", selected="n1"))
    assert asked_again(out) == "n1"
    assert note_of(out) == 'volumes for node n1 failed: pv "far" node affinity doesn\'t match node "n1"'
    assert orders(out) == [], "a claim that is bound is nobody's to take back"


def test_a_write_that_is_refused_gives_the_node_back() -> None:
    driver = a_driver()
    given(driver, "disk")
    out = driver.result(refused(CLAIM_DISK, 409, 'persistentvolume "disk" was taken by claim dev/other'))
    assert asked_again(out) == "n1"
    assert orders(out) == [FREE_DISK], "which frees it only if it is this claim's"


def test_a_write_that_no_one_answers_is_sent_again_and_given_up_after_three() -> None:
    driver = a_driver()
    given(driver, "disk")
    for _ in range(2):
        assert orders(driver.result(CommandUnanswered(CLAIM_DISK))) == [CLAIM_DISK]
    assert asked_again(driver.result(CommandUnanswered(CLAIM_DISK))) == "n1"


def test_claims_that_are_not_bound_in_time_cost_the_pod_its_node() -> None:
    driver = a_driver()
    given(driver, "")
    driver.fact(claim_seen(selected="n1"))
    assert not driver.wait(599).news
    out = driver.wait(1)
    assert asked_again(out) == "n1"
    assert orders(out) == [UNSELECT_N1]
    assert note_of(out) == "volumes for node n1 failed: not bound within 600 s: dev/data"


def test_a_pod_that_is_bound_in_time_gets_no_message_about_the_time_out() -> None:
    driver = a_driver()
    given(driver, "disk")
    driver.fact(volume_seen(claim="data", phase="Bound"))
    driver.fact(claim_seen(volume="disk"))
    driver.result(done(BIND))
    assert not driver.wait(700)


def test_a_pod_that_goes_takes_back_what_it_began() -> None:
    driver = a_driver()
    given(driver, "disk")
    driver.fact(volume_seen(claim="data"))
    out = driver.gone("w0")
    assert orders(out) == [FREE_DISK]
    assert isinstance(out.news[0], AllocationReleased)
    assert driver.ledger.storage.waiting == {}


def test_a_pod_that_goes_leaves_what_another_one_waits_for() -> None:
    """Two pods of one node may share a claim: what is written for one is there for the other."""
    driver = a_driver()
    driver.see(a_pod("w1", app="job"))
    given(driver, "")
    driver.allocated("uid-w1", volumes={"dev/data": ""})
    assert orders(driver.gone("w0")) == []
    driver.fact(volume_seen("made", claim="data", phase="Bound"))
    out = driver.fact(claim_seen(volume="made", selected="n1"))
    assert [command.pod.name for command in orders(out) if isinstance(command, BindPod)] == ["w1"]


def test_a_node_that_goes_sends_the_pod_elsewhere_at_once() -> None:
    """The core has dropped the allocation with the node: there is nothing to give back."""
    driver = a_driver()
    given(driver, "")
    out = driver.fact(NodeGone(NodeName("n1")))
    assert orders(out) == [UNSELECT_N1]
    assert [item.ask.key for item in out.news if isinstance(item, AskSubmitted)] == ["uid-w0"]
    assert not [item for item in out.news if isinstance(item, AllocationReleased)]


def test_an_answer_to_what_was_taken_back_is_ignored() -> None:
    driver = a_driver()
    given(driver, "disk")
    driver.fact(volume_seen(claim="other"))
    driver.fact(volume_seen("second"))
    driver.allocated("uid-w0", "n2", volumes={"dev/data": "second"})
    assert not driver.result(refused(CLAIM_DISK, 409))
    assert not driver.result(done(FREE_DISK))


def test_a_pod_that_someone_else_binds_there_waits_for_nothing_more() -> None:
    driver = a_driver()
    given(driver, "disk")
    assert orders(driver.see(a_pod("w0", app="job", nodeName="n1"))) == []
    assert driver.ledger.storage.waiting == {}
