"""Every cycle makes progress with any time budget, and an attempt costs the same for any number of waiting requests."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random  # noqa: TID251 # seeded
from types import CodeType, FrameType
from typing import Self

import pytest

from benchmarks import steady
from muster_core.model.config import (
    ALLOW_ALL,
    ApplicationOrder,
    Configuration,
    PartitionConfig,
    QueueConfig,
    QueuePolicies,
)
from muster_core.model.events import AllocationReleased, ApplicationAdded, AskAdded, ManagerRegistered, NodeAdded
from muster_core.model.ids import AllocationKey, ApplicationId, PartitionId, Termination, parent_path, partition_id
from muster_core.model.limits import LOOKS_PER_ATTEMPT, MOST_RESTARTS
from muster_core.placement import pods
from muster_core.scheduling import requeue
from muster_core.scheduling.scheduler import CycleResult, cycle, step
from muster_core.state import ordering
from muster_core.state.scheduler_state import SchedulerState
from muster_core.state.scheduling_queue import MembersDoNotFit
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
)
from tests.unit.core.scheduling.scenario import Scenario, placed

OTHER = partition_id(RM, "other")
#: Key computations that one attempt may cost: one per level for the first and for its rival, as the queue moves, and a
#: constant number where everything moved.
MOST_KEYS = 40


def never() -> bool:
    """The time of the cycle is up before its first attempt."""
    return False


class Counted:
    """Counts the keys that are computed while it is entered."""

    def __init__(self) -> None:
        self.calls: Counter[CodeType] = Counter()

    def __enter__(self) -> Self:
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self.calls[frame.f_code] += 1

    @property
    def keys(self) -> int:
        return self.calls[ordering.queue_key.__code__] + self.calls[ordering.application_key.__code__]


def waiting(scenario: Scenario, count: int, leaves: int) -> None:
    """This number of applications with one pod each wait, distributed over the leaves."""
    for index in range(count):
        name = f"w{index}"
        spec = an_application(name, queue=f"root.q{index % leaves}")
        step(scenario.scheduler_state, ApplicationAdded(spec), scenario.now_ns)
        step(scenario.scheduler_state, AskAdded(an_ask(name, app=name)), scenario.now_ns)


def many_applications(count: int, leaves: int, order: ApplicationOrder = ApplicationOrder.FIFO) -> Scenario:
    """A cluster with capacity for all of them."""
    policies = QueuePolicies(order=order)
    queues = [replace(a_queue(f"q{index}"), policies=policies) for index in range(leaves)]
    scenario = Scenario(a_configuration(*queues))
    scenario.send(NodeAdded(a_node("n", 10_000_000, pods=100_000)))
    waiting(scenario, count, leaves)
    return scenario


def two_partitions() -> SchedulerState:
    def root() -> QueueConfig:
        return QueueConfig("root", parent=True, children=(a_queue("a"),), submit_acl=ALLOW_ALL)

    scheduler_state = SchedulerState()
    configuration = Configuration((PartitionConfig("default", root()), PartitionConfig("other", root())))
    step(scheduler_state, ManagerRegistered(RM, configuration), SECOND)
    for partition in (PARTITION, OTHER):
        step(scheduler_state, NodeAdded(replace(a_node("n", 10_000_000, pods=100_000), partition=partition)), SECOND)
    return scheduler_state


def ask(scheduler_state: SchedulerState, partition: PartitionId, count: int) -> None:
    for index in range(count):
        app = f"{partition}{index}"
        step(scheduler_state, ApplicationAdded(replace(an_application(app), partition=partition)), SECOND)
        step(scheduler_state, AskAdded(replace(an_ask(app, app=app), partition=partition)), SECOND)


def attempts(count: int) -> Callable[[], bool]:
    """A time budget for this number of attempts after the first one."""
    left = iter(range(count))
    return lambda: next(left, None) is not None


def served(result: CycleResult) -> list[str]:
    """The applications with allocated requests."""
    return [key.rstrip("0123456789") for key in placed(result.effects)]


def test_a_cycle_without_time_still_makes_one_attempt_in_each_busy_partition() -> None:
    scheduler_state = two_partitions()
    ask(scheduler_state, PARTITION, 3)
    ask(scheduler_state, OTHER, 3)
    for _ in range(3):
        assert sorted(served(cycle(scheduler_state, SECOND, never))) == sorted([str(PARTITION), str(OTHER)])
    assert not cycle(scheduler_state, SECOND, never).more


def test_partitions_alternate_in_using_the_cycle_time() -> None:
    scheduler_state = two_partitions()
    ask(scheduler_state, PARTITION, 100)
    ask(scheduler_state, OTHER, 100)
    most: list[str] = []
    for _ in range(4):
        most += [name for name, _ in Counter(served(cycle(scheduler_state, SECOND, attempts(10)))).most_common(1)]
    assert most in ([PARTITION, OTHER] * 2, [OTHER, PARTITION] * 2)


def test_a_busy_partition_does_not_delay_another_one() -> None:
    scheduler_state = two_partitions()
    ask(scheduler_state, PARTITION, 50)
    ask(scheduler_state, OTHER, 1)
    first = cycle(scheduler_state, SECOND, never)
    assert first.more
    assert str(OTHER) in served(first)


@pytest.mark.parametrize("leaves", [1, 40, 400])
def test_a_cycle_without_time_places_one_pod_with_any_number_of_leaves(leaves: int) -> None:
    scenario = many_applications(400, leaves)
    for _ in range(5):
        assert len(placed(cycle(scenario.scheduler_state, scenario.now_ns, never).effects)) == 1


@pytest.mark.parametrize("order", list(ApplicationOrder))
@pytest.mark.parametrize("leaves", [1, 1000])
def test_an_attempt_computes_few_keys_with_any_number_of_applications(leaves: int, order: ApplicationOrder) -> None:
    scenario = many_applications(1000, leaves, order)
    for _ in range(50):  # changes during their arrival are applied step by step
        cycle(scenario.scheduler_state, scenario.now_ns, never)
    with Counted() as counted:
        for _ in range(20):
            assert len(placed(cycle(scenario.scheduler_state, scenario.now_ns, never).effects)) == 1
    assert counted.keys <= 20 * MOST_KEYS


@pytest.mark.parametrize("leaves", [1, 300])
def test_freed_resources_cost_few_keys_with_any_number_of_applications(leaves: int) -> None:
    scenario = Scenario(a_configuration(a_queue("busy"), *(a_queue(f"q{index}") for index in range(leaves))), nodes=1)
    scenario.send(ApplicationAdded(an_application("busy", queue="root.busy")))
    scenario.ask(*(an_ask(f"b{index}", app="busy") for index in range(4)))
    waiting(scenario, 300, leaves)
    scenario.send()
    busy = ApplicationId("busy")
    with Counted() as counted:
        for index in range(4):
            key = AllocationKey(f"b{index}")
            step(
                scenario.scheduler_state,
                AllocationReleased(PARTITION, busy, key, None, Termination.STOPPED_BY_RM),
                scenario.now_ns,
            )
            assert len(placed(cycle(scenario.scheduler_state, scenario.now_ns, lambda: True).effects)) == 1
    assert counted.keys <= 4 * MOST_KEYS + 300 * 2  # the first opening takes in once what moved before


def test_a_reload_requeues_a_part_in_each_cycle_and_the_first_application_is_still_tried_first() -> None:
    scenario = Scenario(a_configuration(*(a_queue(f"q{number:03}") for number in range(200))))
    for number in range(400):
        name = f"app{number}"
        step(
            scenario.scheduler_state,
            ApplicationAdded(an_application(name, queue=f"root.q{number % 200:03}")),
            scenario.now_ns,
        )
        step(scenario.scheduler_state, AskAdded(an_ask(f"p{number}", app=name, priority=number == 0)), scenario.now_ns)
    scenario.send()
    step(scenario.scheduler_state, NodeAdded(a_node("n0", 1000)), scenario.now_ns)
    scenario.partition.scheduling.requeue_all()
    scheduling = scenario.partition.scheduling
    cycles, effects = 0, []
    while scheduling.is_due:
        before = len(scheduling.requeued)
        result = cycle(scenario.scheduler_state, scenario.now_ns, never)
        assert len(scheduling.requeued) - before <= 64
        effects += result.effects
        cycles += 1
    assert cycles >= 400 // 64
    assert placed(effects) == {"p0": "n0"}


def test_requeued_applications_look_up_only_their_own_queues() -> None:
    scenario = Scenario(a_configuration(*(a_queue(f"q{number}") for number in range(200))))
    waiting(scenario, 200, 200)
    scenario.send()
    for app in scenario.partition.applications.values():
        scenario.partition.scheduling.mark_unschedulable(app, [MembersDoNotFit(app.id)])
    step(scenario.scheduler_state, NodeAdded(a_node("n0", 1)), scenario.now_ns)
    with Counted() as counted:
        cycle(scenario.scheduler_state, scenario.now_ns, never)
    assert counted.calls[parent_path.__code__] <= 3 * 200


def test_an_attempt_counts_only_its_own_request_class() -> None:
    """All request different amounts: an attempt evaluates only its own request class."""
    scenario = Scenario(a_configuration(a_queue("q0")), nodes=1, vcore=1)
    for index in range(200):
        name = f"w{index}"
        step(scenario.scheduler_state, ApplicationAdded(an_application(name, queue="root.q0")), scenario.now_ns)
        step(scenario.scheduler_state, AskAdded(an_ask(name, app=name, vcore=1000 + index)), scenario.now_ns)
    scenario.send()
    step(scenario.scheduler_state, NodeAdded(a_node("big", 10_000_000, pods=1000)), scenario.now_ns)
    with Counted() as counted:
        for _ in range(20):
            assert len(placed(cycle(scenario.scheduler_state, scenario.now_ns, never).effects)) == 1
    assert counted.calls[requeue._evaluate.__code__] <= 64 + 2 * 20  # counts work, not results


def test_a_plan_that_exceeds_its_time_continues_in_the_next_cycle() -> None:
    scenario = Scenario(a_configuration(a_queue("q0"), a_queue("q1")), nodes=1)
    step(scenario.scheduler_state, ApplicationAdded(an_application("many", queue="root.q0")), scenario.now_ns)
    step(scenario.scheduler_state, ApplicationAdded(an_application("behind", queue="root.q0")), scenario.now_ns)
    for index in range(12):
        step(scenario.scheduler_state, AskAdded(an_ask(f"m{index}", app="many", vcore=9000 + index)), scenario.now_ns)
    step(scenario.scheduler_state, AskAdded(an_ask("behind", app="behind")), scenario.now_ns)
    waiting_after: list[int] = []
    effects: list[str] = []
    for _ in range(3):
        effects += placed(cycle(scenario.scheduler_state, scenario.now_ns, never).effects)
        waiting_after.append(scenario.app("many").unplanned)
    assert waiting_after == [11, 10, 9]
    assert effects == []
    step(scenario.scheduler_state, ApplicationAdded(an_application("other", queue="root.q1")), scenario.now_ns)
    step(scenario.scheduler_state, AskAdded(an_ask("other", app="other")), scenario.now_ns)
    assert list(placed(cycle(scenario.scheduler_state, scenario.now_ns, lambda: True).effects)) == ["other"]
    assert scenario.app("many").unplanned == 9 - LOOKS_PER_ATTEMPT
    while (result := cycle(scenario.scheduler_state, scenario.now_ns, never)).more:
        effects += placed(result.effects)
    assert [*effects, *placed(result.effects)] == ["behind"]
    assert scenario.app("many").unplanned == 0


def test_a_plan_that_is_invalidated_three_times_runs_to_completion() -> None:
    scenario = Scenario(a_configuration(a_queue("q0")), nodes=1)
    step(scenario.scheduler_state, ApplicationAdded(an_application("many", queue="root.q0")), scenario.now_ns)
    for index in range(12):
        step(scenario.scheduler_state, AskAdded(an_ask(f"m{index}", app="many", vcore=9000 + index)), scenario.now_ns)
    cycles = 1
    while cycle(scenario.scheduler_state, scenario.now_ns, attempts(3)).more:
        scenario.partition.unschedulable_classes.clear()  # as when what all of them depend on changed
        cycles += 1
    assert cycles == MOST_RESTARTS + 2


@pytest.mark.parametrize("seed", range(5))
def test_leaves_are_scheduled_in_the_order_of_their_sorted_keys(seed: int) -> None:
    """Up to 64 queues are always in exact order, after any changes of applications and capacity."""
    random = Random(seed)
    leaves = 20
    queues = [a_queue(f"q{index}", guaranteed=random.choice((0, 2000, 5000))) for index in range(leaves)]
    scenario = Scenario(a_configuration(*queues), nodes=3)
    running: list[str] = []
    for number in range(120):
        name = f"w{number}"
        step(
            scenario.scheduler_state,
            ApplicationAdded(an_application(name, queue=f"root.q{random.randrange(leaves)}")),
            SECOND,
        )
        step(scenario.scheduler_state, AskAdded(an_ask(name, app=name, vcore=random.choice((500, 1000, 3000)))), SECOND)
        if running and random.random() < 0.3:
            gone = running.pop(random.randrange(len(running)))
            why = Termination.STOPPED_BY_RM
            step(
                scenario.scheduler_state,
                AllocationReleased(PARTITION, ApplicationId(gone), AllocationKey(gone), None, why),
                SECOND,
            )
        if random.random() < 0.2:
            step(scenario.scheduler_state, NodeAdded(a_node(f"more{number}")), SECOND)
        partition = scenario.partition
        leaf = partition.scheduling.next_leaf()
        active = [path for path in partition.scheduling.active.orders if partition.queues.by_path[path].is_leaf]
        keys = {path: (ordering.queue_key(partition, partition.queues.by_path[path]), path) for path in active}
        assert leaf is not None
        assert leaf.path == min(keys, key=keys.__getitem__)
        running += placed(cycle(scenario.scheduler_state, SECOND, never).effects)


def test_after_many_changes_only_the_queues_of_two_parents_are_compared() -> None:
    parents = [a_queue(f"p{parent}", *(a_queue(f"q{leaf}") for leaf in range(40))) for parent in range(10)]
    scenario = Scenario(a_configuration(*parents), nodes=1, vcore=100)
    names = [f"p{number % 10}.q{number // 10}" for number in range(400)]
    scenario.send(*(ApplicationAdded(an_application(name, queue=f"root.{name}")) for name in names))
    running = (an_allocation(f"{name}-pod", "n", app=name, vcore=10) for name in names)
    scenario.add_node("n", *running)
    scenario.ask(*(an_ask(f"{name}-ask", app=name, vcore=10_000) for name in names))
    [(reason, _)] = scenario.partition.blocking_reasons
    entry, queue = scenario.partition.blocking_reasons.entry(reason), scenario.partition.scheduling
    assert queue.first_of(entry) is scenario.app("p0.q0")
    for name in names[:299]:
        queue.moved(scenario.app(name).queue)
    with Counted() as counted:
        assert queue.first_of(entry) is scenario.app("p0.q0")
    assert counted.calls[ordering.queue_key.__code__] == 10 + 40


def test_an_ended_pod_plans_few_of_the_pods_with_a_claim_each_of_one_application() -> None:
    """Each pod of a StatefulSet is a class of its own."""
    made = steady.cluster("own-claims", 200, 20)
    made.wait(120)
    with Counted() as counted:
        changes = [made.end_pod(), made.taint(is_set=True)]
    assert max(change.attempts for change in changes) <= 10
    assert counted.calls[pods._PodSearch.place.__code__] <= len(changes) * 10 * LOOKS_PER_ATTEMPT
