"""From the victims' marks to the ask's place, and the guard against livelocks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from muster_core.model.config import QueuePolicies
from muster_core.model.decisions import Preemption
from muster_core.model.effects import AllocationResponse, Effect
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import ApplicationRemoved, ConfigurationReplaced, ManagerRegistered, NodeAction
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId, QueuePath, Termination
from muster_core.model.records import Detail
from muster_core.scheduling.commit import commit
from tests.unit.builders import PARTITION, RM, SECOND, a_configuration, a_queue, an_ask
from tests.unit.core.scheduling.preemption_scene import (
    PREEMPTED,
    a_daemon,
    confirm,
    cores,
    pods,
    run,
    victims,
    with_preemption,
)
from tests.unit.core.scheduling.scene import Scene, notices, placed, releases

_A, _B = ApplicationId("a"), ApplicationId("b")


def preempting(nodes: int = 1) -> tuple[Scene, list[Effect]]:
    """X of root.a waits for b3 of root.b to go; what was said then."""
    scene = Scene(a_configuration(a_queue("a", guaranteed=2000), a_queue("b")), nodes=nodes)
    run(scene, "root.b", *pods("b", 4 * nodes))
    run(scene, "root.a", an_ask("x"))
    return scene, scene.wait(31)


def test_one_answer_tells_all_victims_of_a_decision() -> None:
    scene = Scene(a_configuration(a_queue("a", guaranteed=4000), a_queue("b")), nodes=1)
    run(scene, "root.b", *pods("b", 4))
    run(scene, "root.a", an_ask("wide", vcore=3000))
    answers = [one for one in scene.wait(31) if isinstance(one, AllocationResponse)]
    assert [len(answer.released) for answer in answers] == [3]
    assert {one.message for one in answers[0].released} == {"preempted for a request of queue root.a"}


def test_what_goes_is_counted_on_every_queue_until_it_is_gone() -> None:
    scene, said = preempting()
    b, root = scene.app("b").queue, scene.partition.queues.root
    assert [queue.preempting["vcore"] for queue in (b, root)] == [1000, 1000]
    confirm(scene, said)
    assert [queue.preempting["vcore"] for queue in (b, root)] == [0, 0]


def test_a_confirmed_victim_is_not_echoed_and_noted_as_preempted() -> None:
    scene, said = preempting()
    scene.noted.clear()
    assert releases(confirm(scene, said)) == {}
    assert Detail.ALLOC_PREEMPT in {note.detail for note in scene.noted}


def test_a_preemption_is_noted_on_the_queue_it_is_for() -> None:
    scene, _ = preempting()
    [note] = [note for note in scene.noted if note.detail is Detail.QUEUE_PREEMPTION]
    assert (note.subject, note.resource["vcore"]) == ("root.a", 1000)
    [report] = scene.partition.preemptions.reports
    assert (report.asks, report.victims) == ((("a", "x"),), (("b", "b3-0"),))


@pytest.mark.parametrize(
    "end",
    [
        lambda scene: scene.release("b3", app="b", why=Termination.STOPPED_BY_RM),
        lambda scene: scene.tell(ApplicationRemoved(PARTITION, _B)),
    ],
    ids=["ended by itself", "its application was removed"],
)
def test_a_victim_that_goes_another_way_counts_as_gone(end: Callable[[Scene], list[Effect]]) -> None:
    scene, _ = preempting()
    assert placed(end(scene)) == {"x": "n0"}
    assert not scene.partition.preemptions.running


def test_victims_that_go_with_their_node_count_as_gone_and_the_ask_waits_for_another() -> None:
    scene, _ = preempting()
    scene.node("n0", NodeAction.DECOMMISSION)
    assert not scene.partition.preemptions.running
    assert not scene.partition.reservations
    assert placed(scene.add_node("n1")) == {"x": "n1"}


def test_a_victim_that_is_never_confirmed_lets_the_ask_wait_as_usual_after_the_deadline() -> None:
    scene = Scene(a_configuration(a_queue("a", guaranteed=2000), a_queue("b")), nodes=1)
    run(scene, "root.b", *pods("b", 3, priority=9), an_ask("victim"))
    run(scene, "root.a", an_ask("x"))
    scene.wait(31)
    said = scene.wait(120)
    assert [notice for notice in notices(said) if "in time" in notice]
    assert scene.app("a").node_reserved["vcore"] == 0
    assert placed(scene.release("victim", app="b", why=PREEMPTED)) == {"x": "n0"}


def test_another_victim_is_found_for_an_ask_whose_first_one_does_not_terminate() -> None:
    scene, said = preempting(nodes=2)
    [stuck] = victims(said)
    [other] = victims(scene.wait(150))
    assert other != stuck
    assert set(placed(scene.release(other, app="b", why=PREEMPTED))) == {"x"}


def test_quota_that_a_victim_does_not_give_back_in_time_is_taken_from_another() -> None:
    leaves = (a_queue("a", guaranteed=2000), a_queue("b"))
    scene = Scene(a_configuration(a_queue("p", *leaves, vcore=4000)), nodes=2)
    run(scene, "root.p.b", *pods("b", 4))
    run(scene, "root.p.a", an_ask("x"))
    [stuck] = victims(scene.wait(31))
    [other] = victims(scene.wait(150))
    assert other != stuck
    assert set(placed(scene.release(other, app="b", why=PREEMPTED))) == {"x"}


def test_a_queue_over_its_maximum_whose_victims_do_not_terminate_gives_up_others() -> None:
    policies = QueuePolicies(quota_preemption_delay_ns=60 * SECOND)
    scene = Scene(with_preemption(a_queue("a", policies=policies), by_quota=True), nodes=1)
    run(scene, "root.a", *pods("x", 4))
    lower = with_preemption(a_queue("a", vcore=3000, policies=policies), by_quota=True)
    scene.tell(ConfigurationReplaced(RM, lower))
    [stuck] = victims(scene.wait(61))
    assert victims(scene.wait(110)) == set(), "its time is not over"
    [other] = victims(scene.wait(70))
    assert other != stuck


def test_a_daemons_pod_finds_another_victim_when_the_first_one_does_not_terminate() -> None:
    scene = Scene(a_configuration(a_queue("a"), a_queue("b")), nodes=1)
    run(scene, "root.b", *pods("b", 4))
    run(scene, "root.a", a_daemon("agent", "n0", priority=1))
    [stuck] = victims(scene.wait(1))
    [other] = victims(scene.wait(150))
    assert other != stuck


def test_an_allocation_that_timed_out_and_does_not_terminate_is_room_for_no_longer_than_a_release_may_take() -> None:
    scene = Scene(a_configuration(a_queue("a", guaranteed=2000), a_queue("b")), nodes=1)
    run(scene, "root.b", an_ask("stuck", timeout_s=25), *pods("b", 3))
    run(scene, "root.a", an_ask("x"))
    said = scene.wait(40)
    assert "stuck" in releases(said)
    assert victims(said) == set(), "what was told to go a moment ago is room soon"
    scene.wait(120)
    run(scene, "root.b", an_ask("change", vcore=0))
    assert len(victims(scene.wait(60))) == 1


def test_an_ask_taken_back_gives_up_its_claim_and_the_victims_go_all_the_same() -> None:
    scene, said = preempting()
    scene.release_ask("x", app="a")
    run(scene, "root.b", an_ask("again"))
    assert placed(confirm(scene, said)) == {"again": "n0"}


def test_an_ask_that_finds_room_elsewhere_takes_it() -> None:
    scene, said = preempting()
    assert placed(scene.add_node("n1")) == {"x": "n1"}
    run(scene, "root.b", *pods("more", 5))
    assert len(placed(confirm(scene, said))) == 1


def test_a_drained_node_ends_the_claim_on_it() -> None:
    scene, said = preempting()
    scene.node("n0", NodeAction.DRAIN)
    assert not scene.partition.reservations
    assert placed(confirm(scene, said)) == {}
    assert placed(scene.node("n0", NodeAction.OPEN)) == {"x": "n0"}


def test_a_new_session_forgets_what_was_on_its_way() -> None:
    scene, _ = preempting()
    scene.tell(ManagerRegistered(RM, a_configuration(a_queue("a"))))
    assert not scene.partition.preemptions.running


def test_an_attempt_that_does_not_help_is_repeated_after_a_growing_interval_and_written_down() -> None:
    scene = Scene(a_configuration(a_queue("a", guaranteed=2000), a_queue("b")), nodes=1)
    run(scene, "root.b", *pods("b", 4, priority=9))
    run(scene, "root.a", an_ask("x"))
    for second in range(30 + 15 + 30 + 1):
        scene.wait(1)
        run(scene, "root.b", an_ask(f"change{second}", vcore=0))
    ask = scene.app("a").asks[an_ask("x").key]
    assert ask.attempts is not None
    assert ask.attempts["Preemption does not help"][0] == 3
    assert not ask.triggered


# -- livelocks ------------------------------------------------------------------


def storm(*, inherited: bool, seconds: int) -> Scene:
    """Two leaves whose every victim is replaced at once, as a ReplicaSet does it."""
    own = 0 if inherited else 5000
    leaves = (a_queue("a", guaranteed=own), a_queue("b", guaranteed=own))
    scene = Scene(a_configuration(a_queue("p", *leaves, vcore=10_000, guaranteed=10_000)), nodes=1, vcore=99_000)
    run(scene, "root.p.a", *pods("a", 10))
    run(scene, "root.p.b", *pods("b", 1))
    for index in range(seconds // 10):
        said = scene.wait(10)
        gone = victims(said)
        owners = {key: app.id for app in (scene.app("a"), scene.app("b")) for key in app.ids if key in gone}
        confirm(scene, said)
        for key, owner in sorted(owners.items()):
            run(scene, f"root.p.{owner}", an_ask(f"{key}-{index}"))
    return scene


def test_a_storm_of_leaves_that_inherit_their_guarantee_ends() -> None:
    scene = storm(inherited=True, seconds=3600)
    assert scene.partition.preemptions.count <= 10, "without the guard there is one every half minute"
    assert scene.partition.preemptions.livelocks >= 2
    paths = QueuePath("root.p.a"), QueuePath("root.p.b")
    assert all(scene.partition.preemptions.paused_until_ns(path) > scene.now_ns for path in paths)
    assert [note for note in scene.noted if "preempt from each other repeatedly" in note.message]


def test_leaves_with_guarantees_of_their_own_do_not_storm() -> None:
    scene = storm(inherited=False, seconds=600)
    assert scene.partition.preemptions.count == 1
    assert scene.partition.preemptions.livelocks == 0
    assert cores(scene, "root.p.a", "root.p.b") == [9, 1]


def test_a_decision_on_a_node_that_is_gone_writes_nothing() -> None:
    scene, _ = preempting()
    before = dict(scene.partition.preemptions.running)
    places = ((AllocationKey("late"), NodeId("gone")),)
    decision = Preemption(PARTITION, _A, places, ((_B, AllocationId("b0-0")),))
    run(scene, "root.a", an_ask("late"))
    with pytest.raises(BrokenDecision, match="node"):
        commit(scene.partition, decision, scene.now_ns)
    assert scene.partition.preemptions.running == before
