"""What waits for a resource manager's word: parked, answered, refused for a while, lost."""

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
from tests.unit.core.scheduling.scene import Scene, placed

DB = {"kubernetes.io/label/app": "db", NAMESPACE: "red"}


def asking(nodes: int = 1, vcore: int = 4000) -> Scene:
    """A resource manager that wants to be asked, and an application."""
    scene = Scene(a_configuration(a_queue("a")), nodes=nodes, vcore=vcore)
    scene.tell(CallbacksDeclared(RM, places=True, victims=True), ApplicationAdded(an_application("x")))
    return scene


def asked(said: list[Effect]) -> PlacementsProposed:
    [question] = [effect for effect in said if isinstance(effect, PlacementsProposed)]
    return question


def judged(scene: Scene, question: PlacementsProposed, *refusals: str) -> list[Effect]:
    return scene.tell(PlacementsEvaluated(RM, question.number, refusals or ("",) * len(question.places)))


def test_nothing_is_taken_while_the_answer_is_awaited_and_newcomers_wait_with_it() -> None:
    scene = asking()
    question = asked(scene.ask(an_ask("x0", app="x", vcore=1000)))
    assert scene.partition.nodes.available(question.places[0][1])["vcore"] == 4000
    assert scene.ask(an_ask("x1", app="x", vcore=1000)) == []
    said = judged(scene, question)
    assert placed(said) == {"x0": "n0"}
    assert [key for key, _ in asked(said).places] == ["x1"]


def test_what_was_refused_is_asked_again_after_a_while() -> None:
    scene = asking()
    question = asked(scene.ask(an_ask("x0", app="x")))
    assert placed(judged(scene, question, "not today")) == {}
    assert not any(isinstance(effect, PlacementsProposed) for effect in scene.wait(REFUSED_NS // SECOND - 1))
    assert placed(judged(scene, asked(scene.wait(2)))) == {"x0": "n0"}


def test_a_refusal_is_of_all_that_ask_for_the_same() -> None:
    scene = asking(nodes=2)
    question = asked(scene.ask(an_ask("x0", app="x")))
    said = judged(scene, question, "never")
    assert asked(said).places[0][1] != question.places[0][1]
    judged(scene, asked(said))
    assert asked(scene.ask(an_ask("x1", app="x"))).places[0][1] != question.places[0][1]


def test_a_question_without_an_answer_is_asked_anew_and_its_late_answer_ignored() -> None:
    scene = asking()
    question = asked(scene.ask(an_ask("x0", app="x")))
    again = asked(scene.wait(LOST_NS // SECOND + 1))
    assert again.places == question.places
    assert judged(scene, question) == []
    assert placed(judged(scene, again)) == {"x0": "n0"}
    assert scene.scheduler_state.ignored == {"answer to a question that is not open": 1}


def test_room_of_places_that_were_asked_about_in_vain_counts_as_free() -> None:
    scene = asking()
    assert len(asked(scene.ask(*(an_ask(f"x{index}", app="x", vcore=1000) for index in range(5)))).places) == 4
    said = judged(scene, asked(scene.wait(LOST_NS // SECOND + 1)))
    assert placed(said) == {"x0": "n0"}, "room is held for it since it waited for long"
    assert len(asked(said).places) == 3


def test_a_place_is_not_given_where_the_ask_may_not_run_any_more() -> None:
    scene = asking()
    question = asked(scene.ask(an_ask("x0", app="x")))
    scene.node("n0", NodeAction.DRAIN)
    assert placed(judged(scene, question)) == {}


def test_of_two_that_keep_away_from_each_other_only_one_is_placed_though_both_were_found_good() -> None:
    scene = asking()
    scene.tell(ApplicationAdded(an_application("y")), NodeUpdated(a_node("n0", labels={HOST: "n0"})))
    lonely = PodProperties(inter_pod(apart=(term("db", HOST),)))
    one, other = (replace(an_ask(f"{app}0", app=app, vcore=1000, tags=DB), facts=lonely) for app in ("x", "y"))
    first, second = asked(scene.ask(one)), asked(scene.ask(other))
    assert placed(judged(scene, first)) == {"x0": "n0"}
    assert placed(judged(scene, second)) == {}


def test_members_that_go_where_others_of_them_are_get_their_places_at_once() -> None:
    scene = asking()
    scene.tell(NodeUpdated(a_node("n0", labels={HOST: "n0"})))
    follower = replace(an_ask("x0", app="x", vcore=1000), facts=PodProperties(inter_pod(near=(term("db", HOST),))))
    question = asked(scene.ask(follower, an_ask("x1", app="x", vcore=1000, tags=DB)))
    said = judged(scene, question)
    assert placed(said) | placed(judged(scene, asked(said))) == {"x0": "n0", "x1": "n0"}


def test_members_whose_places_hold_only_in_the_order_in_which_they_were_found_get_them() -> None:
    scene = Scene(a_configuration(a_queue("a")))
    scene.tell(CallbacksDeclared(RM, places=True, victims=False), ApplicationAdded(an_application(gang=2)))
    for name, zone, vcore in (("n0", "a", 4000), ("n1", "b", 500)):
        scene.tell(NodeAdded(a_node(name, vcore, labels={ZONE: zone})))
    evenly = InterPodConstraints(spread=(TopologySpreadConstraint(ZONE, 1, selecting(app="db"), "red"),))
    member = an_ask("p0", group="workers", placeholder=True, tags=DB)
    in_a = Constraints(node_selector=((ZONE, "a"),))
    said = scene.ask(
        replace(member, key=AllocationKey("p1"), constraints=in_a), replace(member, facts=PodProperties(evenly))
    )
    assert placed(judged(scene, asked(said))) == {"p0": "n0", "p1": "n0"}


def test_an_answer_of_an_earlier_session_is_no_answer_to_this_one() -> None:
    scene = asking()
    question = asked(scene.ask(an_ask("x0", app="x")))
    scene.tell(
        ManagerRegistered(RM, scene.scheduler_state.managers[RM].configuration),
        CallbacksDeclared(RM, places=True, victims=True),
    )
    scene.tell(NodeAdded(a_node("n0")), ApplicationAdded(an_application("x")))
    again = asked(scene.ask(an_ask("x0", app="x")))
    assert judged(scene, question) == []
    assert placed(judged(scene, again)) == {"x0": "n0"}


def test_an_answer_with_too_few_verdicts_places_only_what_was_judged() -> None:
    scene = asking()
    question = asked(scene.ask(*(an_ask(f"x{index}", app="x", vcore=1000) for index in range(2))))
    assert len(question.places) == 2
    assert placed(judged(scene, question, "")).keys() == {question.places[0][0]}


def test_an_ask_that_is_taken_back_meanwhile_gets_no_place() -> None:
    scene = asking()
    question = asked(scene.ask(an_ask("x0", app="x")))
    scene.release_ask("x0", "x")
    assert placed(judged(scene, question)) == {}
    assert not scene.partition.pending_callbacks.awaits_callback(scene.partition.id, ApplicationId("x"))


def test_an_answer_about_victims_that_nobody_asked_for_is_counted() -> None:
    scene = asking()
    assert scene.tell(VictimsEvaluated(RM, 99, success=True)) == []
    assert scene.scheduler_state.ignored == {"answer to a question that is not open": 1}


def test_an_approved_part_of_a_gang_is_placed_next_to_a_part_of_another_gang() -> None:
    scene = asking(vcore=2000)
    scene.add_full_node()
    first = asked(scene.gang(ApplicationAdded(an_application("one", gang=4)), 4))
    assert len(placed(judged(scene, first))) == 2
    second = asked(scene.add_node("n1", vcore=1000))
    assert len(placed(judged(scene, second))) == 1
