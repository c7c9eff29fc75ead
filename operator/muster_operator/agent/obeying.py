"""Obey: what the core says becomes commands for Kubernetes and confirmations (semantics 1, 3, 4)."""

from __future__ import annotations

from muster_operator.agent import (
    applications,
    endings,
    hearing,
    mounting,
    nodes,
    occupants,
    refusals,
    reserving,
    standing,
    tasks,
    telling,
    waiting,
)
from muster_operator.agent.ledger import Application, Ledger, Phase, Task
from muster_operator.model import vocabulary as words
from muster_operator.model.allocations import TerminationType
from muster_operator.model.ids import AppId, PodUid
from muster_operator.model.news import AllocationReleased, AskReleased
from muster_operator.model.outcome import Outcome
from muster_operator.model.states import AppState, TaskEvent, TaskState
from muster_operator.model.verdicts import (
    Allocated,
    AllocationRejected,
    AllocationVerdict,
    ApplicationUpdated,
    ApplicationVerdict,
    AskCancelled,
    AskRejected,
    CoreEvents,
    NodeVerdict,
    Recommendations,
    Released,
    SchedulingStates,
    Verdict,
)
from muster_si import keys

#: The core's confirmation of our own release: nothing to do (semantics 4).
_OURS = frozenset({TerminationType.STOPPED_BY_RM, TerminationType.UNKNOWN})
_NO_RESOURCES = "Scheduling has timed out due to insufficient resources"


def obey(ledger: Ledger, verdict: Verdict, now: float) -> Outcome:
    """What follows from one message of the core. ``now``: seconds of any steady clock."""
    out = Outcome()
    if ledger.phase is Phase.LIVE:
        _obey(ledger, out, verdict, now)
    elif ledger.phase is Phase.RECOVERING:
        if isinstance(verdict, ApplicationVerdict):
            _answers(ledger, out, verdict, now)
            verdict = ApplicationVerdict(updated=verdict.updated)
        ledger.postponed.append(verdict)
    return out


def _obey(ledger: Ledger, out: Outcome, verdict: Verdict, now: float) -> None:
    match verdict:
        case AllocationVerdict():
            _allocations(ledger, out, verdict, now)
        case ApplicationVerdict():
            _answers(ledger, out, verdict, now)
            for update in verdict.updated:
                _updated(ledger, out, update, now)
        case NodeVerdict():
            _nodes(ledger, out, verdict)
        case SchedulingStates():
            _states(ledger, out, verdict, now)
        case CoreEvents():
            for event in verdict.events:
                hearing.core_event(ledger, out, event, now)
        case Recommendations():
            _recommendations(ledger, out, verdict)


def _states(ledger: Ledger, out: Outcome, verdict: SchedulingStates, now: float) -> None:
    """Of pods, and of task groups whose places the core holds without pods."""
    for change in verdict.changes:
        if change.key in ledger.tasks:
            waiting.state_changed(ledger, out, change, now)
    reserving.states_changed(ledger, out, (one for one in verdict.changes if one.key not in ledger.tasks), now)


def _nodes(ledger: Ledger, out: Outcome, verdict: NodeVerdict) -> None:
    for name in verdict.accepted:
        nodes.accepted(ledger, out, name)
    for name, reason in (verdict.rejected or {}).items():
        nodes.rejected(ledger, out, name, reason)


def _recommendations(ledger: Ledger, out: Outcome, verdict: Recommendations) -> None:
    for found in verdict.nodes:
        node = ledger.nodes.get(found.node)
        if node is not None:
            telling.warn_node(out, node.name, node.uid, words.REASON_NODE_RECOMMENDED, found.message)


def _allocations(ledger: Ledger, out: Outcome, verdict: AllocationVerdict, now: float) -> None:
    """In this order, always (semantics 1)."""
    for cancelled in verdict.cancelled_asks:
        for key in _keys(ledger, cancelled.app, cancelled.key):
            _ask_cancelled(ledger, out, cancelled, key, now)
    for released in verdict.released:
        for key in _keys(ledger, released.app, released.key):
            _released(ledger, out, released, key, now)
    for allocated in verdict.allocated:
        _allocated(ledger, out, allocated, now)
    for refused in verdict.rejected_asks:
        _ask_rejected(ledger, out, refused, now)
    for rejected in verdict.rejected_allocations:
        _allocation_rejected(ledger, out, rejected)


def _keys(ledger: Ledger, app_id: AppId, key: PodUid) -> list[PodUid]:
    """The key itself, or all of the application when it is empty (semantics 3)."""
    if key:
        return [key]
    app = ledger.applications.get(app_id)
    return [*app.members, *app.placeholders] if app else []


def _task(ledger: Ledger, app_id: AppId, key: PodUid) -> Task | None:
    """The pod, unless it left that application meanwhile: what is said of it there is not said of it here."""
    task = ledger.tasks.get(key)
    return task if task is not None and task.app == app_id else None


def _ask_cancelled(ledger: Ledger, out: Outcome, order: AskCancelled, key: PodUid, now: float) -> None:
    """A placeholder whose ask is gone is of no use; a real pod waits until its application may ask again."""
    task = _task(ledger, order.app, key)
    if order.termination in _OURS or task is None or not task.asked:
        return
    if task.pod.membership.placeholder:
        task.release = order.termination
        standing.recount(task)
        tasks.kill(ledger, out, task, now, order.message or "the core took the ask back")
        return
    task.asked = False
    task.shortage = None
    if task.state is TaskState.SCHEDULING:
        tasks.step(task, TaskEvent.ROLL_BACK)
    out.news.append(AskReleased(order.app, key, order.termination))
    endings.ask_answered(ledger, out, task, now)


def _released(ledger: Ledger, out: Outcome, order: Released, key: PodUid, now: float) -> None:
    """The pod has to go; confirmed when it is gone, at once if it is gone already."""
    task = _task(ledger, order.app, key)
    if order.termination in _OURS:
        if task is not None and task.held and task.allocation_id == order.allocation_id:
            tasks.retell(ledger, out, task)  # not our release: it was given a node that was gone by then, and is back
        return
    if task is not None and task.asked:
        return  # that allocation was given back already; a confirmation now would meet the next one of the same key
    if task is None or not task.held:
        refusals.taken(ledger, key)
        out.news.append(AllocationReleased(order.app, key, order.termination, order.allocation_id))
        if task is not None and task.state is TaskState.BOUND and task.pod.membership.placeholder:
            tasks.kill(ledger, out, task, now, order.message)  # its node is gone, and took the allocation along
        return
    if order.termination is TerminationType.PREEMPTED_BY_SCHEDULER and task.release is None:
        tasks.mark_disrupted(out, task, order.message)
    task.release = order.termination
    standing.recount(task)
    task.allocation_id = order.allocation_id or task.allocation_id
    tasks.kill(ledger, out, task, now, order.message or order.termination.name)


def _allocated(ledger: Ledger, out: Outcome, verdict: Allocated, now: float) -> None:
    """Bind the pod; one that no longer wants a node is given back.

    Who was refused may have been refused for an ask that another had taken the place of: the core has the last word.
    """
    task = _task(ledger, verdict.app, verdict.key)
    if task is not None and task.state is TaskState.BOUND and task.node == verdict.node:
        task.allocation_id = verdict.allocation_id
        return
    if task is not None and task.state is TaskState.KILLING and task.asked:
        task.asked, task.held, task.allocation_id = False, True, verdict.allocation_id
        standing.recount(task)
        return
    if task is not None and task.state is TaskState.BOUND and task.held:
        return  # it was bound elsewhere while this was on its way, and all of its key was taken back then
    if task is None or task.state not in {TaskState.SCHEDULING, TaskState.REJECTED}:
        reason = "the pod does not want a node any more"
        stopped = TerminationType.STOPPED_BY_RM
        out.news.append(AllocationReleased(verdict.app, verdict.key, stopped, verdict.allocation_id, reason))
        return
    task.allocation_id = verdict.allocation_id
    _place(ledger, out, task, verdict, now)


def _place(ledger: Ledger, out: Outcome, task: Task, verdict: Allocated, now: float) -> None:
    tasks.allocate(ledger, task, verdict.node)
    if verdict.node in ledger.nodes:
        if verdict.volumes:
            mounting.begin(ledger, out, task, verdict.volumes, now)
        else:
            tasks.order_bind(ledger, out, task)
        return
    tasks.roll_back(ledger, out, task, now, f"node {verdict.node} does not exist")


def _ask_rejected(ledger: Ledger, out: Outcome, verdict: AskRejected, now: float) -> None:
    """The user is told; a gang that cannot ask for a placeholder is given up."""
    task = _task(ledger, verdict.app, verdict.key)
    if task is None or task.state is not TaskState.SCHEDULING:
        if task is not None and task.held:
            tasks.retell(ledger, out, task)  # the ask that was to take the place of another came after its allocation
        elif task is not None and task.asked:  # its pod is on its way out; an older ask of it may be left
            tasks.take_back(out, task, TerminationType.STOPPED_BY_RM, verdict.reason)
        return
    task.asked = False
    app = ledger.applications.get(task.app)
    if app is not None and app.state is AppState.COMPLETED:
        tasks.step(task, TaskEvent.ROLL_BACK)
        endings.ask_answered(ledger, out, task, now)
        return
    tasks.step(task, TaskEvent.REJECT)
    if task.pod.membership.placeholder and app is not None:
        endings.give_up_gang(ledger, out, app, now, f"placeholder {task.pod.ref.name} was refused: {verdict.reason}")
    else:
        telling.warn(out, task.pod.ref, words.REASON_TASK_REJECTED, verdict.reason)


def _allocation_rejected(ledger: Ledger, out: Outcome, verdict: AllocationRejected) -> None:
    """The core does not take a pod as its application's: its room is counted all the same."""
    task = _task(ledger, verdict.app, verdict.key)
    if task is None or not task.held or task.state is not TaskState.BOUND:
        return
    telling.warn(out, task.pod.ref, words.REASON_TASK_REJECTED, verdict.reason)
    task.held = False
    standing.recount(task)
    occupants.make_stray(ledger, out, task.pod)


def _answers(ledger: Ledger, out: Outcome, verdict: ApplicationVerdict, now: float) -> None:
    """Accepted or rejected; an answer to a submission that was taken back is not ours."""
    for rejected in verdict.rejected:
        app = _answered(ledger, rejected.app)
        if app is not None:
            endings.reject(ledger, out, app, now, rejected.reason)
    for accepted in verdict.accepted:
        app = _answered(ledger, accepted.app)
        if app is not None:
            applications.accept(ledger, out, app, now)


def _answered(ledger: Ledger, app_id: AppId) -> Application | None:
    if ledger.unanswered.get(app_id):
        ledger.unanswered[app_id] -= 1
        if not ledger.unanswered[app_id]:
            del ledger.unanswered[app_id]
        return None
    app = ledger.applications.get(app_id)
    return app if app is not None and app.state is AppState.SUBMITTED else None


def _updated(ledger: Ledger, out: Outcome, update: ApplicationUpdated, now: float) -> None:
    """The application changed its state in the core."""
    app = ledger.applications.get(update.app)
    if app is None or app.state in {AppState.NEW, AppState.SUBMITTED} or app.id in ledger.unanswered:
        return
    app.core_has_begun = True
    match update.state:
        case keys.APP_RUNNING | keys.APP_ACCEPTED:
            _goes_on(ledger, out, app, now, is_running=update.state == keys.APP_RUNNING)
        case keys.APP_RESUMING if app.state is AppState.RESERVING:
            endings.resume(ledger, out, app, now, update.message)
        case keys.APP_FAILING if app.state in applications.ANSWERED:
            endings.fail(ledger, out, app, now, _failure(app, update.message))
        case keys.APP_FAILED:
            _failed(ledger, out, app, now, update.message)
        case keys.APP_COMPLETED if app.state in applications.ANSWERED:
            endings.complete(ledger, out, app, now)
        case _:
            return


def _goes_on(ledger: Ledger, out: Outcome, app: Application, now: float, *, is_running: bool) -> None:
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


def _failure(app: Application, message: str) -> tuple[str, str]:
    """Reason and message for the pods (contract 6.2)."""
    if app.state is AppState.RESERVING:
        return words.REASON_RESERVATION_TIMEOUT, f"{_NO_RESOURCES}: {message}" if message else _NO_RESOURCES
    return words.REASON_APPLICATION_FAILED, message or "the application failed"


def _failed(ledger: Ledger, out: Outcome, app: Application, now: float, message: str) -> None:
    """The core has no such application any more, with or without a word of its failing before."""
    app.is_over = True
    if app.state in applications.ANSWERED:
        endings.fail(ledger, out, app, now, _failure(app, message))
    else:
        endings.settle(ledger, out, app, now)
