"""A commit checks a complete preemption or reservation before it writes, and again after a predicate response."""

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
from tests.unit.core.scheduling.preemption_scenario import DISABLED, a_daemon, pods, run, victims, with_preemption
from tests.unit.core.scheduling.scenario import Scenario, notices, placed

_A, _B = ApplicationId("a"), ApplicationId("b")
EVERYTHING = Constraints(tolerations=(Toleration("", "Exists", "", ""),))


def full(nodes: int = 1, guaranteed: int = 4000) -> Scenario:
    """Nodes full of pods of leaf b, and leaf a that is guaranteed some of them."""
    scenario = Scenario(with_preemption(a_queue("a", guaranteed=guaranteed), a_queue("b")), nodes=nodes)
    run(scenario, "root.b", *pods("b", 4 * nodes))
    return scenario


def cordon(scenario: Scenario, node: str) -> None:
    scenario.send(NodeUpdated(replace(a_node(node), cordoned=True)))
    scenario.node(node, NodeAction.DRAIN)


def a_preemption(
    *places: tuple[str, str], of: tuple[str, ...] = ("b0",), owner: ApplicationId = _B, app: ApplicationId = _A
) -> Preemption:
    where = tuple((AllocationKey(key), NodeId(node)) for key, node in places)
    return Preemption(PARTITION, app, where, tuple((owner, AllocationId(f"{key}-0")) for key in of))


def refuses(scenario: Scenario, decision: Decision, why: str) -> None:
    """Commit raises and writes nothing: no marked victim, no reserved resources, no effect."""
    released = {
        one.id: one.releasing for app in scenario.partition.applications.values() for one in app.allocations.values()
    }
    held = dict(scenario.partition.reservations.by_ask)
    with pytest.raises(BrokenDecision, match=why):
        commit(scenario.partition, decision, scenario.now_ns)
    assert released == {
        one.id: one.releasing for app in scenario.partition.applications.values() for one in app.allocations.values()
    }
    assert held == scenario.partition.reservations.by_ask
    assert scenario.partition.outbox.drain() == []
    scenario.send()


# -- what is planned --------------------------------------------------------------


def test_nothing_is_preempted_on_a_cordoned_node_for_an_ask_that_tolerates_the_cordon() -> None:
    scenario = full()
    cordon(scenario, "n0")
    run(scenario, "root.a", an_ask("system", constraints=EVERYTHING))
    assert victims(scenario.wait(600)) == set()
    assert all(one.releasing is None for one in scenario.app("b").allocations.values())
    assert not scenario.partition.preemptions.count


def test_victims_are_selected_on_the_schedulable_node_not_on_the_cordoned_one() -> None:
    scenario = full(nodes=2)
    cordon(scenario, "n0")
    run(scenario, "root.a", an_ask("system", constraints=EVERYTHING))
    [victim] = victims(scenario.wait(31))
    [identity] = scenario.app("b").ids[AllocationKey(victim)]
    assert scenario.app("b").allocations[identity].node == "n1"


def test_a_pod_that_requires_a_cordoned_node_preempts_there() -> None:
    scenario = full()
    cordon(scenario, "n0")
    run(scenario, "root.a", replace(a_daemon("agent", "n0", priority=1), constraints=EVERYTHING))
    assert len(victims(scenario.wait(31))) == 1


# -- what commit checks -----------------------------------------------------------


def test_a_preemption_on_a_concurrently_drained_node_is_rejected() -> None:
    scenario = full()
    run(scenario, "root.a", an_ask("x"))
    scenario.node("n0", NodeAction.DRAIN)
    refuses(scenario, a_preemption(("x", "n0")), "node n0 is not schedulable")


def test_a_preemption_counts_all_asks_of_a_node_together() -> None:
    scenario = full()
    run(scenario, "root.a", an_ask("x", vcore=1000), an_ask("y", vcore=2000))
    refuses(scenario, a_preemption(("x", "n0"), ("y", "n0"), of=("b0", "b1")), "node n0 has")
    commit(scenario.partition, a_preemption(("x", "n0"), ("y", "n0"), of=("b0", "b1", "b2")), scenario.now_ns)
    assert len(scenario.partition.reservations.by_ask) == 2


def test_a_preemption_cannot_use_resources_freed_by_another_one() -> None:
    scenario = full()
    run(scenario, "root.a", an_ask("x"), an_ask("y"))
    commit(scenario.partition, a_preemption(("x", "n0"), of=("b0",)), scenario.now_ns)
    scenario.send()
    scenario.release("b0", app="b")
    run(scenario, "root.a", an_ask("z", vcore=2000))
    refuses(scenario, a_preemption(("z", "n0"), of=("b1",)), "node n0 has")


def test_a_preemption_of_protected_victims_is_rejected() -> None:
    scenario = Scenario(
        with_preemption(a_queue("a", guaranteed=3000), a_queue("b"), a_queue("c", policies=DISABLED)), nodes=1
    )
    run(scenario, "root.b", an_ask("b0", priority=9), an_ask("b1"))
    run(scenario, "root.c", an_ask("c0"))
    run(scenario, "root.a", an_ask("a0"))
    run(scenario, "root.a", an_ask("x"))
    refuses(scenario, a_preemption(("x", "n0"), of=("b0",)), "may not be taken")
    refuses(scenario, a_preemption(("x", "n0"), of=("c0",), owner=ApplicationId("c")), "may not be taken")
    refuses(scenario, a_preemption(("x", "n0"), of=("a0",), owner=_A), "from itself")
    refuses(scenario, a_preemption(("x", "n0"), of=("gone",)), "cannot be released")
    refuses(scenario, a_preemption(("x", "n0"), ("x", "n0"), of=("b1",)), "does not wait")


def test_quota_preemption_is_rejected_if_the_queue_is_not_over_its_maximum() -> None:
    scenario = full()
    victim = ((_B, AllocationId("b0-0")),)
    refuses(scenario, QuotaPreemption(PARTITION, QueuePath("root.b"), victim), "not over its maximum")


def test_a_reservation_is_not_committed_on_a_node_that_is_drained_or_reserved() -> None:
    scenario = full()
    run(scenario, "root.a", an_ask("x"), an_ask("y"))
    commit(
        scenario.partition, NodeReservationDecision(PARTITION, _A, AllocationKey("x"), NodeId("n0")), scenario.now_ns
    )
    scenario.send()
    refuses(scenario, NodeReservationDecision(PARTITION, _A, AllocationKey("y"), NodeId("n0")), "reserved already")
    scenario.node("n0", NodeAction.DRAIN)
    refuses(scenario, NodeReservationDecision(PARTITION, _A, AllocationKey("y"), NodeId("n0")), "not schedulable")


def test_a_placement_counts_members_of_different_sizes_on_a_node_together() -> None:
    scenario = Scenario(with_preemption(a_queue("a"), a_queue("b")), nodes=1)
    run(scenario, "root.b", an_ask("b0", vcore=1000))
    run(scenario, "root.a", an_ask("large", vcore=4000), an_ask("small", vcore=3500))
    places = tuple((AllocationKey(key), NodeId("n0")) for key in ("large", "small"))
    scenario.partition.nodes.give_back(NodeId("n0"), resources(vcore=1000))  # each one alone fits now
    decision = Placement(PARTITION, _A, places)
    with pytest.raises(BrokenDecision, match="next to its reservations"):
        commit(scenario.partition, decision, scenario.now_ns)


def test_a_placement_cannot_use_resources_reserved_for_others() -> None:
    scenario = Scenario(with_preemption(a_queue("a"), a_queue("b")), nodes=1)
    run(scenario, "root.b", *pods("b", 3))
    run(scenario, "root.a", an_ask("wide", vcore=2000))
    scenario.wait(3)
    assert scenario.partition.reservations
    run(scenario, "root.b", an_ask("late"))
    decision = Placement(PARTITION, _B, ((AllocationKey("late"), NodeId("n0")),))
    refuses(scenario, decision, "next to its reservations")


# -- what waited for an answer ----------------------------------------------------


def proposal() -> tuple[Scenario, VictimsProposed]:
    """A predicate question about victims for x, which needs 2 of 4 cores of n0; 1 is free."""
    scenario = Scenario(with_preemption(a_queue("a", guaranteed=4000), a_queue("b")), nodes=1)
    scenario.send(CallbacksDeclared(RM, places=False, victims=True))
    run(scenario, "root.b", *pods("b", 3))
    run(scenario, "root.a", an_ask("x", vcore=2000))
    [question] = [effect for effect in scenario.wait(31) if isinstance(effect, VictimsProposed)]
    return scenario, question


def agree(scenario: Scenario, question: VictimsProposed) -> list[Effect]:
    return scenario.send(VictimsEvaluated(RM, question.number, success=True))


def test_victims_are_released_after_the_resource_manager_approves_them() -> None:
    scenario, question = proposal()
    assert victims(agree(scenario, question)) == set(question.victims)


def test_no_victim_is_released_if_resources_became_free_before_the_answer() -> None:
    scenario, question = proposal()
    [kept] = {"b0", "b1"} - set(question.victims) - {"b0"}
    scenario.node("n0", NodeAction.DRAIN)  # so that the resources are not allocated immediately
    scenario.release(kept, app="b")
    scenario.release("b0", app="b")
    scenario.node("n0", NodeAction.OPEN)
    effects = agree(scenario, question)
    assert victims(effects) == set()
    assert "x" not in scenario.app("a").asks


def test_no_victim_is_released_if_planned_resources_were_taken_before_the_answer() -> None:
    scenario, question = proposal()
    assert placed(run(scenario, "root.b", a_daemon("agent", "n0"))) == {"agent": "n0"}
    effects = agree(scenario, question)
    assert victims(effects) == set()
    assert any("dropped" in notice for notice in notices(effects))
    again = [effect for effect in scenario.wait(31) if isinstance(effect, VictimsProposed)]
    assert [len(one.victims) for one in again] == [2]


def test_no_victim_is_released_if_a_victim_or_the_ask_is_already_deleted() -> None:
    for gone in ("victim", "ask", "application"):
        scenario, question = proposal()
        match gone:
            case "victim":
                scenario.release(question.victims[0], app="b")
            case "ask":
                scenario.release_ask("x", app="a")
            case _:
                scenario.node("n0", NodeAction.DECOMMISSION)
        assert victims(agree(scenario, question)) == set(), gone
        assert scenario.partition.void_decisions == 0


def test_an_ask_for_many_allocations_preempts_for_one_at_a_time() -> None:
    scenario = full()
    run(scenario, "root.a", replace(an_ask("many"), max_allocations=100))
    assert len(victims(scenario.wait(31))) == 1
    assert placed(scenario.release("b3", app="b")) == {"many": "n0"}
