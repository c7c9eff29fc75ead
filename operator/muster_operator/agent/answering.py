"""How a command ended: binds that are done or failed for good, placeholders that cannot be made (semantics 5, 20)."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from muster_operator.agent import applications, creations, endings, mounting, refusals, tasks, telling, unwritten
from muster_operator.agent.ledger import Ledger, Phase, SlotState, Task
from muster_operator.model import vocabulary as words
from muster_operator.model.commands import (
    BindPod,
    ClaimVolume,
    Command,
    CreatePlaceholder,
    DeletePod,
    FailPod,
    MarkResumed,
    SelectNode,
    SetCondition,
)
from muster_operator.model.outcome import Outcome
from muster_operator.model.results import CommandFailed, CommandSucceeded, CommandUnanswered, Result
from muster_operator.model.states import TaskState

_FORBIDDEN: Final = 403
_GONE: Final = 404
_CONFLICT: Final = 409
#: How often a bind that nobody answered is sent before it counts as failed.
_MAX_BINDS: Final = 3


def answered(ledger: Ledger, result: Result, now: float) -> Outcome:
    """What follows from the end of a command. Without a session nothing does: the pods themselves will tell."""
    out = Outcome()
    take(ledger, out, result, now)
    return out


def take(ledger: Ledger, out: Outcome, result: Result, now: float) -> None:
    """The same, into an outcome that is there already."""
    if isinstance(result.command, DeletePod) and (deletion := ledger.deletions.get(result.command.pod.uid)):
        deletion.answered = now
        deletion.heard = now if deletion.heard is None else deletion.heard
    if ledger.phase is not Phase.LIVE:
        _keep(ledger, result)
        return
    match result.command:
        case BindPod():
            _bind(ledger, out, result, result.command, now)
        case CreatePlaceholder():
            _create(ledger, out, result, result.command, now)
        case ClaimVolume() | SelectNode() as command:
            mounting.answered(ledger, out, result, command, now)
        case FailPod() | MarkResumed() | SetCondition() as command:
            unwritten.answered(ledger, result, command, now)
        case _:
            pass  # what matters of the others is seen on the watch


def _keep(ledger: Ledger, result: Result) -> None:
    """A pod that was bound when no session was live has its node from now on, though no watch has shown it yet.

    What a recovery orders itself may have ended before the session is live, and counts from then on.
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
        case FailPod(pod=ref):  # a session before may have meant to fail a pod that now asks again
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
            _bind_failed(ledger, out, task, now, "the API server did not answer")
        case CommandFailed(status=status) if status == _GONE:
            return  # the watch will show that the pod is gone
        case CommandFailed(message=message):
            _bind_failed(ledger, out, task, now, message)


def _bind_failed(ledger: Ledger, out: Outcome, task: Task, now: float, message: str) -> None:
    telling.warn(out, task.pod.ref, words.REASON_BIND_FAILURE, f"binding to node {task.node} failed: {message}")
    refusals.keep_place(ledger, out, task, now)
    tasks.roll_back(ledger, out, task, now, message)


def _is_for_want_of_a_namespace(result: CommandFailed) -> bool:
    """Whether the namespace is gone or on its way out: there is nobody left to tell."""
    return result.status == _GONE or (result.status == _FORBIDDEN and "is being terminated" in result.message)


def _create(ledger: Ledger, out: Outcome, result: Result, command: CreatePlaceholder, now: float) -> None:
    app = ledger.applications.get(command.spec.app)
    slot = app.slots.get(command.spec.name) if app else None
    if app is None or (isinstance(result, CommandFailed) and _is_for_want_of_a_namespace(result)):
        return  # its pods go one by one, and with them the gang
    if slot is not None and slot.state is SlotState.ORDERED:
        if isinstance(result, CommandFailed) and not result.may_pass:
            endings.give_up_gang(ledger, out, app, now, f"creating placeholder {slot.name} failed: {result.message}")
        else:
            slot.state = SlotState.CREATED
            slot.is_taken = isinstance(result, CommandFailed) and result.status == _CONFLICT
    creations.answered(ledger, out, app, command.spec.name)
