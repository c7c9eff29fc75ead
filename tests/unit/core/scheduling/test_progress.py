"""Every cycle makes progress with any time budget, and an attempt costs the same for any number of waiting requests."""

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
    Timing,
)
from muster_core.model.constraints import ANYWHERE, Constraints
from muster_core.model.events import (
    AllocationReleased,
    ApplicationAdded,
    AskAdded,
    Event,
    ManagerRegistered,
    NodeAdded,
    NodeUpdated,
)
from muster_core.model.ids import AllocationKey, ApplicationId, PartitionId, Termination, parent_path, partition_id
from muster_core.model.limits import LOOKS_PER_ATTEMPT, MOST_RESTARTS
from muster_core.model.specs import GangPlacement
from muster_core.placement import pods
from muster_core.scheduling import requeue
from muster_core.scheduling.scheduler import CyclePhase, CycleResult, cycle, step
from muster_core.state import ordering
from muster_core.state.scheduler_state import SchedulerState
from muster_core.state.scheduling_queue import MembersDoNotFit
from tests.unit.builders import (
    PARTITION,
    RM,
    SECOND,
    a_configuration,
    a_limit,
    a_node,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
)
from tests.unit.core.scheduling.scenario import Scenario, placed, states, waits

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
    scenario = Scenario(a_configuration(*queues), NodeAdded(a_node("n", 10_000_000, pods=100_000)))
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
    scenario.submit(an_application("busy", queue="root.busy"), *(an_ask(f"b{index}") for index in range(4)))
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


# -- Backoff of applications with many unschedulable requests (application.unschedasks.backoff).


def sleepy(vcore: int | None = None) -> Scenario:
    """After two requests without a node an application backs off for 30 s; the only node has 1 core."""
    policies = QueuePolicies(backoff_after=2, backoff_delay_ns=30 * SECOND)
    scenario = Scenario(a_configuration(a_queue("a", vcore=vcore, policies=policies)), nodes=1, vcore=1000)
    scenario.submit(an_application("x"))
    return scenario


def test_an_application_is_not_tried_until_its_backoff_expires() -> None:
    scenario = sleepy()
    scenario.ask(*(an_ask(f"x{index}", app="x") for index in range(3)))
    assert scenario.app("x").backoff_until_ns == scenario.now_ns + 30 * SECOND
    assert placed(scenario.add_node("n1")) == {}
    assert placed(scenario.ask(an_ask("late", app="x"))) == {}
    assert placed(scenario.wait(29)) == {}
    assert placed(scenario.wait(2)).keys() == {"x1", "x2", "late"}
    assert scenario.app("x").backoff_until_ns == 0


def test_fewer_unschedulable_asks_than_the_threshold_cause_no_backoff() -> None:
    scenario = sleepy()
    scenario.ask(*(an_ask(f"x{index}", app="x") for index in range(2)))
    assert scenario.app("x").backoff_until_ns == 0
    assert placed(scenario.add_node("n1")).keys() == {"x1"}


def test_asks_that_exceed_a_quota_cause_no_backoff() -> None:
    scenario = sleepy(vcore=500)
    scenario.ask(*(an_ask(f"x{index}", app="x", vcore=400) for index in range(4)))
    assert scenario.app("x").backoff_until_ns == 0
    assert placed(scenario.release("x0", "x")).keys() == {"x1"}


def test_backoff_does_not_affect_other_applications_of_the_leaf() -> None:
    scenario = sleepy()
    scenario.ask(*(an_ask(f"x{index}", app="x") for index in range(3)))
    scenario.submit(an_application("y"), an_ask("y0"))
    assert placed(scenario.add_node("n1", vcore=1000)).keys() == {"y0"}


def test_an_application_backs_off_again_after_an_unsuccessful_attempt() -> None:
    scenario = sleepy()
    scenario.ask(*(an_ask(f"x{index}", app="x") for index in range(3)))
    scenario.wait(31)
    assert scenario.app("x").backoff_until_ns > scenario.now_ns


# -- An event requeues only the applications that it may have made schedulable.

_LEAVES = 8
_SSD = Constraints(node_selector=(("disk", "ssd"),))


def full_cluster(*queues: QueueConfig, nodes: int = 4, constraints: Constraints = ANYWHERE) -> Scenario:
    """16 cores of one application; in each of eight leaves five applications of as many users wait for one core."""
    leaves = queues or tuple(a_queue(f"q{index}") for index in range(_LEAVES))
    scenario = Scenario(a_configuration(*leaves), nodes=nodes)
    scenario.submit(an_application("busy", queue="root.q0"), *(an_ask(f"b{index}") for index in range(16)))
    for index in range(_LEAVES * 5):
        name = f"app{index}"
        spec = an_application(name, queue=f"root.q{index % _LEAVES}", user=f"user{index // _LEAVES}")
        scenario.send(ApplicationAdded(spec), AskAdded(an_ask(name, app=name, constraints=constraints)))
    return scenario


def tried(scenario: Scenario, *events: Event) -> tuple[int, int]:
    """Number of applications that were tried after the events, and of allocated requests."""
    effects = [effect for event in events for effect in step(scenario.scheduler_state, event, scenario.now_ns)]
    steps: list[CyclePhase] = []
    effects += cycle(scenario.scheduler_state, scenario.now_ns, lambda: True, steps.append).effects
    return steps.count(CyclePhase.NODE), len(placed(effects))


def opened(scenario: Scenario, *events: Event) -> int:
    """Number of blocking reasons that may no longer apply after the events."""
    for event in events:
        step(scenario.scheduler_state, event, scenario.now_ns)
    requeue.absorb(scenario.partition)
    scenario.partition.scheduling.backoff.begin(scenario.now_ns, has_news=True)
    requeue.open_some(scenario.partition)
    return sum(entry in scenario.partition.scheduling.backoff for _, entry in scenario.partition.blocking_reasons)


def released(key: str) -> AllocationReleased:
    return AllocationReleased(PARTITION, ApplicationId("busy"), AllocationKey(key), None, Termination.STOPPED_BY_RM)


def test_freed_resources_requeue_only_the_application_that_gets_them() -> None:
    assert tried(full_cluster(), released("b3")) == (1, 1)


def test_a_node_too_small_for_all_applications_requeues_none() -> None:
    assert tried(full_cluster(), NodeAdded(a_node("small", 900))) == (0, 0)


def test_an_unsuitable_node_requeues_no_application() -> None:
    scenario = full_cluster(constraints=_SSD)
    assert tried(scenario, NodeAdded(a_node("disk"))) == (0, 0)
    assert tried(scenario, NodeUpdated(a_node("disk", 1000, labels={"disk": "ssd"}))) == (1, 1)


def test_nodes_of_which_none_has_enough_of_all_resources_open_no_blocking_reason() -> None:
    added = NodeAdded(a_node("no-slots", pods=0)), NodeAdded(a_node("no-cores", 500))
    assert opened(full_cluster(), *added) == 0
    assert opened(full_cluster(), *added, NodeAdded(a_node("both", 1000))) == 1


def test_a_node_without_a_requested_label_opens_no_blocking_reason() -> None:
    assert opened(full_cluster(constraints=_SSD), NodeAdded(a_node("disk", labels={"disk": "hdd"}))) == 0
    assert opened(full_cluster(constraints=_SSD), NodeAdded(a_node("disk", labels={"disk": "ssd"}))) == 1


def test_any_number_of_different_requests_is_compared_with_the_nodes() -> None:
    scenario = full_cluster()
    scenario.ask(*(an_ask(f"more{cores}", app="app0", vcore=2000 + cores) for cores in range(70)))
    added = NodeAdded(a_node("no-slots", 8000, pods=0)), NodeAdded(a_node("no-cores", 500))
    assert opened(scenario, *added) == 0


def test_a_new_ask_is_tried_alone() -> None:
    scenario = full_cluster()
    assert tried(scenario, AskAdded(an_ask("more", app="app7"))) == (1, 0)
    assert tried(scenario, AskAdded(an_ask("tiny", app="app7", vcore=0))) == (1, 1)


def test_free_quota_is_tried_by_one_more_application_than_fits() -> None:
    leaves = [a_queue(f"q{index}", vcore=0) for index in range(1, _LEAVES)]
    scenario = full_cluster(a_queue("q0", vcore=16_000), *leaves, nodes=8)
    assert tried(scenario, released("b0")) == (2, 1)
    assert tried(scenario, released("b1"), released("b2")) == (3, 2)


def test_resources_released_by_a_user_requeue_no_other_user() -> None:
    leaves = [a_queue(f"q{index}") for index in range(_LEAVES)]
    scenario = Scenario(a_configuration(*leaves, limits=(a_limit(users=("*",), vcore=1000),)), nodes=8)
    for index in range(_LEAVES * 2):
        name = f"app{index}"
        spec = an_application(name, queue=f"root.q{index % _LEAVES}", user=f"user{index % 4}")
        scenario.send(ApplicationAdded(spec), AskAdded(an_ask(name, app=name)))
    running = [app for app in scenario.partition.applications.values() if app.allocations]
    [first] = [app.id for app in running if app.spec.user == "user2"]
    event = AllocationReleased(PARTITION, first, AllocationKey(first), None, Termination.STOPPED_BY_RM)
    assert tried(scenario, event) == (2, 1)  # the second pod of the user no longer fits


def test_a_gang_placed_at_once_is_tried_only_when_all_members_may_fit() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=2)
    scenario.submit(an_application("busy", queue="root.a"), *(an_ask(f"b{index}") for index in range(8)))
    for name in ("one", "two"):
        scenario.gang(an_application(name, gang=3, placement=GangPlacement.AUTO), 3)
    assert tried(scenario, released("b0")) == (0, 0)
    assert tried(scenario, released("b1")) == (0, 0)
    assert tried(scenario, released("b2")) == (2, 3)  # the second attempt places the member that is there


def test_many_nodes_added_together_requeue_all_fitting_applications() -> None:
    scenario = full_cluster()
    nodes = [NodeAdded(a_node(f"new{index}", 1000)) for index in range(60)]
    assert tried(scenario, *nodes)[1] == _LEAVES * 5


# -- A cycle inspects what changed, stops when its time budget is used up, and skips no application.


def passes(scenario: Scenario) -> list[CycleResult]:
    """Run cycles with an expired time budget until no work is left."""
    results: list[CycleResult] = []
    while not results or results[-1].more:
        results.append(cycle(scenario.scheduler_state, scenario.now_ns, never))
        assert len(results) < 100, "a pass that never ends"
    return results


def test_passes_without_time_reach_the_last_application_of_a_leaf() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2)
    for index in range(8):
        app = f"app{index}"
        vcore = 1000 if index in (3, 7) else 9000
        step(scenario.scheduler_state, ApplicationAdded(an_application(app)), scenario.now_ns)
        step(scenario.scheduler_state, AskAdded(an_ask("r0", app=app, vcore=vcore)), scenario.now_ns)
    results = passes(scenario)
    assert [app for app in range(8) if scenario.app(f"app{app}").allocations] == [3, 7]
    assert sum(len(waits(result.effects)) for result in results) == 6


def test_the_reported_quota_includes_allocations_of_the_same_pass() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=2500)), nodes=1)
    effects = scenario.submit(an_application(), *(an_ask(f"r{index}", vcore=1000) for index in range(3)))
    assert set(placed(effects)) == {"r0", "r1"}
    state, why = waits(effects)["r2"]
    assert state == "SKIPPED"
    assert "Not enough queue quota: root.a, requested cpu 1, available 500m of 2500m" in why


def test_passes_without_time_proceed_past_gangs_that_wait_for_resources() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=2000)
    scenario.add_full_node()
    for index in range(6):
        step(scenario.scheduler_state, ApplicationAdded(an_application(f"gang{index}", gang=5)), scenario.now_ns)
        for member in range(5):
            ask = an_ask(f"p{member}", app=f"gang{index}", group="workers", placeholder=True)
            step(scenario.scheduler_state, AskAdded(ask), scenario.now_ns)
    step(scenario.scheduler_state, ApplicationAdded(an_application("last")), scenario.now_ns)
    step(scenario.scheduler_state, AskAdded(an_ask("r0", app="last", vcore=500)), scenario.now_ns)
    step(scenario.scheduler_state, NodeAdded(a_node("n1", 500)), scenario.now_ns)
    effects = [effect for result in passes(scenario) for effect in result.effects]
    assert placed(effects) == {"p0": "n0", "p1": "n0", "r0": "n1"}


def test_more_asks_than_one_attempt_places_are_all_placed() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=400_000)
    scenario.send(NodeAdded(a_node("big", 900_000, pods=1000)))
    effects = scenario.submit(an_application(), *(an_ask(f"r{index}") for index in range(700)))
    assert len(placed(effects)) == 700


def test_more_members_than_one_attempt_replaces_are_all_replaced() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), NodeAdded(a_node("big", 900_000, pods=1000)))
    scenario.gang(an_application(gang=600), 600)
    scenario.ask(*(an_ask(f"r{index}", group="workers") for index in range(600)))
    assert sum(ask.replacement is not None for ask in scenario.app().asks.values()) == 600


def test_an_unschedulable_gang_is_tried_again_when_it_starves() -> None:
    timing = Timing(starvation_age_ns=60 * SECOND)
    scenario = Scenario(a_configuration(a_queue("a", vcore=4000), timing=timing), nodes=2)
    scenario.submit(an_application("busy"), *(an_ask(f"b{index}") for index in range(2)))
    scenario.gang(an_application("gang", gang=3), 3)
    assert not scenario.app("gang").gang.quota_reservation
    scenario.wait(61)
    assert scenario.app("gang").gang.quota_reservation["vcore"] == 1000


def test_early_real_asks_are_placed_when_the_reservation_completes() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    effects = scenario.submit(
        an_application(gang=2),
        an_ask("r0", group="workers"),
        an_ask("extra"),
        *(an_ask(f"p{index}", group="workers", placeholder=True) for index in range(2)),
    )
    assert states(effects) == ["Accepted", "Running"]
    assert "extra" in placed(effects)
    assert scenario.app().asks[an_ask("r0").key].replacement is not None
