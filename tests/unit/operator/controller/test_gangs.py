"""A gang step by step: creation, requests, rejections and warnings."""

import copy
import json

import pytest

from muster_operator.model import problems
from muster_operator.model.cluster_events import NodeGone
from muster_operator.model.commands import CommandUnanswered, DeletePod, FailPod, MarkResumed, PostEvent
from muster_operator.model.core_messages import (
    AllocationReleased,
    AllocationResponse,
    ApplicationSubmitted,
    AskCancelled,
    AskRejected,
    AskReleased,
    AskSubmitted,
    NodeDecommissioned,
    Released,
    TerminationType,
)
from muster_operator.model.ids import AllocationId, NodeName, PodUid
from muster_operator.model.settings import Settings
from muster_si import keys
from tests.unit.operator.controller.driver import APP, done, events, live, orders, refused, requested_keys
from tests.unit.operator.controller.gang import a_member, creates, pod_of, reserving, uid
from tests.unit.operator.controller.objects import TASK_GROUPS, Raw, a_container, a_group, a_pod, gang_annotations
from tests.unit.operator.model.signing import sign_placeholder

TIMEOUT = TerminationType.TIMEOUT


def test_the_submission_carries_the_gang() -> None:
    parameters = "placeholderTimeoutInSeconds=9 gangSchedulingStyle=Hard gangWaitTimeoutInSeconds=3"
    requests = live().see(a_member(parameters=parameters)).requests[0]
    assert isinstance(requests, ApplicationSubmitted)
    spec = requests.spec
    assert dict(spec.placeholder_ask) == {"vcore": 2000, "memory": 2**31, "pods": 2}
    assert (spec.style, spec.execution_timeout_ms) == ("Hard", 9000)
    assert spec.tags[keys.APP_TAG_GANG_WAIT_TIMEOUT] == "3000"
    [member] = json.loads(spec.tags[keys.APP_TAG_MEMBERS])
    labels = {"yunikorn.apache.org/app-id": "job"}
    amounts = {"memory": 2**30, "pods": 1, "vcore": 1000}
    assert member == {"name": "g", "minMember": 2, "resource": amounts, "labels": labels}


def test_a_member_and_its_placeholders_have_the_same_pod_constraints() -> None:
    """With the labels that placeholders have: the API server merges label keys into these."""
    term = {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["role", "yunikorn.apache.org/app-id"]}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    spread = [{"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "DoNotSchedule"}]
    group = a_group("g", 2, affinity=affinity, topologySpreadConstraints=spread, labels={"role": "w"})
    driver = live()
    requests = driver.see(a_pod("w0", app=APP, annotations=gang_annotations(group))).requests[0]
    assert isinstance(requests, ApplicationSubmitted)
    [member] = json.loads(requests.spec.tags[keys.APP_TAG_MEMBERS])
    [spec, _] = creates(driver.accepted())
    [ask] = [item.ask for item in driver.see(pod_of(spec)).requests if isinstance(item, AskSubmitted)]
    assert json.loads(ask.tags[keys.TAG_POD_CONSTRAINTS]) == member["podConstraints"]
    assert len(member["podConstraints"]["antiAffinity"][0]["labelSelector"]["matchExpressions"]) == 2
    prefix = keys.TAG_POD_LABEL_PREFIX
    labels = {tag.removeprefix(prefix): value for tag, value in ask.tags.items() if tag.startswith(prefix)}
    assert labels == member["labels"]


def test_all_placeholders_are_created_immediately_and_only_they_request() -> None:
    driver = live()
    driver.see(a_member())
    out = driver.accepted()
    assert len(creates(out)) == 2
    assert events(out) == [("w0", "GangScheduling", "CreatingPlaceholders")]
    assert requested_keys(out) == []
    assert requested_keys(driver.see(pod_of(creates(out)[0]))) == [f"ph-{creates(out)[0].spec.name}"]


@pytest.mark.parametrize("running_first", [True, False])
def test_members_request_when_the_application_runs_and_all_placeholders_are_bound(running_first: bool) -> None:  # noqa: FBT001
    driver, placeholders = reserving()
    if running_first:
        assert requested_keys(driver.updated("Running")) == []
    binds = [orders(driver.allocated(uid(raw)))[0] for raw in placeholders]
    assert requested_keys(driver.result(done(binds[0]))) == []
    last = driver.result(done(binds[1]))
    assert requested_keys(last) == (["uid-w0", "uid-w1"] if running_first else [])
    assert requested_keys(driver.updated("Running")) == ([] if running_first else ["uid-w0", "uid-w1"])


def test_a_replacement_is_confirmed_once_with_its_type() -> None:
    driver, placeholders = reserving()
    for raw in placeholders:
        driver.result(done(orders(driver.allocated(uid(raw)))[0]))
    driver.updated("Running")
    replaced = TerminationType.PLACEHOLDER_REPLACED
    key = PodUid(uid(placeholders[0]))
    order = Released(APP, key, replaced, AllocationId(f"{key}-0"), "uid-of-the-member")
    [deleted] = orders(driver.receive(AllocationResponse(released=(order,))))
    assert isinstance(deleted, DeletePod)
    assert deleted.reason == problems.placeholder_replaced()
    ended = driver.see(placeholders[0], phase="Failed")
    assert ended.requests == [AllocationReleased(APP, key, replaced, AllocationId(f"{key}-0"))]
    assert ended.commands == []
    assert not driver.gone_uid(key)


def test_a_placeholder_that_fails_by_itself_is_released_as_stopped_by_rm() -> None:
    driver, placeholders = reserving()
    for raw in placeholders:
        driver.result(done(orders(driver.allocated(uid(raw)))[0]))
    driver.updated("Running")
    out = driver.see(placeholders[0], phase="Failed")
    key = PodUid(uid(placeholders[0]))
    stopped = TerminationType.STOPPED_BY_RM
    assert out.requests == [AllocationReleased(APP, key, stopped, AllocationId(f"{key}-0"))]
    assert [type(command) for command in out.commands] == [DeletePod]


@pytest.mark.parametrize("state_first", [True, False])
def test_a_soft_timeout_has_the_same_result_in_both_orders_of_arrival(state_first: bool) -> None:  # noqa: FBT001
    """One placeholder has its node, the other is still requested."""
    driver, placeholders = reserving()
    held, pending = (PodUid(uid(raw)) for raw in placeholders)
    driver.result(done(orders(driver.allocated(held))[0]))
    response = AllocationResponse(
        cancelled_asks=(AskCancelled(APP, pending, TIMEOUT),),
        released=(Released(APP, held, TIMEOUT, AllocationId(f"{held}-0")),),
    )
    outs = [driver.updated("Resuming", "late")] if state_first else []
    outs.append(driver.receive(response))
    outs += [] if state_first else [driver.updated("Resuming", "late")]
    commands = [command for out in outs for command in out.commands]
    deleted = {command.pod.uid for command in commands if isinstance(command, DeletePod)}
    assert deleted == {held, pending}
    assert len([command for command in commands if isinstance(command, MarkResumed)]) == 1
    assert [c.action for c in commands if isinstance(c, PostEvent)] == ["GangSchedulingFailed", "GangIncomplete"]
    assert driver.gone_uid(pending).requests == [AskReleased(APP, pending, TIMEOUT)]
    last = driver.gone_uid(held)
    assert last.requests[0] == AllocationReleased(APP, held, TIMEOUT, AllocationId(f"{held}-0"))
    assert requested_keys(last) == ["uid-w0", "uid-w1"]
    assert requested_keys(driver.updated("Accepted")) == []


def test_a_placeholder_that_was_created_late_is_deleted_when_it_is_seen() -> None:
    driver = live()
    driver.see(a_member())
    late = pod_of(creates(driver.accepted())[0])
    driver.updated("Resuming")
    out = driver.see(late)
    assert [type(command) for command in out.commands] == [DeletePod]
    assert out.requests == []


def test_a_bad_definition_warns_with_field_and_fix_and_disables_the_gang() -> None:
    driver = live()
    out = driver.see(a_member(count=-1))
    event = out.commands[0]
    assert isinstance(event, PostEvent)
    assert (event.reason, event.action) == ("GangScheduling", "TaskGroupsError")
    assert event.note == (
        "task-groups[0].minMember: is -1; write the number of members, 0 or more. "
        "The application runs without gang scheduling."
    )
    assert requested_keys(out) == ["uid-w0"]
    [submitted] = [request for request in out.requests if isinstance(request, ApplicationSubmitted)]
    assert (
        submitted.spec.tags["muster/gang-problem"]
        == "task-groups[0].minMember: is -1; write the number of members, 0 or more"
    )


def test_a_bad_parameter_is_a_warning_and_the_gang_continues() -> None:
    out = live().see(a_member(parameters="gangSchedulingStyle=medium"))
    assert events(out) == [("w0", "GangScheduling", "TaskGroupsError")]
    assert isinstance(out.requests[0], ApplicationSubmitted)
    assert out.requests[0].spec.style == "Soft"


def test_the_submission_has_what_is_wrong_with_the_parameters() -> None:
    [submitted] = live().see(a_member(parameters="gangSchedulingStlye=Hard placeholderTimeoutInSeconds=x")).requests[:1]
    assert isinstance(submitted, ApplicationSubmitted)
    text = submitted.spec.tags[keys.APP_TAG_GANG_WARNINGS]
    assert "did you mean gangSchedulingStyle?" in text
    assert 'placeholderTimeoutInSeconds: "x"' in text


def test_a_queue_that_a_placement_rule_replaced_is_an_event_of_the_first_pod() -> None:
    driver = live()
    driver.see(a_pod("w0", app=APP))
    driver.accepted()
    out = driver.updated(keys.APP_ACCEPTED, "queue root.x is ignored")
    assert [one.note for one in out.commands if isinstance(one, PostEvent)] == ["queue root.x is ignored"]
    driver = live()
    driver.see(a_pod("w0", app=APP, nodeName="n1"))
    driver.accepted()
    assert events(driver.updated(keys.APP_ACCEPTED, "queue root.x is ignored")) == []


def test_a_member_of_an_unknown_group_causes_only_one_warning() -> None:
    driver, _ = reserving()
    out = driver.see(a_member("w2", group="other"))
    assert events(out) == [("w2", "TaskGroupsError", "TaskGroupsError")]
    [event] = [command for command in out.commands if isinstance(command, PostEvent)]
    assert "waits until the gang is complete. Valid task groups: g" in event.note
    assert "individually" not in event.note
    assert events(driver.see(a_member("w3", group="other"))) == []  # thousands have the same trouble


def a_nameless_pod(name: str, **requests: str) -> Raw:
    workers = a_group("workers", 2, minResource={"cpu": "1", "memory": "1Gi"})
    container = a_container(**(requests or {"cpu": "1000m", "memory": "1Gi"}))
    return a_pod(name, app=APP, annotations=gang_annotations(workers), containers=[container])


def test_a_pod_that_requests_what_a_free_task_group_does_and_names_none_is_reported_once() -> None:
    driver = live()
    out = driver.see(a_nameless_pod("w0"))
    [event] = [command for command in out.commands if isinstance(command, PostEvent)]
    assert (event.name, event.reason) == ("w0", "TaskGroupsError")
    assert event.note == (
        "yunikorn.apache.org/task-group-name is missing, so the pod is in no task group of application job, and does "
        "not use the resources reserved for workers, whose members request the same; set it to workers"
    )
    assert events(driver.see(a_nameless_pod("w1"))) == []


def test_a_driver_without_a_task_group_is_legitimate_if_it_requests_something_else_or_the_group_is_full() -> None:
    driver = live()
    assert events(driver.see(a_nameless_pod("driver", cpu="2", memory="1Gi"))) == []
    for name in ("w0", "w1"):
        raw = a_nameless_pod(name)
        raw["metadata"]["annotations"]["yunikorn.apache.org/task-group-name"] = "workers"
        assert events(driver.see(raw)) == []
    assert events(driver.see(a_nameless_pod("submitter"))) == []


def test_a_later_definition_is_not_read_and_its_first_pod_is_reported() -> None:
    driver = live()
    assert events(driver.see(a_pod("w0", app=APP))) == []
    out = driver.see(a_member("w1"))
    event = out.commands[0]
    assert isinstance(event, PostEvent)
    assert (event.name, event.action) == ("w1", "TaskGroupsError")
    assert event.note.startswith(
        "yunikorn.apache.org/task-groups: application job was created by pod w0 without task groups; this pod is"
    )
    assert events(driver.see(a_member("w2"))) == []
    assert creates(driver.accepted()) == []


@pytest.mark.parametrize("first, app", [("", ""), ("other", ""), ("invalid", ""), ("other", "job"), ("invalid", "job")])
def test_task_groups_that_are_not_used_are_reported_on_each_workload(first: str, app: str) -> None:
    """Whether the first pod of the application has none, other ones, or invalid ones."""
    texts = {"other": gang_annotations(a_group("other", 1)), "invalid": {TASK_GROUPS: "["}}
    driver = live()
    driver.see(a_pod("w0", app=app, annotations=texts.get(first, {})))
    for name in ("w1", "w2"):
        out = driver.see(a_pod(name, app=app, annotations=gang_annotations(a_group(f"of-{name}", 2))))
        [event] = [one for one in out.commands if isinstance(one, PostEvent) and TASK_GROUPS in one.note]
        assert (event.name, "w0" in event.note) == (name, True)


def test_an_undefined_group_is_reported() -> None:
    raw = a_pod("w0", app=APP, annotations=gang_annotations(member_of="g"))
    assert events(live().see(raw)) == [("w0", "TaskGroupsError", "TaskGroupsError")]


def test_gang_scheduling_can_be_switched_off() -> None:
    driver = live()
    driver.ledger.settings = Settings(disable_gang=True)
    assert requested_keys(driver.see(a_member())) == ["uid-w0"]


def test_a_users_placeholder_is_never_deleted_as_an_orphan() -> None:
    driver = live()
    raw = a_pod("mine", app=APP, annotations={"internal.yunikorn.apache.org/placeholder": "true"})
    out = driver.see(raw)
    assert orders(out) == []
    assert events(out) == [("mine", "TaskRejected", "TaskRejected")]


@pytest.mark.parametrize("style, ends", [("", MarkResumed), ("gangSchedulingStyle=Hard", FailPod)])
def test_a_placeholder_whose_requests_a_webhook_changed_is_deleted_and_its_gang_given_up(
    style: str, ends: type[object]
) -> None:
    driver = live()
    driver.see(a_member(parameters=style))
    command, *_ = creates(driver.accepted())
    driver.result(done(command))
    raw = json.loads(json.dumps(pod_of(command)))
    raw["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "250m"
    out = driver.see(raw)
    assert [one.pod.name for one in orders(out) if isinstance(one, DeletePod)] == [command.spec.name]
    assert [one for one in orders(out) if isinstance(one, ends)]
    [failure] = [one for one in out.commands if isinstance(one, PostEvent) and one.action == "PlaceholderCreateFailed"]
    assert '"1"' in failure.note
    assert '"250m"' in failure.note
    assert not creates(driver.wait(3600))
    assert driver.ledger.tasks.keys() <= {"uid-w0"}


def test_placeholder_requests_that_kubernetes_rounds_up_are_accepted() -> None:
    driver = live()
    group = {**a_group("g", 1), "minResource": {"cpu": "500u", "memory": "1Gi"}}
    container = a_container(cpu="500u", memory="1Gi")
    driver.see(a_pod("w0", app=APP, annotations=gang_annotations(group, member_of="g"), containers=[container]))
    [command] = creates(driver.accepted())
    raw = json.loads(json.dumps(pod_of(command)))
    raw["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1m"
    assert requested_keys(driver.see(raw)) == [f"ph-{command.spec.name}"]


def test_a_create_conflict_with_the_same_placeholder_is_no_failure() -> None:
    driver = live()
    driver.see(a_member())
    command = creates(driver.accepted())[0]
    assert not driver.result(refused(command, 409, "already exists"))
    assert requested_keys(driver.see(pod_of(command))) == [f"ph-{command.spec.name}"]


@pytest.mark.parametrize("status", [None, 429, 503])
def test_an_unconfirmed_create_is_repeated_under_the_same_name_and_finally_given_up(status: int | None) -> None:
    """The API server did not respond, or failed for longer than the retries."""
    driver = live()
    driver.see(a_member())
    first, second = creates(driver.accepted())
    driver.see(pod_of(first))
    repeated = 0
    for _ in range(20):
        driver.result(CommandUnanswered(second) if status is None else refused(second, status))
        out = driver.wait(10)
        repeated += len(creates(out))
        assert all(command == second for command in creates(out))
        if ("w0", "GangScheduling", "PlaceholderCreateFailed") in events(out):
            break
    assert repeated == 4
    assert driver.ledger.applications[APP].slots == {}


def test_a_gang_whose_placeholder_request_is_rejected_is_given_up() -> None:
    driver, placeholders = reserving()
    rejected = AskRejected(APP, PodUid(uid(placeholders[0])), "too large")
    out = driver.receive(AllocationResponse(rejected_asks=(rejected,)))
    assert ("w0", "GangScheduling", "PlaceholderCreateFailed") in events(out)
    assert len([command for command in out.commands if isinstance(command, DeletePod)]) == 2


def test_a_delete_without_effect_is_repeated_and_reported_once() -> None:
    driver, placeholders = reserving()
    deletes = [command for command in driver.updated("Resuming").commands if isinstance(command, DeletePod)]
    for command in deletes:
        driver.result(done(command))
    assert driver.wait(5).commands == deletes
    reported = [event for _ in range(30) for event in events(driver.wait(10))]
    assert sorted(reported) == sorted(
        (raw["metadata"]["name"], "DeleteUnconfirmed", "DeleteUnconfirmed") for raw in placeholders
    )


def test_a_placeholder_that_does_not_terminate_is_force_deleted_and_reported() -> None:
    driver, _ = reserving()
    first = next(command for command in driver.updated("Resuming").commands if isinstance(command, DeletePod))
    driver.result(done(first))
    forced: list[bool] = []
    while not any(forced):
        out = driver.wait(5)
        forced = [item.force for item in out.commands if isinstance(item, DeletePod) and item.pod == first.pod]
        assert bool(events(out)) == any(forced)
        for force in forced:
            driver.result(done(DeletePod(first.pod, first.reason, force)))


def test_the_delete_of_a_terminating_placeholder_is_not_repeated_until_it_is_forced() -> None:
    driver, placeholders = reserving()
    first, *_ = [command for command in driver.updated("Resuming").commands if isinstance(command, DeletePod)]
    driver.result(done(first))
    raw = next(raw for raw in placeholders if raw["metadata"]["name"] == first.pod.name)
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    driver.see(raw)
    repeated = [
        (command.force, second)
        for second in range(1, 41)
        for command in driver.wait(1).commands
        if isinstance(command, DeletePod) and command.pod == first.pod
    ]
    [(is_forced, second)] = repeated
    warning_s = driver.ledger.settings.delete_warning_s
    assert is_forced
    assert warning_s <= second <= warning_s + driver.ledger.settings.delete_retry_s


def test_a_delete_that_is_queued_behind_other_writes_is_not_reported_as_unconfirmed() -> None:
    driver, _ = reserving()
    deletes = [command for command in driver.updated("Resuming").commands if isinstance(command, DeletePod)]
    assert not [event for _ in range(10) for event in events(driver.wait(10))]
    driver.result(done(deletes[0]))
    assert not events(driver.wait(20))
    [reported] = [event for _ in range(10) for event in events(driver.wait(10))]
    assert reported == (deletes[0].pod.name, "DeleteUnconfirmed", "DeleteUnconfirmed")


def test_a_surplus_placeholder_is_deleted() -> None:
    driver, placeholders = reserving()
    extra = copy.deepcopy(placeholders[0])
    extra["metadata"] |= {"name": "tg-job-g-extra", "uid": "ph-extra"}
    sign_placeholder(extra, ordinal=99)
    out = driver.see(extra)
    assert [type(command) for command in out.commands] == [DeletePod]
    assert len(driver.ledger.applications[APP].slots) == len(placeholders)


def test_timed_out_placeholders_are_not_recreated_even_if_the_state_arrives_last() -> None:
    """The pods are deleted before the core's Resuming arrives."""
    driver, placeholders = reserving()
    outs = [driver.cancelled(uid(raw)) for raw in placeholders]
    outs += [driver.gone_uid(PodUid(uid(raw))) for raw in placeholders]
    assert [command for out in outs for command in creates(out)] == []
    assert requested_keys(driver.updated("Resuming")) == ["uid-w0", "uid-w1"]


def test_a_preempted_placeholder_is_created_again_while_the_gang_reserves() -> None:
    driver, placeholders = reserving()
    key = PodUid(uid(placeholders[0]))
    driver.result(done(orders(driver.allocated(key))[0]))
    driver.released(key, TerminationType.PREEMPTED_BY_SCHEDULER)
    (again,) = creates(driver.gone_uid(key))
    assert again.spec.name not in {raw["metadata"]["name"] for raw in placeholders}


def test_a_late_allocation_of_a_terminating_placeholder_is_released_when_it_is_deleted() -> None:
    driver, placeholders = reserving()
    key = PodUid(uid(placeholders[0]))
    driver.updated("Resuming")
    assert not driver.allocated(key)
    stopped = TerminationType.STOPPED_BY_RM
    assert driver.gone_uid(key).requests == [AllocationReleased(APP, key, stopped, AllocationId(f"{key}-0"))]


@pytest.mark.parametrize("bound", [True, False])
def test_a_placeholder_on_a_deleted_node_is_replaced_without_waiting_for_garbage_collection(bound: bool) -> None:  # noqa: FBT001
    driver, placeholders = reserving()
    key = PodUid(uid(placeholders[0]))
    driver.allocated(key)
    if bound:
        placeholders[0]["spec"]["nodeName"] = "n1"
        driver.see(placeholders[0])
    out = driver.fact(NodeGone(NodeName("n1")))
    assert out.requests == [NodeDecommissioned(NodeName("n1"))]
    assert [command.pod.uid for command in out.commands if isinstance(command, DeletePod)] == [key]
    gone = driver.gone_uid(key)
    assert gone.requests == []  # the core dropped it with the node
    assert len(creates(gone)) == 1
