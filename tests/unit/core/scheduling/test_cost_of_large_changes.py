"""The work for large changes depends only on what changes. Work is counted, not time."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType
from typing import NoReturn

import pytest

from muster_core.model.effects import TimerSet
from muster_core.model.events import (
    AllocationReleased,
    AllocationReported,
    ApplicationAdded,
    ApplicationRemoved,
    AskAdded,
    Event,
    NodeAdded,
    TimerKind,
)
from muster_core.model.ids import AllocationKey, ApplicationId, Termination
from muster_core.model.specs import GangPlacement
from muster_core.scheduling.scheduler import CyclePhase, cycle, step
from muster_core.state.applications import Application
from tests.unit.builders import (
    PARTITION,
    a_configuration,
    a_node,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.function_calls import CallCounter
from tests.unit.core.scheduling.preemption_scenario import with_preemption
from tests.unit.core.scheduling.scenario import Scenario, placed

#: More nodes than are evaluated one by one when they change together.
NODES = 48


def tried(scenario: Scenario, *events: Event) -> tuple[int, int]:
    """Number of applications that were tried after the events, and of allocated requests."""
    effects = [effect for event in events for effect in step(scenario.scheduler_state, event, scenario.now_ns)]
    steps: list[CyclePhase] = []
    effects += cycle(scenario.scheduler_state, scenario.now_ns, lambda: True, steps.append).effects
    return steps.count(CyclePhase.NODE), len(placed(effects))


def short(name: str) -> list[Event]:
    """An application that takes a node of one core."""
    return [ApplicationAdded(an_application(name)), AskAdded(an_ask(name, app=name))]


def released(name: str) -> AllocationReleased:
    return AllocationReleased(PARTITION, ApplicationId(name), AllocationKey(name), None, Termination.STOPPED_BY_RM)


def a_full_cluster(waiting: int) -> Scenario:
    """Each node has a pod of a separate application, and this many applications wait for a node."""
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=NODES, vcore=1000)
    scenario.send(*(event for index in range(NODES) for event in short(f"short{index}")))
    scenario.send(*(ApplicationAdded(an_application(f"w{index}", queue="root.b")) for index in range(waiting)))
    scenario.send(*(AskAdded(an_ask(f"w{index}", app=f"w{index}")) for index in range(waiting)))
    return scenario


@pytest.mark.parametrize("waiting", [60, 120])
def test_an_unchanged_full_cluster_tries_no_application(waiting: int) -> None:
    scenario = a_full_cluster(waiting)
    assert tried(scenario) == (0, 0)


@pytest.mark.parametrize("waiting", [60, 120])
def test_one_deleted_and_one_added_pod_cause_two_attempts(waiting: int) -> None:
    scenario = a_full_cluster(waiting)
    assert tried(scenario, released("short3"), *short("late")) == (2, 1)


@pytest.mark.parametrize("waiting", [60, 120])
def test_attempts_after_many_pods_finish_match_the_allocations(waiting: int) -> None:
    scenario = a_full_cluster(waiting)
    ended = [ApplicationRemoved(PARTITION, ApplicationId(f"short{index}")) for index in range(NODES)]
    tries, places = tried(scenario, *ended)
    assert places == NODES
    assert tries <= NODES + 1


def next_to_gang() -> Scenario:
    """Half of every node is used by short pods; a gang larger than the cluster waits."""
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=NODES, vcore=2000)
    members = NODES * 2 + 1
    scenario.send(*(event for index in range(NODES) for event in short(f"short{index}")))
    gang = an_application("gang", queue="root.b", gang=members, placement=GangPlacement.AUTO)
    scenario.gang(ApplicationAdded(gang), members)
    return scenario


def test_a_gang_that_cannot_fit_is_not_retried_when_pods_replace_each_other() -> None:
    scenario = next_to_gang()
    for turn in range(5):
        names = [f"short{turn * NODES + index}" for index in range(NODES)]
        coming = [event for index in range(NODES) for event in short(f"short{(turn + 1) * NODES + index}")]
        assert tried(scenario, *map(released, names), *coming) == (NODES, NODES)
    assert scenario.app("gang").gang.searches == 1


def test_a_gang_that_could_not_fit_is_placed_when_resources_suffice() -> None:
    scenario = next_to_gang()
    for index in range(NODES - 1):
        assert tried(scenario, released(f"short{index}"))[1] == 0
    assert tried(scenario, released(f"short{NODES - 1}"))[1] == 0
    # The first attempt reserves, the second one places the member that is there.
    assert tried(scenario, NodeAdded(a_node("more", 1000))) == (2, NODES * 2 + 1)


def calls_for_one_pod(members: int) -> int:
    """Number of calls of Python functions that place one pod while a Reserve gang that fits on no node waits."""
    each, placement = resources(vcore=64_000, pods=1), GangPlacement.RESERVE
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=2, vcore=8000)
    scenario.send(ApplicationAdded(an_application("gang", gang=members, each=each, placement=placement)))
    names = [f"member-{number}" for number in range(members)]
    scenario.send(
        *(AskAdded(an_ask(name, app="gang", vcore=64_000, placeholder=True, group="workers")) for name in names)
    )
    assert tried(scenario, *short("first"))[1] == 1
    calls = 0

    def count(_frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        _, places = tried(scenario, released("first"), *short("second"))
    finally:
        sys.setprofile(None)
    assert places == 1
    return calls


def test_a_change_does_not_evaluate_the_single_members_of_a_waiting_gang() -> None:
    assert calls_for_one_pod(400) < 2 * calls_for_one_pod(20)


def calls_of(scenario: Scenario, *events: Event) -> int:
    """Number of function calls in the steps of the events and the cycle after them."""
    with CallCounter() as counter:
        for event in events:
            step(scenario.scheduler_state, event, scenario.now_ns)
        cycle(scenario.scheduler_state, scenario.now_ns, lambda: True)
    return counter.calls


class Unchecked(Scenario):
    """A scenario that does not check the sums after each event."""

    def _check(self) -> None:
        pass


GUARANTEED = resources(vcore=10**6)


def test_d16_an_ended_pod_below_a_guarantee_does_not_walk_the_leaves_that_do_not_wait() -> None:
    def calls(leaves: int) -> int:
        parent = replace(a_queue("p", *(a_queue(f"q{index}") for index in range(leaves))), guaranteed=GUARANTEED)
        scenario = Unchecked(with_preemption(parent, a_queue("b")), nodes=1)
        scenario.send(
            ApplicationAdded(an_application("short0", queue="root.p.q0")), AskAdded(an_ask("short0", app="short0"))
        )
        scenario.send(ApplicationAdded(an_application("large", queue="root.b")))
        scenario.ask(an_ask("large", app="large", vcore=9000))
        return calls_of(scenario, released("short0"))

    assert calls(500) == calls(20)


def test_d16_leaves_that_preemption_did_not_help_get_their_timers_in_parts() -> None:
    many = 600
    poor = replace(a_queue("p", *(a_queue(f"q{index}") for index in range(many))), guaranteed=GUARANTEED)
    scenario = Unchecked(with_preemption(poor, a_queue("a")), nodes=1, vcore=1000)
    scenario.send(*short("short0"))
    for index in range(many):
        scenario.send(ApplicationAdded(an_application(f"w{index}", queue=f"root.p.q{index}")))
        scenario.ask(an_ask(f"w{index}", app=f"w{index}", vcore=2000, priority=-1))
    scenario.wait(60)  # the searches find no victim
    idle = dict(scenario.partition.preemptions.idle)
    assert len(idle) == many
    step(scenario.scheduler_state, released("short0"), scenario.now_ns)
    timers, more = [], True
    while more:
        result = cycle(scenario.scheduler_state, scenario.now_ns, lambda: True)
        kinds = [effect.timer.kind for effect in result.effects if isinstance(effect, TimerSet)]
        timers.append(kinds.count(TimerKind.PREEMPTION))
        more = result.more
    assert max(timers) <= 256
    assert sum(timers) == many


class NotWalked(dict[ApplicationId, Application]):
    """Applications that nobody may walk."""

    def values(self) -> NoReturn:
        raise AssertionError("all applications are walked")


def test_d17_a_resized_pod_requeues_only_the_gangs_with_a_granted_quota_reservation() -> None:
    scenario = Unchecked(a_configuration(a_queue("a", vcore=10**8), a_queue("b")))
    scenario.add_node("n0", vcore=3000)
    scenario.send(ApplicationAdded(an_application("app")))
    scenario.ask(an_ask("r", vcore=10))
    scenario.add_node("large", vcore=40_000)
    scenario.send(ApplicationAdded(an_application("gang", gang=8, each=resources(vcore=5000, pods=1))))
    scenario.ask(*(an_ask(f"p{i}", app="gang", vcore=5000, group="workers", placeholder=True) for i in range(7)))
    assert scenario.app("gang").gang.granted
    partition = scenario.partition
    partition.applications = NotWalked(partition.applications)
    step(scenario.scheduler_state, AllocationReported(an_allocation("r", "n0", vcore=12)), scenario.now_ns)
    assert scenario.app("app").allocated == resources(vcore=12, pods=1)


def test_d18_the_release_of_a_request_with_many_allocations_grows_with_their_number_only() -> None:
    def calls(count: int) -> int:
        scenario = Unchecked(a_configuration(a_queue("a")), nodes=10, vcore=100_000)
        scenario.send(ApplicationAdded(an_application()))
        scenario.ask(an_ask("r", count=count))
        assert len(scenario.app().allocations) == count
        released_all = AllocationReleased(
            PARTITION, ApplicationId("app"), AllocationKey("r"), None, Termination.STOPPED_BY_RM
        )
        with CallCounter() as counter:
            step(scenario.scheduler_state, released_all, scenario.now_ns)
        assert not scenario.app().allocations
        return counter.calls

    assert calls(800) < 2.2 * calls(400)
