"""How long a Direct gang waits, what it is promised meanwhile, and who may take from it."""

from __future__ import annotations

from dataclasses import replace

from muster_core.model.config import Configuration, QueuePolicies, Timing
from muster_core.model.effects import PlacementsProposed, SchedulingStateChanged, VictimsProposed
from muster_core.model.events import ApplicationAdded, CallbacksDeclared, ConfigurationReplaced, PlacementsEvaluated
from muster_core.model.ids import NodeId, TaskGroup, Termination
from muster_core.model.resources import NOTHING
from muster_core.model.specs import GangStyle
from tests.unit.builders import RM, SECOND, a_configuration, a_queue, an_application, an_ask, resources
from tests.unit.core.scheduling.direct import KEY, a_gang, answers, bound, held, member, members
from tests.unit.core.scheduling.scene import Scene, notices, placed, releases, states, waits

SOON = QueuePolicies(preemption_delay_ns=SECOND)


def guarded(*, quota: bool = False, most: int | None = None) -> Configuration:
    """Leaf b has a right to 2 cores; of leaf a what is over its maximum goes after 5 s."""
    policies = replace(SOON, quota_preemption_delay_ns=5 * SECOND)
    made = a_configuration(a_queue("a", policies=policies, vcore=most), a_queue("b", guaranteed=2000, policies=SOON))
    [partition] = made.partitions
    return replace(made, partitions=(replace(partition, preemption=True, quota_preemption=quota),))


def test_a_soft_gang_that_waited_in_vain_is_scheduled_as_usual() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.tell(a_gang(5, wait_s=60))
    assert placed(scene.ask(*members(5))) == {}
    said = scene.wait(61)
    assert states(said) == ["Resuming", "Accepted", "Running"]
    assert len(placed(said)) == 4
    assert answers(said)[0].released_asks == ()


def test_a_hard_gang_that_waited_in_vain_fails_and_only_its_members_are_told_to_go() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.tell(a_gang(5, wait_s=60, style=GangStyle.HARD))
    scene.ask(member("r0"))
    said = scene.wait(61)
    assert states(said) == ["Failing", "Failed"]
    [answer] = answers(said)
    assert [(one.key, one.termination) for one in answer.released_asks] == [("r0", Termination.TIMEOUT)]


def test_the_style_has_no_word_once_the_places_are_held() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.tell(a_gang(3, wait_s=30, timeout_s=60, style=GangStyle.HARD))
    scene.ask(member("r0"))
    assert states(scene.wait(100)) == []
    assert scene.app().state == "Running"


def test_the_clock_of_the_places_begins_when_they_are_held_and_not_before() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1, vcore=1000)
    scene.tell(a_gang(3, timeout_s=60))
    assert scene.wait(100) == []
    scene.add_node("n1")
    scene.wait(59)
    assert held(scene) == 3
    scene.wait(2)
    assert held(scene) == 0


def test_no_head_room_is_promised_to_a_gang_that_nodes_have_no_room_for_until_it_starves() -> None:
    timing = Timing(starvation_age_ns=60 * SECOND)
    scene = Scene(a_configuration(a_queue("a", vcore=6000), timing=timing), nodes=1)
    scene.tell(a_gang(5))
    assert scene.app().gang.quota_reservation == NOTHING
    scene.wait(61)
    assert scene.app().gang.quota_reservation == resources(vcore=5000, pods=5)
    scene.add_node("n1")
    assert held(scene) == 5
    assert scene.app().gang.quota_reservation == NOTHING


def test_a_gang_that_no_empty_cluster_could_hold_is_warned_of_once() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    [said] = notices(scene.tell(a_gang(5)))
    assert said.startswith("even an empty cluster could not hold the gang: 1 of 5 members of task group workers")
    assert notices(scene.ask(member("r0"))) == []


def test_a_gang_that_a_new_configuration_makes_impossible_waits_with_the_reason() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.tell(a_gang(5))
    said = scene.tell(ConfigurationReplaced(RM, a_configuration(a_queue("a", vcore=2000))))
    assert states(said) == []
    assert waits(said)[KEY] == ("SKIPPED", notices(said)[0])
    assert "the gang requests cpu 5 in total" in notices(said)[0]


def test_a_gang_that_may_not_start_yet_speaks_for_its_members() -> None:
    scene = Scene(a_configuration(a_queue("a", max_applications=1)), nodes=2)
    scene.tell(ApplicationAdded(an_application("first")))
    scene.ask(an_ask("f0", app="first"))
    assert waits(scene.tell(a_gang(3))).keys() == {KEY}
    assert waits(scene.ask(*members(3))) == {}
    scene.release("f0", "first")
    assert held(scene) == 0
    assert scene.app().real_allocations == 3


# -- preemption --------------------------------------------------------------------


def test_places_that_are_held_go_at_once_for_whoever_has_a_right_to_them() -> None:
    scene = Scene(guarded(), nodes=1)
    scene.tell(a_gang(4))
    scene.ask(member("r0"))
    scene.tell(ApplicationAdded(an_application("poor", queue="root.b")))
    scene.ask(an_ask("p0", app="poor"), an_ask("p1", app="poor"))
    said = scene.wait(20)
    assert placed(said).keys() == {"p0", "p1"}
    assert releases(said) == {}
    assert held(scene) == 1
    assert scene.partition.preemptions.running == {}


def test_a_member_whose_place_was_preempted_waits_as_usual() -> None:
    scene = Scene(guarded(), nodes=1)
    scene.tell(a_gang(4))
    scene.tell(ApplicationAdded(an_application("poor", queue="root.b")))
    scene.ask(an_ask("p0", app="poor"), an_ask("p1", app="poor"))
    scene.wait(20)
    said = scene.ask(*members(3))
    assert placed(said).keys() == {"app-r0", "app-r1"}
    assert waits(said)["app-r2"][0] == "FAILED"


def test_places_that_are_held_go_first_where_a_queue_is_over_a_lowered_maximum() -> None:
    scene = Scene(guarded(quota=True), nodes=1)
    scene.tell(a_gang(4))
    scene.ask(member("r0"))
    scene.tell(ConfigurationReplaced(RM, guarded(quota=True, most=2000)))
    said = scene.wait(10)
    assert releases(said) == {}
    assert held(scene) == 1
    assert scene.app().real_allocations == 1


def test_a_gang_with_a_right_to_its_places_preempts_for_them_together_and_speaks_with_one_voice() -> None:
    scene = Scene(guarded(), nodes=1)
    scene.tell(ApplicationAdded(an_application("rich")))
    scene.ask(*(an_ask(f"r{index}", app="rich") for index in range(4)))
    said = scene.tell(a_gang(2, "poor", queue="root.b"))
    assert [(key, state) for key, (state, _) in waits(said).items()] == [("poor/workers", "FAILED")]
    gone = scene.wait(5)
    assert set(releases(gone).values()) == {Termination.PREEMPTED_BY_SCHEDULER}
    assert waits(gone) == {}
    assert held(scene, "poor") == 0
    why = Termination.PREEMPTED_BY_SCHEDULER
    said = [effect for key in releases(gone) for effect in scene.release(key, "rich", why)]
    assert held(scene, "poor") == 2
    spoken = [one for one in said if isinstance(one, SchedulingStateChanged) and one.application == "poor"]
    assert [(one.key, one.reason) for one in spoken] == [("poor/workers", "all members are reserved")]
    assert scene.app("poor").gang.groups[TaskGroup("workers")].count == 2
    assert len(placed(scene.ask(*members(2, "poor")))) == 2


def test_a_gang_that_preempts_in_vain_speaks_as_long_as_it_lacks_one_place() -> None:
    scene = Scene(guarded(), nodes=1)
    scene.tell(ApplicationAdded(an_application("rich")))
    daemons = (replace(an_ask(f"r{index}", app="rich"), required_node=NodeId("n0")) for index in range(4))
    scene.ask(*daemons)
    scene.tell(a_gang(2, "poor", queue="root.b"))
    assert releases(scene.wait(5)) == {}
    assert len(scene.app("poor").asks) == 2, "each place is asked for alone"
    assert "poor/workers" not in waits(scene.tell(bound("w0", "n0", app="poor")))
    assert waits(scene.tell(bound("w1", "n0", app="poor")))["poor/workers"][0] == "SCHEDULED"


# -- who is asked --------------------------------------------------------------------


def test_a_resource_manager_that_judges_places_is_asked_of_members_and_not_of_their_places() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.tell(CallbacksDeclared(RM, True, False))
    said = scene.tell(a_gang(3))
    assert not any(isinstance(effect, PlacementsProposed) for effect in said)
    assert held(scene) == 3
    [asked] = [effect for effect in scene.ask(member("r0")) if isinstance(effect, PlacementsProposed)]
    assert asked.places == (("r0", "n0"),)
    assert placed(scene.tell(PlacementsEvaluated(RM, asked.number, ("",)))) == {"r0": "n0"}
    assert held(scene) == 2


def test_a_resource_manager_that_judges_victims_is_not_asked_of_places_without_pods() -> None:
    scene = Scene(guarded(), nodes=1)
    scene.tell(CallbacksDeclared(RM, False, True), a_gang(4))
    scene.tell(ApplicationAdded(an_application("poor", queue="root.b")))
    scene.ask(an_ask("p0", app="poor"))
    asked = [effect for effect in scene.wait(5) if isinstance(effect, VictimsProposed)]
    assert [(one.key, one.victims) for one in asked] == [("p0", ())]
