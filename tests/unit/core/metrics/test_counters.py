"""Metrics count with the names and buckets of YuniKorn's metrics."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from muster_core.metrics.counters import DECADES, CyclePhases, Metrics
from muster_core.model.decisions import ReasonKind
from muster_core.model.effects import (
    AllocationResponse,
    ApplicationAccepted,
    ApplicationRejected,
    Effect,
    NewAllocation,
    NodeRejected,
    Rejection,
    Release,
    SchedulingState,
    SchedulingStateChanged,
)
from muster_core.model.events import ApplicationAdded, NodeAction, NodeActionReported
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId, Termination
from muster_core.runtime.loop import EventQueue, QueuedMessage
from muster_core.scheduling.scheduler import CyclePhase
from tests.unit.builders import PARTITION, RM, an_application, an_ask

APP, KEY = ApplicationId("app"), AllocationKey("k")
RELEASE = Release(PARTITION, APP, KEY, AllocationId("k-0"), Termination.TIMEOUT)


def value(metrics: Metrics, name: str, **labels: str) -> float:
    found = metrics.registry.get_sample_value(name, labels)
    assert found is not None, f"{name}{labels} does not exist"
    return found


@pytest.mark.parametrize(
    "effect, name, label",
    [
        (
            AllocationResponse(RM, new=(NewAllocation(an_ask("k"), AllocationId("k-0"), NodeId("n")),)),
            "att",
            "allocated",
        ),
        (AllocationResponse(RM, released=(RELEASE,)), "att", "released"),
        (AllocationResponse(RM, rejected_asks=(Rejection(APP, KEY, ""),)), "att", "rejected"),
        (AllocationResponse(RM, rejected_allocations=(Rejection(APP, KEY, ""),)), "att", "rejected"),
        (ApplicationAccepted(RM, APP), "sub", "accepted"),
        (ApplicationRejected(RM, APP, "why"), "sub", "rejected"),
        (SchedulingStateChanged(RM, APP, KEY, SchedulingState.FAILED, "", ReasonKind.NODES), "unschedulable", "nodes"),
    ],
)
def test_an_effect_is_counted_once(effect: Effect, name: str, label: str) -> None:
    full, key = {
        "att": ("yunikorn_scheduler_container_allocation_attempt_total", "state"),
        "sub": ("yunikorn_scheduler_application_submission_total", "result"),
        "unschedulable": ("muster_core_unschedulable_total", "reason"),
    }[name]
    metrics = Metrics()
    assert value(metrics, full, **{key: label}) == 0
    metrics.sent(effect)
    assert value(metrics, full, **{key: label}) == 1


def test_a_scheduled_request_is_not_counted_as_unschedulable() -> None:
    metrics = Metrics()
    metrics.sent(SchedulingStateChanged(RM, APP, KEY, SchedulingState.SCHEDULED, "on node n"))
    assert [value(metrics, "muster_core_unschedulable_total", reason=kind.value) for kind in ReasonKind] == [0] * len(
        ReasonKind
    )


def test_events_are_counted_by_kind_with_new_applications_and_removed_nodes() -> None:
    metrics = Metrics()
    renewed = replace(an_application(), is_renewal=True)
    metrics.received([ApplicationAdded(an_application()), ApplicationAdded(renewed)])
    metrics.received([ApplicationAdded(replace(renewed, given_up="no placeholder could be created"))])
    metrics.received([NodeActionReported(PARTITION, NodeId("n"), NodeAction.DECOMMISSION)])
    metrics.received([NodeActionReported(PARTITION, NodeId("n"), NodeAction.DRAIN)])
    metrics.sent(NodeRejected(RM, NodeId("n"), "known"))
    assert value(metrics, "muster_core_events_total", kind="NodeActionReported") == 2
    assert value(metrics, "muster_core_events_total", kind="ApplicationAdded") == 3
    assert value(metrics, "yunikorn_scheduler_application_submission_total", result="new") == 1
    assert (metrics.nodes_gone, metrics.nodes_refused) == (1, 1)


def ticking(*moments: float) -> CyclePhases:
    times: Iterator[float] = iter(moments)
    return CyclePhases(lambda: next(times))


def test_a_cycle_is_counted_with_its_steps_in_seconds() -> None:
    metrics, laps = Metrics(), ticking(0.0, 0.5, 0.75, 1.75, 4.75)
    for step in (CyclePhase.QUEUE, CyclePhase.APPLICATION, CyclePhase.NODE, CyclePhase.NODE):
        laps(step)
    metrics.cycled(2.0, 3, laps)
    prefix = "yunikorn_scheduler"
    assert value(metrics, f"{prefix}_scheduling_cycle_milliseconds_sum") == 2.0
    assert value(metrics, f"{prefix}_node_sorting_latency_milliseconds_sum", level="queue") == 0.5
    assert value(metrics, f"{prefix}_node_sorting_latency_milliseconds_sum", level="app") == 0.25
    assert value(metrics, f"{prefix}_trynode_latency_milliseconds_sum") == 2.0
    assert value(metrics, f"{prefix}_trynode_evaluation_milliseconds_sum") == 4.0
    assert value(metrics, f"{prefix}_trypreemption_latency_milliseconds_count") == 0
    assert value(metrics, f"{prefix}_container_allocation_attempt_total", state="error") == 3


def test_a_search_for_victims_is_counted() -> None:
    metrics = Metrics()
    metrics.searched_for_victims(0.25)
    assert value(metrics, "yunikorn_scheduler_trypreemption_latency_milliseconds_sum") == 0.25


def test_latencies_have_the_buckets_of_the_contract() -> None:
    assert [round(bound, 9) for bound in DECADES] == [0.0001, 0.001, 0.01, 0.1, 1, 10, 100, 1000]
    name = "yunikorn_scheduler_scheduling_latency_milliseconds_bucket"
    metrics = Metrics()
    metrics.iterated(0.05)
    assert [value(metrics, name, le=bound) for bound in ("0.01", "0.1", "1000.0")] == [0, 1, 1]


def test_the_longest_loop_iteration_is_kept() -> None:
    metrics = Metrics()
    for seconds in (0.1, 0.3, 0.2):
        metrics.iterated(seconds)
    assert value(metrics, "muster_core_loop_busy_max_seconds") == 0.3


def test_the_age_of_the_oldest_message_is_the_lag() -> None:
    now = 10.0
    box = EventQueue(8, lambda: now)
    assert box.oldest_s() == 0
    box.post(QueuedMessage([]))
    now = 12.0
    box.post(QueuedMessage([]))
    now = 15.0
    assert box.oldest_s() == 5.0
    box.take()
    assert box.oldest_s() == 3.0
