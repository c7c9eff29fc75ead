"""Handlers of expired timers."""

from __future__ import annotations

from typing import Final

from muster_operator.controller import (
    absent_members,
    applications,
    device_claims,
    missing_members,
    placeholders,
    pod_groups,
    provisioning,
    rejections,
    reporting,
    sweep,
    volume_binding,
)
from muster_operator.controller.cluster_events import claims_changed, group_changed
from muster_operator.controller.isolation import isolate
from muster_operator.controller.state import (
    Deadline,
    Deletion,
    Ledger,
    Phase,
    SlotState,
    TimerKind,
    due,
    set_timer,
)
from muster_operator.controller.tasks import ask_of
from muster_operator.model import messages, problems
from muster_operator.model.commands import DeletePod, Outcome
from muster_operator.model.core_messages import AskSubmitted
from muster_operator.model.ids import AppId, PodUid
from muster_operator.model.states import AppState, TaskState

#: Maximum pause between two deletes of one pod, in multiples of the first pause.
_MAX_PAUSES: Final = 12


def on_timers(ledger: Ledger, now: float) -> Outcome:
    """Handles the next expired timer if a session is live. Only one per call, so that other work runs in between."""
    out = Outcome()
    if ledger.phase is Phase.LIVE and (deadline := due(ledger, now)) is not None:
        isolate(_on_timer, ledger, out, deadline, now)
    return out


def _on_timer(ledger: Ledger, out: Outcome, deadline: Deadline, now: float) -> None:
    uid = PodUid(deadline.subject)
    match deadline.kind:
        case TimerKind.WAITING:
            _check_waiting(ledger, out, uid, now)
        case TimerKind.WRITE:
            rejections.retry_writes(ledger, out, uid)
        case TimerKind.DELETION:
            _check_deletion(ledger, out, uid, now)
        case TimerKind.AVOIDANCE:
            _end_avoidance(ledger, out, uid)
        case TimerKind.PLACE:
            rejections.give_up(ledger, out, uid, now)
        case TimerKind.VOLUMES:
            volume_binding.too_late(ledger, out, uid, now)
        case TimerKind.DEVICES:
            device_claims.report_held(ledger, out, uid, now)
        case TimerKind.CLAIMS:
            claims_changed(ledger, out, now)
        case TimerKind.RECOVERY:
            ledger.is_suspect = True
        case TimerKind.SWEEP:
            sweep.on_timer(ledger, out, now)
        case TimerKind.POD_GROUP:
            pod_groups.on_timer(ledger, out, deadline.subject, now)
            group_changed(ledger, out, deadline.subject, now)
        case _:
            _on_other_timer(ledger, out, deadline.kind, AppId(deadline.subject), now)


def _on_other_timer(ledger: Ledger, out: Outcome, kind: TimerKind, app_id: AppId, now: float) -> None:
    match kind:
        case TimerKind.CLAIM:
            device_claims.pause_ended(ledger, out, app_id)
        case TimerKind.CREATIONS:
            _check_creations(ledger, out, app_id, now)
        case TimerKind.GANG:
            reporting.check_progress(ledger, out, app_id, now)
            provisioning.check(ledger, out, app_id)
        case TimerKind.NAMESPACE:
            applications.namespace_timed_out(ledger, out, app_id, now)
        case TimerKind.REJECTED:
            applications.submit_again(ledger, out, app_id, now)
        case TimerKind.MEMBERS:
            absent_members.on_timer(ledger, out, app_id, now)
        case TimerKind.MISSING:
            missing_members.on_timer(ledger, out, app_id, now)
        case TimerKind.FOLLOW:
            placeholders.follow_members(ledger, out, app_id, now)
        case TimerKind.START:
            volume_binding.check_start(ledger, out, app_id, now)
        case TimerKind.NEWCOMERS:
            applications.admit(ledger, out, app_id, now)
        case _:
            return


def _check_waiting(ledger: Ledger, out: Outcome, uid: PodUid, now: float) -> None:
    """Writes the condition of a pod that still waits."""
    task = ledger.tasks.get(uid)
    if task is not None:
        reporting.update_pod_condition(ledger, out, task, now)


def _check_deletion(ledger: Ledger, out: Outcome, uid: PodUid, now: float) -> None:
    """Handles a deleted pod that still exists: sends the delete again and posts an event.

    A delete is repeated only while the pod is not terminating: then it may have been lost. A forced one is always
    repeated. A placeholder that stays in termination is deleted by force: it runs no workload, and an unresponsive node
    must not block its gang. The pause between deletes starts at the answer to the last delete, the time until the event
    at the answer to the first. Otherwise, with thousands of writes in the queue, deletes would be repeated before the
    first one was sent. See docs/internals/semantics.md, 14.
    """
    deletion = ledger.deletions.get(uid)
    if deletion is None:
        return
    settings = ledger.settings
    stuck_s = 0.0 if deletion.confirmed_at is None else now - deletion.confirmed_at
    if deletion.placeholder and not deletion.is_reported and stuck_s >= settings.delete_warning_s:
        deletion.is_reported = True
        _warn_stuck(out, deletion, round(stuck_s))
    pause = settings.delete_retry_s * min(deletion.tries, _MAX_PAUSES)
    earliest = (now if deletion.answered is None else deletion.answered) + pause
    if earliest > now:
        set_timer(ledger, Deadline(earliest, TimerKind.DELETION, uid))
        return
    pod = ledger.pods.get(uid)
    force = deletion.force or (deletion.placeholder and stuck_s >= settings.delete_warning_s)
    if force or pod is None or not pod.terminating:
        out.commands.append(DeletePod(deletion.pod, deletion.reason, force))
        deletion.tries += 1
        deletion.answered = None
    set_timer(ledger, Deadline(now + pause, TimerKind.DELETION, uid))


def _warn_stuck(out: Outcome, deletion: Deletion, seconds: int) -> None:
    reporting.post(out, deletion.pod, messages.delete_unconfirmed(seconds, deletion.reason))


def _end_avoidance(ledger: Ledger, out: Outcome, uid: PodUid) -> None:
    """Removes the oldest node from the nodes that the pod avoids."""
    task = ledger.tasks.get(uid)
    if task is None or not task.avoid:
        return
    task.avoid = task.avoid[1:]
    if task.state is TaskState.SCHEDULING and task.asked:
        out.requests.append(AskSubmitted(ask_of(ledger, task)))


def _check_creations(ledger: Ledger, out: Outcome, app_id: AppId, now: float) -> None:
    """Creates placeholders again that were created and not seen, under the same name."""
    app = ledger.applications.get(app_id)
    if app is None or not (app.state is AppState.RESERVING or absent_members.gang_of(ledger, app)):
        return
    if now < app.creations_checked_at:
        return  # it is the timer of an earlier application with this ID
    lost = placeholders.retry_placeholder(ledger, out, app)
    if lost is not None:
        applications.give_up_gang(ledger, out, app, now, problems.placeholder_not_seen(lost.name, lost.tries))
    elif app.creations.are_waiting or any(slot.state is not SlotState.SEEN for slot in app.slots.values()):
        placeholders.watch_creations(ledger, app, now)
