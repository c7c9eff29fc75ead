"""The sweep: what a lost event or an exception left behind is found and ordered again.

Once a minute `on_timer` looks for pods and placeholders in a short-lived state: a bind, a creation, a deletion or a
write of a volume was ordered and has no result. What was in the same state at the last sweep is ordered again. The
write queue drops the repetition if the command is still queued or in flight, and counts it otherwise. A repeated write
is harmless: the API server answers that it is done, or the object is read.

The timers of deletions and creations are shorter and belong to what the API server has confirmed: a pod that does not
end, a placeholder that no watch shows. `revisit` examines an object whose handling failed (`isolation`).
"""

from __future__ import annotations

from collections.abc import Iterator

from muster_operator.controller import (
    absent_members,
    applications,
    cluster_events,
    placeholders,
    recovery,
    tasks,
    volume_binding,
)
from muster_operator.controller.state import Application, Ledger, SlotState, Task, isolate, sweep_later
from muster_operator.model import problems
from muster_operator.model.commands import CancelCreations, DeletePod, FailPod, Outcome, PostEvent, Repeat
from muster_operator.model.core_messages import AskSubmitted, NodeDrained, NodeOpened, NodeUpdated
from muster_operator.model.ids import AppId, NodeName, PodUid
from muster_operator.model.states import AppState, TaskState


def on_timer(ledger: Ledger, out: Outcome, now: float) -> None:
    """Timer: orders again what is in the same short-lived state as at the last sweep."""
    sweep_later(ledger, now)
    before, ledger.short_lived = ledger.short_lived, dict(_short_lived(ledger))
    for subject, progress in ledger.short_lived.items():
        if before.get(subject) == progress:
            commands = len(out.commands)
            isolate(_order_again, ledger, out, subject, now)
            out.commands[commands:] = [
                one if isinstance(one, PostEvent | CancelCreations | Repeat) else Repeat(one)
                for one in out.commands[commands:]
            ]


def _short_lived(ledger: Ledger) -> Iterator[tuple[tuple[str, ...], object]]:
    """What waits for the result of a command: the object, and its progress, which changes with each order."""
    for task in ledger.tasks.values():
        if task.state is TaskState.ALLOCATED:
            steps = task.volume_wait.steps if task.volume_wait is not None else {}
            writes = tuple((key, step.state, step.tries) for key, step in steps.items())
            yield (task.uid,), (task.allocation_id, task.binds, writes)
        elif task.state is TaskState.KILLING and task.uid not in ledger.deletions:
            yield (task.uid,), task.state
    for deletion in ledger.deletions.values():
        if deletion.answered is None:
            yield (deletion.pod.uid,), deletion.tries
    for app in ledger.applications.values():
        if app.state is AppState.ACCEPTED:
            yield (app.id,), app.state
        waiting = set(app.creations.again)
        for name in app.open_slots - waiting:
            if app.slots[name].state is SlotState.ORDERED:
                yield (app.id, name), app.slots[name].tries


def _order_again(ledger: Ledger, out: Outcome, subject: tuple[str, ...], now: float) -> None:
    uid, app = PodUid(subject[0]), ledger.applications.get(AppId(subject[0]))
    if uid in ledger.deletions:
        deletion = ledger.deletions[uid]
        out.commands.append(DeletePod(deletion.pod, deletion.reason))
    elif (task := ledger.tasks.get(uid)) is not None:
        _restore(ledger, out, task, now)
    elif app is not None and len(subject) > 1:
        placeholders.order_again(ledger, out, app, app.slots[subject[1]])
    elif app is not None:
        _restore_application(ledger, out, app, now)


def revisit(ledger: Ledger, out: Outcome, subject: str, now: float) -> None:
    """Timer: brings an object whose handling failed to the state that it should have."""
    uid, app, node = PodUid(subject), ledger.applications.get(AppId(subject)), ledger.nodes.get(NodeName(subject))
    if (task := ledger.tasks.get(uid)) is not None:
        _restore(ledger, out, task, now)
    elif uid in ledger.pods:
        _join_again(ledger, out, uid, now)
    elif uid in ledger.foreign:
        tasks.report_foreign(ledger, out, ledger.foreign[uid])
    elif app is not None:
        _restore_application(ledger, out, app, now)
    elif node is not None:
        out.requests.append(NodeUpdated(volume_binding.as_reported(ledger, node)))
        out.requests.append(NodeOpened(node.name) if node.schedulable else NodeDrained(node.name))
    ledger.failures.pop(subject, None)


def _join_again(ledger: Ledger, out: Outcome, uid: PodUid, now: float) -> None:
    """Handles a pod without a task as if it had just appeared. If that fails, it counts on its node as before."""
    pod = ledger.pods[uid]
    tasks.untracked_gone(ledger, out, uid)
    try:
        cluster_events.own_pod_seen(ledger, out, pod, now)
    finally:
        if pod.node is not None and uid in ledger.pods and uid not in ledger.tasks:
            tasks.track_foreign(ledger, out, pod)


def _restore(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """Does again what the state of a pod stands for. All of this can be repeated."""
    app = ledger.applications.get(task.app)
    if app is None or task.state is TaskState.NEW:
        recovery.forget(ledger, task.pod)
        _join_again(ledger, out, task.uid, now)
        return
    match task.state:
        case TaskState.PENDING if not task.pod.membership.placeholder:
            if applications.may_ask(ledger, app):
                applications.submit_waiting(ledger, out, app, now)
        case TaskState.PENDING if app.state is AppState.RESERVING or absent_members.gang_of(ledger, app):
            placeholders.submit(ledger, out, app, task, now)
        case TaskState.SCHEDULING:
            task.asked = True
            out.requests.append(AskSubmitted(tasks.ask_of(ledger, task)))
        case TaskState.ALLOCATED if task.volume_wait is not None:
            volume_binding.write_again(ledger, out, task, now)
        case TaskState.ALLOCATED:
            tasks.order_bind(ledger, out, task)
        case TaskState.BOUND if not task.held and app.state in applications.ANSWERED:
            tasks.report_bound(ledger, out, task)
        case TaskState.BOUND:
            tasks.resend(ledger, out, task)
        case TaskState.KILLING:
            tasks.order_delete(ledger, out, task.pod.ref, now, problems.released_by_core())
        case TaskState.FAILED if app.failure is not None and task.pod.node is None:
            out.commands.append(FailPod(task.pod.ref, app.failure.kind.pod_reason, app.failure.text))
        case _:
            pass


def _restore_application(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Continues an application from its state."""
    if app.state is AppState.NEW:
        applications.start(ledger, out, app, now)
    elif app.state is AppState.ACCEPTED:
        applications.begin(ledger, out, app, now)
    else:
        for task in (*app.members.values(), *app.placeholders.values()):
            if task.state in {TaskState.NEW, TaskState.PENDING, TaskState.ALLOCATED, TaskState.KILLING}:
                isolate(_restore, ledger, out, task, now)
