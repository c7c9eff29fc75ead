"""A Direct gang has all its reservations without placeholder pods; members take them as they arrive (ADR 0020)."""

from dataclasses import replace

from muster_core.model.constraints import InterPodConstraints, PodTerm, Target
from muster_core.model.events import AllocationReleased, AskAdded, AskReleased, NodeAction, NodeAdded
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, TaskGroup, Termination
from muster_core.model.resources import NOTHING
from muster_core.model.specs import Member, PodProperties, Preferences, Topology
from tests.unit.builders import PARTITION, a_configuration, a_limit, a_node, a_queue, an_application, an_ask, resources
from tests.unit.core.scheduling.direct import KEY, a_gang, answers, held, member, members, with_members
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


def requested(scenario: Scenario) -> dict[int, int]:
    """Return how many virtual placeholders are requested of each size in millicores."""
    asks = [ask for ask in scenario.app().asks.values() if ask.spec.is_virtual]
    return {ask.spec.resources["vcore"]: ask.left for ask in asks}


def allocated(scenario: Scenario, queue: str = "root.a") -> int:
    return next(one for one in scenario.partition.queues.leaves() if one.path == queue).allocated["vcore"]


def test_virtual_placeholders_are_reserved_without_a_message() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2)
    effects = scenario.send(*with_members(a_gang(5)))
    assert states(effects) == ["Accepted", "Running"]
    [answer] = answers(effects)
    assert [new.ask.key for new in answer.new] == ["app-r0"]
    assert answer.released == ()
    assert held(scenario) == 4
    assert scenario.app().gang.reserved == resources(vcore=4000, pods=4)
    assert allocated(scenario) == 5000


def test_a_gang_is_not_planned_before_its_first_member_arrives() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2)
    effects = scenario.send(a_gang(3))
    assert states(effects) == ["Accepted"]
    assert waits(effects) == {}
    assert scenario.app().allocations == {}
    assert placed(scenario.send(*with_members(a_gang(2, "late")))).keys() == {"late-r0"}, "it blocks no later gang"
    assert scenario.app().allocations == {}
    effects = scenario.ask(member("r0", vcore=1500))
    assert states(effects) == ["Running"]
    assert placed(effects).keys() == {"r0"}
    assert held(scenario) == 2
    assert scenario.app().gang.reserved == resources(vcore=3000, pods=2), "absent members are expected to be equal"


def test_a_member_cancelled_before_the_gang_is_complete_gives_its_slot_back_to_the_task_group() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    effects = scenario.send(a_gang(3), AskAdded(member("large", vcore=3000)))
    assert waits(effects)[KEY][0] == "FAILED"
    assert requested(scenario) == {3000: 3}
    scenario.ask(member("r0"))
    assert requested(scenario) == {1000: 1, 3000: 2}
    effects = scenario.release_ask("large")
    assert states(effects) == ["Running"]
    assert placed(effects) == {"r0": "n0"}
    assert held(scenario) == 2
    assert scenario.app().gang.reserved == resources(vcore=2000, pods=2)
    assert scenario.app().gang.groups[WORKERS].count == 3
    assert scenario.partition.queues.root.pending == NOTHING


def test_slots_are_those_of_the_task_group_again_when_all_members_are_cancelled() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(a_gang(2), *(AskAdded(member(f"r{index}", vcore=3000)) for index in range(2)))
    assert requested(scenario) == {3000: 2}
    scenario.release_ask("r0")
    scenario.release_ask("r1")
    assert (requested(scenario), held(scenario)) == ({}, 2), "two cores are free"
    assert scenario.app().gang.reserved == resources(vcore=2000, pods=2)


def test_absent_members_are_expected_to_avoid_each_other_as_the_present_ones_do() -> None:
    """The operator declares the image of placeholder pods, which is no property that the members must not have."""
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.send(*(NodeAdded(a_node(f"n{index}", labels={"host": f"n{index}"})) for index in range(2)))
    gang = a_gang(3)
    [workers] = gang.spec.members
    workers = replace(workers, facts=PodProperties(preferences=Preferences(images=("pause",))))
    own = (Target("job", values=("x",)),)
    apart = PodProperties(InterPodConstraints(anti_affinity=(PodTerm("host", own, (), ()),)))
    first = replace(member("r0"), tags={"job": "x"}, facts=apart)
    effects = scenario.send(replace(gang, spec=replace(gang.spec, members=(workers,))), AskAdded(first))
    assert "2 of 3 members of task group workers fit" in waits(effects)[KEY][1]
    effects = scenario.send(NodeAdded(a_node("n2", labels={"host": "n2"})))
    assert placed(effects).keys() == {"r0"}
    assert {one.node for one in scenario.app().allocations.values()} == {"n0", "n1", "n2"}


def test_a_new_member_replaces_its_placeholder_with_one_message() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), a_gang(5), nodes=2)
    [answer] = answers(scenario.ask(*members(2)))
    assert [new.ask.key for new in answer.new] == ["app-r0", "app-r1"]
    assert answer.released == ()
    assert held(scenario) == 3
    assert allocated(scenario) == 5000
    assert scenario.app().gang.groups[WORKERS].replaced == 2


def test_existing_members_are_placed_in_the_cycle_of_the_reservation() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), a_gang(4), nodes=1, vcore=1000)
    assert placed(scenario.ask(*members(4))) == {}
    assert len(placed(scenario.add_node("big"))) == 4
    assert held(scenario) == 0


def test_a_gang_that_does_not_fit_reserves_nothing_and_reports_the_reason() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    effects = scenario.send(*with_members(a_gang(5)))
    assert held(scenario) == 0
    assert states(effects) == ["Accepted"]
    state, reason = waits(effects)[KEY]
    assert state == "FAILED"
    assert "4 of 5 members of task group workers fit" in reason
    assert waits(scenario.ask(*members(5)[1:])) == {}, "the gang speaks for its members"
    assert waits(scenario.add_node("n1"))[KEY] == ("SCHEDULED", "all members are reserved")


def test_resources_reserved_for_future_members_are_not_given_to_others() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), a_gang(3), nodes=1)
    scenario.send(a_gang(2, "late"))
    assert held(scenario, "late") == 0
    driver, *executors = members(3)
    assert placed(scenario.ask(driver)) == {driver.key: "n0"}
    scenario.wait(60)
    assert set(placed(scenario.ask(*executors))) == {one.key for one in executors}


def test_two_gangs_with_resources_for_one_finish_one_after_another() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=1)
    scenario.send(*with_members(a_gang(3, "one")), *with_members(a_gang(3, "two", queue="root.b")))
    assert (held(scenario, "one"), held(scenario, "two")) == (2, 0)
    assert set(placed(scenario.ask(*members(3, "two")[1:]))) == set()
    assert len(placed(scenario.ask(*members(3, "one")[1:]))) == 2
    effects = [effect for one in members(3, "one") for effect in scenario.release(one.key, "one")]
    assert states(effects, "one") == ["Completing"]
    assert len(placed(effects)) == 3
    assert states(effects, "two") == ["Running"]


def test_extra_members_and_pods_without_a_group_are_scheduled() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), a_gang(2), nodes=2)
    effects = scenario.ask(*members(4), an_ask("plain"))
    assert len(placed(effects)) == 5
    assert held(scenario) == 0
    assert scenario.app().gang.groups[WORKERS].replaced == 2


def test_one_ask_for_several_members_uses_a_placeholder_for_each() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), a_gang(3), nodes=2)
    answered = answers(scenario.ask(replace(member("many"), max_allocations=5)))
    assert [new.id for answer in answered for new in answer.new] == [f"many-{index}" for index in range(5)]
    assert held(scenario) == 0


def test_a_larger_member_is_scheduled_and_its_placeholder_is_dropped() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), *with_members(a_gang(3)), nodes=1)
    effects = scenario.ask(member("big", vcore=2000))
    assert placed(effects) == {"big": "n0"}
    assert releases(effects) == {}
    [text] = notices(effects)
    assert "it is scheduled without the reservation (requested cpu 2, reserved 1; " in text
    assert held(scenario) == 1


def test_a_smaller_member_releases_the_difference() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), a_gang(4), nodes=1)
    assert placed(scenario.ask(an_ask("other", app="app", vcore=600))) == {}
    assert set(placed(scenario.ask(member("small", vcore=400)))) == {"small", "other"}
    assert held(scenario) == 3


def test_placeholders_are_removed_with_their_node() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), a_gang(4), nodes=1)
    scenario.add_node("n1")
    effects = scenario.node("n0", NodeAction.DECOMMISSION)
    assert answers(effects) == []
    assert held(scenario) == 0
    assert set(placed(scenario.ask(*members(4))).values()) == {"n1"}


def test_a_member_excluded_from_its_placeholder_node_runs_elsewhere() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), a_gang(2), nodes=1, vcore=2000)
    scenario.add_node("n1")
    scenario.node("n0", NodeAction.DRAIN)
    assert placed(scenario.ask(member("r0"))) == {"r0": "n1"}
    assert held(scenario) == 1
    assert allocated(scenario) == 2000


def test_several_task_groups_are_reserved_together_or_not_at_all() -> None:
    big, small = resources(vcore=3000, pods=1), resources(vcore=1000, pods=1)
    groups = (Member(TaskGroup("big"), 1, big), Member(WORKERS, 2, small))
    event = a_gang(1)
    spec = replace(event.spec, members=groups)
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    effects = scenario.send(*with_members(replace(event, spec=spec)))
    assert set(waits(effects)) == {"app/big", KEY}
    assert held(scenario) == 0
    assert placed(scenario.add_node("n1", vcore=1000)).keys() == {"app-r0"}
    assert held(scenario) == 2
    assert scenario.app().spec.placeholder_ask == resources(vcore=5000, pods=3), (
        "what its members are, whatever was said"
    )


def test_a_packed_gang_is_reserved_in_one_domain() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    cores = {"a": 3, "b": 4, "c": 9}
    scenario.send(*(NodeAdded(a_node(f"n-{zone}", 1000 * of, labels={"zone": zone})) for zone, of in cores.items()))
    event = a_gang(4)
    packed = replace(event, spec=replace(event.spec, topology=Topology(("zone",), required=True)))
    scenario.send(*with_members(packed))
    assert {one.node for one in scenario.app().allocations.values()} == {"n-b"}
    assert set(placed(scenario.ask(*members(4)[1:])).values()) == {"n-b"}


# -- quotas and turns --------------------------------------------------------------


def test_reserved_placeholders_count_towards_the_queue_quota() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=4000)), *with_members(a_gang(3)), nodes=3)
    assert waits(scenario.submit(an_application("plain"), an_ask("p0", vcore=2000)))["p0"][0] == "SKIPPED"
    assert placed(scenario.ask(an_ask("p1", app="plain", vcore=1000))).keys() == {"p1"}


def test_reserved_placeholders_count_towards_the_user_limit() -> None:
    limit = a_limit(users=("kim",), vcore=3000)
    scenario = Scenario(a_configuration(a_queue("a", limits=(limit,))), nodes=3)
    scenario.send(*with_members(a_gang(3)), *with_members(a_gang(1, "two")))
    assert (held(scenario), len(scenario.app("two").allocations)) == (2, 0)
    assert waits(scenario.send(*with_members(a_gang(1, "three"))))["three/workers"][0] == "SKIPPED"


def test_a_gang_larger_than_the_queue_maximum_is_rejected() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=2000)), nodes=3)
    assert "it can never be reserved" in rejection(scenario.send(a_gang(3)))


def test_a_gang_without_task_groups_is_rejected() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    event = a_gang(3)
    effects = rejection(scenario.send(replace(event, spec=replace(event.spec, members=()))))
    assert effects.startswith("gangPlacement is Direct, but no task groups were sent")


def test_no_later_gang_starts_before_a_gang_that_waits_for_headroom() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=4000)), nodes=3)
    scenario.submit(an_application("busy"), *(an_ask(f"b{index}") for index in range(2)))
    effects = scenario.send(*with_members(a_gang(3)))
    assert waits(effects)[KEY][0] == "SKIPPED"
    effects = scenario.send(*with_members(a_gang(1, "late")))
    assert "queued behind gang app" in waits(effects)["late/workers"][1]
    assert placed(scenario.release("b0", "busy")).keys() == {"app-r0"}
    assert (held(scenario), held(scenario, "late")) == (2, 0)


# -- taken back --------------------------------------------------------------------


def test_unused_placeholders_expire_without_a_message() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), a_gang(3, timeout_s=60), nodes=1)
    scenario.ask(member("r0"))
    scenario.wait(59)
    assert held(scenario) == 2
    effects = scenario.wait(2)
    assert answers(effects) == []
    assert states(effects) == []
    assert held(scenario) == 0
    assert scenario.app().gang.groups[WORKERS].timed_out == 2
    assert placed(scenario.ask(member("r1"))) == {"r1": "n0"}


def test_a_gang_without_members_completes_after_its_timeout() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), a_gang(3, timeout_s=60), nodes=1)
    assert states(scenario.wait(2)) == ["Running"], "the request of its first member was expected within a second"
    assert held(scenario) == 3
    assert states(scenario.wait(60)) == ["Completing"]
    assert states(scenario.wait(60)) == ["Completed"]


def test_a_gang_whose_members_were_cancelled_completes_after_its_timeout() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), *with_members(a_gang(3, timeout_s=60)))
    scenario.release_ask("app-r0")
    scenario.add_node("n0")
    assert held(scenario) == 3, "another member may come"
    assert states(scenario.wait(61)) == ["Completing"]
    assert states(scenario.wait(60)) == ["Completed"]


def test_unused_placeholders_are_deleted_when_the_last_member_has_ended() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), a_gang(3), nodes=1)
    scenario.ask(member("r0"))
    assert states(scenario.release("r0")) == ["Completing"]
    assert held(scenario) == 0, "another member is a new run"
    assert scenario.partition.placed == {}
    effects = scenario.wait(31)
    assert states(effects) == ["Completed"]
    assert answers(effects) == []


def test_a_removed_application_releases_placeholders_without_a_message() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), a_gang(3), nodes=1)
    scenario.ask(member("r0"))
    effects = scenario.remove("app")
    assert releases(effects) == {"r0": Termination.STOPPED_BY_RM}
    assert scenario.partition.placed == {}
    assert allocated(scenario) == 0


def test_an_application_removed_while_waiting_leaves_nothing_pending() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), a_gang(5), nodes=1)
    assert released_asks(scenario.remove("app")) == {}
    assert scenario.partition.queues.root.pending == NOTHING


def test_the_resource_manager_cannot_release_virtual_placeholders() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(*with_members(a_gang(3)), *with_members(a_gang(3, "waits")))
    scenario.release_ask("waits-r0", "waits")
    why, app = Termination.STOPPED_BY_RM, ApplicationId("app")
    everything = AllocationReleased(PARTITION, app, None, None, why)
    by_key = replace(everything, key=AllocationKey(KEY))
    by_name = replace(everything, id=AllocationId(f"{KEY}-0"))
    asks = AskReleased(PARTITION, ApplicationId("waits"), None, why)
    assert scenario.send(by_key, by_name, asks) == []
    assert held(scenario) == 2
    assert scenario.app("waits").placeholder_asks == 1
    assert releases(scenario.send(everything)) == {"app-r0": why}
    assert refused_asks(scenario.ask(an_ask("waits/workers", app="waits"))) == {
        "waits/workers": "waits/workers is the scheduler's own key"
    }
    assert sum(scenario.scheduler_state.ignored.values()) == 3


def test_a_placeholder_ask_of_a_direct_gang_is_released() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), a_gang(5), nodes=1)
    effects = scenario.ask(an_ask("p0", group="workers", placeholder=True))
    assert released_asks(effects) == {"p0": Termination.TIMEOUT}
