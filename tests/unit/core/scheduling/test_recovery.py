"""The reports after a restart restore the state."""

from dataclasses import replace

import pytest

from muster_core.model.config import QueueConfig, Timing
from muster_core.model.effects import AllocationResponse, Effect, SchedulingStateChanged
from muster_core.model.events import (
    AllocationReported,
    ApplicationAdded,
    AskAdded,
    ManagerRegistered,
    RecoveryBarrierPassed,
)
from muster_core.model.ids import RECOVERY, QueuePath, Termination
from muster_core.model.specs import GangStyle
from muster_core.state.queues import Queue
from tests.unit.builders import RM, SECOND, a_configuration, a_queue, an_allocation, an_application, an_ask, resources
from tests.unit.core.scheduling.scenario import Scenario, placed, released_asks, releases, states

TIMEOUT = Termination.TIMEOUT


def awaits_barrier(timing: Timing | None = None) -> Scenario:
    """A resource manager registers again and has not reported anything yet."""
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b"), timing=timing))
    scenario.send(
        ManagerRegistered(RM, a_configuration(a_queue("a"), a_queue("b"), timing=timing), awaits_barrier=True)
    )
    return scenario


def bound_placeholder(key: str, node: str, app: str = "app", allocated_s: int = 0) -> AllocationReported:
    """A bound placeholder."""
    spec = an_allocation(key, node, app=app, group="workers", placeholder=True, allocated_s=allocated_s)
    return AllocationReported(spec)


def refused(effects: list[Effect]) -> dict[str, str]:
    answers = [effect for effect in effects if isinstance(effect, AllocationResponse)]
    return {one.key: one.reason for answer in answers for one in answer.rejected_allocations}


def test_a_due_timer_fires_only_after_recovery() -> None:
    scenario = awaits_barrier()
    scenario.submit(an_application(gang=2, timeout_s=60, style=GangStyle.HARD))
    scenario.add_node("n0", an_allocation("p0", "n0", group="workers", placeholder=True, allocated_s=1))
    assert scenario.wait(5) == []
    scenario.add_node("n1", an_allocation("r1", "n1", group="workers"))
    assert scenario.app().state == "Running"
    passed = scenario.send(RecoveryBarrierPassed(RM))
    assert releases(passed) == {"p0": TIMEOUT}, "left over: its time is up"
    assert states(passed) == []


def test_a_hard_gang_whose_timer_expired_fails_after_recovery() -> None:
    scenario = awaits_barrier()
    scenario.submit(an_application(gang=2, timeout_s=60, style=GangStyle.HARD))
    scenario.add_node("n0", an_allocation("p0", "n0", group="workers", placeholder=True, allocated_s=1))
    scenario.wait(5)
    assert states(scenario.send(RecoveryBarrierPassed(RM))) == ["Failing"]


def test_timers_of_an_older_registration_do_not_affect_newer_applications() -> None:
    timing = Timing(completing_timeout_ns=30 * SECOND)
    configuration = a_configuration(a_queue("a"), timing=timing)
    scenario = Scenario(configuration, nodes=1)
    for pause in (20, 20):
        scenario.submit(an_application(), an_ask("r0"))
        assert states(scenario.release("r0")) == ["Completing"]
        assert states(scenario.wait(pause)) == []
        scenario.send(ManagerRegistered(RM, configuration))
        scenario.add_node("n0")


def test_a_partially_reserved_recovered_gang_can_be_taken_over() -> None:
    scenario = awaits_barrier()
    scenario.add_full_node()
    scenario.submit(an_application("old", gang=4, created_s=2))
    scenario.add_node("n0", *(bound_placeholder(f"p{i}", "n0", "old").spec for i in range(2)), vcore=2000)
    scenario.send(RecoveryBarrierPassed(RM))
    first = an_application("first", queue="root.b", gang=2, created_s=1)
    effects = scenario.gang(first, 2)
    assert set(releases(effects).values()) == {Termination.PREEMPTED_BY_SCHEDULER}


def test_a_recovered_gang_starves_like_any_other() -> None:
    timing = Timing(starvation_age_ns=60 * SECOND)
    scenario = Scenario(a_configuration(a_queue("a", vcore=4000), timing=timing), nodes=1)
    scenario.send(ApplicationAdded(an_application("gang", gang=3)), ApplicationAdded(an_application("busy")))
    scenario.add_node(
        "n1",
        bound_placeholder("p0", "n1", "gang").spec,
        *(an_allocation(f"b{i}", "n1", app="busy") for i in range(3)),
    )
    scenario.ask(*(an_ask(f"p{i}", app="gang", group="workers", placeholder=True) for i in (1, 2)))
    assert not scenario.app("gang").gang.quota_reservation
    scenario.wait(61)
    assert scenario.app("gang").gang.quota_reservation == resources(vcore=2000, pods=2)


def test_a_member_bound_by_others_releases_the_missing_placeholder_asks() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=2000)
    scenario.add_full_node()
    scenario.gang(an_application(gang=4), 4)
    scenario.add_node("n1", vcore=500)
    effects = scenario.report(an_allocation("r0", "n1", vcore=500))
    assert released_asks(effects) == {"app-p2": TIMEOUT, "app-p3": TIMEOUT}
    assert scenario.app().state == "Running"
    assert scenario.app().placeholder_asks == 0


def test_an_unverified_bound_pod_counts_and_releases_no_placeholder_ask() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=2000)
    scenario.add_full_node()
    scenario.gang(an_application(gang=4), 4)
    scenario.add_node("n1", vcore=500)
    pod = replace(an_allocation("r0", "n1", vcore=500), unverified=True)
    assert not released_asks(scenario.report(pod))
    assert scenario.app().is_reserving
    assert scenario.app().allocated == resources(vcore=500, pods=1)


def test_several_allocations_of_one_key_are_all_recovered() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), an_application())
    second = AllocationReported(an_allocation("many", "n0", identity="many-1"))
    assert refused(scenario.add_node("n0", an_allocation("many", "n0"), second.spec)) == {}
    assert scenario.app().allocated == resources(vcore=2000, pods=2)
    assert scenario.send(second) == [], "told once more it is the same one"
    assert scenario.app().allocated == resources(vcore=2000, pods=2)


def test_an_identity_is_not_given_to_a_second_allocation() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), an_application(), nodes=1)
    scenario.report(an_allocation("other", "n0", identity="r0-0"))
    effects = scenario.ask(an_ask("r0"))
    assert placed(effects) == {"r0": "n0"}
    assert set(scenario.app().allocations) == {"r0-0", "r0-1"}


def test_two_applications_may_use_the_same_key_on_one_node() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    for app in ("one", "two"):
        scenario.submit(an_application(app), an_ask("r0"))
    assert states(scenario.release("r0", "one"), "one") == ["Completing"]
    assert set(scenario.app("two").allocations) == {"r0-0"}
    scenario.release("r0", "two")
    assert scenario.partition.placed == {}


def test_a_release_goes_to_its_application_and_not_to_a_foreign_allocation_of_the_same_identity() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.report(an_allocation("r0", "n0", app="", foreign=True))
    scenario.submit(an_application(), an_ask("r0"))
    scenario.release("r0", identity="r0-0")
    assert scenario.app().allocations == {}
    assert set(scenario.partition.foreign) == {"r0-0"}


def test_a_foreign_allocation_is_released_by_its_key_alone_whatever_its_identity() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.report(an_allocation("daemon", "n0", app="", foreign=True, identity="uid-7"))
    scenario.release("daemon", app="")
    assert scenario.partition.foreign == {}
    assert scenario.partition.nodes.available(an_allocation("x", "n0").node)["vcore"] == 4000


@pytest.mark.parametrize("app_style", list(GangStyle))
def test_a_reload_that_changes_nothing_for_a_recovered_gang_in_a_fair_leaf_leaves_it_alone(
    app_style: GangStyle,
) -> None:
    configuration = a_configuration(a_queue("a", fair=True))
    scenario = Scenario(configuration, nodes=1)
    scenario.send(ApplicationAdded(an_application(gang=2, forced=True, style=app_style)), bound_placeholder("p0", "n0"))
    assert states(scenario.reload(configuration)) == []
    done = scenario.send(AskAdded(an_ask("p1", group="workers", placeholder=True)))
    assert states(done) == ["Running"]


def test_an_allocation_reported_for_a_failing_application_is_released() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=2000)
    scenario.add_full_node()
    scenario.gang(an_application(gang=4, style=GangStyle.HARD, timeout_s=60), 4)
    assert states(scenario.wait(61)) == ["Failing"]
    scenario.add_node("n1")
    assert releases(scenario.report(an_allocation("late", "n1"))) == {"late": TIMEOUT}
    last = [scenario.release(key, why=TIMEOUT) for key in ("app-p0", "app-p1", "late")]
    assert [states(effects) for effects in last] == [[], [], ["Failed"]]


def test_a_placeholder_reported_while_resuming_is_released_too() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=2000)
    scenario.add_full_node()
    scenario.gang(an_application(gang=4, timeout_s=60), 4)
    assert states(scenario.wait(61)) == ["Resuming"]
    scenario.add_node("n1")
    assert releases(scenario.send(bound_placeholder("late", "n1"))) == {"late": TIMEOUT}
    last = [scenario.release(key, why=TIMEOUT) for key in ("app-p0", "app-p1", "late")]
    assert [states(effects) for effects in last] == [[], [], ["Accepted"]]


def test_the_run_time_of_an_application_continues_from_its_earliest_known_allocation() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), an_application(timeout_s=60))
    scenario.add_node("n0", an_allocation("r0", "n0", allocated_s=990), an_allocation("r1", "n0", allocated_s=960))
    assert states(scenario.wait(19)) == []
    assert states(scenario.wait(2)) == ["Failing"]


def test_a_waiting_member_replaces_a_placeholder_after_another_is_bound() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=1, vcore=1000)
    scenario.gang(an_application("holder", queue="root.b", gang=4), 4)
    scenario.submit(an_application(gang=4))
    scenario.add_node("n1", bound_placeholder("p0", "n1").spec, vcore=1500)
    assert releases(scenario.ask(an_ask("r0", group="workers"))) == {}
    bound = scenario.report(an_allocation("r1", "n1", vcore=500))
    assert releases(bound) == {"p0": Termination.PLACEHOLDER_REPLACED}


# -- The recovery queue counts recovered allocations and accepts nothing new; a reload moves applications out of it.


def recovered(*bound: str, gang: int = 0) -> Scenario:
    """An application of queue root.gone that had these pods and is recovered."""
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2)
    spec = replace(an_application(queue="root.gone", forced=True, gang=gang), tags={})
    scenario.submit(spec)
    scenario.send(*(AllocationReported(an_allocation(key, "n0")) for key in bound))
    return scenario


def reasons(effects: list[object]) -> list[str]:
    return [effect.reason for effect in effects if isinstance(effect, SchedulingStateChanged)]


def queue(scenario: Scenario, path: str) -> Queue:
    return scenario.partition.queues.by_path[QueuePath(path)]


def test_recovered_allocations_are_counted_in_the_recovery_queue() -> None:
    scenario = recovered("r0", "r1")
    assert scenario.app().queue.path == RECOVERY
    assert scenario.app().queue.allocated["vcore"] == 2000


def test_new_requests_wait_in_the_recovery_queue_with_the_queue_as_reason() -> None:
    scenario = recovered("r0")
    effects = scenario.ask(*(an_ask(f"new{number}") for number in range(6)))
    assert placed(effects) == {}
    assert set(reasons([*effects])) == {"queue root.gone does not exist"}
    assert placed(scenario.wait(3600)) == {}


def test_a_real_pod_replaces_a_recovered_placeholder() -> None:
    scenario = recovered(gang=1)
    scenario.report(an_allocation("p0", "n0", group="workers", placeholder=True))
    assert releases(scenario.ask(an_ask("r0", group="workers"))) == {"p0": Termination.PLACEHOLDER_REPLACED}
    assert placed(scenario.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {"r0": "n0"}


@pytest.mark.parametrize("requested", [0, 2])
def test_an_application_moves_to_its_queue_when_a_reload_adds_it(requested: int) -> None:
    scenario = recovered("r0")
    scenario.ask(*(an_ask(f"new{number}", priority=number) for number in range(requested)))
    effects = scenario.reload(a_configuration(a_queue("a"), a_queue("gone")))
    assert scenario.app().queue is queue(scenario, "root.gone")
    assert RECOVERY not in scenario.partition.queues.by_path
    assert len(placed(effects)) == requested
    assert queue(scenario, "root.gone").allocated["vcore"] == 1000 * (1 + requested)
    assert queue(scenario, "root").allocated["vcore"] == 1000 * (1 + requested)


def test_moving_an_application_without_allocations_creates_no_user_usage() -> None:
    scenario = recovered()
    scenario.reload(a_configuration(a_queue("a"), a_queue("gone")))
    assert scenario.app().queue is queue(scenario, "root.gone")
    assert scenario.partition.users.users == {}


def test_moved_allocations_count_towards_the_maximum_of_the_queue() -> None:
    scenario = recovered("r0", "r1")
    scenario.ask(an_ask("new"))
    small: QueueConfig = a_queue("gone", vcore=1000)
    effects = scenario.reload(a_configuration(a_queue("a"), small))
    assert (placed(effects), queue(scenario, "root.gone").allocated["vcore"]) == ({}, 2000)
    scenario.release("r0", why=Termination.STOPPED_BY_RM)
    assert placed(scenario.release("r1", why=Termination.STOPPED_BY_RM)) == {"new": "n0"}


def test_a_reload_without_the_queue_leaves_the_application_in_recovery() -> None:
    scenario = recovered("r0")
    scenario.reload(a_configuration(a_queue("a"), a_queue("b")))
    assert scenario.app().queue.path == RECOVERY
