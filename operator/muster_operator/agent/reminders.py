"""What the agent wanted to look at again: conditions that became due, deletes without effect, lost creates.

The shell runs one timer: at ``next_due`` it calls ``remind``, for as long as something is due.
"""

from __future__ import annotations

from typing import Final

from muster_operator.agent import (
    applications,
    endings,
    gangs,
    mounting,
    refusals,
    reserving,
    telling,
    unwritten,
    waiting,
)
from muster_operator.agent.asks import ask_of
from muster_operator.agent.deadlines import due, next_due, remember
from muster_operator.agent.ledger import Deadline, Deletion, Ledger, Look, Phase, SlotState
from muster_operator.model import vocabulary as words
from muster_operator.model.commands import DeletePod
from muster_operator.model.ids import AppId, PodUid
from muster_operator.model.news import AskSubmitted
from muster_operator.model.outcome import Outcome
from muster_operator.model.states import AppState, TaskState

__all__ = ["next_due", "remind"]

#: The pause between two deletes of the same pod grows up to this many times the first.
_MAX_PAUSES: Final = 12


def remind(ledger: Ledger, now: float) -> Outcome:
    """What follows from the next moment that has come; while no session is live it waits.

    One at a time, so that thousands do not hold others up, and none is lost where another fails.
    """
    out = Outcome()
    if ledger.phase is Phase.LIVE and (deadline := due(ledger, now)) is not None:
        _look(ledger, out, deadline, now)
    return out


def _look(ledger: Ledger, out: Outcome, deadline: Deadline, now: float) -> None:
    match deadline.look:
        case Look.WAITING:
            _check_waiting(ledger, out, PodUid(deadline.subject), now)
        case Look.WRITE:
            unwritten.order_again(ledger, out, PodUid(deadline.subject))
        case Look.DELETION:
            _check_deletion(ledger, out, PodUid(deadline.subject), now)
        case Look.AVOIDANCE:
            _end_avoidance(ledger, out, PodUid(deadline.subject))
        case Look.CREATIONS:
            _check_creations(ledger, out, AppId(deadline.subject), now)
        case Look.GANG:
            reserving.look(ledger, out, AppId(deadline.subject), now)
        case Look.NAMESPACE:
            applications.wait_no_longer(ledger, out, AppId(deadline.subject), now)
        case Look.PLACE:
            refusals.give_up(ledger, out, PodUid(deadline.subject), now)
        case Look.VOLUMES:
            mounting.too_late(ledger, out, PodUid(deadline.subject), now)


def _check_waiting(ledger: Ledger, out: Outcome, uid: PodUid, now: float) -> None:
    """The pod has waited long enough for a condition, if it still waits."""
    task = ledger.tasks.get(uid)
    if task is not None:
        waiting.express(ledger, out, task, now)


def _check_deletion(ledger: Ledger, out: Outcome, uid: PodUid, now: float) -> None:
    """A pod that was told to go and is still there: tell it again, and tell the user (semantics 14).

    A placeholder that is stuck is deleted by force: it runs nothing that could be lost, and a node that does not answer
    must not hold its gang. The pause counts from the answer to the last delete, the time until users are told from that
    to the first. Where thousands of writes wait, another delete would only wait behind them, and find the pod gone.
    """
    deletion = ledger.deletions.get(uid)
    if deletion is None:
        return
    settings = ledger.settings
    stuck_s = 0.0 if deletion.heard is None else now - deletion.heard
    if deletion.placeholder and not deletion.is_told and stuck_s >= settings.delete_warning_s:
        deletion.is_told = True
        _tell_stuck(out, deletion, round(stuck_s))
    pause = settings.delete_retry_s * min(deletion.tries, _MAX_PAUSES)
    earliest = (now if deletion.answered is None else deletion.answered) + pause
    if earliest > now:
        remember(ledger, Deadline(earliest, Look.DELETION, uid))
        return
    pod = ledger.pods.get(uid)
    if deletion.placeholder or pod is None or not pod.terminating:
        force = deletion.placeholder and stuck_s >= settings.delete_warning_s
        out.commands.append(DeletePod(deletion.pod, deletion.reason, force))
        deletion.tries += 1
        deletion.answered = None
    remember(ledger, Deadline(now + pause, Look.DELETION, uid))


def _tell_stuck(out: Outcome, deletion: Deletion, seconds: int) -> None:
    note = f"deleted {seconds} s ago ({deletion.reason}) and still there; look at the pod's node and finalizers"
    telling.warn(out, deletion.pod, words.REASON_GANG, note, words.ACTION_DELETE_UNCONFIRMED)


def _end_avoidance(ledger: Ledger, out: Outcome, uid: PodUid) -> None:
    """The oldest node on the list may be tried again."""
    task = ledger.tasks.get(uid)
    if task is None or not task.avoid:
        return
    task.avoid = task.avoid[1:]
    if task.state is TaskState.SCHEDULING and task.asked:
        out.news.append(AskSubmitted(ask_of(ledger, task)))


def _check_creations(ledger: Ledger, out: Outcome, app_id: AppId, now: float) -> None:
    """Placeholders that were created and never seen are created again, under the same name."""
    app = ledger.applications.get(app_id)
    if app is None or app.state is not AppState.RESERVING:
        return
    lost = gangs.order_again(ledger, out, app)
    if lost is not None:
        endings.give_up_gang(
            ledger, out, app, now, f"placeholder {lost.name} was created {lost.tries} times and never seen"
        )
    elif app.creations.are_waiting or any(slot.state is not SlotState.SEEN for slot in app.slots.values()):
        gangs.watch_creations(ledger, app, now)
