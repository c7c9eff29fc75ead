"""Single pods: requested, bound, released, rejected, gated; and the events that users see."""

from collections.abc import Callable
from itertools import permutations

import pytest

from muster_operator.model import problems
from muster_operator.model.commands import (
    CommandUnanswered,
    DeletePod,
    EventType,
    FailPod,
    MarkDisrupted,
    Outcome,
    PostEvent,
)
from muster_operator.model.core_messages import (
    AllocationRejected,
    AllocationReleased,
    AllocationReported,
    AllocationResponse,
    ApplicationRejected,
    ApplicationRemoved,
    ApplicationResponse,
    ApplicationSubmitted,
    AskRejected,
    AskReleased,
    AskSubmitted,
    NodeCreated,
    Released,
    TerminationType,
)
from muster_operator.model.ids import AllocationId, AppId, PodUid
from muster_operator.model.pods import PodRef
from muster_operator.model.states import AppState
from muster_si import keys
from tests.unit.operator.controller.driver import (
    APP,
    done,
    events,
    live,
    live_with_pod,
    orders,
    refused,
    requested_keys,
    submitted,
    waiting,
)
from tests.unit.operator.controller.kubernetes import node_seen
from tests.unit.operator.controller.objects import APP_ID, Raw, a_container, a_node, a_pod
from tests.unit.operator.model.signing import a_bind

W0 = PodRef("dev", "w0", PodUid("uid-w0"))
BIND = a_bind(W0, "n1")
STOPPED = TerminationType.STOPPED_BY_RM


def on(node: str, name: str = "w0") -> Raw:
    return a_pod(name, app=APP, nodeName=node)


def test_the_first_pod_is_requested_together_with_its_application() -> None:
    driver = live()
    first = driver.see(a_pod("w0", app=APP))
    assert [type(item) for item in first.requests] == [ApplicationSubmitted, AskSubmitted]
    assert not driver.see(a_pod("w1", app=APP))
    assert requested_keys(driver.accepted()) == ["uid-w0", "uid-w1"], "the first has no answer yet"
    assert requested_keys(driver.see(a_pod("w2", app=APP))) == ["uid-w2"]


def rejected(*names: str) -> AllocationResponse:
    """The core rejects the requests of these pods."""
    return AllocationResponse(rejected_asks=tuple(AskRejected(APP, PodUid(f"uid-{name}"), "no") for name in names))


@pytest.mark.parametrize("is_accepted_first", [True, False])
def test_a_request_that_the_core_read_before_the_application_is_sent_again(is_accepted_first: bool) -> None:  # noqa: FBT001
    """Messages of different streams are not ordered, so the two answers can arrive in either order."""
    driver = live()
    driver.see(a_pod("w0", app=APP))
    if is_accepted_first:
        assert not driver.accepted()
        sent = driver.receive(rejected("w0"))
    else:
        assert not driver.receive(rejected("w0"))
        sent = driver.accepted()
    assert requested_keys(sent) == ["uid-w0"]
    assert events(driver.receive(rejected("w0"))) == [("w0", "TaskRejected", "TaskRejected")]


@pytest.mark.parametrize("order", list(permutations(("rejection", "second pod", "acceptance"))))
def test_a_later_pod_never_overtakes_one_whose_early_request_was_rejected(order: tuple[str, ...]) -> None:
    """The core can read the request of the first pod before the application, and that of the second after it."""
    driver = live()
    driver.see(a_pod("w0", app=APP))
    steps: dict[str, Callable[[], Outcome]] = {
        "rejection": lambda: driver.receive(rejected("w0")),
        "second pod": lambda: driver.see(a_pod("w1", app=APP)),
        "acceptance": driver.accepted,
    }
    sent = [key for name in order for key in requested_keys(steps[name]())]
    assert sent[0] == "uid-w0"
    assert "uid-w1" in sent


@pytest.mark.parametrize("is_accepted_first", [True, False])
def test_an_early_request_that_is_cancelled_is_sent_again(is_accepted_first: bool) -> None:  # noqa: FBT001
    """The core cancels requests of an application that has completed, if it reads them before the next one."""
    driver = live()
    driver.see(a_pod("w0", app=APP))
    if is_accepted_first:
        driver.accepted()
    out = driver.cancelled("uid-w0")
    sent = out if is_accepted_first else driver.accepted()
    assert isinstance(out.requests[0], AskReleased)
    assert requested_keys(sent) == ["uid-w0"]


@pytest.mark.parametrize("is_rejected", [True, False])
def test_a_pod_that_changes_is_requested_again_after_the_acceptance(is_rejected: bool) -> None:  # noqa: FBT001
    """With two early requests, the answer to the first could be taken for the answer to the second."""
    driver = live()
    raw = a_pod("w0", app=APP)
    driver.see(raw)
    raw["spec"]["containers"] = [a_container(memory="2Gi")]
    assert not driver.see(raw).requests
    if is_rejected:
        driver.receive(rejected("w0"))
    [again] = [item.ask for item in driver.accepted().requests if isinstance(item, AskSubmitted)]
    assert again.resources["memory"] == 2 << 30
    assert not driver.updated(keys.APP_ACCEPTED).requests
    assert driver.gone("w0").requests == [AskReleased(APP, W0.uid, STOPPED)]


def test_an_allocation_can_arrive_before_the_acceptance_of_its_application() -> None:
    driver = live()
    driver.see(a_pod("w0", app=APP))
    assert orders(driver.allocated("uid-w0")) == [BIND]
    assert not driver.accepted()
    assert events(driver.result(done(BIND))) == [("w0", "Scheduled", "Scheduled")]


def test_pods_of_an_application_with_a_bound_pod_are_requested_after_its_allocation() -> None:
    driver = live()
    driver.see(on("n1"))
    assert requested_keys(driver.see(a_pod("w1", app=APP))) == []
    accepted = driver.accepted().requests
    kinds = [type(item) for item in accepted]
    assert kinds.index(AllocationReported) < kinds.index(AskSubmitted)
    assert [item.ask.key for item in accepted if isinstance(item, AskSubmitted)] == ["uid-w1"]


def test_an_id_is_used_again_in_the_core_when_it_has_processed_the_removal() -> None:
    """An answer to an application that was submitted before the removal is not sufficient."""
    driver = live()
    driver.see(a_pod("w0", app="dev/earlier"))
    driver.see(a_pod("w1", app=APP))
    driver.gone("w1")
    driver.accepted(AppId("dev/earlier"))
    assert submitted(driver.see(a_pod("w2", app=APP))) == ["dev#1/job"]
    driver.gone("w2")
    driver.see(a_pod("w3", app="dev/third"))
    driver.accepted(AppId("dev/third"))
    assert submitted(driver.see(a_pod("w4", app=APP))) == [APP]


def test_no_pod_is_requested_early_after_another_client_bound_one() -> None:
    driver = live()
    driver.see(a_pod("w0", app=APP))
    driver.see(on("n1"))
    assert requested_keys(driver.see(a_pod("w1", app=APP))) == []
    assert requested_keys(driver.accepted()) == ["uid-w1"]


def test_the_same_fact_twice_changes_nothing() -> None:
    driver = live()
    raw = waiting(driver)
    assert not driver.see(raw)


def test_an_allocation_is_bound_and_reported_once() -> None:
    driver = live_with_pod()
    assert orders(driver.allocated("uid-w0")) == [BIND]
    assert events(driver.result(done(BIND))) == [("w0", "Scheduled", "Scheduled")]
    assert not driver.see(on("n1"))
    assert not driver.result(done(BIND))


def test_the_watch_may_show_a_bind_before_its_answer() -> None:
    driver = live_with_pod()
    driver.allocated("uid-w0")
    assert events(driver.see(on("n1"))) == [("w0", "Scheduled", "Scheduled")]
    assert not driver.result(done(BIND))
    assert not driver.result(CommandUnanswered(BIND))


def test_a_pod_that_finishes_releases_its_allocation_once() -> None:
    driver = live_with_pod()
    driver.allocated("uid-w0")
    driver.see(on("n1"))
    out = driver.see(on("n1"), phase="Succeeded")
    message = "the pod has succeeded"
    assert out.requests == [AllocationReleased(APP, PodUid("uid-w0"), STOPPED, AllocationId("uid-w0-0"), message)]
    assert not driver.see(on("n1"), phase="Succeeded")
    assert not driver.gone("w0")
    assert not driver.released("uid-w0", STOPPED)


def test_the_release_of_a_pod_that_fails_does_not_say_that_it_has_succeeded() -> None:
    driver = live_with_pod()
    driver.allocated("uid-w0")
    driver.see(on("n1"))
    [released] = driver.see(on("n1"), phase="Failed").requests
    assert released == AllocationReleased(APP, PodUid("uid-w0"), STOPPED, AllocationId("uid-w0-0"))


def test_a_pod_deleted_while_it_waits_releases_its_ask() -> None:
    driver = live_with_pod()
    assert driver.gone("w0").requests == [AskReleased(APP, PodUid("uid-w0"), STOPPED)]


def test_a_terminating_pod_without_a_node_releases_its_request() -> None:
    driver = live()
    raw = waiting(driver)
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert driver.see(raw).requests == [AskReleased(APP, PodUid("uid-w0"), STOPPED)]
    late = driver.allocated("uid-w0")
    assert [type(item) for item in late.requests] == [AllocationReleased]
    assert orders(late) == []


def test_an_ask_changes_with_its_pod_while_it_waits() -> None:
    driver = live()
    raw = waiting(driver)
    raw["metadata"]["labels"]["team"] = "x"
    requests = driver.see(raw).requests
    assert isinstance(requests[0], AskSubmitted)
    assert requests[0].ask.tags["kubernetes.io/label/team"] == "x"


def test_a_preempted_pod_is_deleted_and_confirmed_with_the_same_type() -> None:
    driver = live_with_pod()
    driver.allocated("uid-w0")
    driver.see(on("n1"))
    preempted = TerminationType.PREEMPTED_BY_SCHEDULER
    marked = MarkDisrupted(W0, "preempted by the scheduler")
    assert orders(driver.released("uid-w0", preempted)) == [marked, DeletePod(W0, problems.released_by_core())]
    assert not driver.released("uid-w0", preempted).commands
    confirmed = [AllocationReleased(APP, PodUid("uid-w0"), preempted, AllocationId("uid-w0-0"))]
    assert driver.gone("w0").requests == confirmed
    assert driver.released("uid-w0", preempted).requests == confirmed  # the request is repeated, but the pod is deleted


def test_the_preemption_reason_is_recorded_on_a_pod_before_it_is_deleted() -> None:
    driver = live_with_pod()
    driver.allocated("uid-w0")
    driver.see(on("n1"))
    order = Released(APP, PodUid("uid-w0"), TerminationType.PREEMPTED_BY_SCHEDULER, message="for job high")
    out = driver.receive(AllocationResponse(released=(order,)))
    assert orders(out) == [MarkDisrupted(W0, "for job high"), DeletePod(W0, "for job high")]
    assert events(out) == [("w0", "Preempted", "Preempted")]


def test_a_pod_that_timed_out_is_deleted_gracefully_and_confirmed_after_its_deletion() -> None:
    """The run time of an allocation expired; the pod was not preempted."""
    driver = live_with_pod()
    driver.allocated("uid-w0")
    driver.see(on("n1"))
    out = driver.released("uid-w0", TerminationType.TIMEOUT)
    assert orders(out) == [DeletePod(W0, problems.released_by_core())]
    assert not out.requests
    expected = [AllocationReleased(APP, PodUid("uid-w0"), TerminationType.TIMEOUT, AllocationId("uid-w0-0"))]
    assert driver.gone("w0").requests == expected


def test_a_waiting_pod_that_disallows_preemption_updates_its_request() -> None:
    driver = live()
    raw = waiting(driver)
    raw["metadata"]["annotations"]["yunikorn.apache.org/allow-preemption"] = "false"
    [requests] = driver.see(raw).requests
    assert isinstance(requests, AskSubmitted)
    assert not requests.ask.allow_preempt_self


def test_a_delete_without_effect_is_retried_only_some_time_after_its_response() -> None:
    driver = live_with_pod()
    driver.allocated("uid-w0")
    driver.see(on("n1"))
    [order] = orders(driver.released("uid-w0", TerminationType.TIMEOUT))
    pause = driver.ledger.settings.delete_retry_s
    assert not driver.wait(10 * pause).commands  # thousands of writes are before it
    driver.result(done(order))
    assert not driver.wait(0.5 * pause).commands
    assert driver.wait(pause).commands == [order]
    assert not driver.wait(10 * pause).commands


def test_a_bind_that_fails_permanently_is_released_and_requested_on_another_node() -> None:
    driver = live_with_pod()
    driver.allocated("uid-w0")
    out = driver.result(refused(BIND, 400))
    assert [type(item) for item in out.requests] == [AllocationReleased, AskSubmitted]
    ask = out.requests[1]
    assert isinstance(ask, AskSubmitted)
    assert (ask.ask.key, ask.ask.tags[keys.TAG_AVOID_NODES]) == ("uid-w0", "n1")
    assert events(out) == [("w0", "PodBindFailure", "PodBindFailure")]
    assert not driver.released("uid-w0", STOPPED)
    after = driver.wait(60).requests
    assert isinstance(after[0], AskSubmitted)
    assert keys.TAG_AVOID_NODES not in after[0].ask.tags


def test_a_bind_of_a_deleted_pod_waits_for_the_watch() -> None:
    driver = live_with_pod()
    driver.allocated("uid-w0")
    assert not driver.result(refused(BIND, 404))
    assert [type(item) for item in driver.gone("w0").requests] == [AllocationReleased]


def test_an_unanswered_bind_is_retried_and_finally_released() -> None:
    driver = live_with_pod()
    driver.allocated("uid-w0")
    assert orders(driver.result(CommandUnanswered(BIND))) == [BIND]
    assert orders(driver.result(CommandUnanswered(BIND))) == [BIND]
    assert [type(item) for item in driver.result(CommandUnanswered(BIND)).requests] == [
        AllocationReleased,
        AskSubmitted,
    ]


def test_an_allocation_on_a_node_that_does_not_exist_is_released() -> None:
    driver = live_with_pod()
    out = driver.allocated("uid-w0", "n9")
    assert orders(out) == []
    assert [type(item) for item in out.requests] == [AllocationReleased, AskSubmitted]


def test_a_pod_bound_by_another_client_is_reported_on_its_actual_node() -> None:
    driver = live_with_pod("n1", "n2")
    driver.allocated("uid-w0")
    requests = driver.see(on("n2")).requests
    assert [type(item) for item in requests] == [AllocationReleased, AllocationReported]
    assert isinstance(requests[1], AllocationReported)
    assert requests[1].allocation.node == "n2"


def test_a_waiting_pod_bound_by_another_client_also_releases_a_late_allocation() -> None:
    """Otherwise the core has it on another node, and rejects the report."""
    driver = live_with_pod("n1", "n2")
    asked_for, answer, update = driver.see(on("n2")).requests
    why = "the pod was bound by another client"
    assert asked_for == AskReleased(APP, W0.uid, STOPPED, why)
    assert answer == AllocationReleased(APP, W0.uid, STOPPED, message=why)
    assert isinstance(update, AllocationReported)
    assert update.allocation.node == "n2"
    assert not driver.allocated("uid-w0")
    assert not driver.released("uid-w0", STOPPED)


def test_a_pod_that_is_created_with_a_node_is_an_existing_allocation() -> None:
    driver = live()
    spec, foreign = driver.see(on("n1")).requests
    assert isinstance(spec, ApplicationSubmitted)
    assert isinstance(foreign, AllocationReported)
    assert (foreign.allocation.ask.app, foreign.allocation.node) == (None, "n1")
    released, own = driver.accepted().requests
    assert released == AllocationReleased(None, W0.uid)
    assert isinstance(own, AllocationReported)
    assert (own.allocation.ask.app, own.allocation.node) == (APP, "n1")


def test_a_pod_on_an_unknown_node_is_reported_with_the_node() -> None:
    driver = live()
    driver.see(on("n2"))
    assert not driver.accepted().requests
    created = driver.fact(node_seen(a_node("n2"))).requests[0]
    assert isinstance(created, NodeCreated)
    assert [allocation.ask.key for allocation in created.existing] == ["uid-w0"]


def test_an_allocation_that_the_core_rejects_still_counts_as_used() -> None:
    driver = live()
    driver.see(on("n1"))
    driver.accepted()
    rejected = AllocationRejected(APP, PodUid("uid-w0"), "no such queue")
    out = driver.receive(AllocationResponse(rejected_allocations=(rejected,)))
    assert isinstance(out.requests[0], AllocationReported)
    assert out.requests[0].allocation.ask.app is None
    assert events(out) == [("w0", "TaskRejected", "TaskRejected")]
    assert driver.gone("w0").requests == [AllocationReleased(None, PodUid("uid-w0"))]


def test_a_rejected_allocation_is_counted_once_when_its_application_is_submitted_again() -> None:
    """The application completed while the pod was reported: it starts again with the pod."""
    driver = live()
    driver.see(on("n1"))
    driver.accepted()
    driver.receive(AllocationResponse(rejected_allocations=(AllocationRejected(APP, W0.uid, "it is over"),)))
    driver.updated(keys.APP_COMPLETED)
    removed, update = driver.accepted().requests
    assert removed == AllocationReleased(None, W0.uid)
    assert isinstance(update, AllocationReported)
    assert update.allocation.ask.app == APP
    assert driver.gone("w0").requests == [AllocationReleased(APP, W0.uid)]


def test_a_rejected_request_is_reported_on_the_pod() -> None:
    driver = live_with_pod()
    driver.see(a_pod("w1", app=APP))
    out = driver.receive(AllocationResponse(rejected_asks=(AskRejected(APP, PodUid("uid-w1"), "too large"),)))
    assert events(out) == [("w1", "TaskRejected", "TaskRejected")]
    assert not driver.gone("w1").requests


def test_a_gated_pod_is_reported_once_and_submitted_when_its_gates_are_removed() -> None:
    driver = live()
    gated = a_pod("w0", app=APP, schedulingGates=[{"name": "quota"}])
    out = driver.see(gated)
    assert events(out) == [("w0", "Scheduling", "Scheduling")]
    assert not out.requests
    assert not driver.see(gated)
    assert [type(item) for item in driver.see(a_pod("w0", app=APP)).requests] == [ApplicationSubmitted, AskSubmitted]


@pytest.mark.parametrize(
    "raw", [a_pod("w0", annotations={APP_ID: "x" * 64}), a_pod("w0", containers=[a_container(memory="10E")])]
)
def test_the_reason_why_a_pod_cannot_be_scheduled_is_reported_once(raw: Raw) -> None:
    driver = live()
    out = driver.see(raw)
    assert events(out) == [("w0", "TaskRejected", "TaskRejected")]
    assert not out.requests
    assert not driver.see(raw)


def test_conflicting_application_ids_are_reported() -> None:
    driver = live()
    raw = a_pod("w0", app=APP)
    raw["metadata"]["labels"]["applicationId"] = "other"
    command = driver.see(raw).commands[0]
    assert isinstance(command, PostEvent)
    assert (command.type, command.reason) == (EventType.WARNING, "Scheduling")
    assert "applicationId=other is ignored" in command.note


def test_pods_of_a_rejected_application_fail_with_the_reason_and_its_id_is_free_again() -> None:
    driver = live()
    driver.see(a_pod("w0", app=APP))
    out = driver.receive(ApplicationResponse(rejected=(ApplicationRejected(APP, "no queue"),)))
    message = "Application job was rejected: no queue"
    assert orders(out) == [FailPod(W0, "ApplicationRejected", message)]
    late = driver.see(a_pod("w1", app=APP))
    assert [type(command) for command in orders(late)] == [FailPod]
    driver.see(a_pod("w0", app=APP), phase="Failed")
    driver.see(a_pod("w1", app=APP), phase="Failed")
    assert driver.ledger.applications == {}
    assert [type(item) for item in driver.see(a_pod("w2", app=APP)).requests] == [ApplicationSubmitted, AskSubmitted]


def test_the_response_to_a_removed_submission_does_not_count_for_the_next_one() -> None:
    driver = live()
    driver.see(a_pod("w0", app=APP))
    assert driver.gone("w0").requests == [AskReleased(APP, W0.uid, STOPPED), ApplicationRemoved(APP)]
    again = driver.see(a_pod("w1", app=APP))
    assert (submitted(again), requested_keys(again)) == (["dev#1/job"], ["uid-w1"])
    assert not driver.accepted()
    assert driver.ledger.runs[APP].state is AppState.SUBMITTED
