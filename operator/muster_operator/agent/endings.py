"""How an application ends, and how a gang ends without its application (semantics 8, 13, 14; contract 6.4, 10.7)."""

from __future__ import annotations

from muster_operator.agent import applications, gangs, namespaces, refusals, reserving, tasks, telling, trust
from muster_operator.agent.ledger import Application, Ledger, Task
from muster_operator.model import vocabulary as words
from muster_operator.model.allocations import TerminationType
from muster_operator.model.commands import MarkResumed
from muster_operator.model.ids import PodUid
from muster_operator.model.news import ApplicationRemoved, AskReleased
from muster_operator.model.outcome import Outcome
from muster_operator.model.states import AppEvent, AppState, TaskState
from muster_si import keys

#: Without a real pod there is nothing to reserve for.
_EARLY = frozenset({AppState.NEW, AppState.SUBMITTED, AppState.ACCEPTED, AppState.RESERVING, AppState.RESUMING})
#: A placeholder lost for one of these reasons is made again while the gang reserves.
_REPLACEABLE = frozenset({None, TerminationType.PREEMPTED_BY_SCHEDULER})


def mark_resumed(ledger: Ledger, out: Outcome, app: Application) -> None:
    """Remember, also beyond a restart, that this gang is over (commands.MarkResumed)."""
    pod = app.originator
    if pod.ref.uid not in ledger.resumed:
        ledger.resumed.add(pod.ref.uid)
        out.commands.append(MarkResumed(pod.ref, trust.sign_outcome(ledger, pod.ref)))


def resume(ledger: Ledger, out: Outcome, app: Application, now: float, why: str) -> None:
    """The core gave up the reservation of a Soft gang: placeholders go, members are scheduled as usual after that."""
    reserving.over(app)
    applications.step(app, AppEvent.RESUME)
    note = f"{why or 'the reservation ended'}; the members are scheduled one by one"
    telling.warn_gang(out, app.originator.ref, words.ACTION_GANG_FAILED, note)
    mark_resumed(ledger, out, app)
    gangs.kill_all(ledger, out, app, now, "the gang's reservation ended")
    settle(ledger, out, app, now)


def fail(ledger: Ledger, out: Outcome, app: Application, now: float, failure: tuple[str, str]) -> None:
    """The application failed: placeholders go, and members without a node fail with this reason and message."""
    app.failure = failure
    applications.step(app, AppEvent.FAIL)
    reason, message = failure
    if reason == words.REASON_RESERVATION_TIMEOUT:
        telling.warn_gang(out, app.originator.ref, words.ACTION_PLACEHOLDER_TIMEOUT, message)
    else:
        telling.warn(out, app.originator.ref, reason, message)
    gangs.kill_all(ledger, out, app, now, "the application failed")
    for task in list(app.members.values()):
        applications.join_failed(ledger, out, task, failure)
    settle(ledger, out, app, now)


def reject(ledger: Ledger, out: Outcome, app: Application, now: float, reason: str) -> None:
    """The core refused the application."""
    applications.step(app, AppEvent.REJECT)
    app.is_over = True
    fail(ledger, out, app, now, (words.REASON_APPLICATION_REJECTED, f"Application {app.name} was rejected: {reason}"))


def give_up_gang(ledger: Ledger, out: Outcome, app: Application, now: float, note: str) -> None:
    """The placeholders cannot be made: the style decides, as in a time-out (semantics 8)."""
    if app.gang is None or app.state is not AppState.RESERVING:
        return
    telling.warn_gang(out, app.originator.ref, words.ACTION_PLACEHOLDER_CREATE_FAILED, note)
    app.is_our_end = True
    if app.gang.style == keys.STYLE_HARD:
        fail(ledger, out, app, now, (words.REASON_APPLICATION_FAILED, note))
        return
    mark_resumed(ledger, out, app)
    kill(ledger, out, app, now)


def kill(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Take the application back: its placeholders first, then itself; members that remain start it anew."""
    was = app.state
    applications.step(app, AppEvent.KILL)
    app.is_our_end = was is not AppState.NEW  # of a new one the core knows nothing
    if was is AppState.SUBMITTED:
        ledger.unanswered[app.id] = ledger.unanswered.get(app.id, 0) + 1
    for task in app.placeholders.values():
        if task.asked and not task.held:
            task.asked = False
            out.news.append(AskReleased(task.app, task.uid))
    gangs.kill_all(ledger, out, app, now, "the application ended")
    settle(ledger, out, app, now)


def complete(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """The core completed the application; its id may be used again, also by members that came meanwhile."""
    applications.step(app, AppEvent.COMPLETE)
    app.is_over = True
    gangs.kill_all(ledger, out, app, now, "the application completed")
    _forget_completed(ledger, out, app, now)


def ask_answered(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """The core does not know an ask any more: go on if its completed application waited for that."""
    app = ledger.applications.get(task.app)
    if app is not None:
        _forget_completed(ledger, out, app, now)


def _forget_completed(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Asks that met the core's word that the application completed are answered before its id is used again.

    The two come on different streams (semantics 1): an answer that comes later would be taken for one to the ask that
    the same pod makes with its next application.
    """
    if app.state is AppState.COMPLETED and not any(task.asked for task in app.members.values()):
        _forget(ledger, out, app, now)


def settle(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Go on if what the application waited for is gone."""
    if app.is_over:
        refusals.over(ledger, app)
    if app.placeholders:
        return
    match app.state:
        case AppState.RESUMING:
            applications.run(ledger, out, app, now)
        case AppState.KILLING:
            applications.step(app, AppEvent.KILLED)
            _forget(ledger, out, app, now)
        case AppState.FAILING if app.is_over or app.is_our_end:
            applications.step(app, AppEvent.FAILED)
            if app.is_our_end:
                app.is_over = True
                out.news.append(ApplicationRemoved(app.id))
                app.is_our_end = False
            settle(ledger, out, app, now)
        case AppState.FAILED if not app.members:
            _forget(ledger, out, app, now)
        case _:
            return


def _forget(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Drop it; members that have not ended make a new application of the same id."""
    if app.is_our_end:
        out.news.append(ApplicationRemoved(app.id))
    refusals.over(ledger, app)
    ledger.applications.pop(app.id, None)
    ledger.cramped.discard(app.id)
    remaining = list(app.members.values())
    for task in remaining:
        ledger.tasks.pop(task.uid, None)
        ledger.tasks_by_node.remove(task.uid, task.node, task.pod.node)
    for task in remaining:
        applications.join(ledger, out, task.pod, now)


def task_ended(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """A task is gone or has ended: tell the core, then see what follows for its application."""
    tasks.end(ledger, out, task)
    app = ledger.applications.get(task.app)
    if app is None:
        return
    if task.pod.membership.placeholder:
        _placeholder_ended(ledger, out, app, task, now)
    else:
        _member_ended(ledger, out, app, task.uid, now)


def _placeholder_ended(ledger: Ledger, out: Outcome, app: Application, task: Task, now: float) -> None:
    app.placeholders.pop(task.uid, None)
    app.placeholder_names.discard(task.pod.ref.name)
    slot = gangs.close_slot(app, task.pod.ref.name)
    if app.state is AppState.RESERVING and slot is not None:
        is_missed = task.release in _REPLACEABLE and not app.core_is_running
        if is_missed and not namespaces.is_leaving(ledger, app.namespace):
            gangs.replace(ledger, out, app, slot, task, now)
        else:
            applications.check_reserved(ledger, out, app, now)
    settle(ledger, out, app, now)


def _member_ended(ledger: Ledger, out: Outcome, app: Application, uid: PodUid, now: float) -> None:
    app.members.pop(uid, None)
    if app.state is AppState.COMPLETED:
        _forget_completed(ledger, out, app, now)
    elif not app.members and _is_idle(app):
        kill(ledger, out, app, now)
    elif app.members and app.originator.ref.uid == uid:
        _change_originator(ledger, out, app, uid, now)
    else:
        settle(ledger, out, app, now)


def _is_idle(app: Application) -> bool:
    """Whether the core, which ends applications that had something, will never end this one by itself."""
    return app.state in _EARLY or (app.state is AppState.RUNNING and not app.core_has_begun)


def _change_originator(ledger: Ledger, out: Outcome, app: Application, old: PodUid, now: float) -> None:
    """The oldest member left takes over, if there is one that stays. Placeholders of the old one are deleted with it
    and made again for the new one.
    """
    was_resumed = old in ledger.resumed or app.originator.membership.resumed
    app.originator = applications.oldest(app)
    if was_resumed:
        mark_resumed(ledger, out, app)
    if app.state is AppState.RESERVING:
        for task in list(app.placeholders.values()):
            if task.state is not TaskState.KILLING:
                tasks.kill(ledger, out, task, now, "the originator is gone")
