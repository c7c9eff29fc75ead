"""ProvisioningRequests of gangs: when one is created, read and withdrawn, and what is reported."""

from dataclasses import replace
from typing import Any

import pytest

from muster_operator.controller import reporting
from muster_operator.model.commands import (
    CommandFailed,
    CommandSucceeded,
    CommandUnanswered,
    Outcome,
    PostEvent,
    RequestNodes,
    WithdrawNodes,
)
from muster_operator.model.core_messages import SchedulingState, SchedulingStateChanged, SchedulingStates
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.limits import POD_SETS
from muster_operator.model.names import ANNOTATION_CONSUME_REQUEST, ANNOTATION_PROVISIONING_CLASS, CHECK_CAPACITY
from muster_operator.model.pods import GangDefinition
from muster_operator.model.settings import Settings
from muster_operator.translate.placeholders import placeholder_body
from muster_si import keys
from tests.unit.operator.controller import gang
from tests.unit.operator.controller.driver import APP, Driver, done
from tests.unit.operator.controller.gang import creates, uid
from tests.unit.operator.controller.objects import Raw

FAILED, SKIPPED = SchedulingState.FAILED, SchedulingState.SKIPPED
#: Longer than the longest pause between two checks of a gang.
A_CHECK_S = 61.0


def reserving(parameters: str = "", provisioning_class: str = CHECK_CAPACITY) -> tuple[Driver, list[Raw]]:
    """A gang of two whose placeholders exist, with the setting."""
    return gang.reserving(parameters=parameters, settings=Settings(provisioning_class=provisioning_class))


def waits(driver: Driver, placeholders: list[Raw], state: SchedulingState = FAILED) -> Outcome:
    """The core reports this about these placeholders."""
    kind = "" if state is FAILED else keys.REASON_QUOTA
    changes = (SchedulingStateChanged(APP, PodUid(uid(raw)), state, "why", kind) for raw in placeholders)
    return driver.receive(SchedulingStates(tuple(changes)))


def preempts(driver: Driver, placeholders: list[Raw]) -> Outcome:
    """The core has preempted pods for these placeholders."""
    state, node = SchedulingState.RESERVED, NodeName("n1")
    changes = (SchedulingStateChanged(APP, PodUid(uid(raw)), state, "why", "reserved", node) for raw in placeholders)
    return driver.receive(SchedulingStates(tuple(changes)))


def of_requests(out: Outcome) -> list[RequestNodes | WithdrawNodes]:
    return [command for command in out.commands if isinstance(command, RequestNodes | WithdrawNodes)]


def requested(driver: Driver, placeholders: list[Raw]) -> RequestNodes:
    """The request after all placeholders were reported to wait for nodes."""
    [command] = of_requests(waits(driver, placeholders))
    assert isinstance(command, RequestNodes)
    return command


def problems(out: Outcome) -> list[tuple[str, str]]:
    found = [command for command in out.commands if isinstance(command, PostEvent)]
    return [(event.action, event.note) for event in found if event.action.startswith("NodesNot")]


def bind(driver: Driver, raw: Raw) -> Outcome:
    [command] = [one for one in driver.allocated(uid(raw)).commands if not isinstance(one, PostEvent)]
    return driver.result(done(command))  # type: ignore[arg-type] # a bind


def test_a_gang_that_waits_for_nodes_has_one_request() -> None:
    driver, placeholders = reserving()
    assert not of_requests(waits(driver, placeholders[:1]))
    command = requested(driver, placeholders[1:])
    assert not command.is_created
    assert [(one.group, one.count) for one in command.request.pod_sets] == [(0, 2)]
    assert command.request.provisioning_class == CHECK_CAPACITY
    assert not of_requests(waits(driver, placeholders))


def test_only_members_without_a_node_are_requested() -> None:
    driver, placeholders = reserving()
    bind(driver, placeholders[0])
    assert [one.count for one in requested(driver, placeholders[1:]).request.pod_sets] == [1]


def test_placeholders_name_the_request_and_its_class() -> None:
    driver, placeholders = reserving()
    name = requested(driver, placeholders).request.name
    for raw in placeholders:
        annotations = raw["metadata"]["annotations"]
        assert annotations[ANNOTATION_CONSUME_REQUEST] == name
        assert annotations[ANNOTATION_PROVISIONING_CLASS] == CHECK_CAPACITY


def test_without_the_setting_there_is_no_request_and_no_annotation() -> None:
    driver, placeholders = reserving(provisioning_class="")
    assert not of_requests(waits(driver, placeholders))
    assert not of_requests(driver.wait(A_CHECK_S))
    assert all(ANNOTATION_CONSUME_REQUEST not in raw["metadata"]["annotations"] for raw in placeholders)
    assert not of_requests(driver.updated(keys.APP_RUNNING))


def test_a_gang_for_which_pods_are_preempted_has_no_request() -> None:
    driver, placeholders = reserving()
    assert not of_requests(preempts(driver, placeholders))
    assert not of_requests(driver.wait(A_CHECK_S))


def test_a_gang_that_waits_for_quota_has_no_request() -> None:
    driver, placeholders = reserving()
    assert not of_requests(waits(driver, placeholders, SKIPPED))
    assert not of_requests(driver.wait(A_CHECK_S))


@pytest.mark.parametrize("parameters", ["gangPlacement=Direct", "gangPlacement=Auto"])
def test_gangs_whose_members_wait_for_nodes_have_no_request(parameters: str) -> None:
    driver, _ = reserving(parameters)
    change = SchedulingStateChanged(APP, PodUid(f"{APP}/g"), FAILED, "why")
    assert not of_requests(driver.receive(SchedulingStates((change,))))
    out = driver.wait(A_CHECK_S)
    assert not of_requests(out)
    assert all(not command.spec.nodes_request for command in creates(out))


@pytest.mark.parametrize("changed", ["annotation", "groups"])
def test_gangs_with_a_request_of_their_own_or_too_many_groups_have_no_request(changed: str) -> None:
    driver, placeholders = reserving()
    app = driver.ledger.applications[APP]
    assert app.gang is not None
    app.gang = with_own_request(app.gang) if changed == "annotation" else with_many_groups(app.gang)
    assert not of_requests(waits(driver, placeholders))


def with_own_request(gang: GangDefinition) -> GangDefinition:
    return replace(gang, groups=(replace(gang.groups[0], annotations={ANNOTATION_CONSUME_REQUEST: "mine"}),))


def with_many_groups(gang: GangDefinition) -> GangDefinition:
    return replace(gang, groups=gang.groups * (POD_SETS + 1))


def test_the_request_is_withdrawn_when_the_gang_is_complete() -> None:
    driver, placeholders = reserving()
    command = requested(driver, placeholders)
    bind(driver, placeholders[0])
    bind(driver, placeholders[1])
    [withdrawn] = of_requests(driver.updated(keys.APP_RUNNING))
    assert withdrawn == WithdrawNodes(command.request.originator, command.request.name, groups=1)


@pytest.mark.parametrize("state", [keys.APP_RESUMING, keys.APP_FAILING])
def test_the_request_is_withdrawn_once_when_the_gang_is_given_up(state: str) -> None:
    driver, placeholders = reserving()
    requested(driver, placeholders)
    [withdrawn] = of_requests(driver.updated(state, "timeout"))
    assert isinstance(withdrawn, WithdrawNodes)


def test_the_request_is_withdrawn_at_the_next_check_when_the_gang_waits_for_quota() -> None:
    driver, placeholders = reserving()
    requested(driver, placeholders)
    assert not of_requests(waits(driver, placeholders, SKIPPED))
    [withdrawn] = of_requests(driver.wait(reporting.FIRST_CHECK_S))
    assert isinstance(withdrawn, WithdrawNodes)
    assert not of_requests(waits(driver, placeholders)), "a reason that changes often must not cause writes"
    [again, *_] = of_requests(driver.wait(A_CHECK_S))
    assert isinstance(again, RequestNodes)
    assert not again.is_created


def test_a_problem_of_the_autoscaler_is_posted_once() -> None:
    driver, placeholders = reserving()
    driver.result(CommandSucceeded(requested(driver, placeholders)))
    [read] = of_requests(driver.wait(reporting.FIRST_CHECK_S))
    assert isinstance(read, RequestNodes)
    assert read.is_created
    [(action, note)] = problems(driver.result(CommandSucceeded(read, problem="no quota in the cloud")))
    assert action == "NodesNotProvided"
    assert "no quota in the cloud" in note
    assert not problems(driver.result(CommandSucceeded(read, problem="no quota in the cloud")))


@pytest.mark.parametrize("status, posted", [(403, 1), (409, 1), (404, 0)])
def test_a_request_that_cannot_be_created_is_sent_again_at_the_next_check(status: int, posted: int) -> None:
    driver, placeholders = reserving()
    command = requested(driver, placeholders)
    failed = CommandFailed(command, status, "", "not permitted")
    assert len(problems(driver.result(failed))) == posted
    assert not of_requests(waits(driver, placeholders))
    [again] = of_requests(driver.wait(reporting.FIRST_CHECK_S))
    assert again == command
    assert not problems(driver.result(failed))


def test_a_deleted_request_is_created_again_and_an_unanswered_one_is_read() -> None:
    driver, placeholders = reserving()
    command = requested(driver, placeholders)
    driver.result(CommandUnanswered(command))
    [read] = of_requests(driver.wait(reporting.FIRST_CHECK_S))
    assert isinstance(read, RequestNodes)
    assert read.is_created
    driver.result(CommandFailed(read, 404, "NotFound", "not found"))
    [again, *_] = of_requests(driver.wait(A_CHECK_S))
    assert again == command


def test_the_placeholder_of_a_template_is_a_valid_pod_specification() -> None:
    driver, placeholders = reserving()
    [pod_set] = requested(driver, placeholders).request.pod_sets
    template: dict[str, Any] = dict(placeholder_body(pod_set.placeholder, Settings()))
    assert template["spec"] == placeholders[0]["spec"]
