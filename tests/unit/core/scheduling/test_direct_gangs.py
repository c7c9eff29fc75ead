"""A Direct gang has all its reservations without placeholder pods; members take them as they arrive (ADR 0020)."""

from __future__ import annotations

from dataclasses import replace

from muster_core.model.events import (
    AllocationReleased,
    ApplicationAdded,
    ApplicationRemoved,
    AskReleased,
    NodeAction,
    NodeAdded,
)
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, TaskGroup, Termination
from muster_core.model.resources import NOTHING
from muster_core.model.specs import Member, Topology
from tests.unit.builders import PARTITION, a_configuration, a_limit, a_node, a_queue, an_application, an_ask, resources
from tests.unit.core.scheduling.direct import KEY, a_gang, answers, held, member, members
from tests.unit.core.scheduling.scenario import (
    Scenario,
    notices,
    placed,
    refused_asks,
    rejection,
    released_asks,
    releases,
    states,
    waits,
)

WORKERS = TaskGroup("workers")


def allocated(scenario: Scenario, queue: str = "root.a") -> int:
    return next(one for one in scenario.partition.queues.leaves() if one.path == queue).allocated["vcore"]


def test_places_are_held_before_any_member_is_there_and_the_resource_manager_is_not_reported() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2)
    effects = scenario.send(a_gang(5))
    assert states(effects) == ["Accepted", "Running"]
    assert answers(effects) == []
    assert held(scenario) == 5
    assert scenario.app().gang.reserved == resources(vcore=5000, pods=5)
    assert allocated(scenario) == 5000


def test_a_member_that_comes_takes_its_place_at_once_with_one_message() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2)
    scenario.send(a_gang(5))
    [answer] = answers(scenario.ask(*members(2)))
    assert [new.ask.key for new in answer.new] == ["app-r0", "app-r1"]
    assert answer.released == ()
    assert held(scenario) == 3
    assert allocated(scenario) == 5000
    assert scenario.app().gang.groups[WORKERS].replaced == 2


def test_members_that_are_there_already_get_their_places_in_the_cycle_that_holds_them() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=1000)
    scenario.send(a_gang(4))
    assert placed(scenario.ask(*members(4))) == {}
    assert len(placed(scenario.add_node("big"))) == 4
    assert held(scenario) == 0


def test_a_gang_that_does_not_fit_completely_holds_nothing_and_reports_it_by_its_own_key() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    effects = scenario.send(a_gang(5))
    assert held(scenario) == 0
    assert states(effects) == ["Accepted"]
    state, reason = waits(effects)[KEY]
    assert state == "FAILED"
    assert "4 of 5 members of task group workers fit" in reason
    assert waits(scenario.ask(member("r0"))) == {}, "the gang speaks for its members"
    assert waits(scenario.add_node("n1"))[KEY] == ("SCHEDULED", "all members are reserved")


def test_no_one_takes_the_room_that_is_held_for_members_to_come() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(a_gang(3))
    scenario.send(a_gang(2, "late"))
    assert held(scenario, "late") == 0
    driver, *executors = members(3)
    assert placed(scenario.ask(driver)) == {driver.key: "n0"}
    scenario.wait(60)
    assert set(placed(scenario.ask(*executors))) == {one.key for one in executors}


def test_of_two_gangs_with_room_for_one_both_finish_one_after_the_other() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=1)
    scenario.send(a_gang(3, "one"), a_gang(3, "two", queue="root.b"))
    assert (held(scenario, "one"), held(scenario, "two")) == (3, 0)
    assert set(placed(scenario.ask(*members(3, "two")))) == set()
    assert len(placed(scenario.ask(*members(3, "one")))) == 3
    effects = [effect for one in members(3, "one") for effect in scenario.release(one.key, "one")]
    assert states(effects, "one") == ["Completing"]
    assert len(placed(effects)) == 3
    assert states(effects, "two") == ["Running"]


def test_members_beyond_their_number_and_pods_of_no_group_are_scheduled_as_usual() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2)
    scenario.send(a_gang(2))
    effects = scenario.ask(*members(4), an_ask("plain"))
    assert len(placed(effects)) == 5
    assert held(scenario) == 0
    assert scenario.app().gang.groups[WORKERS].replaced == 2


def test_one_ask_for_several_members_takes_a_place_for_each_and_what_is_left_as_usual() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2)
    scenario.send(a_gang(3))
    answered = answers(scenario.ask(replace(member("many"), max_allocations=5)))
    assert [new.id for answer in answered for new in answer.new] == [f"many-{index}" for index in range(5)]
    assert held(scenario) == 0


def test_a_larger_member_is_scheduled_as_usual_and_its_place_is_dropped_without_a_message() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(a_gang(3))
    effects = scenario.ask(member("big", vcore=2000))
    assert placed(effects) == {"big": "n0"}
    assert releases(effects) == {}
    assert notices(effects) == [
        "the pod requests more than its placeholder reserves: it is scheduled without the reservation"
    ]
    assert held(scenario) == 2


def test_a_smaller_member_gives_back_what_it_does_not_need() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(a_gang(4))
    assert placed(scenario.ask(an_ask("other", app="app", vcore=600))) == {}
    assert set(placed(scenario.ask(member("small", vcore=400)))) == {"small", "other"}
    assert held(scenario) == 3


def test_a_place_goes_with_its_node_and_its_member_is_scheduled_as_usual() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(a_gang(4))
    scenario.add_node("n1")
    effects = scenario.node("n0", NodeAction.DECOMMISSION)
    assert answers(effects) == []
    assert held(scenario) == 0
    assert set(placed(scenario.ask(*members(4))).values()) == {"n1"}


def test_a_member_that_may_not_run_where_its_place_is_takes_room_elsewhere() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=2000)
    scenario.send(a_gang(2))
    scenario.add_node("n1")
    scenario.node("n0", NodeAction.DRAIN)
    assert placed(scenario.ask(member("r0"))) == {"r0": "n1"}
    assert held(scenario) == 1
    assert allocated(scenario) == 2000


def test_places_of_several_task_groups_are_held_together_or_not_at_all() -> None:
    big, small = resources(vcore=3000, pods=1), resources(vcore=1000, pods=1)
    groups = (Member(TaskGroup("big"), 1, big), Member(WORKERS, 2, small))
    event = a_gang(1)
    spec = replace(event.spec, members=groups)
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    effects = scenario.send(replace(event, spec=spec))
    assert set(waits(effects)) == {"app/big", KEY}
    assert held(scenario) == 0
    scenario.add_node("n1", vcore=1000)
    assert held(scenario) == 3
    assert scenario.app().spec.placeholder_ask == resources(vcore=5000, pods=3), (
        "what its members are, whatever was said"
    )


def test_a_packed_gang_has_all_its_places_in_one_domain() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    cores = {"a": 3, "b": 4, "c": 9}
    scenario.send(*(NodeAdded(a_node(f"n-{zone}", 1000 * of, labels={"zone": zone})) for zone, of in cores.items()))
    event = a_gang(4)
    packed = replace(event, spec=replace(event.spec, topology=Topology("zone", required=True)))
    scenario.send(packed)
    assert {one.node for one in scenario.app().allocations.values()} == {"n-b"}
    assert set(placed(scenario.ask(*members(4))).values()) == {"n-b"}


# -- quotas and turns --------------------------------------------------------------


def test_a_queue_is_charged_for_what_is_held() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=4000)), nodes=3)
    scenario.send(a_gang(3))
    scenario.send(ApplicationAdded(an_application("plain")))
    assert waits(scenario.ask(an_ask("p0", app="plain", vcore=2000)))["p0"][0] == "SKIPPED"
    assert placed(scenario.ask(an_ask("p1", app="plain", vcore=1000))).keys() == {"p1"}


def test_a_users_limit_counts_what_is_held() -> None:
    limit = a_limit(users=("kim",), vcore=3000)
    scenario = Scenario(a_configuration(a_queue("a", limits=(limit,))), nodes=3)
    scenario.send(a_gang(3), a_gang(1, "two"))
    assert (held(scenario), held(scenario, "two")) == (3, 0)
    assert waits(scenario.send(a_gang(1, "three")))["three/workers"][0] == "SKIPPED"


def test_a_gang_larger_than_its_queue_may_ever_be_is_rejected() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=2000)), nodes=3)
    assert "it can never be reserved" in rejection(scenario.send(a_gang(3)))


def test_a_gang_without_task_groups_is_rejected() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    event = a_gang(3)
    effects = rejection(scenario.send(replace(event, spec=replace(event.spec, members=()))))
    assert effects.startswith("gangPlacement is Direct, but no task groups were sent")


def test_no_one_who_came_later_starts_before_a_gang_that_waits_for_headroom() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=4000)), nodes=3)
    scenario.send(ApplicationAdded(an_application("busy")))
    scenario.ask(*(an_ask(f"b{index}", app="busy") for index in range(2)))
    effects = scenario.send(a_gang(3))
    assert waits(effects)[KEY][0] == "SKIPPED"
    effects = scenario.send(a_gang(1, "late"))
    assert "queued behind gang app" in waits(effects)["late/workers"][1]
    scenario.release("b0", "busy")
    assert (held(scenario), held(scenario, "late")) == (3, 0)


# -- taken back --------------------------------------------------------------------


def test_what_was_not_taken_is_dropped_when_the_timer_ends_and_no_one_is_reported() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(a_gang(3, timeout_s=60))
    scenario.ask(member("r0"))
    scenario.wait(59)
    assert held(scenario) == 2
    effects = scenario.wait(2)
    assert answers(effects) == []
    assert states(effects) == []
    assert held(scenario) == 0
    assert scenario.app().gang.groups[WORKERS].timed_out == 2
    assert placed(scenario.ask(member("r1"))) == {"r1": "n0"}


def test_a_gang_whose_members_never_come_is_ended_by_the_timer() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(a_gang(3, timeout_s=60))
    assert states(scenario.wait(61)) == ["Completing"]
    assert states(scenario.wait(60)) == ["Completed"]


def test_left_over_places_end_with_the_application_at_once() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(a_gang(3))
    scenario.ask(member("r0"))
    assert states(scenario.release("r0")) == ["Completing"]
    assert held(scenario) == 2, "another member may come"
    effects = scenario.wait(31)
    assert states(effects) == ["Completed"]
    assert answers(effects) == []
    assert scenario.partition.placed == {}


def test_an_application_that_is_removed_gives_its_places_back_without_a_message() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(a_gang(3))
    scenario.ask(member("r0"))
    effects = scenario.send(ApplicationRemoved(PARTITION, ApplicationId("app")))
    assert releases(effects) == {"r0": Termination.STOPPED_BY_RM}
    assert scenario.partition.placed == {}
    assert allocated(scenario) == 0


def test_an_application_that_is_removed_while_it_waits_leaves_nothing() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(a_gang(5))
    assert released_asks(scenario.send(ApplicationRemoved(PARTITION, ApplicationId("app")))) == {}
    assert scenario.partition.queues.root.pending == NOTHING


def test_the_resource_manager_cannot_name_what_it_was_never_told_of() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(a_gang(3), a_gang(3, "waits"))
    why, app = Termination.STOPPED_BY_RM, ApplicationId("app")
    everything = AllocationReleased(PARTITION, app, None, None, why)
    by_key = replace(everything, key=AllocationKey(KEY))
    by_name = replace(everything, id=AllocationId(f"{KEY}-0"))
    asks = AskReleased(PARTITION, ApplicationId("waits"), None, why)
    assert scenario.send(everything, by_key, by_name, asks) == []
    assert held(scenario) == 3
    assert scenario.app("waits").placeholder_asks == 1
    assert refused_asks(scenario.ask(an_ask("waits/workers", app="waits"))) == {
        "waits/workers": "ask waits/workers is the scheduler's own"
    }
    assert sum(scenario.scheduler_state.ignored.values()) == 4


def test_a_placeholder_pod_comes_too_late_for_a_gang_that_has_no_use_for_it() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(a_gang(5))
    effects = scenario.ask(an_ask("p0", group="workers", placeholder=True))
    assert released_asks(effects) == {"p0": Termination.TIMEOUT}
