"""The condition of a waiting pod is written when its reason changes, and not more often."""

from muster_operator.model.commands import BindPod, Command, EventType, Importance, Outcome, PostEvent, SetCondition
from muster_operator.model.core_messages import (
    AllocationReported,
    CoreEvent,
    CoreEvents,
    EventKind,
    NodeResponse,
    SchedulingState,
    SchedulingStateChanged,
    SchedulingStates,
)
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.pods import PodRef
from tests.unit.operator.controller.driver import (
    APP,
    Driver,
    events,
    live,
    live_with_pod,
    orders,
    refused,
    requested_keys,
)
from tests.unit.operator.controller.objects import a_group, a_pod, gang_annotations

W0 = PodRef("dev", "w0", PodUid("uid-w0"))
FULL = "0/1 nodes are available: 1 Insufficient cpu."
FAILED, SKIPPED = SchedulingState.FAILED, SchedulingState.SKIPPED


def state(driver: Driver, kind: SchedulingState, reason: str = FULL) -> Outcome:
    change = SchedulingStateChanged(APP, PodUid("uid-w0"), kind, reason)
    return driver.receive(SchedulingStates((change,)))


def notes(out: Outcome) -> list[str]:
    """Messages of the events why the pod waits."""
    return [c.note for c in out.commands if isinstance(c, PostEvent) and c.reason == "FailedScheduling"]


def unschedulable(message: str = FULL) -> list[Command]:
    return [SetCondition(W0, "Unschedulable", message)]


def test_a_pod_that_waits_briefly_gets_no_condition() -> None:
    driver = live_with_pod()
    assert not state(driver, FAILED)
    driver.allocated("uid-w0")
    assert not driver.wait(10)


def test_a_pod_that_waits_gets_its_condition_after_two_seconds() -> None:
    driver = live_with_pod()
    assert not state(driver, FAILED)
    assert not driver.wait(1.9)
    out = driver.wait(0.2)
    assert orders(out) == unschedulable()
    assert [(event.type, event.reason, event.note) for event in out.commands if isinstance(event, PostEvent)] == [
        (EventType.WARNING, "FailedScheduling", FULL)
    ], "as from kube-scheduler"
    assert not driver.wait(100)


def test_a_pod_that_has_waited_gets_its_condition_immediately() -> None:
    driver = live_with_pod()
    driver.wait(5)
    assert orders(state(driver, FAILED)) == unschedulable()
    assert not state(driver, FAILED)


def test_a_new_reason_is_written_immediately_and_a_new_count_later() -> None:
    driver = live_with_pod()
    driver.wait(5)
    state(driver, FAILED)
    out = state(driver, SKIPPED, "queue root.dev is full")
    assert orders(out) == [SetCondition(W0, "SchedulingSkipped", "queue root.dev is full")]
    assert notes(out) == ["queue root.dev is full"], "its reason is another one"
    assert state(driver, FAILED).commands == unschedulable(), "its event was posted"
    assert not state(driver, FAILED, "0/2 nodes")
    assert driver.wait(60).commands == unschedulable("0/2 nodes")


def test_a_waiting_pod_whose_scheduling_gates_were_removed_gets_an_event() -> None:
    driver = live()
    raw = a_pod("w0", app=APP)
    raw["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "is gated"}
    ]
    driver.see(raw)
    driver.accepted()
    driver.wait(5)
    assert notes(state(driver, FAILED)) == [FULL]


def test_an_event_for_a_pod_whose_bind_is_in_flight_is_not_a_scheduling_failure() -> None:
    driver = live_with_pod()
    driver.allocated("uid-w0")
    event = CoreEvents((CoreEvent(EventKind.REQUEST, "uid-w0", "job", "larger than its placeholder"),))
    assert events(driver.receive(event)) == [("w0", "Scheduling", "Scheduling")]


def test_scheduling_failure_events_are_dropped_first() -> None:
    driver = live_with_pod()
    driver.wait(5)
    [event] = [command for command in state(driver, FAILED).commands if isinstance(command, PostEvent)]
    assert event.importance is min(Importance)


def test_an_unchanged_condition_is_not_written_again() -> None:
    driver = live()
    raw = a_pod("w0", app=APP)
    raw["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": FULL}
    ]
    assert requested_keys(driver.see(raw)) == ["uid-w0"]
    driver.accepted()
    driver.wait(5)
    assert not state(driver, FAILED)


def test_a_failure_that_was_resolved_is_not_written() -> None:
    driver = live_with_pod()
    state(driver, FAILED)
    state(driver, SchedulingState.SCHEDULED, "")
    assert not driver.wait(10)


def test_a_pod_with_a_reserved_node_reports_the_reservation_and_the_failure() -> None:
    driver = live_with_pod()
    state(driver, FAILED)
    state(driver, SchedulingState.RESERVED, "node n1 is reserved for it")
    expected = f"{FULL} Waiting: node n1 is reserved for it"
    assert orders(driver.wait(10)) == unschedulable(expected)
    assert not state(driver, SchedulingState.RESERVED, "node n2 is reserved for it")
    assert driver.wait(100).commands == unschedulable(f"{FULL} Waiting: node n2 is reserved for it")


def test_a_reservation_without_an_earlier_failure_is_reported() -> None:
    driver = live_with_pod()
    driver.wait(5)
    out = state(driver, SchedulingState.RESERVED, "node n1 is reserved")
    assert orders(out) == unschedulable("node n1 is reserved")


def preempting(driver: Driver, node: str = "n1") -> Outcome:
    """The core has preempted pods on this node for the pod; empty = it has reserved n1 without a preemption."""
    reserved = SchedulingState.RESERVED
    change = SchedulingStateChanged(APP, PodUid("uid-w0"), reserved, "n1 is reserved", "reserved", NodeName(node))
    return driver.receive(SchedulingStates((change,)))


def nominated(node: str, message: str = f"{FULL} Waiting: n1 is reserved") -> list[Command]:
    return [SetCondition(W0, "Unschedulable", message, NodeName(node))]


def test_the_node_of_preempted_pods_is_nominated_in_the_write_of_the_condition() -> None:
    driver = live_with_pod()
    driver.wait(5)
    state(driver, FAILED)
    assert preempting(driver).commands == nominated("n1"), "at once, because an autoscaler could add a node"
    assert not preempting(driver)
    assert not driver.wait(600)


def test_the_nomination_is_removed_at_once_when_the_preemption_is_cancelled() -> None:
    driver = live_with_pod()
    driver.wait(5)
    state(driver, FAILED)
    preempting(driver)
    assert state(driver, FAILED).commands == unschedulable()
    preempting(driver)
    assert orders(state(driver, SKIPPED, "queue root.dev is full")) == [
        SetCondition(W0, "SchedulingSkipped", "queue root.dev is full")
    ]


def test_a_nomination_is_written_even_after_many_other_changes() -> None:
    driver = live_with_pod()
    driver.wait(5)
    for number in range(20):
        state(driver, *((FAILED, FULL), (SKIPPED, "queue root.dev is full"))[number % 2])
        driver.wait(400)
    assert orders(preempting(driver)) == nominated("n1", "n1 is reserved")
    assert orders(state(driver, FAILED)) == unschedulable()


def test_a_node_that_is_reserved_without_a_preemption_is_not_nominated() -> None:
    driver = live_with_pod()
    driver.wait(5)
    assert orders(preempting(driver, "")) == nominated("", "n1 is reserved")


def test_the_nomination_is_removed_when_the_pod_is_requested_again_after_a_failed_bind() -> None:
    driver = live_with_pod()
    driver.wait(5)
    preempting(driver)
    [bind] = orders(driver.allocated("uid-w0"))
    assert requested_keys(driver.result(refused(bind))) == ["uid-w0"]
    driver.wait(5)
    assert orders(state(driver, FAILED)) == unschedulable()


def restarted(node: str) -> Driver:
    """The operator finds a pod that waits, with this node in its status."""
    driver = live()
    raw = a_pod("w0", app=APP)
    raw["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": FULL}
    ]
    raw["status"]["nominatedNodeName"] = node
    out = driver.see(raw)
    assert not [item for item in out.requests if isinstance(item, AllocationReported)]
    assert requested_keys(out) == ["uid-w0"]
    driver.accepted()
    driver.wait(5)
    return driver


def test_a_nominated_node_in_the_status_of_an_own_pod_has_no_effect_on_its_request() -> None:
    driver = restarted("n1")
    [bind] = orders(driver.allocated("uid-w0"))
    assert isinstance(bind, BindPod)
    assert restarted("no-such-node").ledger.foreign == {}


def test_after_a_restart_a_nomination_stays_only_if_the_core_preempts_on_the_same_node() -> None:
    assert state(restarted("n1"), FAILED).commands == unschedulable()
    driver = restarted("n1")
    expected = "n1 is reserved"
    assert orders(preempting(driver)) == []
    assert driver.wait(100).commands == nominated("n1", expected), "only the message differs, so it is not urgent"
    assert orders(preempting(restarted("n2"))) == nominated("n1", expected)


def test_a_condition_that_could_not_be_written_is_written_with_the_next_change() -> None:
    driver = live_with_pod()
    driver.wait(5)
    [command] = orders(state(driver, FAILED))
    driver.result(refused(command, 500))
    assert state(driver, FAILED).commands == unschedulable()


def test_an_empty_reason_becomes_a_message_that_autoscalers_recognize() -> None:
    driver = live_with_pod()
    driver.wait(5)
    expected = "request is waiting for cluster resources become available"
    assert orders(state(driver, FAILED, "")) == unschedulable(expected)


def test_core_events_are_posted_on_the_pod_the_originator_and_the_node() -> None:
    driver = live_with_pod()
    spoken = CoreEvents(
        (
            CoreEvent(EventKind.REQUEST, "uid-w0", "job", "larger than its placeholder"),
            CoreEvent(EventKind.APP, "dev/job", "", "about the application"),
            CoreEvent(EventKind.NODE, "n1", "", "about the node"),
            CoreEvent(EventKind.QUEUE, "root", "", "nobody asked"),
            CoreEvent(EventKind.REQUEST, "unknown", "job", "nobody there"),
            CoreEvent(EventKind.APP, "unknown", "", "nobody there"),
            CoreEvent(EventKind.NODE, "n9", "", "nobody there"),
        )
    )
    out = driver.receive(spoken)
    assert events(out) == [
        ("w0", "FailedScheduling", "FailedScheduling"),
        ("w0", "ApplicationProblem", "ApplicationProblem"),
        ("n1", "Scheduling", "Scheduling"),
    ]
    types = [command.type for command in out.commands if isinstance(command, PostEvent)]
    assert types == [EventType.WARNING, EventType.WARNING, EventType.NORMAL]
    assert len(out.commands) == 3


def test_a_core_event_that_differs_only_in_counts_is_not_repeated_on_a_pod() -> None:
    driver = live_with_pod()
    event_count = 0
    for second in range(3600):
        words = (
            f"Not enough queue quota: root.dev, requested cpu 1, available {second}m of 2"
            if second % 2
            else f"0/{second} nodes are available"
        )
        event_count += len(events(driver.receive(CoreEvents((CoreEvent(EventKind.REQUEST, "uid-w0", "job", words),)))))
        driver.wait(1)
    assert event_count == 2
    again = driver.receive(CoreEvents((CoreEvent(EventKind.REQUEST, "uid-w0", "job", "0/1 nodes are available"),)))
    assert events(again) == [("w0", "FailedScheduling", "FailedScheduling")]


def test_a_gang_that_fits_no_node_is_reported_immediately_as_event_and_condition() -> None:
    driver = live()
    driver.see(a_pod("w0", app=APP, annotations=gang_annotations(a_group())))
    driver.accepted()
    out = driver.receive(CoreEvents((CoreEvent(EventKind.APP, "dev/job", "workers", "member workers needs 99 CPUs"),)))
    assert isinstance(out.commands[0], PostEvent)
    # The placeholders are Unschedulable: an autoscaler must not add a node for this pod as well.
    assert out.commands[1:] == [SetCondition(W0, "SchedulingSkipped", "member workers needs 99 CPUs")]


def test_an_event_about_another_problem_of_a_gang_sets_no_condition() -> None:
    driver = live()
    driver.see(a_pod("w0", app=APP, annotations=gang_annotations(a_group())))
    ignored = CoreEvent(EventKind.APP, "dev/job", "", "the quota of its namespace is no quota")
    out = driver.receive(CoreEvents((ignored,)))
    assert events(out) == [("w0", "ApplicationProblem", "ApplicationProblem")]
    assert orders(out) == []


def test_what_an_incomplete_gang_waits_for_is_found_by_the_reason_of_its_event() -> None:
    driver = live()
    driver.see(a_pod("w0", app=APP, annotations=gang_annotations(a_group())))
    driver.accepted()
    for group, text in (("", "2 members have ended"), ("workers", "member workers needs 99 CPUs")):
        out = driver.receive(CoreEvents((CoreEvent(EventKind.APP, "dev/job", group, text),)))
        assert ("w0", "GangIncomplete", "GangIncomplete") in events(out)


def test_an_alternating_reason_costs_about_twenty_writes_an_hour() -> None:
    driver = live_with_pod()
    written = 0
    for second in range(3600):
        kind, reason = (FAILED, FULL) if second % 2 else (SKIPPED, "queue root.dev is full")
        written += len(state(driver, kind, reason).commands)
        written += len(driver.wait(1).commands)
    assert 10 < written <= 25
    assert len(driver.ledger.deadlines) <= 2


def test_an_unchanged_reason_costs_one_condition_and_one_event_an_hour() -> None:
    driver = live_with_pod()
    state(driver, FAILED)
    assert [len(driver.wait(60).commands) for _ in range(60)] == [2] + 59 * [0]


def test_a_restart_does_not_immediately_rewrite_a_reason_that_differs_only_in_counts() -> None:
    driver = live()
    raw = a_pod("w0", app=APP)
    raw["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
    ]
    driver.see(raw)
    driver.accepted()
    driver.wait(5)
    assert not state(driver, FAILED)
    assert not driver.wait(54)
    assert driver.wait(1).commands == unschedulable()


def test_a_rejected_node_is_reported_on_the_node() -> None:
    driver = live()
    name = next(iter(driver.ledger.nodes))
    out = driver.receive(NodeResponse(rejected={name: "absurd"}))
    assert events(out) == [("n1", "NodeRejected", "NodeRejected")]


def test_another_number_of_nodes_is_written_after_five_seconds_at_the_earliest() -> None:
    driver = live_with_pod()
    driver.wait(5)
    state(driver, FAILED)
    more = "0/2 nodes are available: 2 Insufficient cpu."
    assert not state(driver, FAILED, more)
    assert not driver.wait(4.9)
    assert orders(driver.wait(0.2)) == unschedulable(more)


def test_nodes_that_come_and_go_cost_a_pod_few_writes() -> None:
    driver = live_with_pod()
    driver.wait(5)
    written = 0
    for second in range(3600):
        nodes = second // 5 % 2 + 1
        out = state(driver, FAILED, f"0/{nodes} nodes are available: {nodes} Insufficient cpu.")
        written += len(orders(out)) + len(orders(driver.wait(1)))
    assert written <= 20


def test_a_reason_and_a_reserved_node_that_are_sent_together_are_one_write() -> None:
    driver = live_with_pod()
    driver.wait(5)
    state(driver, FAILED)
    driver.wait(60)
    more = "0/2 nodes are available: 2 Insufficient cpu."
    changes = (
        SchedulingStateChanged(APP, PodUid("uid-w0"), FAILED, more),
        SchedulingStateChanged(APP, PodUid("uid-w0"), SchedulingState.RESERVED, "node n1 is reserved for the pod"),
    )
    [written] = orders(driver.receive(SchedulingStates(changes)))
    assert isinstance(written, SetCondition)
    assert (more in written.message, "node n1 is reserved" in written.message) == (True, True)
