"""An Atomic gang gets all its placeholders at once; until then nothing is held for it."""

from __future__ import annotations

from dataclasses import replace

from muster_core.model.config import Timing
from muster_core.model.effects import PlacementsProposed
from muster_core.model.events import (
    AllocationReleased,
    AllocationReported,
    ApplicationAdded,
    AskAdded,
    CallbacksDeclared,
    ManagerRegistered,
    PlacementsEvaluated,
    RecoveryBarrierPassed,
)
from muster_core.model.ids import AllocationKey, Termination
from muster_core.model.resources import NOTHING
from muster_core.model.specs import AskSpec, GangPlacement, GangStyle
from tests.unit.builders import (
    PARTITION,
    RM,
    SECOND,
    a_configuration,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.scheduling.scene import Scene, notices, placed, released_asks, releases, states, waits

CONFIGURATION = a_configuration(a_queue("a"), a_queue("b"))


def a_gang(
    members: int,
    name: str = "app",
    *,
    queue: str = "root.a",
    style: GangStyle = GangStyle.SOFT,
    timeout_s: int = 0,
    wait_s: int = 0,
) -> ApplicationAdded:
    spec = an_application(name, queue=queue, gang=members, style=style, timeout_s=timeout_s, wait_s=wait_s)
    return ApplicationAdded(replace(spec, gang_placement=GangPlacement.ATOMIC))


def placeholders(first: int, last: int, app: str = "app") -> list[AskSpec]:
    keys = (f"{app}-p{index}" for index in range(first, last))
    return [an_ask(key, app=app, group="workers", placeholder=True) for key in keys]


def a_placeholder(key: str, node: str, app: str = "app", allocated_s: int = 0) -> AllocationReported:
    spec = an_allocation(key, node, app=app, group="workers", placeholder=True, allocated_s=allocated_s)
    return AllocationReported(spec)


def test_all_placeholders_get_their_places_in_one_answer() -> None:
    scene = Scene(CONFIGURATION, nodes=2)
    said = scene.gang(a_gang(5), 5)
    assert len(placed(said)) == 5
    assert states(said) == ["Accepted", "Running"]


def test_not_one_has_a_place_while_they_do_not_all_fit() -> None:
    scene = Scene(CONFIGURATION, nodes=1)
    said = scene.gang(a_gang(5), 5)
    assert placed(said) == {}
    state, reason = waits(said)["app-p0"]
    assert (state, "4 of 5 members of task group workers fit" in reason) == ("FAILED", True)
    assert not scene.partition.contention.holding
    assert len(placed(scene.add_node("n1", vcore=1000))) == 5


def test_not_one_has_a_place_before_all_were_asked_for() -> None:
    scene = Scene(CONFIGURATION, nodes=2)
    scene.tell(a_gang(3))
    assert placed(scene.ask(*placeholders(0, 2))) == {}
    assert len(placed(scene.ask(*placeholders(2, 3)))) == 3


def test_room_that_an_atomic_gang_waits_for_is_there_for_others() -> None:
    scene = Scene(a_configuration(a_queue("a", vcore=6000), a_queue("b")), nodes=1)
    scene.gang(a_gang(5), 5)
    assert scene.app().gang.quota_reservation == NOTHING
    scene.tell(ApplicationAdded(an_application("plain")))
    assert len(placed(scene.ask(*(an_ask(f"r{index}", app="plain") for index in range(4))))) == 4


def test_a_gang_that_starves_is_promised_the_head_room_as_any_other() -> None:
    timing = Timing(starvation_age_ns=60 * SECOND)
    scene = Scene(a_configuration(a_queue("a", vcore=6000), timing=timing), nodes=1)
    scene.gang(a_gang(5), 5)
    scene.wait(61)
    assert scene.app().gang.quota_reservation == resources(vcore=5000, pods=5)


def test_of_two_gangs_with_room_for_one_both_finish_one_after_the_other() -> None:
    scene = Scene(CONFIGURATION, nodes=1)
    scene.gang(a_gang(3, "one"), 3)
    assert placed(scene.gang(a_gang(3, "two", queue="root.b"), 3)) == {}
    said = [effect for index in range(3) for effect in scene.release(f"one-p{index}", "one")]
    assert len(placed(said)) == 3
    assert states(said, "two") == ["Running"]


def test_a_gang_that_reserves_its_places_one_by_one_leaves_an_atomic_one_alone() -> None:
    scene = Scene(CONFIGURATION, nodes=1, vcore=2000)
    scene.add_full_node()
    scene.gang(ApplicationAdded(an_application("part", gang=4)), 4)
    assert scene.app("part").gang.reserved["vcore"] == 2000
    scene.add_node("n1", vcore=1000)
    scene.gang(a_gang(3, "whole", queue="root.b"), 3)
    said = scene.add_node("n2", vcore=5000)
    assert len([key for key in placed(said) if key.startswith("whole")]) == 3


def test_members_that_are_never_asked_for_run_into_the_clock() -> None:
    scene = Scene(CONFIGURATION, nodes=2)
    scene.tell(a_gang(3, timeout_s=60, style=GangStyle.HARD))
    scene.ask(*placeholders(0, 2))
    scene.wait(59)
    assert scene.app().state == "Accepted"
    said = scene.wait(2)
    assert states(said) == ["Failing", "Failed"]
    assert set(released_asks(said).values()) == {Termination.TIMEOUT}


def test_a_gang_that_was_asked_for_whole_waits_for_room_without_a_clock() -> None:
    scene = Scene(CONFIGURATION, nodes=1)
    scene.gang(a_gang(5, timeout_s=60, style=GangStyle.HARD), 5)
    assert states(scene.wait(1000)) == []
    assert scene.app().state == "Accepted"


def test_a_member_that_is_called_off_has_the_whole_time_to_be_asked_for_again() -> None:
    scene = Scene(CONFIGURATION, nodes=1)
    scene.gang(a_gang(5, timeout_s=60), 5)
    scene.wait(50)
    scene.release_ask("app-p0")
    assert states(scene.wait(50)) == []
    assert states(scene.wait(11)) == ["Resuming", "Accepted"]


def test_the_clock_of_the_placeholders_begins_with_their_places() -> None:
    scene = Scene(CONFIGURATION, nodes=1)
    scene.gang(a_gang(5, timeout_s=60), 5)
    scene.wait(100)
    scene.add_node("n1")
    assert releases(scene.wait(59)) == {}
    assert len(releases(scene.wait(2))) == 5


def test_a_gang_that_waited_for_its_room_in_vain_has_the_outcome_of_its_style() -> None:
    scene = Scene(CONFIGURATION, nodes=1)
    scene.gang(a_gang(5, wait_s=60), 5)
    said = scene.wait(61)
    assert states(said) == ["Resuming", "Accepted"]
    assert len(released_asks(said)) == 5
    assert len(placed(scene.ask(*(an_ask(f"r{index}", group="workers") for index in range(5))))) == 4


def test_after_a_restart_what_is_bound_stays_and_the_rest_is_placed_whole() -> None:
    scene = Scene(CONFIGURATION)
    scene.tell(ManagerRegistered(RM, CONFIGURATION, fenced=True), a_gang(4))
    scene.add_node(
        "n0", *(a_placeholder(f"app-p{index}", "n0", allocated_s=990).spec for index in range(2)), vcore=3000
    )
    scene.tell(*map(AskAdded, placeholders(2, 4)))
    assert placed(scene.tell(RecoveryBarrierPassed(RM))) == {}, "there is room for one of the two"
    assert placed(scene.add_node("n1", vcore=1000)).keys() == {"app-p2", "app-p3"}
    assert scene.app().state == "Running"


def test_a_recovered_gang_takes_no_part_of_the_rest_and_keeps_no_room_on_a_node_for_it() -> None:
    scene = Scene(CONFIGURATION)
    scene.tell(ManagerRegistered(RM, CONFIGURATION, fenced=True), a_gang(4, timeout_s=3600))
    scene.add_node("n0", a_placeholder("app-p0", "n0", allocated_s=990).spec, vcore=3000)
    scene.tell(*map(AskAdded, placeholders(1, 4)), RecoveryBarrierPassed(RM))
    scene.wait(600)
    assert scene.app().gang.reserved == resources(vcore=1000, pods=1)
    assert not scene.partition.reservations


def test_a_member_bound_by_others_calls_the_placeholders_off() -> None:
    scene = Scene(CONFIGURATION, nodes=1)
    scene.gang(a_gang(5), 5)
    said = scene.tell(AllocationReported(an_allocation("r0", "n0", group="workers")))
    assert len(released_asks(said)) == 5
    assert scene.app().state == "Running"


def test_a_bound_pod_that_cannot_be_verified_counts_and_calls_no_placeholder_off() -> None:
    scene = Scene(CONFIGURATION, nodes=1)
    scene.gang(a_gang(5), 5)
    said = scene.tell(AllocationReported(replace(an_allocation("r0", "n0"), unverified=True)))
    assert not released_asks(said)
    assert scene.app().is_reserving
    assert scene.app().allocated == resources(vcore=1000, pods=1)
    scene.add_node("n1", vcore=8000)
    assert scene.app().state == "Running"
    ended = AllocationKey("r0")
    scene.tell(AllocationReleased(PARTITION, scene.app().id, ended, None, Termination.STOPPED_BY_RM))
    assert scene.app().allocated == NOTHING


def test_if_one_place_is_refused_by_the_resource_manager_none_is_given() -> None:
    scene = Scene(CONFIGURATION, nodes=2)
    scene.tell(CallbacksDeclared(RM, True, False))
    said = scene.gang(a_gang(3), 3)
    [asked] = [effect for effect in said if isinstance(effect, PlacementsProposed)]
    assert placed(scene.tell(PlacementsEvaluated(RM, asked.number, ("", "no", "")))) == {}
    assert scene.app().allocations == {}


def test_a_gang_that_no_empty_cluster_could_hold_is_warned_of() -> None:
    scene = Scene(CONFIGURATION, nodes=1)
    [said] = notices(scene.gang(a_gang(5), 5))
    assert said.startswith("even an empty cluster could not hold the gang")
