"""What a restart reports puts the world where it was."""

from __future__ import annotations

import pytest

from muster_core.model.config import Timing
from muster_core.model.effects import AllocationResponse, Effect
from muster_core.model.events import (
    AllocationReported,
    ApplicationAdded,
    AskAdded,
    ConfigurationReplaced,
    ManagerRegistered,
    RecoveryBarrierPassed,
)
from muster_core.model.ids import Termination
from muster_core.model.specs import GangStyle
from tests.unit.builders import RM, SECOND, a_configuration, a_queue, an_allocation, an_application, an_ask, resources
from tests.unit.core.scheduling.scene import Scene, placed, released_asks, releases, states

TIMEOUT = Termination.TIMEOUT


def fenced(timing: Timing | None = None) -> Scene:
    """A resource manager registers anew and has told nothing yet."""
    scene = Scene(a_configuration(a_queue("a"), a_queue("b"), timing=timing))
    scene.tell(ManagerRegistered(RM, a_configuration(a_queue("a"), a_queue("b"), timing=timing), fenced=True))
    return scene


def held(key: str, node: str, app: str = "app", allocated_s: int = 0) -> AllocationReported:
    """A bound placeholder."""
    spec = an_allocation(key, node, app=app, group="workers", placeholder=True, allocated_s=allocated_s)
    return AllocationReported(spec)


def refused(effects: list[Effect]) -> dict[str, str]:
    answers = [effect for effect in effects if isinstance(effect, AllocationResponse)]
    return {one.key: one.reason for answer in answers for one in answer.rejected_allocations}


def test_a_clock_that_is_due_is_not_heard_before_everything_was_told() -> None:
    scene = fenced()
    scene.tell(ApplicationAdded(an_application(gang=2, timeout_s=60, style=GangStyle.HARD)))
    scene.add_node("n0", an_allocation("p0", "n0", group="workers", placeholder=True, allocated_s=1))
    assert scene.wait(5) == []
    scene.add_node("n1", an_allocation("r1", "n1", group="workers"))
    assert scene.app().state == "Running"
    passed = scene.tell(RecoveryBarrierPassed(RM))
    assert releases(passed) == {"p0": TIMEOUT}, "left over: its time is up"
    assert states(passed) == []


def test_a_hard_gang_whose_time_was_up_fails_when_the_fence_falls() -> None:
    scene = fenced()
    scene.tell(ApplicationAdded(an_application(gang=2, timeout_s=60, style=GangStyle.HARD)))
    scene.add_node("n0", an_allocation("p0", "n0", group="workers", placeholder=True, allocated_s=1))
    scene.wait(5)
    assert states(scene.tell(RecoveryBarrierPassed(RM))) == ["Failing"]


def test_clocks_of_an_older_registration_do_not_reach_the_applications_of_the_newer() -> None:
    timing = Timing(completing_timeout_ns=30 * SECOND)
    configuration = a_configuration(a_queue("a"), timing=timing)
    scene = Scene(configuration, nodes=1)
    for pause in (20, 20):
        scene.tell(ApplicationAdded(an_application()))
        scene.ask(an_ask("r0"))
        assert states(scene.release("r0")) == ["Completing"]
        assert states(scene.wait(pause)) == []
        scene.tell(ManagerRegistered(RM, configuration))
        scene.add_node("n0")


def test_a_recovered_gang_with_a_part_of_its_places_contends_like_one_of_this_session() -> None:
    scene = fenced()
    scene.add_full_node()
    scene.tell(ApplicationAdded(an_application("old", gang=4, created_s=2)))
    scene.add_node("n0", *(held(f"p{i}", "n0", "old").spec for i in range(2)), vcore=2000)
    scene.tell(RecoveryBarrierPassed(RM))
    first = an_application("first", queue="root.b", gang=2, created_s=1)
    said = scene.gang(ApplicationAdded(first), 2)
    assert set(releases(said).values()) == {Termination.PREEMPTED_BY_SCHEDULER}


def test_a_recovered_gang_starves_like_any_other() -> None:
    timing = Timing(starvation_age_ns=60 * SECOND)
    scene = Scene(a_configuration(a_queue("a", vcore=4000), timing=timing), nodes=1)
    scene.tell(ApplicationAdded(an_application("gang", gang=3)), ApplicationAdded(an_application("busy")))
    scene.add_node("n1", held("p0", "n1", "gang").spec, *(an_allocation(f"b{i}", "n1", app="busy") for i in range(3)))
    scene.ask(*(an_ask(f"p{i}", app="gang", group="workers", placeholder=True) for i in (1, 2)))
    assert not scene.app("gang").gang.quota_reservation
    scene.wait(61)
    assert scene.app("gang").gang.quota_reservation == resources(vcore=2000, pods=2)


def test_a_member_bound_by_others_while_the_gang_reserves_calls_the_missing_placeholders_off() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1, vcore=2000)
    scene.add_full_node()
    scene.gang(ApplicationAdded(an_application(gang=4)), 4)
    scene.add_node("n1", vcore=500)
    said = scene.tell(AllocationReported(an_allocation("r0", "n1", vcore=500)))
    assert released_asks(said) == {"app-p2": TIMEOUT, "app-p3": TIMEOUT}
    assert scene.app().state == "Running"
    assert scene.app().placeholder_asks == 0


def test_several_allocations_of_one_key_are_all_recovered() -> None:
    scene = Scene(a_configuration(a_queue("a")))
    scene.tell(ApplicationAdded(an_application()))
    second = AllocationReported(an_allocation("many", "n0", identity="many-1"))
    assert refused(scene.add_node("n0", an_allocation("many", "n0"), second.spec)) == {}
    assert scene.app().allocated == resources(vcore=2000, pods=2)
    assert scene.tell(second) == [], "told once more it is the same one"
    assert scene.app().allocated == resources(vcore=2000, pods=2)


def test_an_identity_is_not_given_to_a_second_allocation() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.tell(ApplicationAdded(an_application()))
    scene.tell(AllocationReported(an_allocation("other", "n0", identity="r0-0")))
    said = scene.ask(an_ask("r0"))
    assert placed(said) == {"r0": "n0"}
    assert set(scene.app().allocations) == {"r0-0", "r0-1"}


def test_two_applications_may_use_the_same_key_on_one_node() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    for app in ("one", "two"):
        scene.tell(ApplicationAdded(an_application(app)))
        scene.ask(an_ask("r0", app=app))
    assert states(scene.release("r0", "one"), "one") == ["Completing"]
    assert set(scene.app("two").allocations) == {"r0-0"}
    scene.release("r0", "two")
    assert scene.partition.placed == {}


def test_a_release_goes_to_its_application_and_not_to_a_foreign_allocation_of_the_same_identity() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.tell(AllocationReported(an_allocation("r0", "n0", app="", foreign=True)))
    scene.tell(ApplicationAdded(an_application()))
    scene.ask(an_ask("r0"))
    scene.release("r0", identity="r0-0")
    assert scene.app().allocations == {}
    assert set(scene.partition.foreign) == {"r0-0"}


def test_a_foreign_allocation_is_released_by_its_key_alone_whatever_its_identity() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.tell(AllocationReported(an_allocation("daemon", "n0", app="", foreign=True, identity="uid-7")))
    scene.release("daemon", app="")
    assert scene.partition.foreign == {}
    assert scene.partition.nodes.available(an_allocation("x", "n0").node)["vcore"] == 4000


@pytest.mark.parametrize("app_style", list(GangStyle))
def test_a_reload_that_changes_nothing_for_a_recovered_gang_in_a_fair_leaf_leaves_it_alone(
    app_style: GangStyle,
) -> None:
    configuration = a_configuration(a_queue("a", fair=True))
    scene = Scene(configuration, nodes=1)
    scene.tell(ApplicationAdded(an_application(gang=2, forced=True, style=app_style)), held("p0", "n0"))
    assert states(scene.tell(ConfigurationReplaced(RM, configuration))) == []
    done = scene.tell(AskAdded(an_ask("p1", group="workers", placeholder=True)))
    assert states(done) == ["Running"]


def test_what_is_reported_of_a_failing_application_is_told_to_go_too() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1, vcore=2000)
    scene.add_full_node()
    scene.gang(ApplicationAdded(an_application(gang=4, style=GangStyle.HARD, timeout_s=60)), 4)
    assert states(scene.wait(61)) == ["Failing"]
    scene.add_node("n1")
    assert releases(scene.tell(AllocationReported(an_allocation("late", "n1")))) == {"late": TIMEOUT}
    last = [scene.release(key, why=TIMEOUT) for key in ("app-p0", "app-p1", "late")]
    assert [states(said) for said in last] == [[], [], ["Failed"]]


def test_a_placeholder_reported_while_resuming_is_told_to_go_too() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1, vcore=2000)
    scene.add_full_node()
    scene.gang(ApplicationAdded(an_application(gang=4, timeout_s=60)), 4)
    assert states(scene.wait(61)) == ["Resuming"]
    scene.add_node("n1")
    assert releases(scene.tell(held("late", "n1"))) == {"late": TIMEOUT}
    last = [scene.release(key, why=TIMEOUT) for key in ("app-p0", "app-p1", "late")]
    assert [states(said) for said in last] == [[], [], ["Accepted"]]


def test_the_run_time_of_an_application_goes_on_from_its_earliest_known_allocation() -> None:
    scene = Scene(a_configuration(a_queue("a")))
    scene.tell(ApplicationAdded(an_application(timeout_s=60)))
    scene.add_node("n0", an_allocation("r0", "n0", allocated_s=990), an_allocation("r1", "n0", allocated_s=960))
    assert states(scene.wait(19)) == []
    assert states(scene.wait(2)) == ["Failing"]


def test_a_member_that_waits_is_swapped_in_when_another_is_reported_as_bound() -> None:
    scene = Scene(a_configuration(a_queue("a"), a_queue("b")), nodes=1, vcore=1000)
    scene.gang(ApplicationAdded(an_application("holder", queue="root.b", gang=4)), 4)
    scene.tell(ApplicationAdded(an_application(gang=4)))
    scene.add_node("n1", held("p0", "n1").spec, vcore=1500)
    assert releases(scene.ask(an_ask("r0", group="workers"))) == {}
    bound = scene.tell(AllocationReported(an_allocation("r1", "n1", vcore=500)))
    assert releases(bound) == {"p0": Termination.PLACEHOLDER_REPLACED}
