"""An object that fails in a recovery does not affect others, and its resources are counted."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from muster_operator.controller import (
    applications,
    cluster_events,
    core_responses,
    isolation,
    nodes,
    recovery,
    reporting,
    tasks,
    timers,
    volume_binding,
)
from muster_operator.controller.cluster_events import handle_event
from muster_operator.controller.core_responses import handle_core_response
from muster_operator.controller.state import Application, Deadline, Phase, TimerKind, set_timer
from muster_operator.controller.timers import on_timers
from muster_operator.model import limits
from muster_operator.model.cluster_events import ClusterEvent, NodeGone, PodSeen, PriorityClassSeen
from muster_operator.model.commands import Failure, Outcome, PostEvent
from muster_operator.model.core_messages import (
    Allocated,
    AllocationRejected,
    AllocationReported,
    AllocationResponse,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationResponse,
    ApplicationUpdated,
    AskCancelled,
    AskRejected,
    AskSubmitted,
    CoreEvent,
    CoreEvents,
    CoreResponse,
    EventKind,
    NodeCreated,
    NodeRecommended,
    NodeResponse,
    Recommendations,
    Released,
    SchedulingState,
    SchedulingStateChanged,
    SchedulingStates,
    TerminationType,
)
from muster_operator.model.ids import AllocationId, AppId, NodeName, PodUid
from tests.unit.operator.controller.driver import APP, Driver, live, live_with_pod, orders, waiting, whole
from tests.unit.operator.controller.kubernetes import namespace_seen, node_seen, seen
from tests.unit.operator.controller.objects import a_namespace, a_node, a_pod

BROKEN = "broken"


def gathered() -> Driver:
    """Two applications with a waiting and a bound pod each, and one node."""
    driver = Driver()
    for app in (BROKEN, "fine"):
        driver.see(a_pod(f"{app}-waits", app=app))
        driver.see(a_pod(f"{app}-runs", app=app, nodeName="n1"), phase="Running")
    driver.fact(node_seen(a_node("n1")))
    return driver


def recovered(driver: Driver) -> Outcome:
    """All steps of a recovery; every application is accepted."""
    out = whole(recovery.begin(driver.ledger, 0.0))
    for app in list(driver.ledger.applications):
        driver.accepted(app)
    out.add(whole(recovery.report_nodes(driver.ledger, 0.0)))
    out.add(whole(recovery.submit_asks(driver.ledger, 0.0)))
    out.add(recovery.open_nodes(driver.ledger, 0.0))
    assert driver.ledger.phase is Phase.LIVE
    return out


def counted(out: Outcome) -> dict[str, str]:
    """The pods on the node, each with its application; empty = it only uses resources."""
    [created] = [item for item in out.requests if isinstance(item, NodeCreated)]
    return {spec.ask.key: spec.ask.app or "" for spec in created.existing}


def asks(out: Outcome) -> list[str]:
    return [item.ask.key for item in out.requests if isinstance(item, AskSubmitted)]


def reported(out: Outcome) -> set[str]:
    """The pods with an event about an internal error."""
    events = [command for command in out.commands if isinstance(command, PostEvent)]
    return {event.name for event in events if event.reason == "InternalError"}


def failing(what: Callable[..., Any], is_broken: Callable[..., bool]) -> Callable[..., Any]:
    """The function, which fails on what is broken after it has done its work."""

    def work(*args: Any) -> Any:
        result = what(*args)
        if is_broken(*args):
            raise RuntimeError(BROKEN)
        return result

    return work


def test_a_pod_that_causes_an_error_is_skipped_and_uses_resources_if_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_broken(_ledger: Any, _app: Any, pod: Any) -> bool:
        return str(pod.ref.name).startswith(BROKEN)

    monkeypatch.setattr(applications, "attach", failing(applications.attach, is_broken))
    driver = gathered()
    out = recovered(driver)
    assert counted(out) == {f"uid-{BROKEN}-runs": "", "uid-fine-runs": "dev/fine"}
    assert asks(out) == ["uid-fine-waits"]
    assert reported(out) == {f"{BROKEN}-runs", f"{BROKEN}-waits"}
    assert {(failure.kind, failure.name) for failure in out.failures} == {
        ("Pod", f"dev/{BROKEN}-runs"),
        ("Pod", f"dev/{BROKEN}-waits"),
    }
    assert set(driver.ledger.applications) == {"dev/fine"}


def test_an_application_that_causes_an_error_is_skipped_and_its_bound_pods_use_resources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def is_broken(_ledger: Any, _out: Any, app: Application, _now: float) -> bool:
        return app.name == BROKEN

    monkeypatch.setattr(applications, "submit", failing(applications.submit, is_broken))
    out = recovered(gathered())
    assert counted(out) == {f"uid-{BROKEN}-runs": "", "uid-fine-runs": "dev/fine"}
    assert asks(out) == ["uid-fine-waits"]
    assert [(failure.kind, failure.name) for failure in out.failures] == [("Application", f"dev/{BROKEN}")]
    assert len(reported(out)) == 1


def test_a_bound_pod_whose_allocation_cannot_be_created_is_reported_with_its_resources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def is_broken(_ledger: Any, uid: str, _node: Any) -> bool:
        return uid == f"uid-{BROKEN}-runs"

    failures = iter([True])

    def is_first(*args: Any) -> bool:
        return is_broken(*args) and next(failures, False)

    monkeypatch.setattr(recovery, "existing_allocation", failing(nodes.existing_allocation, is_first))
    out = recovered(gathered())
    assert counted(out) == {f"uid-{BROKEN}-runs": "", "uid-fine-runs": "dev/fine"}
    assert reported(out) == {f"{BROKEN}-runs"}


def test_a_failing_event_received_during_a_recovery_affects_no_other_event(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_broken(_ledger: Any, _out: Any, fact: Any, _now: Any) -> bool:
        return isinstance(fact, PodSeen) and fact.pod.ref.name == BROKEN and driver.ledger.phase is Phase.LIVE

    monkeypatch.setattr(cluster_events, "apply_event", failing(cluster_events.apply_event, is_broken))
    driver = gathered()
    whole(recovery.begin(driver.ledger, 0.0))
    for name in (BROKEN, "late"):
        driver.see(a_pod(name, app=name))
    for app in list(driver.ledger.applications):
        driver.accepted(app)
    whole(recovery.report_nodes(driver.ledger, 0.0))
    whole(recovery.submit_asks(driver.ledger, 0.0))
    out = recovery.open_nodes(driver.ledger, 0.0)
    assert [(failure.kind, failure.name) for failure in out.failures] == [("PodSeen", f"dev/{BROKEN}")]
    assert "dev/late" in driver.ledger.applications


# -- In a live session an item whose handler fails is skipped alone and reported; a recovery follows.

PODS = [PodUid("uid-w0"), PodUid("uid-w1")]
APPS = [AppId("dev/first"), AppId("dev/second")]
NODES = (NodeName("n1"), NodeName("n2"))
STOPPED, TIMEOUT = TerminationType.STOPPED_BY_RM, TerminationType.TIMEOUT


@dataclass
class Broken:
    """A handler that fails for the first item, and the number of items that it handled."""

    handler: Callable[..., Any]
    failures: int = 1
    handled: int = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise ZeroDivisionError
        self.handled += 1
        return self.handler(*args, **kwargs)


def breaks(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> Broken:
    broken = Broken(getattr(module, name))
    monkeypatch.setattr(module, name, broken)
    return broken


RESPONSES: list[tuple[ModuleType, str, CoreResponse]] = [
    (
        core_responses,
        "_allocated",
        AllocationResponse(allocated=tuple(Allocated(APP, uid, NODES[0], AllocationId("x")) for uid in PODS)),
    ),
    (
        core_responses,
        "_released",
        AllocationResponse(released=tuple(Released(APP, uid, TIMEOUT, AllocationId("x")) for uid in PODS)),
    ),
    (core_responses, "_released", AllocationResponse(released=(Released(APP, PodUid(""), TIMEOUT, AllocationId("")),))),
    (
        core_responses,
        "_ask_cancelled",
        AllocationResponse(cancelled_asks=tuple(AskCancelled(APP, uid, TIMEOUT) for uid in PODS)),
    ),
    (
        core_responses,
        "_ask_rejected",
        AllocationResponse(rejected_asks=tuple(AskRejected(APP, uid, "no") for uid in PODS)),
    ),
    (
        core_responses,
        "_allocation_rejected",
        AllocationResponse(rejected_allocations=tuple(AllocationRejected(APP, uid, "no") for uid in PODS)),
    ),
    (
        core_responses,
        "_application_accepted",
        ApplicationResponse(accepted=tuple(ApplicationAccepted(app) for app in APPS)),
    ),
    (
        core_responses,
        "_application_rejected",
        ApplicationResponse(rejected=tuple(ApplicationRejected(app, "no") for app in APPS)),
    ),
    (
        core_responses,
        "_updated",
        ApplicationResponse(updated=tuple(ApplicationUpdated(app, "Running", "") for app in APPS)),
    ),
    (nodes, "accepted", NodeResponse(accepted=NODES)),
    (nodes, "rejected", NodeResponse(rejected=dict.fromkeys(NODES, "no"))),
    (
        reporting,
        "report_core_event",
        CoreEvents(tuple(CoreEvent(EventKind.NODE, name, "", "text") for name in NODES)),
    ),
    (core_responses, "_recommended", Recommendations(tuple(NodeRecommended(name, "text") for name in NODES))),
    (
        reporting,
        "update_pod_condition",
        SchedulingStates(tuple(SchedulingStateChanged(APP, uid, SchedulingState.FAILED, "no") for uid in PODS)),
    ),
]


@pytest.mark.parametrize("module, name, response", RESPONSES, ids=[name for _, name, _ in RESPONSES])
def test_the_other_items_of_a_message_are_handled(
    module: ModuleType, name: str, response: CoreResponse, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = live(*NODES)
    for pod in ("w0", "w1"):
        driver.see(a_pod(pod, app=APP))
    driver.accepted()
    broken = breaks(monkeypatch, module, name)
    out = handle_core_response(driver.ledger, response, driver.now)
    assert broken.handled == 1
    assert [type(failure.error) for failure in out.failures] == [ZeroDivisionError]


def two_pods(driver: Driver) -> None:
    for pod in ("w0", "w1"):
        driver.see(a_pod(pod, app=APP, priorityClassName="high"))
    driver.accepted()


def two_bound_pods(driver: Driver) -> None:
    for pod in ("w0", "w1"):
        driver.see(a_pod(pod, app=APP, nodeName="n1"))
    driver.accepted()


def two_applications_of_a_new_namespace(driver: Driver) -> None:
    for app in ("first", "second"):
        raw = a_pod(app, app=app)
        raw["metadata"]["namespace"] = "new"
        driver.see(raw)


EVENTS: list[tuple[ModuleType, str, Callable[[Driver], None], ClusterEvent]] = [
    (nodes, "_lost_node", two_bound_pods, NodeGone(NODES[0])),
    (tasks, "resend", two_pods, PriorityClassSeen("high", allow_preemption=False)),
    (applications, "submit", two_applications_of_a_new_namespace, namespace_seen(a_namespace("new"))),
]


@pytest.mark.parametrize("module, name, given, fact", EVENTS, ids=[name for _, name, _, _ in EVENTS])
def test_an_event_that_affects_several_objects_reaches_the_others(
    module: ModuleType,
    name: str,
    given: Callable[[Driver], None],
    fact: ClusterEvent,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = live(*NODES)
    given(driver)
    broken = breaks(monkeypatch, module, name)
    out = handle_event(driver.ledger, fact, driver.now)
    assert broken.handled == 1
    assert len(out.failures) == 1


def recovery_due(driver: Driver) -> float:
    """Seconds until the recovery that follows a failure."""
    timers = [timer.due for _, _, timer, _ in driver.ledger.deadlines if timer.kind is TimerKind.RECOVERY]
    return min(timers) - driver.now


def recover(driver: Driver) -> Outcome:
    """What a new session does with the ledger. Failures stay in the outcome."""
    driver.now += recovery_due(driver)
    while not driver.ledger.is_suspect:
        on_timers(driver.ledger, driver.now)
    out = Outcome()
    for step in (recovery.begin, recovery.report_nodes, recovery.submit_asks):
        for part in step(driver.ledger, driver.now):
            out.add(part)
    out.add(recovery.open_nodes(driver.ledger, driver.now))
    return out


def test_one_failing_allocation_costs_no_other_pod_its_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = live()
    for number in range(100):
        waiting(driver, f"w{number}", app=AppId(f"dev/job{number}"))
    breaks(monkeypatch, tasks, "sign_binding")
    allocated = tuple(
        Allocated(AppId(f"dev/job{number}"), PodUid(f"uid-w{number}"), NODES[0], AllocationId("x"))
        for number in range(100)
    )
    out = handle_core_response(driver.ledger, AllocationResponse(allocated=allocated), driver.now)
    assert len(orders(out)) == 99
    assert [(failure.kind, failure.name) for failure in out.failures] == [("Allocated", "dev/w0")]
    assert [event.name for event in out.commands if isinstance(event, PostEvent)] == ["w0"]
    assert recovery_due(driver) == 1.0


def test_an_object_that_always_fails_causes_ever_fewer_recoveries_and_one_event_in_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = live()
    broken = breaks(monkeypatch, applications, "attach")
    broken.failures = 1000
    out = Outcome()
    for _ in range(50):  # it changes again and again
        cluster_events.event_received(driver.ledger, out, seen(a_pod("w0", app=APP)), driver.now)
    pauses = []
    for _ in range(8):
        pauses.append(recovery_due(driver))
        assert len([one for one in out.commands if isinstance(one, PostEvent)]) == 1
        out = recover(driver)
    assert pauses == [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 3600.0, 3600.0]
    broken.failures = 0
    recover(driver)
    assert PODS[0] in driver.ledger.tasks
    driver.now += 4 * 3600
    broken.failures = 1
    cluster_events.event_received(driver.ledger, Outcome(), seen(a_pod("w1", app=APP)), driver.now)
    assert recovery_due(driver) == 1.0, "after hours without a failure"


def fails(driver: Driver, *subjects: str) -> float:
    """Failures of objects. Returns the seconds until the recovery."""
    for subject in subjects:
        isolation.failed(driver.ledger, Outcome(), subject, ZeroDivisionError(), driver.now)
    return recovery_due(driver)


def begins_again(driver: Driver) -> None:
    driver.now += recovery_due(driver)
    whole(recovery.begin(driver.ledger, driver.now))


def test_an_object_that_always_fails_delays_the_recovery_of_another_one_by_a_minute_at_most() -> None:
    driver = live()
    for _ in range(8):
        fails(driver, "always")
        begins_again(driver)
    assert fails(driver, "always") == 3600.0
    driver.now += 50.0
    assert fails(driver, "once") == 10.0
    begins_again(driver)
    assert fails(driver, "always") == 3540.0, "as before"


def test_many_objects_that_fail_cause_one_recovery_a_minute() -> None:
    driver = live()
    pauses = []
    for number in range(6):
        pauses.append(fails(driver, f"object-{number}"))
        begins_again(driver)
    assert pauses == [1.0, 4.0, 16.0, 60.0, 60.0, 60.0]
    fails(driver, *map(str, range(2 * limits.FAILED_OBJECTS)))
    assert len(driver.ledger.recoveries) == limits.FAILED_OBJECTS


def test_a_bound_pod_that_fails_counts_on_its_node_until_it_joins_its_application(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = live()
    breaks(monkeypatch, applications, "join")
    out = Outcome()
    cluster_events.event_received(driver.ledger, out, seen(a_pod("w0", app=APP, nodeName="n1")), driver.now)
    assert [item.allocation.ask.app for item in out.requests if isinstance(item, AllocationReported)] == [None]
    recover(driver)
    driver.accepted()
    assert driver.ledger.tasks[PODS[0]].held
    assert driver.ledger.untracked_pods == {}


def test_what_fails_in_a_recovery_joins_in_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = live_with_pod()
    breaks(monkeypatch, applications, "attach")
    driver.ledger.recovery_at = driver.now
    set_timer(driver.ledger, Deadline(driver.now, TimerKind.RECOVERY, PodUid("")))
    out = recover(driver)
    assert [failure.kind for failure in out.failures] == ["Pod"]
    assert driver.ledger.applications == {}
    recover(driver)
    assert PODS[0] in driver.ledger.tasks


@pytest.mark.parametrize("kind", [kind for kind in TimerKind if kind is not TimerKind.RECOVERY])
def test_a_timer_whose_handler_fails_causes_one_recovery(kind: TimerKind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers may set their timer again before they fail, so nothing else may do it."""
    driver = live_with_pod()
    driver.ledger.deadlines.clear()
    monkeypatch.setattr("muster_operator.controller.state._owner", lambda ledger, deadline: deadline.kind)
    monkeypatch.setattr(timers, "_on_timer", Broken(timers._on_timer))
    set_timer(driver.ledger, Deadline(1.0, kind, APP))
    driver.now = 1.0
    out = on_timers(driver.ledger, driver.now)
    assert [(failure.kind, failure.name) for failure in out.failures] == [("Deadline", APP)]
    assert [timer.kind for _, _, timer, _ in driver.ledger.deadlines] == [TimerKind.RECOVERY]


def test_volume_events_reach_the_other_pods_that_wait_for_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = live()
    two_pods(driver)
    driver.ledger.storage.waiting["dev/claim"] = set(PODS)
    broken = breaks(monkeypatch, volume_binding, "continue_binding")
    out = Outcome()
    volume_binding.storage_changed(driver.ledger, out, "dev/claim", driver.now)
    assert (broken.handled, len(out.failures)) == (1, 1)
    assert all(isinstance(failure, Failure) for failure in out.failures)
