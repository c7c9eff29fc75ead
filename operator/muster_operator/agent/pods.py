"""What a pod of ours means: joining, bound, changed, ended, gone."""

from __future__ import annotations

from muster_operator.agent import applications, endings, gangs, occupants, refusals, tasks, telling
from muster_operator.agent.asks import ask_of
from muster_operator.agent.ledger import Application, Ledger, Task
from muster_operator.model import vocabulary as words
from muster_operator.model.ids import PodUid
from muster_operator.model.news import AskSubmitted
from muster_operator.model.outcome import Outcome
from muster_operator.model.pods import Pod
from muster_operator.model.states import AppState, TaskState

#: The pod has no node in our eyes, and a terminating one will never need it.
_UNBOUND = frozenset(
    {TaskState.NEW, TaskState.PENDING, TaskState.SCHEDULING, TaskState.ALLOCATED, TaskState.REJECTED, TaskState.FAILED}
)


def own_pod_seen(ledger: Ledger, out: Outcome, pod: Pod, now: float) -> None:
    """A pod of ours exists and looks like this; it is recorded already."""
    uid = pod.ref.uid
    task = ledger.tasks.get(uid)
    if pod.has_ended:
        _ended(ledger, out, pod, now)
    elif task is not None:
        _changed(ledger, out, task, pod, now)
    elif uid in ledger.strays:
        occupants.make_stray(ledger, out, pod)
    else:
        _appeared(ledger, out, pod, now)


def own_pod_gone(ledger: Ledger, out: Outcome, uid: PodUid, now: float) -> None:
    """A pod of ours no longer exists; it is taken off the record already."""
    ledger.deletions.pop(uid, None)
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
    if pod.gates and pod.node is None:
        if pod.ref.uid not in ledger.noticed:
            ledger.noticed.add(pod.ref.uid)
            telling.inform(
                out, pod.ref, words.REASON_SCHEDULING, f"waiting for scheduling gates: {', '.join(pod.gates)}"
            )
        return True
    return False


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


def _changed(ledger: Ledger, out: Outcome, task: Task, pod: Pod, now: float) -> None:
    old, task.pod = task.pod, pod
    app = ledger.applications.get(task.app)
    if app is not None and app.originator.ref.uid == task.uid:
        app.originator = pod
    if pod.node is not None:
        _has_node(ledger, out, app, task, now)
    elif pod.terminating and task.state in _UNBOUND:
        endings.task_ended(ledger, out, task, now)
    elif task.state is TaskState.SCHEDULING and _asks_otherwise(old, pod):
        out.news.append(AskSubmitted(ask_of(ledger, task)))


def _asks_otherwise(old: Pod, new: Pod) -> bool:
    """Whether the core was told something of the pod that is so no more."""
    return (old.tags, old.resources, old.allow_preemption) != (new.tags, new.resources, new.allow_preemption)


def _has_node(ledger: Ledger, out: Outcome, app: Application | None, task: Task, now: float) -> None:
    """The API shows the pod on a node: through our bind, or through somebody else's."""
    node = task.pod.node
    if task.state is TaskState.BOUND or task.state not in _UNBOUND or node is None:
        return
    if task.state is TaskState.ALLOCATED and task.node == node:
        tasks.mark_bound(out, task)
    elif task.state in {TaskState.REJECTED, TaskState.FAILED}:
        occupants.make_stray(ledger, out, task.pod)
    else:
        tasks.adopt_bound(out, task, node)
        if app is not None and app.state in applications.ANSWERED:
            tasks.report_bound(ledger, out, task)
    if task.pod.membership.placeholder:
        applications.placeholder_bound(ledger, out, task, now)
