"""A pod of ours looks otherwise than before: bound, resized in place, relabelled, on its way out.

What the core was told of a pod it is told anew: as an ask while the pod waits, as an allocation once it has its place
(semantics 3, ADR 0010); of one that it ordered to go it hears nothing more but its end. The application, and with it
the queue, is chosen once: a pod that waits may still move to another application, one that has its place stays with
what it is accounted to, and its user is told.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from muster_operator.agent import applications, endings, occupants, standing, tasks, telling
from muster_operator.agent.ledger import Application, Ledger, Task
from muster_operator.model import vocabulary as words
from muster_operator.model.ids import application_name
from muster_operator.model.outcome import Outcome
from muster_operator.model.pods import Membership, Pod
from muster_operator.model.states import TaskState

#: The pod has no node in our eyes, and a terminating one will never need it.
_UNBOUND = frozenset(
    {TaskState.NEW, TaskState.PENDING, TaskState.SCHEDULING, TaskState.ALLOCATED, TaskState.REJECTED, TaskState.FAILED}
)
#: It was given no place yet, and nobody ordered its end.
_WAITING = frozenset({TaskState.NEW, TaskState.PENDING, TaskState.SCHEDULING, TaskState.REJECTED})


def of_the_same_kind(task: Task, pod: Pod) -> Pod:
    """A placeholder stays one, and a member a member, independent of later changes to its metadata.

    Where that cannot be read any more, what the pod was asked for with stays too.
    """
    old, was, now = task.pod, task.pod.membership, pod.membership
    if now.refusal and pod.node is None:
        pod = structs.replace(pod, tags=old.tags, common=old.common, resources=old.resources)
    if now.placeholder is was.placeholder:
        return pod
    return structs.replace(pod, membership=replace(now, placeholder=was.placeholder, owner=was.owner))


def is_anothers(task: Task, pod: Pod) -> bool:
    """Whether the pod, which waits, belongs to another application now."""
    is_free = pod.node is None and not pod.terminating and not pod.membership.placeholder
    return is_free and task.state in _WAITING and pod.membership.app != task.app


def is_refused(task: Task, pod: Pod) -> bool:
    """Whether the pod, which waits, cannot be scheduled as it is now: it is asked for again when it changes."""
    is_waiting = pod.node is None and not pod.terminating and task.state in _WAITING
    return is_waiting and bool(pod.membership.refusal) and not pod.membership.placeholder


def changed(ledger: Ledger, out: Outcome, task: Task, pod: Pod, now: float) -> None:
    """A pod of an application looks like this."""
    old, task.pod = task.pod, pod
    standing.recount(task)
    ledger.tasks_by_node.add(task.uid, pod.node)
    app = ledger.applications.get(task.app)
    if app is not None and app.originator.ref.uid == task.uid:
        app.originator = pod
    _tell_of_labels(out, app, task, old.membership)
    if pod.node is None and pod.terminating and task.state in _UNBOUND:
        endings.task_ended(ledger, out, task, now)
        return
    if _is_otherwise(old, pod) and (pod.node is None or task.held) and task.release is None:
        tasks.retell(ledger, out, task)
    if pod.node is not None:
        _has_node(ledger, out, app, task, now)


def class_seen(ledger: Ledger, out: Outcome, name: str) -> None:
    """Whether pods of this priority class may be preempted is another matter than before; it is recorded already."""
    for task in ledger.tasks.values():
        if task.pod.priority_class == name and task.pod.allow_preemption is None:
            tasks.retell(ledger, out, task)


def _is_otherwise(old: Pod, new: Pod) -> bool:
    """Whether the core was told something of the pod that is so no more."""
    return (old.tags, old.resources, old.allow_preemption) != (new.tags, new.resources, new.allow_preemption)


def _tell_of_labels(out: Outcome, app: Application | None, task: Task, old: Membership) -> None:
    """What comes too late is said once, when it comes."""
    new = task.pod.membership
    if app is None or new.placeholder:
        return
    if new.app not in {old.app, task.app}:
        named = application_name(new.app)
        note = f"application ID {named} is ignored: the pod already belongs to application {app.name}"
        telling.warn(out, task.pod.ref, words.REASON_SCHEDULING, f"{note}; make it anew to move it")
    elif new.queue not in {old.queue, app.queue} and new.app == task.app:
        note = f"queue {new.queue or '(none)'} is ignored: application {app.name} is in {app.queue or 'no named queue'}"
        telling.warn(out, task.pod.ref, words.REASON_SCHEDULING, f"{note} since its first pod")


def _has_node(ledger: Ledger, out: Outcome, app: Application | None, task: Task, now: float) -> None:
    """The API shows the pod on a node: through our bind, or through somebody else's."""
    node = task.pod.node
    if task.state is TaskState.BOUND or task.state not in _UNBOUND or node is None:
        return
    if task.state is TaskState.ALLOCATED and task.node == node:
        tasks.mark_bound(ledger, out, task)
    elif task.state in {TaskState.REJECTED, TaskState.FAILED}:
        occupants.make_stray(ledger, out, task.pod)
    else:
        tasks.adopt_bound(ledger, out, task, node)
        if app is not None and app.state in applications.ANSWERED:
            tasks.report_bound(ledger, out, task)
    if task.pod.membership.placeholder:
        applications.placeholder_bound(ledger, out, task, now)
