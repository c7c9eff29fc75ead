"""Isolation of failures: an exception of one object does not stop others."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from msgspec import structs

from muster_operator.controller import reporting, state, tasks
from muster_operator.controller.state import Application, ForeignAllocation, Ledger
from muster_operator.model import messages
from muster_operator.model.commands import Failure, Outcome
from muster_operator.model.ids import PodUid
from muster_operator.model.pods import ForeignPod, Pod

P = ParamSpec("P")
T = TypeVar("T")


def attempt(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Exception:
    """Returns the result, or the exception. Only this function of the controller catches all exceptions."""
    try:
        return work(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - the caller reports it
        return error


def leave_out(ledger: Ledger, out: Outcome, pod: Pod, error: Exception) -> None:
    """Reports the failure of a pod and removes the pod from its application."""
    out.failures.append(Failure("Pod", f"{pod.ref.namespace}/{pod.ref.name}", error))
    forget(ledger, pod)
    if not pod.membership.placeholder or pod.node is not None:
        note = messages.bound_pod_left_out() if pod.node is not None else messages.waiting_pod_left_out()
        reporting.post(out, pod.ref, note)


def leave_out_application(ledger: Ledger, out: Outcome, app: Application, error: Exception) -> None:
    """Reports the failure of an application on its first pod and removes it. Its bound pods count on their nodes."""
    out.failures.append(Failure("Application", app.id, error))
    reporting.post(out, app.originator.ref, messages.application_left_out(app.name))
    for task in [*app.members.values(), *app.placeholders.values()]:
        forget(ledger, task.pod)
    ledger.applications.pop(app.id, None)


def forget(ledger: Ledger, pod: Pod) -> None:
    """Removes the pod's task without sending anything. A bound pod counts on its node only."""
    uid = pod.ref.uid
    task = ledger.tasks.pop(uid, None)
    if task is not None:
        task.held = False
        state.recount(task)
        ledger.tasks_by_node.remove(uid, task.node, pod.node)
        app = ledger.applications.get(task.app)
        if app is not None:
            app.members.pop(uid, None)
            if app.placeholders.pop(uid, None) is not None:
                app.placeholder_names.discard(pod.ref.name)
    app = ledger.applications.get(pod.membership.app)
    if app is not None and not app.members and not app.placeholders:
        del ledger.applications[app.id]
    if pod.node is not None and not pod.has_ended:
        _count_on_node(ledger, pod)


def _count_on_node(ledger: Ledger, pod: Pod) -> None:
    uid: PodUid = pod.ref.uid
    if not isinstance(attempt(tasks.untracked_of, ledger, pod), Exception):
        return
    bare = ForeignPod(pod.ref, pod.node, pod.phase, pod.resources, "default", pod.priority, {})
    ledger.untracked_by_node.add(uid, pod.node)
    ledger.untracked_pods[uid] = ForeignAllocation(bare)


def bare(pod: ForeignPod) -> ForeignPod:
    """The pod without tags, so that only its resources count."""
    return structs.replace(pod, tags={})
