"""Preemptions and reservations are decisions: commit checks all of one before it writes, and again after a question."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_core.model.constraints import Constraints, Toleration
from muster_core.model.decisions import Decision, NodeReservationDecision, Placement, Preemption, QuotaPreemption
from muster_core.model.effects import Effect, VictimsProposed
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import CallbacksDeclared, NodeAction, NodeUpdated, VictimsEvaluated
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId, QueuePath
from muster_core.scheduling.commit import commit
from tests.unit.builders import PARTITION, RM, a_node, a_queue, an_ask, resources
from tests.unit.core.scheduling.preemption_scene import DISABLED, a_daemon, pods, run, victims, with_preemption
from tests.unit.core.scheduling.scene import Scene, notices, placed

_A, _B = ApplicationId("a"), ApplicationId("b")
EVERYTHING = Constraints(tolerations=(Toleration("", "Exists", "", ""),))


def full(nodes: int = 1, guaranteed: int = 4000) -> Scene:
    """Nodes full of pods of leaf b, and leaf a that is guaranteed some of them."""
    scene = Scene(with_preemption(a_queue("a", guaranteed=guaranteed), a_queue("b")), nodes=nodes)
    run(scene, "root.b", *pods("b", 4 * nodes))
    return scene


def cordon(scene: Scene, node: str) -> None:
    scene.tell(NodeUpdated(replace(a_node(node), cordoned=True)))
    scene.node(node, NodeAction.DRAIN)


def a_preemption(
    *places: tuple[str, str], of: tuple[str, ...] = ("b0",), owner: ApplicationId = _B, app: ApplicationId = _A
) -> Preemption:
    where = tuple((AllocationKey(key), NodeId(node)) for key, node in places)
    return Preemption(PARTITION, app, where, tuple((owner, AllocationId(f"{key}-0")) for key in of))


def refuses(scene: Scene, decision: Decision, why: str) -> None:
    """Commit raises, and nothing was written: no victim is marked, no room reserved, nothing said."""
    going = {one.id: one.releasing for app in scene.partition.applications.values() for one in app.allocations.values()}
    held = dict(scene.partition.reservations.by_ask)
    with pytest.raises(BrokenDecision, match=why):
        commit(scene.partition, decision, scene.now_ns)
    assert going == {
        one.id: one.releasing for app in scene.partition.applications.values() for one in app.allocations.values()
    }
    assert held == scene.partition.reservations.by_ask
    assert scene.partition.outbox.drain() == []
    scene.tell()


# -- what is planned --------------------------------------------------------------


def test_nothing_is_preempted_on_a_cordoned_node_for_an_ask_that_tolerates_the_cordon() -> None:
    scene = full()
    cordon(scene, "n0")
    run(scene, "root.a", an_ask("system", constraints=EVERYTHING))
    assert victims(scene.wait(600)) == set()
    assert all(one.releasing is None for one in scene.app("b").allocations.values())
    assert not scene.partition.preemptions.count


def test_victims_are_taken_on_the_schedulable_node_next_to_a_cordoned_one() -> None:
    scene = full(nodes=2)
    cordon(scene, "n0")
    run(scene, "root.a", an_ask("system", constraints=EVERYTHING))
    [victim] = victims(scene.wait(31))
    [identity] = scene.app("b").ids[AllocationKey(victim)]
    assert scene.app("b").allocations[identity].node == "n1"


def test_a_pod_that_may_run_on_a_cordoned_node_alone_preempts_there() -> None:
    scene = full()
    cordon(scene, "n0")
    run(scene, "root.a", replace(a_daemon("agent", "n0", priority=1), constraints=EVERYTHING))
    assert len(victims(scene.wait(31))) == 1


# -- what commit checks -----------------------------------------------------------


def test_a_preemption_on_a_node_that_was_drained_meanwhile_writes_nothing() -> None:
    scene = full()
    run(scene, "root.a", an_ask("x"))
    scene.node("n0", NodeAction.DRAIN)
    refuses(scene, a_preemption(("x", "n0")), "node n0 is not schedulable")


def test_a_preemption_counts_all_asks_of_a_node_together() -> None:
    scene = full()
    run(scene, "root.a", an_ask("x", vcore=1000), an_ask("y", vcore=2000))
    refuses(scene, a_preemption(("x", "n0"), ("y", "n0"), of=("b0", "b1")), "node n0 has")
    commit(scene.partition, a_preemption(("x", "n0"), ("y", "n0"), of=("b0", "b1", "b2")), scene.now_ns)
    assert len(scene.partition.reservations.by_ask) == 2


def test_a_preemption_leaves_alone_what_another_one_made_room_for() -> None:
    scene = full()
    run(scene, "root.a", an_ask("x"), an_ask("y"))
    commit(scene.partition, a_preemption(("x", "n0"), of=("b0",)), scene.now_ns)
    scene.tell()
    scene.release("b0", app="b")
    run(scene, "root.a", an_ask("z", vcore=2000))
    refuses(scene, a_preemption(("z", "n0"), of=("b1",)), "node n0 has")


def test_victims_that_may_not_be_taken_are_not() -> None:
    scene = Scene(
        with_preemption(a_queue("a", guaranteed=3000), a_queue("b"), a_queue("c", policies=DISABLED)), nodes=1
    )
    run(scene, "root.b", an_ask("b0", priority=9), an_ask("b1"))
    run(scene, "root.c", an_ask("c0"))
    run(scene, "root.a", an_ask("a0"))
    run(scene, "root.a", an_ask("x"))
    refuses(scene, a_preemption(("x", "n0"), of=("b0",)), "may not be taken")
    refuses(scene, a_preemption(("x", "n0"), of=("c0",), owner=ApplicationId("c")), "may not be taken")
    refuses(scene, a_preemption(("x", "n0"), of=("a0",), owner=_A), "from itself")
    refuses(scene, a_preemption(("x", "n0"), of=("gone",)), "cannot be released")
    refuses(scene, a_preemption(("x", "n0"), ("x", "n0"), of=("b1",)), "does not wait")


def test_a_preemption_for_a_maximum_takes_only_what_helps_its_queue() -> None:
    scene = full()
    victim = ((_B, AllocationId("b0-0")),)
    refuses(scene, QuotaPreemption(PARTITION, QueuePath("root.b"), victim), "not over its maximum")


def test_a_reservation_is_not_committed_on_a_node_that_is_drained_or_reserved() -> None:
    scene = full()
    run(scene, "root.a", an_ask("x"), an_ask("y"))
    commit(scene.partition, NodeReservationDecision(PARTITION, _A, AllocationKey("x"), NodeId("n0")), scene.now_ns)
    scene.tell()
    refuses(scene, NodeReservationDecision(PARTITION, _A, AllocationKey("y"), NodeId("n0")), "reserved already")
    scene.node("n0", NodeAction.DRAIN)
    refuses(scene, NodeReservationDecision(PARTITION, _A, AllocationKey("y"), NodeId("n0")), "not schedulable")


def test_a_placement_counts_members_of_different_sizes_on_a_node_together() -> None:
    scene = Scene(with_preemption(a_queue("a"), a_queue("b")), nodes=1)
    run(scene, "root.b", an_ask("b0", vcore=1000))
    run(scene, "root.a", an_ask("large", vcore=4000), an_ask("small", vcore=3500))
    places = tuple((AllocationKey(key), NodeId("n0")) for key in ("large", "small"))
    scene.partition.nodes.give_back(NodeId("n0"), resources(vcore=1000))  # each alone has room now
    decision = Placement(PARTITION, _A, places)
    with pytest.raises(BrokenDecision, match="next to its reservations"):
        commit(scene.partition, decision, scene.now_ns)


def test_a_placement_leaves_alone_what_is_reserved_for_others() -> None:
    scene = Scene(with_preemption(a_queue("a"), a_queue("b")), nodes=1)
    run(scene, "root.b", *pods("b", 3))
    run(scene, "root.a", an_ask("wide", vcore=2000))
    scene.wait(3)
    assert scene.partition.reservations
    run(scene, "root.b", an_ask("late"))
    decision = Placement(PARTITION, _B, ((AllocationKey("late"), NodeId("n0")),))
    refuses(scene, decision, "next to its reservations")


# -- what waited for an answer ----------------------------------------------------


def asked() -> tuple[Scene, VictimsProposed]:
    """The resource manager is asked about the victims for x, which needs 2 of 4 cores of n0; 1 is free."""
    scene = Scene(with_preemption(a_queue("a", guaranteed=4000), a_queue("b")), nodes=1)
    scene.tell(CallbacksDeclared(RM, places=False, victims=True))
    run(scene, "root.b", *pods("b", 3))
    run(scene, "root.a", an_ask("x", vcore=2000))
    [question] = [effect for effect in scene.wait(31) if isinstance(effect, VictimsProposed)]
    return scene, question


def agree(scene: Scene, question: VictimsProposed) -> list[Effect]:
    return scene.tell(VictimsEvaluated(RM, question.number, success=True))


def test_victims_go_once_the_resource_manager_agrees_and_nothing_changed() -> None:
    scene, question = asked()
    assert victims(agree(scene, question)) == set(question.victims)


def test_no_victim_is_released_if_there_is_room_by_the_time_of_the_answer() -> None:
    scene, question = asked()
    [kept] = {"b0", "b1"} - set(question.victims) - {"b0"}
    scene.node("n0", NodeAction.DRAIN)  # so that the room is not given at once
    scene.release(kept, app="b")
    scene.release("b0", app="b")
    scene.node("n0", NodeAction.OPEN)
    said = agree(scene, question)
    assert victims(said) == set()
    assert "x" not in scene.app("a").asks


def test_no_victim_is_released_if_the_planned_room_was_taken_before_the_answer() -> None:
    scene, question = asked()
    assert placed(run(scene, "root.b", a_daemon("agent", "n0"))) == {"agent": "n0"}
    said = agree(scene, question)
    assert victims(said) == set()
    assert any("dropped" in notice for notice in notices(said))
    again = [effect for effect in scene.wait(31) if isinstance(effect, VictimsProposed)]
    assert [len(one.victims) for one in again] == [2]


def test_no_victim_is_released_if_a_victim_or_the_ask_is_gone_by_the_time_of_the_answer() -> None:
    for gone in ("victim", "ask", "application"):
        scene, question = asked()
        match gone:
            case "victim":
                scene.release(question.victims[0], app="b")
            case "ask":
                scene.release_ask("x", app="a")
            case _:
                scene.node("n0", NodeAction.DECOMMISSION)
        assert victims(agree(scene, question)) == set(), gone
        assert scene.partition.void_decisions == 0


def test_an_ask_for_many_places_preempts_for_one_at_a_time() -> None:
    scene = full()
    run(scene, "root.a", replace(an_ask("many"), max_allocations=100))
    assert len(victims(scene.wait(31))) == 1
    assert placed(scene.release("b3", app="b")) == {"many": "n0"}
