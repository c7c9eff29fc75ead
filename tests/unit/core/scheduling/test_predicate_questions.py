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


def scenario_with_predicates(nodes: int = 1, vcore: int = 4000) -> Scenario:
    """A resource manager with predicate callbacks, and an application."""
    scenario = Scenario(a_configuration(a_queue("a")), nodes=nodes, vcore=vcore)
    scenario.send(CallbacksDeclared(RM, places=True, victims=True), ApplicationAdded(an_application("x")))
    return scenario


def proposed(effects: list[Effect]) -> PlacementsProposed:
    [question] = [effect for effect in effects if isinstance(effect, PlacementsProposed)]
    return question


def answered(scenario: Scenario, question: PlacementsProposed, *refusals: str) -> list[Effect]:
    return scenario.send(PlacementsEvaluated(RM, question.number, refusals or ("",) * len(question.places)))


def test_nothing_is_allocated_while_a_validation_is_pending() -> None:
    scenario = scenario_with_predicates()
    question = proposed(scenario.ask(an_ask("x0", app="x", vcore=1000)))
    assert scenario.partition.nodes.available(question.places[0][1])["vcore"] == 4000
    assert scenario.ask(an_ask("x1", app="x", vcore=1000)) == []
    effects = answered(scenario, question)
    assert placed(effects) == {"x0": "n0"}
    assert [key for key, _ in proposed(effects).places] == ["x1"]


def test_a_rejected_placement_is_proposed_again_after_a_delay() -> None:
    scenario = scenario_with_predicates()
    question = proposed(scenario.ask(an_ask("x0", app="x")))
    assert placed(answered(scenario, question, "not today")) == {}
    assert not any(isinstance(effect, PlacementsProposed) for effect in scenario.wait(REFUSED_NS // SECOND - 1))
    assert placed(answered(scenario, proposed(scenario.wait(2)))) == {"x0": "n0"}


def test_a_rejection_applies_to_all_equal_requests() -> None:
    scenario = scenario_with_predicates(nodes=2)
    question = proposed(scenario.ask(an_ask("x0", app="x")))
    effects = answered(scenario, question, "never")
    assert proposed(effects).places[0][1] != question.places[0][1]
    answered(scenario, proposed(effects))
    assert proposed(scenario.ask(an_ask("x1", app="x"))).places[0][1] != question.places[0][1]


def test_an_unanswered_validation_is_repeated_and_its_late_answer_ignored() -> None:
    scenario = scenario_with_predicates()
    question = proposed(scenario.ask(an_ask("x0", app="x")))
    again = proposed(scenario.wait(LOST_NS // SECOND + 1))
    assert again.places == question.places
    assert answered(scenario, question) == []
    assert placed(answered(scenario, again)) == {"x0": "n0"}
    assert scenario.scheduler_state.ignored == {"response to an unknown request": 1}


def test_resources_of_unconfirmed_placements_count_as_free() -> None:
    scenario = scenario_with_predicates()
    assert len(proposed(scenario.ask(*(an_ask(f"x{index}", app="x", vcore=1000) for index in range(5)))).places) == 4
    effects = answered(scenario, proposed(scenario.wait(LOST_NS // SECOND + 1)))
    assert placed(effects) == {"x0": "n0"}, "room is held for it since it waited for long"
    assert len(proposed(effects).places) == 3


def test_an_approved_placement_is_dropped_if_the_node_is_drained() -> None:
    scenario = scenario_with_predicates()
    question = proposed(scenario.ask(an_ask("x0", app="x")))
    scenario.node("n0", NodeAction.DRAIN)
    assert placed(answered(scenario, question)) == {}


def test_only_one_of_two_approved_anti_affinity_pods_is_placed() -> None:
    scenario = scenario_with_predicates()
    scenario.send(ApplicationAdded(an_application("y")), NodeUpdated(a_node("n0", labels={HOST: "n0"})))
    lonely = PodProperties(inter_pod(anti_affinity=(term("db", HOST),)))
    one, other = (replace(an_ask(f"{app}0", app=app, vcore=1000, tags=DB), facts=lonely) for app in ("x", "y"))
    first, second = proposed(scenario.ask(one)), proposed(scenario.ask(other))
    assert placed(answered(scenario, first)) == {"x0": "n0"}
    assert placed(answered(scenario, second)) == {}


def test_members_with_affinity_to_each_other_are_placed_after_validation() -> None:
    scenario = scenario_with_predicates()
    scenario.send(NodeUpdated(a_node("n0", labels={HOST: "n0"})))
    follower = replace(an_ask("x0", app="x", vcore=1000), facts=PodProperties(inter_pod(affinity=(term("db", HOST),))))
    question = proposed(scenario.ask(follower, an_ask("x1", app="x", vcore=1000, tags=DB)))
    effects = answered(scenario, question)
    assert placed(effects) | placed(answered(scenario, proposed(effects))) == {"x0": "n0", "x1": "n0"}


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
    assert placed(answered(scenario, proposed(effects))) == {"p0": "n0", "p1": "n0"}


def test_an_answer_of_an_earlier_session_is_ignored() -> None:
    scenario = scenario_with_predicates()
    question = proposed(scenario.ask(an_ask("x0", app="x")))
    scenario.send(
        ManagerRegistered(RM, scenario.scheduler_state.managers[RM].configuration),
        CallbacksDeclared(RM, places=True, victims=True),
    )
    scenario.send(NodeAdded(a_node("n0")), ApplicationAdded(an_application("x")))
    again = proposed(scenario.ask(an_ask("x0", app="x")))
    assert answered(scenario, question) == []
    assert placed(answered(scenario, again)) == {"x0": "n0"}


def test_an_answer_with_too_few_results_places_only_validated_asks() -> None:
    scenario = scenario_with_predicates()
    question = proposed(scenario.ask(*(an_ask(f"x{index}", app="x", vcore=1000) for index in range(2))))
    assert len(question.places) == 2
    assert placed(answered(scenario, question, "")).keys() == {question.places[0][0]}


def test_an_ask_released_during_validation_is_not_placed() -> None:
    scenario = scenario_with_predicates()
    question = proposed(scenario.ask(an_ask("x0", app="x")))
    scenario.release_ask("x0", "x")
    assert placed(answered(scenario, question)) == {}
    assert not scenario.partition.pending_callbacks.awaits_callback(scenario.partition.id, ApplicationId("x"))


def test_an_unexpected_victim_answer_is_counted_as_ignored() -> None:
    scenario = scenario_with_predicates()
    assert scenario.send(VictimsEvaluated(RM, 99, success=True)) == []
    assert scenario.scheduler_state.ignored == {"response to an unknown request": 1}


def test_an_approved_part_of_a_gang_is_placed_next_to_a_part_of_another_gang() -> None:
    scenario = scenario_with_predicates(vcore=2000)
    scenario.add_full_node()
    first = proposed(scenario.gang(ApplicationAdded(an_application("one", gang=4)), 4))
    assert len(placed(answered(scenario, first))) == 2
    second = proposed(scenario.add_node("n1", vcore=1000))
    assert len(placed(answered(scenario, second))) == 1
