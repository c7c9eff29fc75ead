"""Requests that wait for a predicate callback: waiting, answered, rejected for a while, lost."""

from __future__ import annotations

from dataclasses import replace

from muster_core.extensions.predicate_callbacks import LOST_NS, REFUSED_NS
from muster_core.model.constraints import NAMESPACE, Constraints, InterPodConstraints, TopologySpreadConstraint
from muster_core.model.effects import Effect, PlacementsProposed
from muster_core.model.events import (
    ApplicationAdded,
    CallbacksDeclared,
    ManagerRegistered,
    NodeAction,
    NodeAdded,
    NodeUpdated,
    PlacementsEvaluated,
    VictimsEvaluated,
)
from muster_core.model.ids import AllocationKey, ApplicationId
from muster_core.model.specs import PodProperties
from tests.unit.builders import RM, SECOND, a_configuration, a_node, a_queue, an_application, an_ask
from tests.unit.core.placement.affinity_clusters import HOST, ZONE, inter_pod, selecting, term
from tests.unit.core.scheduling.scenario import Scenario, placed

DB = {"kubernetes.io/label/app": "db", NAMESPACE: "red"}


def asking(nodes: int = 1, vcore: int = 4000) -> Scenario:
    """A resource manager that wants to be asked, and an application."""
    scenario = Scenario(a_configuration(a_queue("a")), nodes=nodes, vcore=vcore)
    scenario.send(CallbacksDeclared(RM, places=True, victims=True), ApplicationAdded(an_application("x")))
    return scenario


def asked(effects: list[Effect]) -> PlacementsProposed:
    [question] = [effect for effect in effects if isinstance(effect, PlacementsProposed)]
    return question


def judged(scenario: Scenario, question: PlacementsProposed, *refusals: str) -> list[Effect]:
    return scenario.send(PlacementsEvaluated(RM, question.number, refusals or ("",) * len(question.places)))


def test_nothing_is_allocated_while_a_validation_is_pending() -> None:
    scenario = asking()
    question = asked(scenario.ask(an_ask("x0", app="x", vcore=1000)))
    assert scenario.partition.nodes.available(question.places[0][1])["vcore"] == 4000
    assert scenario.ask(an_ask("x1", app="x", vcore=1000)) == []
    effects = judged(scenario, question)
    assert placed(effects) == {"x0": "n0"}
    assert [key for key, _ in asked(effects).places] == ["x1"]


def test_a_rejected_placement_is_proposed_again_after_a_delay() -> None:
    scenario = asking()
    question = asked(scenario.ask(an_ask("x0", app="x")))
    assert placed(judged(scenario, question, "not today")) == {}
    assert not any(isinstance(effect, PlacementsProposed) for effect in scenario.wait(REFUSED_NS // SECOND - 1))
    assert placed(judged(scenario, asked(scenario.wait(2)))) == {"x0": "n0"}


def test_a_rejection_applies_to_all_equal_requests() -> None:
    scenario = asking(nodes=2)
    question = asked(scenario.ask(an_ask("x0", app="x")))
    effects = judged(scenario, question, "never")
    assert asked(effects).places[0][1] != question.places[0][1]
    judged(scenario, asked(effects))
    assert asked(scenario.ask(an_ask("x1", app="x"))).places[0][1] != question.places[0][1]


def test_an_unanswered_validation_is_repeated_and_its_late_answer_ignored() -> None:
    scenario = asking()
    question = asked(scenario.ask(an_ask("x0", app="x")))
    again = asked(scenario.wait(LOST_NS // SECOND + 1))
    assert again.places == question.places
    assert judged(scenario, question) == []
    assert placed(judged(scenario, again)) == {"x0": "n0"}
    assert scenario.scheduler_state.ignored == {"response to an unknown request": 1}


def test_resources_of_unconfirmed_placements_count_as_free() -> None:
    scenario = asking()
    assert len(asked(scenario.ask(*(an_ask(f"x{index}", app="x", vcore=1000) for index in range(5)))).places) == 4
    effects = judged(scenario, asked(scenario.wait(LOST_NS // SECOND + 1)))
    assert placed(effects) == {"x0": "n0"}, "room is held for it since it waited for long"
    assert len(asked(effects).places) == 3


def test_an_approved_placement_is_dropped_if_the_node_is_drained() -> None:
    scenario = asking()
    question = asked(scenario.ask(an_ask("x0", app="x")))
    scenario.node("n0", NodeAction.DRAIN)
    assert placed(judged(scenario, question)) == {}


def test_only_one_of_two_approved_anti_affinity_pods_is_placed() -> None:
    scenario = asking()
    scenario.send(ApplicationAdded(an_application("y")), NodeUpdated(a_node("n0", labels={HOST: "n0"})))
    lonely = PodProperties(inter_pod(apart=(term("db", HOST),)))
    one, other = (replace(an_ask(f"{app}0", app=app, vcore=1000, tags=DB), facts=lonely) for app in ("x", "y"))
    first, second = asked(scenario.ask(one)), asked(scenario.ask(other))
    assert placed(judged(scenario, first)) == {"x0": "n0"}
    assert placed(judged(scenario, second)) == {}


def test_members_with_affinity_to_each_other_are_placed_after_validation() -> None:
    scenario = asking()
    scenario.send(NodeUpdated(a_node("n0", labels={HOST: "n0"})))
    follower = replace(an_ask("x0", app="x", vcore=1000), facts=PodProperties(inter_pod(near=(term("db", HOST),))))
    question = asked(scenario.ask(follower, an_ask("x1", app="x", vcore=1000, tags=DB)))
    effects = judged(scenario, question)
    assert placed(effects) | placed(judged(scenario, asked(effects))) == {"x0": "n0", "x1": "n0"}


def test_members_are_placed_in_the_order_in_which_their_nodes_were_found() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.send(CallbacksDeclared(RM, places=True, victims=False), ApplicationAdded(an_application(gang=2)))
    for name, zone, vcore in (("n0", "a", 4000), ("n1", "b", 500)):
        scenario.send(NodeAdded(a_node(name, vcore, labels={ZONE: zone})))
    evenly = InterPodConstraints(spread=(TopologySpreadConstraint(ZONE, 1, selecting(app="db"), "red"),))
    member = an_ask("p0", group="workers", placeholder=True, tags=DB)
    in_a = Constraints(node_selector=((ZONE, "a"),))
    effects = scenario.ask(
        replace(member, key=AllocationKey("p1"), constraints=in_a), replace(member, facts=PodProperties(evenly))
    )
    assert placed(judged(scenario, asked(effects))) == {"p0": "n0", "p1": "n0"}


def test_an_answer_of_an_earlier_session_is_ignored() -> None:
    scenario = asking()
    question = asked(scenario.ask(an_ask("x0", app="x")))
    scenario.send(
        ManagerRegistered(RM, scenario.scheduler_state.managers[RM].configuration),
        CallbacksDeclared(RM, places=True, victims=True),
    )
    scenario.send(NodeAdded(a_node("n0")), ApplicationAdded(an_application("x")))
    again = asked(scenario.ask(an_ask("x0", app="x")))
    assert judged(scenario, question) == []
    assert placed(judged(scenario, again)) == {"x0": "n0"}


def test_an_answer_with_too_few_results_places_only_validated_asks() -> None:
    scenario = asking()
    question = asked(scenario.ask(*(an_ask(f"x{index}", app="x", vcore=1000) for index in range(2))))
    assert len(question.places) == 2
    assert placed(judged(scenario, question, "")).keys() == {question.places[0][0]}


def test_an_ask_released_during_validation_is_not_placed() -> None:
    scenario = asking()
    question = asked(scenario.ask(an_ask("x0", app="x")))
    scenario.release_ask("x0", "x")
    assert placed(judged(scenario, question)) == {}
    assert not scenario.partition.pending_callbacks.awaits_callback(scenario.partition.id, ApplicationId("x"))


def test_an_unexpected_victim_answer_is_counted_as_ignored() -> None:
    scenario = asking()
    assert scenario.send(VictimsEvaluated(RM, 99, success=True)) == []
    assert scenario.scheduler_state.ignored == {"response to an unknown request": 1}


def test_an_approved_part_of_a_gang_is_placed_next_to_a_part_of_another_gang() -> None:
    scenario = asking(vcore=2000)
    scenario.add_full_node()
    first = asked(scenario.gang(ApplicationAdded(an_application("one", gang=4)), 4))
    assert len(placed(judged(scenario, first))) == 2
    second = asked(scenario.add_node("n1", vcore=1000))
    assert len(placed(judged(scenario, second))) == 1
