"""The work for large changes depends only on what changes. Work is counted, not time."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from types import FrameType
from typing import NoReturn

import pytest

from muster_core.model.config import Timing
from muster_core.model.constraints import InterPodConstraints, Target, TargetOperator, TopologySpreadConstraint
from muster_core.model.effects import AllocationResponse, ApplicationSummarized, Effect, TimerSet
from muster_core.model.events import (
    AllocationReleased,
    AllocationReported,
    ApplicationAdded,
    ApplicationRemoved,
    AskAdded,
    AskReleased,
    ConfigurationReplaced,
    Event,
    NodeAdded,
    TimerKind,
)
from muster_core.model.ids import AllocationKey, ApplicationId, Termination
from muster_core.model.limits import PODS_PER_PART
from muster_core.model.specs import NO_PROPERTIES, GangPlacement, PodProperties
from muster_core.scheduling import invariants
from muster_core.scheduling.scheduler import CyclePhase, cycle, step, step_part
from muster_core.state.applications import Application
from tests.unit.builders import (
    PARTITION,
    RM,
    SECOND,
    a_configuration,
    a_node,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.function_calls import CallCounter, most_calls
from tests.unit.core.scheduling.many_pods import APP, FIRST_SELECTOR, PODS, REMOVED, large
from tests.unit.core.scheduling.preemption_scenario import with_preemption
from tests.unit.core.scheduling.scenario import Scenario, UncheckedScenario, placed, released_asks, releases

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


def test_a_configuration_of_queues_tries_only_applications_that_have_no_quota() -> None:
    """Of pods that wait for a node, a maximum that suffices changes nothing; one that does not changes the reason."""
    scenario = a_full_cluster(60)
    assert tried(scenario, limited(NODES * 1000)) == (0, 0)
    assert tried(scenario, limited(999)) == (60, 0)
    assert tried(scenario, limited(1000)) == (60, 0)
    assert tried(scenario, limited(1000), *map(released, ("short3", "short4")))[1] == 1


def limited(vcore: int) -> Event:
    """`root.b` gets this maximum."""
    return ConfigurationReplaced(RM, a_configuration(a_queue("a"), a_queue("b", vcore=vcore)))


def next_to_gang() -> Scenario:
    """Half of every node is used by short pods; a gang larger than the cluster waits."""
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=NODES, vcore=2000)
    members = NODES * 2 + 1
    scenario.send(*(event for index in range(NODES) for event in short(f"short{index}")))
    gang = an_application("gang", queue="root.b", gang=members, placement=GangPlacement.AUTO)
    scenario.gang(gang, members)
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
    scenario.submit(an_application("gang", gang=members, each=each, placement=placement))
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


GUARANTEED = resources(vcore=10**6)


def test_d16_an_ended_pod_below_a_guarantee_does_not_walk_the_leaves_that_do_not_wait() -> None:
    def calls(leaves: int) -> int:
        parent = replace(a_queue("p", *(a_queue(f"q{index}") for index in range(leaves))), guaranteed=GUARANTEED)
        scenario = UncheckedScenario(with_preemption(parent, a_queue("b")), nodes=1)
        scenario.send(
            ApplicationAdded(an_application("short0", queue="root.p.q0")), AskAdded(an_ask("short0", app="short0"))
        )
        scenario.submit(an_application("large", queue="root.b"), an_ask("large", vcore=9000))
        return calls_of(scenario, released("short0"))

    assert calls(500) == calls(20)


def test_d16_leaves_that_preemption_did_not_help_get_their_timers_in_parts() -> None:
    many = 600
    poor = replace(a_queue("p", *(a_queue(f"q{index}") for index in range(many))), guaranteed=GUARANTEED)
    scenario = UncheckedScenario(with_preemption(poor, a_queue("a")), nodes=1, vcore=1000)
    scenario.send(*short("short0"))
    for index in range(many):
        scenario.submit(
            an_application(f"w{index}", queue=f"root.p.q{index}"), an_ask(f"w{index}", vcore=2000, priority=-1)
        )
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
    scenario = UncheckedScenario(a_configuration(a_queue("a", vcore=10**8), a_queue("b")))
    scenario.add_node("n0", vcore=3000)
    scenario.submit(an_application("app"), an_ask("r", vcore=10))
    scenario.add_node("large", vcore=40_000)
    scenario.submit(
        an_application("gang", gang=8, each=resources(vcore=5000, pods=1)),
        *(an_ask(f"p{i}", vcore=5000, group="workers", placeholder=True) for i in range(7)),
    )
    assert scenario.app("gang").gang.granted
    partition = scenario.partition
    partition.applications = NotWalked(partition.applications)
    step(scenario.scheduler_state, AllocationReported(an_allocation("r", "n0", vcore=12)), scenario.now_ns)
    assert scenario.app("app").allocated == resources(vcore=12, pods=1)


def test_d18_the_release_of_a_request_with_many_allocations_grows_with_their_number_only() -> None:
    def calls(count: int) -> int:
        scenario = UncheckedScenario(a_configuration(a_queue("a")), nodes=10, vcore=100_000)
        scenario.submit(an_application(), an_ask("r", count=count))
        assert len(scenario.app().allocations) == count
        released_all = AllocationReleased(
            PARTITION, ApplicationId("app"), AllocationKey("r"), None, Termination.STOPPED_BY_RM
        )
        with CallCounter() as counter:
            step(scenario.scheduler_state, released_all, scenario.now_ns)
        assert not scenario.app().allocations
        return counter.calls

    assert calls(800) < 2.2 * calls(400)


# -- The resource usage of an application is counted by instance type and reported when it completes.


def a_scenario(*types: str) -> Scenario:
    """A node of four cores for each instance type."""
    scenario = Scenario(a_configuration(a_queue("a"), timing=Timing(completing_timeout_ns=SECOND)))
    for number, kind in enumerate(types):
        node = a_node(f"n{number}")
        scenario.send(NodeAdded(replace(node, attributes={"si/instance-type": kind} if kind else {})))
    return scenario


def summary(effects: list[Effect]) -> ApplicationSummarized:
    [found] = [effect for effect in effects if isinstance(effect, ApplicationSummarized)]
    return found


def test_resource_time_is_counted_by_node_type() -> None:
    scenario = a_scenario("large", "")
    submitted = scenario.now_ns
    scenario.submit(an_application(), an_ask("r0", vcore=3000), an_ask("r1", vcore=2000))
    scenario.wait(10)
    scenario.release("r0")
    scenario.release("r1")
    found = summary(scenario.wait(2))
    assert {kind: amounts["vcore"] for kind, amounts in found.used.items()} == {"large": 30_000, "UNKNOWN": 20_000}
    assert (found.preempted, found.placeholders) == ({}, {})
    assert found.times_ns == (submitted, submitted, submitted + 11 * SECOND)


def test_placeholder_usage_is_counted_separately() -> None:
    scenario = a_scenario("large")
    scenario.gang(an_application(gang=1), 1)
    scenario.wait(5)
    scenario.ask(an_ask("r0", group="workers"))
    scenario.release("app-p0", why=Termination.PLACEHOLDER_REPLACED)
    scenario.wait(7)
    scenario.release("r0")
    found = summary(scenario.wait(2))
    assert found.placeholders["large"]["vcore"] == 5_000
    assert found.used["large"]["vcore"] == 7_000
    assert found.state == "Completed"


def test_a_rejected_application_used_nothing_and_has_no_summary() -> None:
    scenario = a_scenario("large")
    scenario.submit(an_application())
    effects = scenario.submit(an_application())
    assert not [effect for effect in effects if isinstance(effect, ApplicationSummarized)]


# -- What a pod costs the core from its request to its allocation. Function calls are counted, not time. The bounds
# are a few percent above the present numbers. A change that exceeds one makes each pod more expensive.

ASKED_PODS = 500
SELECTOR = (Target("si/pod-label/app", TargetOperator.IN, ("it",)),)
SPREAD = PodProperties(inter_pod=InterPodConstraints(spread=(TopologySpreadConstraint("zone", 5, SELECTOR, ""),)))


def calls_per_pod(applications: int, facts: PodProperties = NO_PROPERTIES) -> float:
    """Sends the requests of all applications, each in its own leaf, then runs cycles until all have a node."""
    leaves = [a_queue(f"q{number}") for number in range(applications)]
    scenario = Scenario(a_configuration(*leaves))
    for number in range(20):
        scenario.send(NodeAdded(a_node(f"n{number}", ASKED_PODS * 100, labels={"zone": f"{number % 3}"})))
    names = [f"app{number}" for number in range(applications)]
    scenario.send(
        *(ApplicationAdded(an_application(name, queue=f"root.q{number}")) for number, name in enumerate(names))
    )
    like = replace(an_ask("like", vcore=100, tags={"si/pod-label/app": "it"}), facts=facts)
    asks = [
        AskAdded(replace(like, key=AllocationKey(f"{number}"), application=ApplicationId(names[number % applications])))
        for number in range(ASKED_PODS)
    ]
    effects = []
    with CallCounter() as counter:
        for event in asks:
            effects += step(scenario.scheduler_state, event, scenario.now_ns)
        effects += cycle(scenario.scheduler_state, scenario.now_ns, lambda: True).effects
    assert len(placed(effects)) == ASKED_PODS
    return counter.calls / ASKED_PODS


@pytest.mark.parametrize(
    "applications, facts, most",
    [
        pytest.param(5, NO_PROPERTIES, 90, id="many pods of few applications"),
        pytest.param(ASKED_PODS, NO_PROPERTIES, 700, id="one pod in each of many leaves"),
        pytest.param(5, SPREAD, 208, id="many pods with a spread constraint"),
    ],
)
def test_a_pod_takes_few_function_calls(applications: int, facts: PodProperties, most: int) -> None:
    assert calls_per_pod(applications, facts) <= most


# -- An event about many pods is applied in parts, so that the process does other work in between. Calls are
# counted.

STOPPED = Termination.STOPPED_BY_RM
HOST = "kubernetes.io/hostname"


def parts_of(scenario: Scenario, event: Event) -> Iterator[list[Effect]]:
    yield step_part(scenario.scheduler_state, event, scenario.now_ns)
    while scenario.scheduler_state.unfinished is not None:
        yield step_part(scenario.scheduler_state, event, scenario.now_ns)


CANCELLED = AskReleased(PARTITION, APP, None, STOPPED)
RELEASED = AllocationReleased(PARTITION, APP, None, None, STOPPED)


@pytest.mark.parametrize("event", [REMOVED, CANCELLED, RELEASED], ids=["removal", "cancellation", "release"])
def test_d19_no_part_of_an_event_about_many_pods_grows_with_their_number(event: Event) -> None:
    (small, _), (most, parts) = (most_calls(parts_of(large(pods), event)) for pods in (PODS_PER_PART, PODS))
    assert len(parts) >= 3
    assert most <= 2.1 * small


@pytest.mark.parametrize("event", [REMOVED, CANCELLED, RELEASED], ids=["removal", "cancellation", "release"])
def test_d19_between_two_parts_the_state_is_consistent_and_all_pods_are_confirmed_at_the_end(event: Event) -> None:
    scenario, effects = large(), list[Effect]()
    for part in parts_of(scenario, event):
        effects += part
        assert invariants.check(scenario.scheduler_state) == []
    whole = step(large().scheduler_state, event, scenario.now_ns)
    assert releases(effects) == releases(whole)
    assert released_asks(effects) == released_asks(whole)
    assert len(releases(effects)) == (0 if event is CANCELLED else PODS)
    assert len(released_asks(effects)) == (0 if event is RELEASED else PODS)


def test_d19_a_cycle_or_another_event_completes_the_event_first() -> None:
    scenario = large()
    effects = step_part(scenario.scheduler_state, REMOVED, scenario.now_ns)
    assert scenario.scheduler_state.unfinished is not None
    effects += step(scenario.scheduler_state, ApplicationAdded(an_application()), scenario.now_ns)
    assert len(releases(effects)) == PODS
    assert not scenario.app().removed
    scenario = large()
    step_part(scenario.scheduler_state, REMOVED, scenario.now_ns)
    cycle(scenario.scheduler_state, scenario.now_ns, lambda: True)
    assert not scenario.app().allocations


def test_d20_the_first_selector_counts_the_labels_of_all_pods_in_parts() -> None:
    scenario = large()
    scenario.add_node("free", vcore=1000)
    small, _ = most_calls(parts_of(large(PODS_PER_PART), FIRST_SELECTOR))
    most, parts = most_calls(parts_of(scenario, FIRST_SELECTOR))
    assert len(parts) >= 5
    assert most <= 2.1 * small
    assert invariants.check(scenario.scheduler_state) == []
    scenario.now_ns += SECOND
    result = cycle(scenario.scheduler_state, scenario.now_ns, lambda: True)
    assert placed(result.effects) == {"first": "free"}
    assert all(isinstance(effect, AllocationResponse) for effect in result.effects if placed([effect]))
