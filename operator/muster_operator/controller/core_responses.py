"""Handlers of core responses and of command results.

A response of the core becomes commands: create or delete a placeholder, bind a pod, report a failure reason. A
command result moves the task of its pod to the next state, or schedules a retry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from msgspec.structs import replace

from muster_operator.controller import (
    absent_members,
    applications,
    device_claims,
    mismatches,
    nodes,
    placeholders,
    provisioning,
    rejections,
    reporting,
    state,
    tasks,
    volume_binding,
)
from muster_operator.controller.isolation import isolate
from muster_operator.controller.state import Application, Ledger, Phase, SlotState, Task
from muster_operator.model import messages, problems
from muster_operator.model.commands import (
    BindPod,
    ClaimVolume,
    Command,
    CommandFailed,
    CommandSucceeded,
    CommandUnanswered,
    CreateClaim,
    CreatePlaceholder,
    DeletePod,
    FailPod,
    MarkResumed,
    Outcome,
    RequestNodes,
    ReserveClaim,
    Result,
    SelectNode,
    SetCondition,
)
from muster_operator.model.core_messages import (
    Allocated,
    AllocationRejected,
    AllocationReleased,
    AllocationResponse,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationResponse,
    ApplicationUpdated,
    AskCancelled,
    AskRejected,
    AskReleased,
    CoreEvents,
    CoreResponse,
    NodeRecommended,
    NodeResponse,
    Recommendations,
    Released,
    SchedulingStates,
    TerminationType,
)
from muster_operator.model.event_texts import Note
from muster_operator.model.ids import AppId, PodUid
from muster_operator.model.states import AppState, TaskEvent, TaskState
from muster_si import keys

_FORBIDDEN: Final = 403
_GONE: Final = 404
_CONFLICT: Final = 409

#: Number of attempts of a bind without an answer before it counts as failed.
_MAX_BINDS: Final = 3


def handle_command_result(ledger: Ledger, out: Outcome, result: Result, now: float) -> None:
    """Handles the result of a command and adds the consequences to ``out``."""
    if isinstance(result.command, DeletePod) and (deletion := ledger.deletions.get(result.command.pod.uid)):
        deletion.answered = now
        deletion.confirmed_at = now if deletion.confirmed_at is None else deletion.confirmed_at
    if ledger.phase is not Phase.LIVE:
        _record_result(ledger, result)
        return
    match result.command:
        case BindPod():
            _bind(ledger, out, result, result.command, now)
        case CreatePlaceholder():
            _create(ledger, out, result, result.command, now)
        case RequestNodes() as command:
            provisioning.answered(ledger, out, result, command)
        case ClaimVolume() | SelectNode() | ReserveClaim() as command:
            volume_binding.binding_answered(ledger, out, result, command, now)
        case CreateClaim() as command:
            device_claims.claim_answered(ledger, result, command, now)
        case FailPod() | MarkResumed() | SetCondition() as command:
            rejections.write_answered(ledger, result, command, now)
        case _:
            pass  # the watch shows the effects of the other commands


def _record_result(ledger: Ledger, result: Result) -> None:
    """Handles a result while no session is live: records the node of a pod that was bound.

    Results of commands that recovery has sent are handled when the session is live.
    """
    match result:
        case CommandSucceeded(command=BindPod(pod=ref, node=node, signature=signature)):
            pod = ledger.pods.get(ref.uid)
            if pod is not None and pod.node is None:
                ledger.pods[ref.uid] = replace(pod, node=node, binding=signature)
        case _ if ledger.phase is Phase.RECOVERING and _is_of_recovery(ledger, result.command):
            ledger.postponed.append(result)
        case _:
            return


def _is_of_recovery(ledger: Ledger, command: Command) -> bool:
    match command:
        case CreatePlaceholder() | SetCondition():
            return True
        case FailPod(pod=ref):  # the command can be of an earlier session, and the pod can be requested again now
            task = ledger.tasks.get(ref.uid)
            return task is not None and task.state is TaskState.FAILED
        case _:
            return False


def _bind(ledger: Ledger, out: Outcome, result: Result, command: BindPod, now: float) -> None:
    task = ledger.tasks.get(command.pod.uid)
    if task is None or task.state is not TaskState.ALLOCATED or task.node != command.node:
        return
    match result:
        case CommandSucceeded():
            tasks.mark_bound(ledger, out, task)
            if command.placeholder:
                applications.placeholder_bound(ledger, out, task, now)
        case CommandUnanswered() if task.binds < _MAX_BINDS:
            task.binds += 1
            out.commands.append(command)
        case CommandUnanswered():
            task.reservations = ()  # the pod may be bound, and needs its devices then; else the sweep finds them
            _bind_failed(ledger, out, task, now, problems.no_answer())
        case CommandFailed(status=status) if status == _GONE:
            return  # the watch will show that the pod is gone
        case CommandFailed(message=message):
            _bind_failed(ledger, out, task, now, message)


def _bind_failed(ledger: Ledger, out: Outcome, task: Task, now: float, message: str) -> None:
    reporting.post(out, task.pod.ref, messages.bind_failed(task.node or "", message))
    is_kept = rejections.keep_place(ledger, out, task, now)
    tasks.roll_back(ledger, out, task, now, message, has_slot_again=is_kept)


def _may_pass(result: CommandFailed) -> bool:
    """Whether a creation is tried again after a pause. The namespace may be gone: then its pods are deleted with it.

    Admission webhooks can reject with the status of a missing namespace.
    """
    is_terminating = result.status == _FORBIDDEN and "is being terminated" in result.message
    return result.may_pass or result.status == _GONE or is_terminating


def _create(ledger: Ledger, out: Outcome, result: Result, command: CreatePlaceholder, now: float) -> None:
    app = ledger.applications.get(command.spec.app)
    slot = app.slots.get(command.spec.name) if app else None
    if app is None:
        return
    if slot is not None and slot.state is SlotState.ORDERED:
        if isinstance(result, CommandFailed) and not _may_pass(result):
            problem = problems.placeholder_not_created(slot.name, result.message)
            applications.give_up_gang(ledger, out, app, now, problem)
        else:
            slot.state = SlotState.CREATED
            slot.is_taken = isinstance(result, CommandFailed) and result.status == _CONFLICT
    placeholders.creation_answered(ledger, out, app, command.spec.name)


#: Types with which the core confirms a release of the operator. See docs/internals/semantics.md, 4.
_CONFIRMATIONS = frozenset({TerminationType.STOPPED_BY_RM, TerminationType.UNKNOWN})


def handle_core_response(ledger: Ledger, response: CoreResponse, now: float) -> Outcome:
    """Handles a message of the core. ``now``: seconds of a monotonic clock."""
    out = Outcome()
    response_received(ledger, out, response, now)
    return out


def response_received(ledger: Ledger, out: Outcome, response: CoreResponse, now: float) -> None:
    """Handles a message of the core and adds the consequences to ``out``. Each of its parts is isolated."""
    if ledger.phase is Phase.LIVE:
        _handle(ledger, out, response, now)
    elif ledger.phase is Phase.RECOVERING:
        if isinstance(response, ApplicationResponse):
            _application_answers(ledger, out, response, now)
            response = ApplicationResponse(updated=response.updated)
        ledger.postponed.append(response)


def _handle(ledger: Ledger, out: Outcome, response: CoreResponse, now: float) -> None:
    match response:
        case AllocationResponse():
            _allocations(ledger, out, response, now)
        case ApplicationResponse():
            _application_answers(ledger, out, response, now)
            for update in response.updated:
                isolate(_updated, ledger, out, update, now)
        case NodeResponse():
            for name in response.accepted:
                isolate(nodes.accepted, ledger, out, name, now)
            for rejection in (response.rejected or {}).items():
                isolate(nodes.rejected, ledger, out, rejection, now)
        case SchedulingStates():
            _states(ledger, out, response, now)
        case CoreEvents():
            for event in response.events:
                isolate(reporting.report_core_event, ledger, out, event, now)
        case Recommendations():
            for found in response.nodes:
                isolate(_recommended, ledger, out, found, now)


def _states(ledger: Ledger, out: Outcome, response: SchedulingStates, now: float) -> None:
    """Handles states of pods, and of task groups that the core reserves for without placeholder pods."""
    reporting.pod_states_changed(ledger, out, response.changes, now)
    of_groups = [change for change in response.changes if change.key not in ledger.tasks]
    for change in of_groups:
        if change.kind == keys.REASON_TIMED_OUT:
            isolate(absent_members.slots_timed_out, ledger, out, change, now)
    reporting.states_changed(ledger, out, of_groups, now)
    if ledger.settings.provisioning_class:
        for app in dict.fromkeys(change.app for change in response.changes):
            isolate(provisioning.state_changed, ledger, out, app, now)


def _recommended(ledger: Ledger, out: Outcome, found: NodeRecommended, _now: float) -> None:
    node = ledger.nodes.get(found.node)
    if node is not None:
        reporting.post_node(out, node.name, node.uid, messages.node_recommendation(found.message))


def _allocations(ledger: Ledger, out: Outcome, response: AllocationResponse, now: float) -> None:
    """Handles the parts of a message in this order. See docs/internals/semantics.md, 1."""
    for cancelled in _by_key(ledger, response.cancelled_asks):
        isolate(_ask_cancelled, ledger, out, cancelled, now)
    for released in _by_key(ledger, response.released):
        isolate(_released, ledger, out, released, now)
    for allocated in response.allocated:
        isolate(_allocated, ledger, out, allocated, now)
    for refused in response.rejected_asks:
        isolate(_ask_rejected, ledger, out, refused, now)
    for rejected in response.rejected_allocations:
        isolate(_allocation_rejected, ledger, out, rejected, now)


KeyedOrder = TypeVar("KeyedOrder", AskCancelled, Released)


def _by_key(ledger: Ledger, orders: Iterable[KeyedOrder]) -> Iterator[KeyedOrder]:
    """The orders. One without a key applies to all keys of the application. See docs/internals/semantics.md, 3."""
    for order in orders:
        yield from [order] if order.key else [replace(order, key=key) for key in _all_keys(ledger, order.app)]


def _all_keys(ledger: Ledger, app_id: AppId) -> list[PodUid]:
    app = ledger.applications.get(app_id)
    return [*app.members, *app.placeholders] if app else []


def _task(ledger: Ledger, app_id: AppId, key: PodUid) -> Task | None:
    """The task, unless the pod belongs to another application by now and the message is outdated."""
    task = ledger.tasks.get(key)
    return task if task is not None and task.app == app_id else None


def _ask_cancelled(ledger: Ledger, out: Outcome, order: AskCancelled, now: float) -> None:
    """Deletes a placeholder if its request was cancelled. A real pod waits until it can be requested again."""
    key, task = order.key, _task(ledger, order.app, order.key)
    if order.termination in _CONFIRMATIONS or task is None or not task.asked:
        return
    if task.pod.membership.placeholder:
        task.release = order.termination
        state.recount(task)
        tasks.kill(ledger, out, task, now, _reason(order))
        return
    task.asked = False
    task.shortage = None
    out.requests.append(AskReleased(order.app, key, order.termination))
    if task.state is TaskState.SCHEDULING:
        applications.request_declined(ledger, out, task, now)


def _released(ledger: Ledger, out: Outcome, order: Released, now: float) -> None:
    """Deletes the pod. The release is confirmed when the pod is gone, or now if the core released no pod."""
    key, task = order.key, _task(ledger, order.app, order.key)
    if order.termination in _CONFIRMATIONS:
        if task is not None and task.held and task.allocation_id == order.allocation_id:
            tasks.resend(ledger, out, task)  # the core allocated a node that was gone by then and is back now
        return
    if task is not None and task.asked:
        return  # already released; a confirmation now would apply to the next allocation with the same key
    if task is None or not task.held:
        if order.termination is TerminationType.PLACEHOLDER_REPLACED:
            rejections.slot_taken(ledger, key)
        else:
            rejections.slot_ended(ledger, key, now)
        out.requests.append(AllocationReleased(order.app, key, order.termination, order.allocation_id))
        if task is not None and task.state is TaskState.BOUND and task.pod.membership.placeholder:
            tasks.kill(ledger, out, task, now, _reason(order))  # its node is gone, and the allocation with it
        return
    if order.termination is TerminationType.PREEMPTED_BY_SCHEDULER and task.release is None:
        tasks.mark_disrupted(out, task, order.message)
    task.release = order.termination
    state.recount(task)
    task.allocation_id = order.allocation_id or task.allocation_id
    tasks.kill(ledger, out, task, now, _reason(order), at_once=order.at_once)


def _reason(order: AskCancelled | Released) -> str:
    """Returns why the core releases a pod. The message of a replacement is the key of the new request."""
    if order.termination is TerminationType.PLACEHOLDER_REPLACED:
        return problems.placeholder_replaced()
    return order.message or problems.released_by_core()


#: States of pods that wait for a node.
_ALLOCATABLE: Final = frozenset({TaskState.SCHEDULING, TaskState.REJECTED})


def _allocated(ledger: Ledger, out: Outcome, response: Allocated, now: float) -> None:
    """Binds the pod. If the pod no longer needs a node, releases the allocation.

    A rejected pod can be allocated: the rejection can belong to a request that replaced the allocated one.
    """
    task = _task(ledger, response.app, response.key)
    if task is not None and task.state is TaskState.BOUND and task.node == response.node:
        task.allocation_id = response.allocation_id
        return
    if task is not None and task.state is TaskState.KILLING and task.asked:
        task.asked, task.held, task.allocation_id = False, True, response.allocation_id
        state.recount(task)
        return
    if task is not None and task.state is TaskState.BOUND and task.held:
        return  # another client bound the pod in the meantime, and all allocations of its key were released
    if task is None or task.state not in _ALLOCATABLE:
        reason = "the pod no longer needs a node"
        stopped = TerminationType.STOPPED_BY_RM
        out.requests.append(AllocationReleased(response.app, response.key, stopped, response.allocation_id, reason))
        return
    task.allocation_id = response.allocation_id
    _place(ledger, out, task, response, now)


def _place(ledger: Ledger, out: Outcome, task: Task, response: Allocated, now: float) -> None:
    tasks.allocate(ledger, task, response.node)
    if response.node in ledger.nodes:
        app = ledger.applications.get(task.app)
        if response.volumes or (app is not None and app.has_devices):
            volume_binding.begin_binding(ledger, out, task, response, now)
        else:
            tasks.order_bind(ledger, out, task)
        return
    tasks.roll_back(ledger, out, task, now, problems.unknown_node(response.node))


def _ask_rejected(ledger: Ledger, out: Outcome, response: AskRejected, now: float) -> None:
    """Sends an early request again, otherwise posts an event. If a placeholder is rejected, its gang is given up."""
    task = _task(ledger, response.app, response.key)
    if task is None or task.state is not TaskState.SCHEDULING:
        if task is not None and task.held:
            tasks.resend(ledger, out, task)  # the rejected request arrived after an earlier one had been allocated
        elif task is not None and task.asked:  # the pod is being deleted; an older request can still exist in the core
            tasks.release_from_core(out, task, TerminationType.STOPPED_BY_RM, response.reason)
        return
    task.asked = False
    app = ledger.applications.get(task.app)
    if task.is_early:
        applications.request_declined(ledger, out, task, now)
        return
    tasks.step(task, TaskEvent.REJECT)
    if task.pod.membership.placeholder and app is not None:
        problem = problems.placeholder_rejected(task.pod.ref.name, response.reason)
        absent_members.request_rejected(ledger, out, app, task, problem, now)
        applications.give_up_gang(ledger, out, app, now, problem)
    else:
        reporting.post(out, task.pod.ref, messages.request_rejected(response.reason))


def _allocation_rejected(ledger: Ledger, out: Outcome, response: AllocationRejected, _now: float) -> None:
    """The core rejects a bound pod as an allocation of the application. The pod counts on its node only."""
    task = _task(ledger, response.app, response.key)
    if task is None or not task.held or task.state is not TaskState.BOUND:
        return
    reporting.post(out, task.pod.ref, messages.allocation_rejected(response.reason))
    task.held = False
    state.recount(task)
    tasks.track_foreign(ledger, out, task.pod)


def _application_answers(ledger: Ledger, out: Outcome, response: ApplicationResponse, now: float) -> None:
    """Handles accepted and rejected applications. Ignores answers to submissions that were removed."""
    for rejected in response.rejected:
        isolate(_application_rejected, ledger, out, rejected, now)
    for accepted in response.accepted:
        isolate(_application_accepted, ledger, out, accepted, now)


def _application_rejected(ledger: Ledger, out: Outcome, rejected: ApplicationRejected, now: float) -> None:
    if (app := _submitted_application(ledger, rejected.app)) is not None:
        applications.reject(ledger, out, app, now, rejected.reason)


def _application_accepted(ledger: Ledger, out: Outcome, accepted: ApplicationAccepted, now: float) -> None:
    if (app := _submitted_application(ledger, accepted.app)) is not None:
        applications.accept(ledger, out, app, now)


def _submitted_application(ledger: Ledger, app_id: AppId) -> Application | None:
    app = ledger.applications.get(app_id)
    if app is None or app.state is not AppState.SUBMITTED:
        return None
    ledger.submission_answered(app.submission)
    return app


def _updated(ledger: Ledger, out: Outcome, update: ApplicationUpdated, now: float) -> None:
    """Handles a new state of the application in the core."""
    app = ledger.applications.get(update.app)
    if app is None or app.state in {AppState.NEW, AppState.SUBMITTED}:
        return
    app.core_has_begun = True
    if update.state == keys.APP_ACCEPTED and update.message:
        mismatches.report_in_namespace(ledger, out, app, messages.ignored(update.message), now)
    match update.state:
        case keys.APP_RUNNING | keys.APP_ACCEPTED:
            _continue_application(ledger, out, app, now, is_running=update.state == keys.APP_RUNNING)
        case keys.APP_RESUMING if app.state is AppState.RESERVING:
            applications.resume(ledger, out, app, now, update.message)
        case keys.APP_FAILING if app.state in applications.ANSWERED:
            applications.fail(ledger, out, app, now, _failure(app, update.message))
        case keys.APP_FAILED:
            _failed(ledger, out, app, now, update.message)
        case keys.APP_COMPLETED if app.state in applications.ANSWERED:
            applications.complete(ledger, out, app, now)
        case _:
            return


def _continue_application(ledger: Ledger, out: Outcome, app: Application, now: float, *, is_running: bool) -> None:
    app.core_is_running = is_running
    match app.state:
        case AppState.RESERVING if is_running:
            applications.core_runs(ledger, out, app, now)
        case AppState.RESUMING if not app.placeholders:
            applications.run(ledger, out, app, now)
        case AppState.RUNNING:
            applications.submit_waiting(ledger, out, app, now)
        case _:
            return


def _failure(app: Application, message: str) -> Note:
    """The event, with reason and message for the pods, as in YuniKorn."""
    is_timeout = app.state is AppState.RESERVING
    return messages.reservation_timed_out(message) if is_timeout else messages.application_failed(message)


def _failed(ledger: Ledger, out: Outcome, app: Application, now: float, message: str) -> None:
    """The core has removed the failed application, possibly without reporting Failing before."""
    app.is_over = True
    if app.state in applications.ANSWERED:
        applications.fail(ledger, out, app, now, _failure(app, message))
    else:
        applications.settle(ledger, out, app, now)
