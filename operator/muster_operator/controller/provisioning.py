"""ProvisioningRequests: request all nodes of a gang from Cluster Autoscaler in one object.

Only for gangs with the placement Reserve, because the pods that wait for the nodes are then placeholders,
which have the annotations of the request from the start. Members would need a patch before each condition.
"""

from __future__ import annotations

from collections import Counter

from muster_operator.controller import reporting
from muster_operator.controller.state import Application, Ledger, Task
from muster_operator.model import messages, names
from muster_operator.model.commands import (
    CommandFailed,
    CommandSucceeded,
    NodesRequest,
    Outcome,
    PodSet,
    RequestNodes,
    Result,
    WithdrawNodes,
)
from muster_operator.model.ids import AppId
from muster_operator.model.limits import POD_SETS
from muster_operator.model.pods import GangDefinition, PlaceholderSpec, TaskGroup
from muster_operator.model.states import AppState, TaskState
from muster_operator.translate.placeholders import nodes_request_name

_NOT_FOUND = 404


def _gang_of(ledger: Ledger, app: Application) -> GangDefinition | None:
    """The gang, if it can have a ProvisioningRequest. A task group with the annotation has a request of its user."""
    gang = app.gang
    if not ledger.settings.provisioning_class or gang is None or gang.uses_virtual_placeholders:
        return None
    has_own = any(names.ANNOTATION_CONSUME_REQUEST in group.annotations for group in gang.groups)
    return None if has_own or len(gang.groups) > POD_SETS else gang


def request_name(ledger: Ledger, app: Application) -> str:
    """The name of the gang's ProvisioningRequest; empty = it cannot have one."""
    return nodes_request_name(app.originator.ref.uid, app.name) if _gang_of(ledger, app) else ""


def state_changed(ledger: Ledger, out: Outcome, app_id: AppId, _now: float) -> None:
    """The core reported why placeholders of a gang wait: requests nodes for the first time.

    Later requests are left to the checks, so that a reason that changes often does not cause writes.
    """
    app = ledger.applications.get(app_id)
    gang = _gang_of(ledger, app) if app is not None else None
    if app is not None and gang is not None and app.has_nodes_request is None:
        _request_nodes(ledger, out, app, gang)


def _request_nodes(ledger: Ledger, out: Outcome, app: Application, gang: GangDefinition) -> None:
    """Requests nodes if all placeholders exist, and each one without a node waits for nodes."""
    waiting = _waiting(app)
    if app.state is not AppState.RESERVING or not waiting or reporting.count_placeholders(app)[0] < app.wanted:
        return
    if all(_waits_for_nodes(task) for task in waiting):
        app.has_nodes_request = True
        out.commands.append(RequestNodes(_request(ledger, app, gang, waiting)))


def check(ledger: Ledger, out: Outcome, app_id: AppId) -> None:
    """Timer: requests nodes, reads the conditions of the request, or withdraws it if no placeholder waits for nodes."""
    app = ledger.applications.get(app_id)
    gang = _gang_of(ledger, app) if app is not None else None
    if app is None or gang is None or app.state is not AppState.RESERVING:
        return
    waiting = _waiting(app)
    if not app.has_nodes_request:
        _request_nodes(ledger, out, app, gang)
    elif any(_waits_for_nodes(task) for task in waiting):
        out.commands.append(RequestNodes(_request(ledger, app, gang, waiting), is_created=True))
    else:
        withdraw(ledger, out, app)


def withdraw(ledger: Ledger, out: Outcome, app: Application) -> None:
    """Deletes the gang's ProvisioningRequest if it has one, or can have one since before a restart."""
    gang = _gang_of(ledger, app)
    if gang is None or app.has_nodes_request is False:
        return
    app.has_nodes_request, app.nodes_problem = False, ""
    out.commands.append(WithdrawNodes(app.originator.ref, request_name(ledger, app), len(gang.groups)))


def answered(ledger: Ledger, out: Outcome, result: Result, command: RequestNodes) -> None:
    """Posts a problem of the request once. A request that does not exist is created at the next check."""
    app = ledger.applications.get(command.request.app)
    if app is None or not app.has_nodes_request or app.originator.ref != command.request.originator:
        return
    note = None
    match result:
        case CommandSucceeded(problem=problem) if problem:
            note = messages.nodes_not_provided(problem)
        case CommandFailed(status=status) if status == _NOT_FOUND:  # a user deleted it, or the namespace is gone
            app.has_nodes_request, app.nodes_problem = False, ""
        case CommandFailed(message=message):
            app.has_nodes_request = command.is_created
            note = messages.nodes_not_requested(command.request.name, message)
        case _:
            pass  # created, or without an answer: the next check reads the request
    if note is not None and note.text != app.nodes_problem:
        app.nodes_problem = note.text
        reporting.post(out, app.originator.ref, note)


def _waiting(app: Application) -> list[Task]:
    return [task for task in app.placeholders.values() if task.state in {TaskState.PENDING, TaskState.SCHEDULING}]


def _waits_for_nodes(task: Task) -> bool:
    shortage = task.shortage
    return shortage is not None and shortage.reason == messages.UNSCHEDULABLE and not shortage.nominated_node


def _request(ledger: Ledger, app: Application, gang: GangDefinition, waiting: list[Task]) -> NodesRequest:
    counts = Counter(task.pod.membership.task_group for task in waiting)
    pod_sets = tuple(
        PodSet(index, counts[group.name], placeholder_template(app, group))
        for index, group in enumerate(gang.groups)
        if counts[group.name]
    )
    originator = app.originator.ref
    return NodesRequest(request_name(ledger, app), app.id, originator, ledger.settings.provisioning_class, pod_sets)


def placeholder_template(app: Application, group: TaskGroup) -> PlaceholderSpec:
    """What the placeholders of a task group have in common: no name, ordinal or signature."""
    group = app.effective(group)
    pod = app.originator
    return PlaceholderSpec(
        name="",
        app=app.id,
        queue=app.queue,
        group=group,
        owner=pod.ref,
        scheduler_name=pod.scheduler_name,
        priority_class=pod.priority_class,
        image_pull_secrets=pod.image_pull_secrets,
        source=app.source,
    )
