"""A pod that does not go with the application that it joins: told, never silently taken as something else.

The pod that creates an application decides on its queue, user, namespace and gang (contract 1.2, 1.5). Each difference
is told once an application, on the first pod that has it: the other pods have the same trouble.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster_operator.agent import telling
from muster_operator.agent.ledger import Application, Ledger, Task
from muster_operator.model import vocabulary as words
from muster_operator.model.groups import GangDefinition
from muster_operator.model.outcome import Outcome
from muster_operator.model.pods import Pod, UserInfo

#: Differences of one application that are told; who has more has been told enough.
_MAX_TOLD: Final = 16
_NOBODY: Final = UserInfo()


def tell(ledger: Ledger, out: Outcome, app: Application, task: Task) -> None:
    """A waiting pod that names another queue, user or namespace, or counts on a task group that is not there."""
    pod = task.pod
    says = (pod.membership, pod.ref.namespace)
    if pod.node is not None or says == app.examined:
        return
    app.examined = says
    for note in _differences(app, pod):
        if _is_new(app, note):
            telling.warn(out, pod.ref, words.REASON_SCHEDULING, note)
    if app.gang is not None:
        _tell_unknown_group(out, app, app.gang, pod)
    elif not app.source.is_written and not ledger.settings.disable_gang and not app.is_told_no_gang:
        app.is_told_no_gang = _tell_missing_definition(out, app, pod)


def _is_new(app: Application, note: str) -> bool:
    """Whether it was not told yet; it is now."""
    is_new = note not in app.mismatches and len(app.mismatches) < _MAX_TOLD
    if is_new:
        app.mismatches.add(note)
    return is_new


def _differences(app: Application, pod: Pod) -> Iterator[str]:
    """No text names the pod itself, so that equal ones are one."""
    member = pod.membership
    fix = f"give what does not belong to it a {words.LABEL_APP_ID} of its own"
    if member.queue and member.queue != app.queue:
        has = f"is in queue {app.queue}" if app.queue else "names no queue"
        yield f"queue: {member.queue} is ignored, application {app.name} {has} since its first pod; {fix}"
    if member.user not in {app.user, _NOBODY}:
        yield f"user: {member.user.user} is ignored, application {app.name} is that of {app.user.user}; {fix}"
    if pod.ref.namespace != app.namespace:
        where = f"namespace {pod.ref.namespace} is not that of application {app.name}, which began in"
        yield f"{where} {app.namespace} and has the quota of that; {fix}"


def _tell_unknown_group(out: Outcome, app: Application, gang: GangDefinition, pod: Pod) -> None:
    group = pod.membership.task_group
    if not group or gang.group(group):
        return
    known = ", ".join(known.name for known in gang.groups)
    note = (
        f"{words.ANNOTATION_TASK_GROUP_NAME}: {group[:60]} is no task group of application {app.name}; the "
        f"pod is scheduled without one, write one of: {known[:400]}"
    )
    if _is_new(app, note):
        telling.warn_gang(out, pod.ref, words.ACTION_TASK_GROUPS_ERROR, note)


def _tell_missing_definition(out: Outcome, app: Application, pod: Pod) -> bool:
    """Whether there was something to warn of."""
    wanted = {
        words.ANNOTATION_TASK_GROUPS: pod.membership.gang.is_written,
        words.ANNOTATION_TASK_GROUP_NAME: pod.membership.task_group,
    }
    key = next((key for key, value in wanted.items() if value), None)
    if key is None:
        return False
    note = (
        f"{key}: application {app.name} began with pod {app.originator.ref.name}, which defines no task groups; the "
        f"pod is scheduled without a gang. Write {words.ANNOTATION_TASK_GROUPS} on every pod of the application, and "
        f"give a gang a {words.LABEL_APP_ID} of its own"
    )
    telling.warn_gang(out, pod.ref, words.ACTION_TASK_GROUPS_ERROR, note)
    return True
