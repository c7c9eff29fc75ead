"""A failure does not affect others: failing applications and partitions back off, and no effect is lost."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from types import ModuleType

import pytest

from muster_core.gangs import planning
from muster_core.model.config import Configuration, QueuePolicies
from muster_core.model.effects import AllocationResponse, ApplicationRejected, Effect, Rejection, TimerSet
from muster_core.model.errors import InconsistentState
from muster_core.model.events import (
    AllocationReleased,
    AllocationReported,
    ApplicationAdded,
    ApplicationRemoved,
    AskAdded,
    ConfigurationReplaced,
    Event,
    ManagerRegistered,
    NodeAdded,
    RecoveryBarrierPassed,
    TimerKind,
)
from muster_core.model.ids import ApplicationId, NodeId, Termination, partition_id
from muster_core.model.limits import FAILURE_BACKOFF_MOST_NS
from muster_core.model.specs import AllocationSpec, GangPlacement, GangStyle, Topology
from muster_core.placement import pods
from muster_core.scheduling import applications, commit, invariants, ledger, lifecycle, scheduler, selectors
from muster_core.scheduling.scheduler import QueueAttempt, cycle, step
from muster_core.state.applications import Application
from muster_core.state.scheduler_state import Partition
from tests.amounts import amount
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
from tests.unit.core.scheduling.faults import FAULT, FaultAt, fault
from tests.unit.core.scheduling.preemption_scenario import with_preemption
from tests.unit.core.scheduling.random_events.simulated_core import Stage, Tally
from tests.unit.core.scheduling.scenario import Scenario, notices, placed, refused_asks, releases


class TolerantScenario(Scenario):
    """A scenario whose applications may raise; valid ones must stay valid. `failures`: the last reported ones."""

    failures: tuple[str, ...] = ()

    def _check(self) -> None:
        self.failures = (
            tuple(failure.subject for failure in self.scheduler_state.outbox.take_failures()) or self.failures
        )
        super()._check()


def is_bad(_partition: Partition, app: Application, *_: object) -> bool:
    return app.id == "bad"


def two_applications() -> TolerantScenario:
    scenario = TolerantScenario(a_configuration(a_queue("a"), a_queue("b")), nodes=2)
    for name, queue in (("bad", "root.a"), ("next", "root.a"), ("other", "root.b")):
        scenario.submit(an_application(name, queue=queue))
    return scenario


def test_an_application_whose_plan_raises_backs_off_and_others_are_placed() -> None:
    scenario = two_applications()
    with fault(pods, "plan_pods", is_bad):
        effects = scenario.ask(an_ask("x", app="bad"), an_ask("y", app="next"), an_ask("z", app="other"))
    assert set(placed(effects)) == {"y", "z"}
    [text] = notices(effects)
    assert text.startswith("application bad is not scheduled because of an internal error: ZeroDivisionError")
    assert "retry in 1 s" in text
    assert scenario.failures == ("application bad",)
    assert scenario.app("bad").backoff_until_ns == scenario.now_ns + SECOND


def test_the_backoff_doubles_up_to_its_limit_and_resets_on_success() -> None:
    scenario = two_applications()
    delays = []
    with fault(pods, "plan_pods", is_bad):
        scenario.ask(an_ask("x", app="bad"))
        for _ in range(12):
            delays.append(scenario.app("bad").backoff_until_ns - scenario.now_ns)
            assert placed(scenario.ask(an_ask("w", app="bad"))) == {}, "a new ask does not cut the back-off short"
            scenario.wait(delays[-1] / SECOND)
    assert delays[:4] == [SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND]
    assert max(delays) == delays[-1] == FAILURE_BACKOFF_MOST_NS
    assert set(placed(scenario.wait(FAILURE_BACKOFF_MOST_NS / SECOND))) == {"x", "w"}
    assert scenario.app("bad").failures == 0


def test_a_gang_whose_plan_raises_does_not_block_later_applications() -> None:
    scenario = TolerantScenario(a_configuration(a_queue("a", vcore=4000)), nodes=2)
    scenario.submit(an_application("before", queue="root.a"), an_ask("b"))
    large = an_application("bad", queue="root.a", gang=2, each=resources(vcore=2000, pods=1))
    scenario.gang(large, 2)
    assert scenario.app("bad").blocks, "it waits for quota and blocks its leaf"
    assert placed(scenario.submit(an_application("small", queue="root.a"), an_ask("s", vcore=500))) == {}
    scenario.partition.scheduling.requeue(scenario.app("bad"))
    with fault(planning, "plan_gang", is_bad):
        assert set(placed(scenario.ask(an_ask("t", app="small", vcore=500)))) == {"s", "t"}


def test_changes_committed_before_a_partition_fails_are_still_reported() -> None:
    scenario = two_applications()
    with fault(
        scheduler, "_absorb", lambda partition, _: bool(partition.applications[ApplicationId("next")].allocations)
    ):
        effects = scenario.ask(an_ask("x", app="next"))
        assert set(placed(effects)) == {"x"}
        assert scenario.failures == (f"partition {PARTITION}",)
        assert placed(scenario.ask(an_ask("y", app="next"))) == {}, "the partition backs off"
    assert set(placed(scenario.wait(1))) == {"y"}


def test_a_partition_that_fails_does_not_stop_the_others() -> None:
    configuration = a_configuration(a_queue("a"))
    [config] = configuration.partitions
    scenario = TolerantScenario(replace(configuration, partitions=(config, replace(config, name="second"))))
    second = scenario.scheduler_state.partitions[partition_id(RM, "second")]
    for partition in (scenario.partition, second):
        scenario.send(
            NodeAdded(replace(a_node("n0", 4000), partition=partition.id)),
            ApplicationAdded(replace(an_application("app", queue="root.a"), partition=partition.id)),
        )
    with fault(QueueAttempt, "take", lambda attempt: attempt.partition is scenario.partition):
        effects = scenario.ask(an_ask("x"), replace(an_ask("y"), partition=second.id))
    assert set(placed(effects)) == {"y"}


def test_a_commit_that_raises_before_its_first_write_backs_off_its_application() -> None:
    scenario = two_applications()
    with fault(commit, "_check_placement", is_bad):
        effects = scenario.ask(an_ask("x", app="bad"), an_ask("z", app="other"))
    assert set(placed(effects)) == {"z"}
    assert scenario.failures == ("application bad",)
    assert "ZeroDivisionError" in notices(effects)[0]


def test_a_commit_that_raises_halfway_stops_the_cycle_and_keeps_other_effects() -> None:
    scenario = two_applications()
    for ask in (an_ask("x", app="next"), an_ask("z", app="other")):
        step(scenario.scheduler_state, AskAdded(ask), scenario.now_ns)
    with fault(ledger, "book", lambda _, app, *__: app.id == "other", after=True), pytest.raises(InconsistentState):
        cycle(scenario.scheduler_state, scenario.now_ns, lambda: True)
    assert "x" in placed(scenario.scheduler_state.outbox.drain())


def test_after_a_failed_commit_the_waiting_applications_are_tried_again() -> None:
    """In the next cycle, without another event: the failure may have kept a wake-up from them."""
    scenario = two_applications()
    scenario.ask(an_ask("large", app="other", vcore=5000))
    step(scenario.scheduler_state, AskAdded(an_ask("x", app="bad")), scenario.now_ns)
    with fault(commit, "_place", is_bad, after=True):
        assert cycle(scenario.scheduler_state, scenario.now_ns, lambda: True).more
    tried: list[str] = []

    def record(_partition: Partition, app: Application, *_: object) -> bool:
        tried.append(app.id)
        return False

    with fault(pods, "plan_pods", record):
        assert not cycle(scenario.scheduler_state, scenario.now_ns, lambda: True).more
    assert tried == ["other"]


def test_an_event_that_raises_halfway_reports_the_changes_it_made() -> None:
    scenario = two_applications()
    scenario.ask(an_ask("x", app="next"), an_ask("y", app="next"))
    with fault(ledger, "drop", lambda _, app, *__: len(app.allocations) == 1), pytest.raises(type(FAULT)):
        step(scenario.scheduler_state, ApplicationRemoved(PARTITION, ApplicationId("next")), scenario.now_ns)
    assert set(releases(scenario.scheduler_state.outbox.drain())) == {"x"}
    assert {one.spec.key for one in scenario.app("next").allocations.values()} == {"y"}


STEPS = [(applications, "_refusal"), (lifecycle, "accept"), (applications, "class_like")]


@pytest.mark.parametrize("owner, name", STEPS)
def test_a_request_that_raises_is_rejected_with_the_error(owner: ModuleType, name: str) -> None:
    scenario = TolerantScenario(a_configuration(a_queue("a")), nodes=1)
    scenario.submit(an_application("app", queue="root.a"))
    with fault(owner, name, lambda *_: True), pytest.raises(type(FAULT)):
        step(scenario.scheduler_state, AskAdded(an_ask("x")), scenario.now_ns)
    [(key, reason)] = refused_asks(scenario.scheduler_state.outbox.drain()).items()
    assert key == "x"
    assert reason.startswith("internal error: ZeroDivisionError: an injected fault")
    assert set(placed(scenario.ask(an_ask("y")))) == {"y"}
    assert set(placed(scenario.ask(an_ask("x")))) == {"x"}


def test_a_request_that_raises_after_it_was_added_is_placed() -> None:
    scenario = TolerantScenario(a_configuration(a_queue("a")), nodes=1)
    scenario.submit(an_application("app", queue="root.a"))
    with fault(ledger, "add_ask", lambda *_: True, after=True), pytest.raises(type(FAULT)):
        step(scenario.scheduler_state, AskAdded(an_ask("x")), scenario.now_ns)
    assert refused_asks(scenario.scheduler_state.outbox.drain()) == {}
    assert set(placed(cycle(scenario.scheduler_state, scenario.now_ns, lambda: True).effects)) == {"x"}


@pytest.mark.parametrize("owner, name", [(selectors, "read"), (ledger, "book"), (lifecycle, "accept")])
@pytest.mark.parametrize("app", ["app", ""])
def test_a_bound_pod_whose_report_raises_is_counted_or_rejected_with_the_error(
    owner: ModuleType, name: str, app: str
) -> None:
    """The resource manager then counts it on its node, or reports it again."""
    scenario = TolerantScenario(a_configuration(a_queue("a")), nodes=1)
    scenario.submit(an_application("app", queue="root.a"))
    report = AllocationReported(an_allocation("x", "n0", app=app, foreign=not app))
    effects: list[Effect] = []
    with fault(owner, name, lambda *_: True):
        try:
            step(scenario.scheduler_state, report, scenario.now_ns)
        except type(FAULT):
            effects = scenario.scheduler_state.outbox.drain()
    counted = {one.key for one in scenario.partition.foreign.values()} if not app else set(own_keys(scenario))
    rejected = {one.key: one.reason for effect in effects for one in rejected_allocations(effect)}
    assert counted ^ rejected.keys() == {"x"}
    assert all(reason.startswith("internal error: ZeroDivisionError") for reason in rejected.values())


@pytest.mark.parametrize("is_pending", [False, True])
@pytest.mark.parametrize("is_after", [False, True])
def test_a_placeholder_whose_report_raises_is_counted_once_after_the_next_report(
    *, is_pending: bool, is_after: bool
) -> None:
    """A state that the exception left inconsistent is not repaired but discarded: the core starts a recovery."""
    gang = ApplicationAdded(an_application("app", queue="root.a", gang=2, each=resources(vcore=1000, pods=1)))
    request = AskAdded(an_ask("x", app="app", group="w", placeholder=True))
    report = AllocationReported(an_allocation("x", "n0", app="app", group="w", placeholder=True))
    outcomes: set[bool] = set()
    for number in count(1):
        scenario = TolerantScenario(a_configuration(a_queue("a")), nodes=1)
        for event in (gang, request) if is_pending else (gang,):
            step(scenario.scheduler_state, event, scenario.now_ns)
        injected = FaultAt(number, is_after)
        with injected.armed(), suppress(type(FAULT)):
            step(scenario.scheduler_state, report, scenario.now_ns)
        if injected.left:
            break
        is_consistent = not invariants.check(scenario.scheduler_state)
        outcomes.add(is_consistent)
        if is_consistent:
            step(scenario.scheduler_state, report, scenario.now_ns)
            assert own_keys(scenario) == ["x"], number
            assert [one.count for one in scenario.app("app").gang.groups.values()] == [1], number
            assert scenario.partition.nodes.allocated(NodeId("n0"))["vcore"] == 1000, number
    assert outcomes == {False, True}


def own_keys(scenario: Scenario) -> list[str]:
    return [one.spec.key for one in scenario.app("app").allocations.values()]


def rejected_allocations(effect: Effect) -> tuple[Rejection, ...]:
    return effect.rejected_allocations if isinstance(effect, AllocationResponse) else ()


def test_an_application_with_bound_pods_that_raises_is_rejected_with_the_error() -> None:
    """One without them gets no answer: its resource manager would fail its pods."""
    scenario = TolerantScenario(a_configuration(a_queue("a")))
    for forced in (True, False):
        spec = an_application("app", queue="root.a", forced=forced)
        with fault(applications, "choose_queue", lambda *_: True), pytest.raises(type(FAULT)):
            step(scenario.scheduler_state, ApplicationAdded(spec), scenario.now_ns)
        answers = [one for one in scenario.scheduler_state.outbox.drain() if isinstance(one, ApplicationRejected)]
        assert ["internal error" in one.reason for one in answers] == [True] * forced


def test_timers_that_fired_during_recovery_fire_again_separately() -> None:
    """One that raises then loses neither the others nor their effects."""
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(ManagerRegistered(RM, a_configuration(a_queue("a")), awaits_barrier=True))
    for name in ("one", "two"):
        spec = an_application(name, queue="root.a", gang=2, style=GangStyle.HARD, wait_s=60)
        scenario.submit(spec)
    scenario.wait(61)
    effects = step(scenario.scheduler_state, RecoveryBarrierPassed(RM), scenario.now_ns)
    clocks = [effect.timer for effect in effects if isinstance(effect, TimerSet)]
    assert [clock.application for clock in clocks if clock.kind is TimerKind.WAIT] == ["one", "two"]


def test_a_soft_gang_with_rack_packing_is_placed_despite_rounding_errors() -> None:
    """Rooms of 1/6, 1/6 and four times 1/6 are 1 in one order and a little less in another."""
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")))
    scenario.send(*(NodeAdded(a_node(f"n{i}", 2000, labels={"rack": f"r{i}"})) for i in range(2)))
    scenario.add_full_node(vcore=8000)
    scenario.submit(an_application("other", queue="root.b"), an_ask("o0"), an_ask("o1"))
    spec = replace(an_application("app", queue="root.a", gang=8), topology=Topology(("rack",), required=False))
    scenario.gang(spec, 8)
    assert len(scenario.app().allocations) == 2
    scenario.send(
        AllocationReleased(PARTITION, ApplicationId("other"), None, None, Termination.STOPPED_BY_RM),
        *(NodeAdded(a_node(f"m{i}", 1500, labels={"rack": f"s{i}"})) for i in range(4)),
        ApplicationAdded(an_application("small", queue="root.b")),
        AskAdded(an_ask("s0", app="small", vcore=100)),
    )
    assert len(scenario.app().allocations) == 8
    assert len(scenario.app("small").allocations) == 1


# -- An exception at any call within any commit: what was written was delivered, and the outcome is the same.

#: Seconds, longer than any back-off, timer or interval of these stories; pods end every few of them.
_LONG, _FEW = 600, 5
#: Every so many calls of a fault_case raise, in a run of its own.
_STRIDE = amount(29, 1)


@dataclass(frozen=True)
class FaultCase:
    """`before`: events without faults, of several seconds each; `then`: what is decided upon is decided here."""

    configuration: Configuration
    before: tuple[tuple[Event, ...], ...]
    then: tuple[Event, ...]


def app(name: str, queue: str = "root.a", **more: object) -> ApplicationAdded:
    return ApplicationAdded(an_application(name, queue=queue, **more))  # type: ignore[arg-type]  # fields by their names


def asks(name: str, number: int, **more: object) -> list[AskAdded]:
    keys = (f"{name}-{index}{'p' if more.get('placeholder') else ''}" for index in range(number))
    return [AskAdded(an_ask(key, app=name, **more)) for key in keys]  # type: ignore[arg-type]  # the same


def placeholders(name: str, number: int) -> list[AskAdded]:
    return asks(name, number, group="workers", placeholder=True)


def nodes(number: int, vcore: int = 4000) -> tuple[NodeAdded, ...]:
    return tuple(NodeAdded(a_node(f"n{index}", vcore)) for index in range(number))


def full(vcore: int) -> NodeAdded:
    """An empty cluster could hold more than the present one."""
    pod: AllocationSpec = an_allocation("foreign", "full", app="", vcore=vcore, foreign=True)
    return NodeAdded(a_node("full", vcore), existing=(pod,))


_TWO = a_configuration(a_queue("a"), a_queue("b"))
_SHRINKING = QueuePolicies(quota_preemption_delay_ns=SECOND)
_DIRECT = GangPlacement.DIRECT
FAULT_CASES = {
    "placements": FaultCase(_TWO, (nodes(2),), (app("x"), app("y", "root.b"), *asks("x", 3), *asks("y", 3))),
    "a gang": FaultCase(_TWO, (nodes(1),), (app("x", gang=3), *placeholders("x", 3))),
    "replacements": FaultCase(
        _TWO,
        (nodes(1), (app("x", gang=3), *placeholders("x", 3))),
        (*asks("x", 2, group="workers"), *asks("x", 1, group="other")),
    ),
    "a gang without pods": FaultCase(
        _TWO, (nodes(1),), (app("x", gang=3, placement=_DIRECT), *asks("x", 3, group="workers"))
    ),
    "a gang with some pods": FaultCase(
        _TWO,
        (nodes(1), (app("x", gang=3, placement=GangPlacement.AUTO), *placeholders("x", 1))),
        tuple(asks("x", 3, group="workers")),
    ),
    "a gang that times out": FaultCase(
        _TWO, (nodes(1), (full(8000), app("x", gang=6, timeout_s=30), *placeholders("x", 6))), tuple(asks("x", 2))
    ),
    "a hard gang that times out": FaultCase(
        _TWO,
        (nodes(1), (full(8000), app("x", gang=6, timeout_s=30, style=GangStyle.HARD), *placeholders("x", 6))),
        (app("y", "root.b"), *asks("y", 4)),
    ),
    "a take-over": FaultCase(
        _TWO,
        (
            (*nodes(1), full(10_000)),
            (app("later", "root.b", gang=5, created_s=20), *placeholders("later", 3)),
        ),
        (app("first", gang=4, created_s=10), *placeholders("first", 4)),
    ),
    "a take-over from places without pods": FaultCase(
        _TWO,
        ((*nodes(1), full(10_000)), (app("later", "root.b", gang=5, created_s=20), *placeholders("later", 3))),
        (app("first", gang=4, created_s=10, placement=_DIRECT), *asks("first", 4, group="workers")),
    ),
    "preemption": FaultCase(
        with_preemption(a_queue("a", guaranteed=3000), a_queue("b")),
        (nodes(1), (app("y", "root.b"), *asks("y", 4))),
        (app("x"), *asks("x", 2)),
    ),
    "preemption for a gang": FaultCase(
        with_preemption(a_queue("a", guaranteed=3000), a_queue("b")),
        (nodes(1), (app("y", "root.b"), *asks("y", 4))),
        (app("x", gang=3), *placeholders("x", 3)),
    ),
    "quota preemption": FaultCase(
        with_preemption(a_queue("a", policies=_SHRINKING), by_quota=True),
        (nodes(1), (app("x"), *asks("x", 4))),
        (ConfigurationReplaced(RM, with_preemption(a_queue("a", vcore=2000, policies=_SHRINKING), by_quota=True)),),
    ),
    "a node reservation": FaultCase(
        _TWO,
        (nodes(1), (app("y", "root.b"), *asks("y", 3))),
        (app("x"), AskAdded(an_ask("wide", app="x", vcore=3000))),
    ),
}


def confirm(stage: Stage) -> None:
    """Every pod that is to go ends."""
    replica = stage.replicas[PARTITION]
    gone = [(place, one) for place, one in replica.allocations.items() if one.releasing is not None]
    for (name, identity), one in gone:
        if not stage.is_crashed and one.releasing is not None:
            stage.send(AllocationReleased(PARTITION, name, one.key, identity, one.releasing))


def play(fault_case: FaultCase, fault: FaultAt) -> Stage:
    """The fault_case to its end. `stage.is_crashed`: the state is to be thrown away."""
    stage = Stage(Tally())
    stage.send(ManagerRegistered(RM, fault_case.configuration))
    for events in fault_case.before:
        stage.send(*events)
        stage.wait(5)
    stage.fault = fault
    stage.send(*fault_case.then)
    for _ in range(0, _LONG, _FEW):
        if stage.is_crashed:
            return stage
        stage.wait(_FEW)
        if not stage.is_crashed:
            confirm(stage)
    stage.fault = FaultAt(0)
    return stage


def outcome(stage: Stage) -> dict[str, tuple[str, int, int]]:
    """State, number of allocations and of requests of each application."""
    apps = stage.scheduler_state.partitions[PARTITION].applications.values()
    return {app.id: (str(app.state), len(app.allocations), len(app.asks)) for app in apps}


def faults(*, after: bool) -> Iterator[FaultAt]:
    return (FaultAt(number, after) for number in count(1 + after, _STRIDE))


@pytest.mark.thorough
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fault_case", FAULT_CASES.values(), ids=FAULT_CASES)
def test_an_exception_at_any_call_loses_neither_an_effect_nor_the_outcome(
    fault_case: FaultCase, *, after: bool
) -> None:
    expected = outcome(play(fault_case, FaultAt(0)))
    sound = 0
    for planned in faults(after=after):
        stage = play(fault_case, replace(planned))
        if not stage.tally.faults:
            break
        if not stage.is_crashed:  # else the state is thrown away, and resource managers send all of it again
            assert outcome(stage) == expected, f"after {planned}"
            sound += 1
    assert sound
