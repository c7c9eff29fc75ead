"""Warnings about a pod that does not match its application, or has names without effect.

`applications` and `recovery` call `report_mismatches` for each pod that waits. Equal warnings of an application are
posted once. Both call `report_controllers` for pods of another controller than the first members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from muster_operator.controller import reporting
from muster_operator.controller.reporting import EVENT_TTL_S
from muster_operator.controller.state import Application, Ledger, Task
from muster_operator.model import limits, messages, names, problems
from muster_operator.model.commands import Outcome
from muster_operator.model.event_texts import Note
from muster_operator.model.pods import GangDefinition, Pod, UserInfo
from muster_operator.translate.known_names import free_group, unknown_group
from muster_operator.translate.membership import shared_app_id

#: Mismatches reported per application; further ones are not reported.
_MAX_MISMATCHES: Final = 16
_NOBODY: Final = UserInfo()
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"


def report_mismatches(ledger: Ledger, out: Outcome, app: Application, task: Task) -> None:
    """Warns about a waiting pod whose queue, user, namespace or task group does not match its application."""
    pod = task.pod
    stated = (pod.membership, pod.ref.namespace)
    if pod.node is not None or stated == app.examined:
        return
    app.examined = stated
    # The texts do not name the pod, so that equal ones are reported once.
    for note in (*map(messages.unknown_name, pod.membership.misspelt), *map(messages.ignored, _differences(app, pod))):
        if _is_new(app, note.text):
            reporting.post(out, pod.ref, note)
    if app.gang is not None:
        _warn_group(out, app, app.gang, pod)
    elif not app.source.is_written and not ledger.settings.disable_gang:
        _warn_missing_definition(out, app, pod)


def report_in_namespace(ledger: Ledger, out: Outcome, app: Application, note: Note, now: float) -> None:
    """Warns about what all applications of the namespace can have, such as a queue that a placement rule replaced.

    Of equal warnings in a namespace, one is posted within the event lifetime, on the first pod of an application.
    """
    reported, key = ledger.reported_in_namespace, (app.namespace, note.text)
    if app.originator.node is None and now >= reported.get(key, now - EVENT_TTL_S) + EVENT_TTL_S:
        reporting.post(out, app.originator.ref, note)
        reported.pop(key, None)  # the first entry is the oldest
        reported[key] = now
        if len(reported) > limits.REPORTED_IN_NAMESPACES:
            del reported[next(iter(reported))]


def _is_new(app: Application, note: str) -> bool:
    """Records the note. Returns False if the application has it already or has too many."""
    is_new = note not in app.mismatches and len(app.mismatches) < _MAX_MISMATCHES
    if is_new:
        app.mismatches.add(note)
    return is_new


def _differences(app: Application, pod: Pod) -> Iterator[str]:
    """Differences from the application."""
    member = pod.membership
    if member.queue and member.queue != app.queue:
        yield problems.queue_ignored(member.queue, app.name, app.queue)
    if _is_another_person(member.user, app.user):
        yield problems.user_ignored(member.user.user, app.name, app.user.user)
    groups, used = member.gang.task_groups, app.source.task_groups
    if app.source.is_written and groups not in {"", used}:
        yield problems.task_groups_ignored(_owner(pod), app.name, app.originator.ref.name)
    if pod.ref.namespace != app.namespace:
        yield problems.other_namespace(pod.ref.namespace, app.name, app.namespace)


def _is_another_person(user: UserInfo, of_app: UserInfo) -> bool:
    """Whether a pod that this user created may have got into the application by mistake.

    Controllers create pods with accounts of their own: the executors of Spark are created by the service account of
    their driver. Groups are not compared: those of the application's first pod count.
    """
    return user.user not in {of_app.user, _NOBODY.user} and not user.user.startswith(_SERVICE_ACCOUNT)


def _warn_group(out: Outcome, app: Application, gang: GangDefinition, pod: Pod) -> None:
    """Warns about a task group that the application does not define, and a member that names none."""
    if group := pod.membership.task_group:
        problem = "" if gang.group(group) else unknown_group(group, app.name, (known.name for known in gang.groups))
    else:
        free = free_group(pod.resources, gang.groups, {name: len(living) for name, living in app.living.items()})
        problem = problems.no_task_group(app.name, free) if free else ""
    if problem and _is_new(app, problem):
        reporting.post(out, pod.ref, messages.unknown_group(problem))


def report_controllers(out: Outcome, app: Application, pods: list[Pod], *, is_own_run: bool) -> None:
    """Warns that pods of a controller have the application ID of others.

    ``is_own_run``: they are a gang of their own. Otherwise they join the application, and those of a task group that
    has more members than it needs are reported.
    """
    own = pods[0].controller_name
    if is_own_run:
        first = _last_of(app, pods[0].membership.task_group) or app.originator
        reporting.post(out, pods[0].ref, messages.gang_of_its_own(app.name, _owner(first), own, len(pods)))
        return
    counts = Counter(pod.membership.task_group for pod in pods)
    for pod in pods:
        group = app.gang.group(pod.membership.task_group) if app.gang is not None else None
        if group is None or (other := _last_of(app, group.name)) is None:
            continue
        minimum = group.min_member + app.succeeded.get(group.name, 0)
        count = counts[group.name] + len(app.living[group.name])
        if count > minimum:
            note = messages.members_of_two(group.name, app.name, minimum, count, _owner(other), own)
            reporting.post(out, pod.ref, note)


def _last_of(app: Application, group: str) -> Pod | None:
    """The living member of the task group that joined last."""
    living = app.living.get(group)
    return living[next(reversed(living))].pod if living else None


def _owner(pod: Pod) -> str:
    """The controller of a pod for messages, or the pod if it has none."""
    return pod.controller_name or f"Pod/{pod.ref.name}"


def _warn_missing_definition(out: Outcome, app: Application, pod: Pod) -> None:
    """Warns that the application has no task groups although the pod expects some.

    Once, or once for each controller if the pods have no application ID, because then they can be unrelated.
    """
    wanted = {
        names.ANNOTATION_TASK_GROUPS: pod.membership.gang.is_written,
        names.ANNOTATION_TASK_GROUP_NAME: pod.membership.task_group,
    }
    key = next((key for key, value in wanted.items() if value), None)
    workload = _owner(pod) if app.name == shared_app_id(app.namespace) else ""
    if key is not None and _is_new(app, f"no gang: {workload}"):
        originator = "" if app.originator.ref == pod.ref else app.originator.ref.name
        reporting.post(out, pod.ref, messages.missing_groups(key, app.name, originator))
