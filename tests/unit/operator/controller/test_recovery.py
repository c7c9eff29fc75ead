"""A session begins with the recovery replay, the same for a new operator and a new core."""

import pytest

from muster_operator.controller import applications, recovery
from muster_operator.controller.rejections import AGAIN_S
from muster_operator.controller.state import Phase
from muster_operator.model.commands import CreatePlaceholder, DeletePod, FailPod, MarkResumed, Outcome, SetCondition
from muster_operator.model.core_messages import (
    AllocationReleased,
    AllocationReported,
    ApplicationRejected,
    ApplicationResponse,
    ApplicationSubmitted,
    AskSubmitted,
    NodeCreated,
    NodeOpened,
    TerminationType,
)
from muster_operator.model.ids import AllocationId, AppId, NodeName, PodUid
from muster_operator.model.pods import PodRef
from muster_operator.model.states import AppState
from muster_si import keys
from tests.unit.operator.controller.driver import (
    APP,
    Driver,
    done,
    events,
    live,
    live_with_pod,
    orders,
    refused,
    requested_keys,
    whole,
)
from tests.unit.operator.controller.kubernetes import namespace_seen, node_seen
from tests.unit.operator.controller.objects import (
    APP_ID,
    CREATED_S,
    QUEUE,
    TASK_GROUP_NAME,
    Raw,
    a_group,
    a_namespace,
    a_node,
    a_pod,
    gang_annotations,
)
from tests.unit.operator.model.signing import a_bind, sign_outcome, sign_placeholder


def placeholder(name: str, **spec: object) -> Raw:
    """One of ours, for group g, owned by w0."""
    annotations = gang_annotations(a_group("g", 2), member_of="g")
    raw = a_pod(name, app=APP, annotations=annotations, **spec)
    raw["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "w0", "uid": "uid-w0"}]
    return sign_placeholder(raw)


def a_member(name: str, **spec: object) -> Raw:
    return a_pod(name, app=APP, annotations=gang_annotations(a_group("g", 2), member_of="g"), **spec)


def gathered(*raws: Raw, nodes: tuple[str, ...] = ("n1",)) -> Driver:
    """What an operator has read before it registers."""
    driver = Driver()
    for raw in raws:
        assert not driver.see(raw)
    for name in nodes:
        assert not driver.fact(node_seen(a_node(name)))
    return driver


def recovered(driver: Driver) -> tuple[Outcome, Outcome, Outcome]:
    """The application is accepted; returns the outcomes of nodes, asks and opening."""
    whole(recovery.begin(driver.ledger, 0.0))
    for app in list(driver.ledger.applications):
        driver.accepted(app)
    assert recovery.is_answered(driver.ledger)
    return (
        whole(recovery.report_nodes(driver.ledger, 0.0)),
        whole(recovery.submit_asks(driver.ledger, 0.0)),
        recovery.open_nodes(driver.ledger, 0.0),
    )


def existing(outcome: Outcome, node: str = "n1") -> list[str]:
    created = next(item for item in outcome.requests if isinstance(item, NodeCreated) and item.node.name == node)
    assert created.drained
    return [allocation.ask.key for allocation in created.existing]


def older(raw: Raw, seconds: int) -> Raw:
    raw["metadata"]["creationTimestamp"] = f"2025-12-31T23:59:{60 - seconds:02d}Z"
    return raw


def test_requests_of_the_same_second_follow_the_order_of_their_applications() -> None:
    """Not in that of their UIDs: another pod would overtake the first one of its queue."""
    first, second = a_pod("x", app="a"), a_pod("y", app="b")
    first["metadata"]["uid"], second["metadata"]["uid"] = "uid-9", "uid-1"
    _, asks, _ = recovered(gathered(second, first))
    assert requested_keys(asks) == ["uid-9", "uid-1"]


def test_applications_are_submitted_oldest_first_with_their_original_creation_time() -> None:
    driver = gathered(a_pod("b", app="young"), older(a_pod("a", app="old"), 30))
    out = whole(recovery.begin(driver.ledger, 0.0))
    specs = [item.spec for item in out.requests if isinstance(item, ApplicationSubmitted)]
    assert [spec.app for spec in specs] == ["dev/old", "dev/young"]
    assert specs[0].tags[keys.APP_TAG_CREATION_TIME] == str(CREATED_S - 30)
    assert not recovery.is_answered(driver.ledger)


def test_recovery_sends_drained_nodes_with_their_pods_then_requests_by_age_then_opens_nodes() -> None:
    driver = gathered(
        a_pod("bound", app="one", nodeName="n1"),
        a_pod("dns", schedulerName="default-scheduler", nodeName="n1"),
        a_pod("young", app="one"),
        older(a_pod("old", app="two"), 30),
    )
    nodes, asks, opening = recovered(driver)
    assert existing(nodes) == ["uid-bound", "uid-dns"]
    assert requested_keys(asks) == ["uid-old", "uid-young"]
    assert opening.requests == [NodeOpened(NodeName("n1"))]


def test_a_cordoned_node_stays_drained() -> None:
    driver = gathered()
    driver.fact(node_seen(a_node("n2", unschedulable=True)))
    assert recovered(driver)[2].requests == [NodeOpened(NodeName("n1"))]


def test_placeholders_keep_their_role_group_and_allocation_time() -> None:
    bound = placeholder("ph0", nodeName="n1")
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"}
    bound["status"]["conditions"] = [scheduled]
    driver = gathered(a_member("w0"), bound, placeholder("ph1"))
    nodes, asks, _ = recovered(driver)
    created = nodes.requests[0]
    assert isinstance(created, NodeCreated)
    ask = created.existing[0].ask
    assert (ask.placeholder, ask.task_group, ask.app) == (True, "g", APP)
    assert ask.tags[keys.TAG_ALLOCATED_AT] == str((CREATED_S + 1) * 1000)
    assert requested_keys(asks) == ["uid-ph1"]
    assert not [command for command in asks.commands if isinstance(command, CreatePlaceholder)]


def test_only_missing_placeholders_are_created() -> None:
    driver = gathered(a_member("w0"), placeholder("ph0", nodeName="n1"))
    _, asks, _ = recovered(driver)
    assert len([command for command in asks.commands if isinstance(command, CreatePlaceholder)]) == 1


def test_the_owner_reference_of_placeholders_determines_the_originator() -> None:
    driver = gathered(older(a_member("w9"), 30), a_member("w0"), placeholder("ph0"))
    recovered(driver)
    assert driver.ledger.applications[APP].originator.ref.name == "w0"


def test_no_placeholder_is_created_after_a_real_member_was_bound() -> None:
    driver = gathered(a_member("w0", nodeName="n1"), a_member("w1"), placeholder("ph0", nodeName="n1"))
    nodes, asks, _ = recovered(driver)
    assert existing(nodes) == ["uid-ph0", "uid-w0"]
    assert requested_keys(asks) == ["uid-w1"]
    assert orders(asks) == []


def test_a_terminating_placeholder_uses_resources_but_does_not_count() -> None:
    leaving = placeholder("ph0", nodeName="n1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    driver = gathered(a_member("w0"), leaving)
    nodes, asks, _ = recovered(driver)
    created = nodes.requests[0]
    assert isinstance(created, NodeCreated)
    assert created.existing[0].ask.app is None
    assert len([command for command in asks.commands if isinstance(command, CreatePlaceholder)]) == 2
    assert driver.gone("ph0").requests == [AllocationReleased(None, PodUid("uid-ph0"))]


def test_placeholders_without_a_gang_are_deleted() -> None:
    resumed = a_member("w0")
    resumed["metadata"]["annotations"]["internal.yunikorn.apache.org/gang-outcome"] = "resumed"
    for raws in ((), (resumed,)):
        driver = gathered(*raws, placeholder("ph0"))
        out = whole(recovery.begin(driver.ledger, 0.0))
        assert [command.pod.name for command in out.commands if isinstance(command, DeletePod)] == ["ph0"]


def test_a_resumed_gang_is_submitted_without_a_placeholder_ask() -> None:
    raw = a_member("w0")
    raw["metadata"]["annotations"]["internal.yunikorn.apache.org/gang-outcome"] = "resumed"
    spec = whole(recovery.begin(gathered(raw).ledger, 0.0)).requests[0]
    assert isinstance(spec, ApplicationSubmitted)
    assert not spec.spec.placeholder_ask


def test_a_gang_stays_resumed_whichever_pod_of_the_same_second_has_the_annotation() -> None:
    """Without a restart the first observed pod is the originator, and a Job creates many pods in a second."""
    marked = sign_outcome(a_member("w1"))
    spec = whole(recovery.begin(gathered(a_member("w0"), marked).ledger, 0.0)).requests[0]
    assert isinstance(spec, ApplicationSubmitted)
    assert not spec.spec.placeholder_ask


def test_the_resumed_annotation_moves_to_the_next_pod_even_after_a_restart() -> None:
    marked = sign_outcome(a_member("w0"))
    driver = gathered(marked, a_member("w1"))
    recovered(driver)
    [mark] = [command for command in driver.gone("w0").commands if isinstance(command, MarkResumed)]
    assert mark.originator == PodRef("dev", "w1", PodUid("uid-w1"))


def test_a_pod_of_an_unknown_group_is_reported_in_a_recovery() -> None:
    stranger = a_pod("w1", app=APP, annotations=gang_annotations(member_of="other"))
    driver = gathered(older(a_member("w0"), 1), stranger)
    assert events(whole(recovery.begin(driver.ledger, 0.0))) == [("w1", "TaskGroupsError", "TaskGroupsError")]


def test_bound_pods_of_a_rejected_application_still_use_resources() -> None:
    driver = gathered(a_pod("w0", app=APP, nodeName="n1"), a_pod("w1", app=APP))
    whole(recovery.begin(driver.ledger, 0.0))
    out = driver.receive(ApplicationResponse(rejected=(ApplicationRejected(APP, "no queue"),)))
    assert [type(command).__name__ for command in out.commands] == ["SetCondition", "PostEvent"]
    created = whole(recovery.report_nodes(driver.ledger, 0.0)).requests[0]
    assert isinstance(created, NodeCreated)
    assert [allocation.ask.app for allocation in created.existing] == [None]


def test_events_during_a_recovery_wait_until_the_nodes_open() -> None:
    driver = gathered(a_pod("w0", app=APP))
    whole(recovery.begin(driver.ledger, 0.0))
    driver.accepted()
    assert not driver.gone("w0")
    assert not driver.see(a_pod("w1", app=APP))
    assert not driver.updated("Running")
    whole(recovery.report_nodes(driver.ledger, 0.0))
    assert requested_keys(whole(recovery.submit_asks(driver.ledger, 0.0))) == ["uid-w0"]
    out = recovery.open_nodes(driver.ledger, 0.0)
    assert requested_keys(out) == ["uid-w1"]
    assert [type(item) for item in out.requests[:1]] == [NodeOpened]
    assert [task.pod.ref.name for task in driver.ledger.tasks.values()] == ["w1"]


def test_a_gang_whose_placeholder_is_refused_before_the_nodes_open_is_given_up_as_usual() -> None:
    driver = gathered(a_member("w0"))
    whole(recovery.begin(driver.ledger, 0.0))
    driver.accepted()
    first, _ = orders(whole(recovery.submit_asks(driver.ledger, 0.0)))
    assert not driver.result(refused(first))
    out = recovery.open_nodes(driver.ledger, 0.0)
    assert events(out) == [("w0", "GangScheduling", "PlaceholderCreateFailed")]
    assert [type(command) for command in orders(out)] == [MarkResumed]


def test_a_pod_that_could_not_be_failed_before_the_nodes_open_is_failed_later() -> None:
    driver = gathered(a_pod("w0", app=APP))
    whole(recovery.begin(driver.ledger, 0.0))
    [fail] = orders(driver.receive(ApplicationResponse(rejected=(ApplicationRejected(APP, "no queue"),))))
    assert not driver.result(refused(fail, status=503))
    recovery.open_nodes(driver.ledger, 0.0)
    assert fail in driver.wait(AGAIN_S).commands


def test_command_results_of_a_lost_session_are_ignored_in_the_next() -> None:
    driver = gathered(a_member("w0"))
    whole(recovery.begin(driver.ledger, 0.0))
    driver.accepted()
    first, _ = orders(whole(recovery.submit_asks(driver.ledger, 0.0)))
    driver.result(refused(first))
    recovered(driver)
    assert len(driver.ledger.applications[APP].slots) == 2


def test_a_lost_session_keeps_the_cluster_state_and_reports_nothing_until_the_next() -> None:
    driver = live_with_pod()
    bind = orders(driver.allocated("uid-w0"))[0]
    recovery.pause(driver.ledger)
    assert driver.ledger.phase is Phase.GATHERING
    assert not driver.result(done(bind))
    assert not driver.see(a_pod("w0", app=APP, nodeName="n1"))
    assert not driver.released("uid-w0", TerminationType.TIMEOUT)
    nodes, asks, _ = recovered(driver)
    assert existing(nodes) == ["uid-w0"]
    assert not requested_keys(asks)


def test_an_allocation_that_was_never_bound_is_requested_again() -> None:
    driver = live_with_pod()
    driver.allocated("uid-w0")
    recovery.pause(driver.ledger)
    _, asks, _ = recovered(driver)
    assert requested_keys(asks) == ["uid-w0"]
    assert orders(driver.allocated("uid-w0")) == [a_bind(PodRef("dev", "w0", PodUid("uid-w0")), "n1")]
    ended = driver.see(a_pod("w0", app=APP, nodeName="n1"), phase="Failed").requests
    stopped = TerminationType.STOPPED_BY_RM
    assert ended == [AllocationReleased(APP, PodUid("uid-w0"), stopped, AllocationId("uid-w0-0"))]


def test_nothing_of_the_old_session_leaks_into_the_new() -> None:
    driver = live_with_pod()
    first = recovered(driver)
    second = recovered(driver)
    assert [item for out in first for item in out.requests] == [item for out in second for item in out.requests]
    assert any(isinstance(item, AskSubmitted) for item in second[1].requests)


@pytest.mark.parametrize(
    "key, written",
    [(TASK_GROUP_NAME, "g" * 5000), (QUEUE, "q" * 5000), (APP_ID, "x" * 400)],
    ids=["group", "queue", "app"],
)
def test_a_bound_pod_counts_in_an_application_even_with_overlong_annotations(key: str, written: str) -> None:
    raw = a_pod("w0", nodeName="n1", annotations={key: written})
    if key != APP_ID:
        raw["metadata"]["labels"][APP_ID] = APP.partition("/")[2]
    else:
        raw["metadata"]["labels"].pop(APP_ID, None)
    nodes, _, _ = recovered(gathered(raw))
    created = next(item for item in nodes.requests if isinstance(item, NodeCreated))
    (sent,) = [one.ask.app for one in created.existing]
    assert sent is not None
    assert sent == APP or (key == APP_ID and sent.startswith("dev/") and len(sent) < 70)


def test_a_rejected_application_with_a_bound_pod_fails_no_pod_and_is_submitted_again() -> None:
    driver = gathered(a_pod("w0", app=APP, nodeName="n1"), a_pod("w1", app=APP))
    driver.fact(namespace_seen(a_namespace()))
    whole(recovery.begin(driver.ledger, 0.0))
    rejected = ApplicationResponse(rejected=(ApplicationRejected(APP, "queue root.x does not exist"),))
    out = driver.receive(rejected)
    [sent] = orders(out)
    assert isinstance(sent, SetCondition)
    assert (sent.pod.name, "queue root.x does not exist" in sent.message) == ("w1", True)
    assert [event[0] for event in events(out)] == ["w1"]
    assert existing(whole(recovery.report_nodes(driver.ledger, 0.0))) == ["uid-w0"]
    assert requested_keys(whole(recovery.submit_asks(driver.ledger, 0.0))) == []
    recovery.open_nodes(driver.ledger, 0.0)
    again = driver.wait(applications.SUBMIT_AGAIN_S)
    assert [item.spec.app for item in again.requests if isinstance(item, ApplicationSubmitted)] == [APP]
    accepted = driver.accepted()
    assert AllocationReleased(None, PodUid("uid-w0")) in accepted.requests
    reported = [item.allocation.ask for item in accepted.requests if isinstance(item, AllocationReported)]
    assert [(ask.key, ask.app) for ask in reported] == [("uid-w0", APP)]
    assert requested_keys(accepted) == ["uid-w1"]


def reported(outcome: Outcome) -> list[tuple[str, str | None]]:
    """Keys and applications of the bound pods that are reported to the core."""
    allocations = [item.allocation for item in outcome.requests if isinstance(item, AllocationReported)]
    allocations += [one for item in outcome.requests if isinstance(item, NodeCreated) for one in item.existing]
    return [(allocation.ask.key, allocation.ask.app) for allocation in allocations]


@pytest.mark.parametrize("answered", ["before the requests", "before the nodes open", "live"])
def test_bound_pods_of_an_unanswered_application_are_foreign_until_the_response(answered: str) -> None:
    driver = gathered(a_pod("w0", app=APP, nodeName="n1"), a_pod("w1", app=APP), a_pod("other", app="other"))
    whole(recovery.begin(driver.ledger, 0.0))
    driver.accepted(AppId("dev/other"))
    nodes = whole(recovery.report_nodes(driver.ledger, 0.0))
    assert reported(nodes) == [("uid-w0", None)]
    if answered == "before the requests":
        driver.accepted()
    asks = whole(recovery.submit_asks(driver.ledger, 0.0))
    assert (requested_keys(asks), reported(asks)) == (["uid-other"], [])
    if answered == "before the nodes open":
        driver.accepted()
    out = recovery.open_nodes(driver.ledger, 0.0)
    if answered == "live":
        assert (requested_keys(out), reported(out)) == ([], [])
        out = driver.accepted()
    released = out.requests.index(AllocationReleased(None, PodUid("uid-w0")))
    assert reported(Outcome(out.requests[released:])) == reported(out) == [("uid-w0", APP)]
    assert requested_keys(out) == ["uid-w1"]
    assert not driver.ledger.untracked_pods
    again = driver.gone("w0").requests
    assert [(item.app, item.key) for item in again if isinstance(item, AllocationReleased)] == [(APP, "uid-w0")]


def test_a_bound_placeholder_of_an_unanswered_gang_joins_it_with_the_response() -> None:
    driver = gathered(a_member("w0"), placeholder("ph0", nodeName="n1"), placeholder("ph1"))
    whole(recovery.begin(driver.ledger, 0.0))
    assert reported(whole(recovery.report_nodes(driver.ledger, 0.0))) == [("uid-ph0", None)]
    whole(recovery.submit_asks(driver.ledger, 0.0))
    recovery.open_nodes(driver.ledger, 0.0)
    out = driver.accepted()
    assert reported(out) == [("uid-ph0", APP)]
    assert requested_keys(out) == ["uid-ph1"]


def test_a_bound_pod_of_an_unanswered_application_also_counts_in_a_live_session() -> None:
    driver = live()
    assert reported(driver.see(a_pod("w0", app=APP, nodeName="n1"))) == [("uid-w0", None)]
    assert reported(driver.see(a_pod("w0", app=APP, nodeName="n1"))) == []
    driver.see(a_pod("w1", app=APP))
    assert reported(driver.see(a_pod("w1", app=APP, nodeName="n1"))) == [("uid-w1", None)]
    assert driver.gone("w1").requests == [AllocationReleased(None, PodUid("uid-w1"))]
    assert reported(driver.accepted()) == [("uid-w0", APP)]


def test_a_rejected_application_fails_once_no_pod_of_it_is_bound() -> None:
    driver = gathered(a_pod("w0", app=APP, nodeName="n1"), a_pod("w1", app=APP))
    driver.fact(namespace_seen(a_namespace()))
    whole(recovery.begin(driver.ledger, 0.0))
    rejected = ApplicationResponse(rejected=(ApplicationRejected(APP, "no queue"),))
    driver.receive(rejected)
    for step in (recovery.report_nodes, recovery.submit_asks):
        whole(step(driver.ledger, 0.0))
    recovery.open_nodes(driver.ledger, 0.0)
    driver.gone("w0")
    driver.wait(applications.SUBMIT_AGAIN_S)
    assert [type(command) for command in orders(driver.receive(rejected))] == [FailPod]


def test_a_terminating_unbound_placeholder_with_a_finalizer_has_finished() -> None:
    driver = gathered(a_member("w0"), placeholder("ph0"), placeholder("ph1"))
    recovered(driver)
    driver.updated(keys.APP_RESUMING)
    assert driver.ledger.applications[APP].state is AppState.RESUMING
    asks = []
    for name in ("ph0", "ph1"):
        raw = placeholder(name)
        raw["metadata"] |= {"deletionTimestamp": "2026-01-01T00:01:00Z", "finalizers": ["x/y"]}
        asks += requested_keys(driver.see(raw))
        assert not driver.see(raw)
    assert driver.ledger.applications[APP].state is AppState.RUNNING
    assert asks == ["uid-w0"]
