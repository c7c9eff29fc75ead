"""An Atomic gang gets all its placeholders at the same time; until then nothing is reserved for it."""

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
from tests.unit.core.scheduling.scenario import Scenario, notices, placed, released_asks, releases, states, waits

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


def test_all_placeholders_are_allocated_together() -> None:
    scenario = Scenario(CONFIGURATION, nodes=2)
    effects = scenario.gang(a_gang(5), 5)
    assert len(placed(effects)) == 5
    assert states(effects) == ["Accepted", "Running"]


def test_no_placeholder_is_allocated_while_not_all_fit() -> None:
    scenario = Scenario(CONFIGURATION, nodes=1)
    effects = scenario.gang(a_gang(5), 5)
    assert placed(effects) == {}
    state, reason = waits(effects)["app-p0"]
    assert (state, "4 of 5 members of task group workers fit" in reason) == ("FAILED", True)
    assert not scenario.partition.contention.holding
    assert len(placed(scenario.add_node("n1", vcore=1000))) == 5


def test_no_placeholder_is_allocated_before_all_are_requested() -> None:
    scenario = Scenario(CONFIGURATION, nodes=2)
    scenario.send(a_gang(3))
    assert placed(scenario.ask(*placeholders(0, 2))) == {}
    assert len(placed(scenario.ask(*placeholders(2, 3)))) == 3


def test_resources_that_an_atomic_gang_waits_for_stay_free_for_others() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=6000), a_queue("b")), nodes=1)
    scenario.gang(a_gang(5), 5)
    assert scenario.app().gang.quota_reservation == NOTHING
    scenario.send(ApplicationAdded(an_application("plain")))
    assert len(placed(scenario.ask(*(an_ask(f"r{index}", app="plain") for index in range(4))))) == 4


def test_a_starving_atomic_gang_reserves_quota() -> None:
    timing = Timing(starvation_age_ns=60 * SECOND)
    scenario = Scenario(a_configuration(a_queue("a", vcore=6000), timing=timing), nodes=1)
    scenario.gang(a_gang(5), 5)
    scenario.wait(61)
    assert scenario.app().gang.quota_reservation == resources(vcore=5000, pods=5)


def test_two_gangs_with_resources_for_one_finish_one_after_another() -> None:
    scenario = Scenario(CONFIGURATION, nodes=1)
    scenario.gang(a_gang(3, "one"), 3)
    assert placed(scenario.gang(a_gang(3, "two", queue="root.b"), 3)) == {}
    effects = [effect for index in range(3) for effect in scenario.release(f"one-p{index}", "one")]
    assert len(placed(effects)) == 3
    assert states(effects, "two") == ["Running"]


def test_a_partially_reserved_gang_does_not_block_an_atomic_one() -> None:
    scenario = Scenario(CONFIGURATION, nodes=1, vcore=2000)
    scenario.add_full_node()
    scenario.gang(ApplicationAdded(an_application("part", gang=4)), 4)
    assert scenario.app("part").gang.reserved["vcore"] == 2000
    scenario.add_node("n1", vcore=1000)
    scenario.gang(a_gang(3, "whole", queue="root.b"), 3)
    effects = scenario.add_node("n2", vcore=5000)
    assert len([key for key in placed(effects) if key.startswith("whole")]) == 3


def test_an_atomic_gang_with_missing_requests_times_out() -> None:
    scenario = Scenario(CONFIGURATION, nodes=2)
    scenario.send(a_gang(3, timeout_s=60, style=GangStyle.HARD))
    scenario.ask(*placeholders(0, 2))
    scenario.wait(59)
    assert scenario.app().state == "Accepted"
    effects = scenario.wait(2)
    assert states(effects) == ["Failing", "Failed"]
    assert set(released_asks(effects).values()) == {Termination.TIMEOUT}


def test_a_completely_requested_gang_waits_without_a_timeout() -> None:
    scenario = Scenario(CONFIGURATION, nodes=1)
    scenario.gang(a_gang(5, timeout_s=60, style=GangStyle.HARD), 5)
    assert states(scenario.wait(1000)) == []
    assert scenario.app().state == "Accepted"


def test_releasing_a_member_ask_starts_the_full_timeout() -> None:
    scenario = Scenario(CONFIGURATION, nodes=1)
    scenario.gang(a_gang(5, timeout_s=60), 5)
    scenario.wait(50)
    scenario.release_ask("app-p0")
    assert states(scenario.wait(50)) == []
    assert states(scenario.wait(11)) == ["Resuming", "Accepted"]


def test_the_placeholder_timer_starts_with_the_allocations() -> None:
    scenario = Scenario(CONFIGURATION, nodes=1)
    scenario.gang(a_gang(5, timeout_s=60), 5)
    scenario.wait(100)
    scenario.add_node("n1")
    assert releases(scenario.wait(59)) == {}
    assert len(releases(scenario.wait(2))) == 5


def test_a_soft_gang_resumes_after_the_wait_timeout() -> None:
    scenario = Scenario(CONFIGURATION, nodes=1)
    scenario.gang(a_gang(5, wait_s=60), 5)
    effects = scenario.wait(61)
    assert states(effects) == ["Resuming", "Accepted"]
    assert len(released_asks(effects)) == 5
    assert len(placed(scenario.ask(*(an_ask(f"r{index}", group="workers") for index in range(5))))) == 4


def test_after_a_restart_the_unbound_placeholders_are_placed_atomically() -> None:
    scenario = Scenario(CONFIGURATION)
    scenario.send(ManagerRegistered(RM, CONFIGURATION, awaits_barrier=True), a_gang(4))
    scenario.add_node(
        "n0", *(a_placeholder(f"app-p{index}", "n0", allocated_s=990).spec for index in range(2)), vcore=3000
    )
    scenario.send(*map(AskAdded, placeholders(2, 4)))
    assert placed(scenario.send(RecoveryBarrierPassed(RM))) == {}, "there is room for one of the two"
    assert placed(scenario.add_node("n1", vcore=1000)).keys() == {"app-p2", "app-p3"}
    assert scenario.app().state == "Running"


def test_a_recovered_atomic_gang_reserves_no_partial_resources() -> None:
    scenario = Scenario(CONFIGURATION)
    scenario.send(ManagerRegistered(RM, CONFIGURATION, awaits_barrier=True), a_gang(4, timeout_s=3600))
    scenario.add_node("n0", a_placeholder("app-p0", "n0", allocated_s=990).spec, vcore=3000)
    scenario.send(*map(AskAdded, placeholders(1, 4)), RecoveryBarrierPassed(RM))
    scenario.wait(600)
    assert scenario.app().gang.reserved == resources(vcore=1000, pods=1)
    assert not scenario.partition.reservations


def test_a_member_bound_by_others_releases_the_placeholder_asks() -> None:
    scenario = Scenario(CONFIGURATION, nodes=1)
    scenario.gang(a_gang(5), 5)
    effects = scenario.send(AllocationReported(an_allocation("r0", "n0", group="workers")))
    assert len(released_asks(effects)) == 5
    assert scenario.app().state == "Running"


def test_an_unverified_bound_pod_counts_and_releases_no_placeholder_ask() -> None:
    scenario = Scenario(CONFIGURATION, nodes=1)
    scenario.gang(a_gang(5), 5)
    effects = scenario.send(AllocationReported(replace(an_allocation("r0", "n0"), unverified=True)))
    assert not released_asks(effects)
    assert scenario.app().is_reserving
    assert scenario.app().allocated == resources(vcore=1000, pods=1)
    scenario.add_node("n1", vcore=8000)
    assert scenario.app().state == "Running"
    ended = AllocationKey("r0")
    scenario.send(AllocationReleased(PARTITION, scenario.app().id, ended, None, Termination.STOPPED_BY_RM))
    assert scenario.app().allocated == NOTHING


def test_no_placeholder_is_allocated_if_the_resource_manager_rejects_one() -> None:
    scenario = Scenario(CONFIGURATION, nodes=2)
    scenario.send(CallbacksDeclared(RM, True, False))
    effects = scenario.gang(a_gang(3), 3)
    [proposed] = [effect for effect in effects if isinstance(effect, PlacementsProposed)]
    assert placed(scenario.send(PlacementsEvaluated(RM, proposed.number, ("", "no", "")))) == {}
    assert scenario.app().allocations == {}


def test_a_gang_larger_than_the_empty_cluster_is_reported() -> None:
    scenario = Scenario(CONFIGURATION, nodes=1)
    [effects] = notices(scenario.gang(a_gang(5), 5))
    assert effects.startswith("the gang would not fit even in an empty cluster")
