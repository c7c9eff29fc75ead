"""What a pod of ours means: joining, held back, ended, gone; what its changes mean is in ``changes``."""

from __future__ import annotations

from typing import Final

from muster_operator.agent import applications, changes, endings, gangs, occupants, refusals, standing, tasks, telling
from muster_operator.agent.ledger import Ledger
from muster_operator.model import vocabulary as words
from muster_operator.model.commands import SetCondition
from muster_operator.model.ids import PodUid
from muster_operator.model.outcome import Outcome
from muster_operator.model.pods import Condition, Pod
from muster_operator.model.states import AppState, TaskState

#: Resource claims that a text names.
_MAX_NAMED: Final = 5


def own_pod_seen(ledger: Ledger, out: Outcome, pod: Pod, now: float) -> None:
    """A pod of ours exists and looks like this; it is recorded already."""
    uid = pod.ref.uid
    task = ledger.tasks.get(uid)
    if task is not None:
        pod = changes.of_the_same_kind(task, pod)
    if pod.has_ended:
        _ended(ledger, out, pod, now)
    elif task is not None and (changes.is_anothers(task, pod) or changes.is_refused(task, pod)):
        endings.task_ended(ledger, out, task, now)
        _appeared(ledger, out, pod, now)
    elif task is not None:
        changes.changed(ledger, out, task, pod, now)
    elif uid in ledger.strays:
        occupants.make_stray(ledger, out, pod)
    else:
        _appeared(ledger, out, pod, now)


def own_pod_gone(ledger: Ledger, out: Outcome, uid: PodUid, now: float) -> None:
    """A pod of ours no longer exists; it is taken off the record already."""
    ledger.forget_deletion(uid)
    ledger.noticed.discard(uid)
    task = ledger.tasks.get(uid)
    if task is not None:
        endings.task_ended(ledger, out, task, now)
    ledger.resumed.discard(uid)
    occupants.stray_gone(ledger, out, uid)


def _ended(ledger: Ledger, out: Outcome, pod: Pod, now: float) -> None:
    """Succeeded or Failed: it holds nothing. A placeholder that ended is of no use as an object either."""
    task = ledger.tasks.get(pod.ref.uid)
    if task is not None:
        task.pod = pod
        standing.recount(task)
        refusals.refused(ledger, out, task, now)
        endings.task_ended(ledger, out, task, now)
    occupants.stray_gone(ledger, out, pod.ref.uid)
    if pod.membership.placeholder:
        tasks.order_delete(ledger, out, pod.ref, now, "the placeholder ended")


def is_held_back(ledger: Ledger, out: Outcome, pod: Pod) -> bool:
    """Whether the pod cannot be scheduled, or not yet; the user is told once why."""
    if pod.membership.refusal:
        _tell_once(ledger, out, pod, words.REASON_TASK_REJECTED, pod.membership.refusal)
        if pod.node is not None:
            occupants.make_stray(ledger, out, pod)
        return True
    if pod.claims and pod.node is None:
        _tell_of_claims(ledger, out, pod)
        return True
    if pod.gates and pod.node is None:
        if pod.ref.uid not in ledger.noticed:
            ledger.noticed.add(pod.ref.uid)
            telling.inform(
                out, pod.ref, words.REASON_SCHEDULING, f"waiting for scheduling gates: {', '.join(pod.gates)}"
            )
        return True
    ledger.noticed.discard(pod.ref.uid)
    return False


def _tell_of_claims(ledger: Ledger, out: Outcome, pod: Pod) -> None:
    """Nobody here allocates devices, and without them the pod would not start: it waits, rather than be misplaced."""
    named = ", ".join(pod.claims[:_MAX_NAMED])
    note = (
        f"resource claims are not supported yet ({named}): remove them from the pod, or use another scheduler for it, "
        "such as default-scheduler"
    )
    is_there = pod.condition == Condition(words.REASON_UNSUPPORTED_CLAIMS, note)
    if pod.ref.uid not in ledger.noticed and not is_there:
        out.commands.append(SetCondition(pod.ref, words.REASON_UNSUPPORTED_CLAIMS, note))
    _tell_once(ledger, out, pod, words.REASON_UNSUPPORTED_CLAIMS, note)


def _tell_once(ledger: Ledger, out: Outcome, pod: Pod, reason: str, note: str) -> None:
    if pod.ref.uid not in ledger.noticed:
        ledger.noticed.add(pod.ref.uid)
        telling.warn(out, pod.ref, reason, note)


def _appeared(ledger: Ledger, out: Outcome, pod: Pod, now: float) -> None:
    if pod.terminating and pod.node is None:
        return
    if pod.membership.placeholder:
        _placeholder_appeared(ledger, out, pod, now)
        return
    if is_held_back(ledger, out, pod):
        return
    if pod.node is None:
        for conflict in pod.membership.conflicts:
            telling.warn(out, pod.ref, words.REASON_SCHEDULING, conflict)
    applications.join(ledger, out, pod, now)


def _placeholder_appeared(ledger: Ledger, out: Outcome, pod: Pod, now: float) -> None:
    app = ledger.applications.get(pod.membership.app)
    if app is None or app.state is not AppState.RESERVING or pod.terminating:
        delete_orphan(ledger, out, pod, now)
        return
    task = applications.attach(ledger, app, pod)
    if not gangs.take_slot(ledger, app, task, now):
        tasks.report_bound(ledger, out, task)
        tasks.kill(ledger, out, task, now, "more placeholders than members")
    elif task.state is TaskState.BOUND:
        tasks.report_bound(ledger, out, task)
        applications.placeholder_bound(ledger, out, task, now)
    else:
        tasks.submit(ledger, out, task, now)


def delete_orphan(ledger: Ledger, out: Outcome, pod: Pod, now: float) -> None:
    """A placeholder that nobody waits for goes; until then it takes its room."""
    if pod.node is not None:
        occupants.make_stray(ledger, out, pod)
    tasks.order_delete(ledger, out, pod.ref, now, "nobody waits for this placeholder")
