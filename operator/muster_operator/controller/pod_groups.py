"""PodGroups: when their pods may be scheduled, and the condition that the scheduler writes.

A pod that names a PodGroup is one of its members as soon as the PodGroup exists, its pods agree with it, and enough of
them exist. Until then the pod waits, without an application. The keys of the PodGroup take precedence over those of the
pod. Each PodGroup is an application of its own, also if several have the same application ID.

Labels and annotations of pods can take the place of the object. Then the PodGroup is what they say, as long as they say
the same.

`cluster_events` records pods and groups here and joins the pods whose wait ends; `reporting` and `tasks` report what
the scheduler decides about a group. See docs/reference/gang-apis.md.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Final, assert_never

from msgspec import structs

from muster_operator.controller import device_claims
from muster_operator.controller.group_members import GroupMembers
from muster_operator.controller.isolation import isolate
from muster_operator.controller.state import Deadline, Ledger, Phase, Task, TimerKind, set_timer
from muster_operator.model import limits, messages, names, problems
from muster_operator.model.cluster_events import PodGroupEvent, PodGroupGone, PodGroupSeen
from muster_operator.model.commands import Outcome, SetCondition, SetGroupCondition
from muster_operator.model.ids import AppId, PodUid, application_id, application_name
from muster_operator.model.pod_groups import SCHEDULED, SCHEDULER_ERROR, UNSCHEDULABLE, GroupCondition, PodGroup
from muster_operator.model.pods import Condition, GangSource, Membership, Pod, PodGroupSource, PodPhase
from muster_operator.translate.membership import pod_group_app_id

#: Seconds until a group whose requests were taken back is requested again. Each further time doubles them.
PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 10.0

#: The longest time between two texts about a group that waits. Each change of the text doubles the time.
_MAX_REPORT_S: Final = 60.0

#: Different declarations of one group that are compared.
_COMPARED: Final = 16

_NEVER: Final = "Never"
_LOWER: Final = "PreemptLowerPriority"


def key_of(pod: Pod) -> str:
    """The key of the PodGroup that the pod names; empty = none. A pod can only name one of its own namespace."""
    name = pod.membership.pod_group
    return f"{pod.ref.namespace}/{name}" if name else ""


def record(ledger: Ledger, pod: Pod) -> Pod:
    """Records the pod with its PodGroup. Returns the pod as a member of the group, or with the reason why it waits."""
    if pod.membership.placeholder:
        return pod
    key, uid, declared = key_of(pod), pod.ref.uid, (pod.membership.written or pod.membership).declared
    if ledger.group_of.get(uid, key) != key:  # its labels or annotations have changed
        forget(ledger, uid)
    if not key:
        return pod
    members = ledger.group_members.setdefault(key, GroupMembers())
    members.forget(uid)
    ledger.group_of[uid] = key
    if pod.terminating:
        pass
    elif pod.phase is PodPhase.SUCCEEDED:
        members.succeeded.add(uid)
    elif not pod.has_ended:
        members.add(uid, pod.scheduler_name)
        if pod.node is not None:
            members.bound.add(uid)
        elif not _is_held(ledger, pod):
            members.await_start(uid, declared.gang if declared is not None else "")
        group = ledger.pod_groups.get(key)
        if group is not None:
            members.disagree(uid, _disagreement(pod, group))
    members.declare(uid, declared if uid in members.living or uid in members.succeeded else None)
    _declare(ledger, key, members)
    return settled(ledger, pod)


def _declare(ledger: Ledger, key: str, members: GroupMembers) -> None:
    """Records the group that the pods declare: as one with a node does, with a problem if others contradict.

    The result does not depend on the order of the pods, except for the text about very many contradictions.
    """
    _index(ledger, key, is_declared=bool(members.declarations))
    if not members.declarations:
        return
    group = next(iter(members.declarations))
    if len(members.declarations) > 1:
        group = _joined(sorted(islice(members.declarations, _COMPARED + len(group.gang_names)), key=_declared_values))
        if group.problem:
            base = members.declared.get(min(members.bound, default=PodUid("")), group)
            group = replace(base, problem=group.problem, gangs=group.gangs)
    before = ledger.pod_groups.get(key)
    if before is None or replace(before, app_id=group.app_id) != group:
        _recorded(ledger, key, group)


def _declared_values(group: PodGroup) -> tuple[int, str, str, str, str]:
    return group.min_count, group.app, group.queue, group.name, group.problem


def _joined(declared: list[PodGroup]) -> PodGroup:
    """The group that differs among its pods: one of several gangs, or with a problem. ``declared``: sorted by size."""
    gangs: dict[str, list[PodGroup]] = {}
    for group in declared:
        gangs.setdefault(group.gang, []).append(group)
    by_keys = sorted(declared, key=lambda group: (group.app, group.queue, group.name))
    pairs = [*((some[0], some[-1]) for some in gangs.values()), (by_keys[0], by_keys[-1])]
    found = (*(group.problem for group in declared), *(_contradiction_of(one, other) for one, other in pairs))
    problem, group = next(filter(None, found), ""), declared[0]
    if not group.gangs:
        return replace(group, problem=problem)
    sizes = tuple(sorted((name, some[0].min_count) for name, some in gangs.items()))
    total = sum(size for _, size in sizes)
    if total > limits.GANG_MEMBERS:
        problem = problem or problems.gangs_too_large(group.title, total, limits.GANG_MEMBERS)
    return replace(group, problem=problem, gangs=sizes, min_count=total)


def _contradiction_of(one: PodGroup, other: PodGroup) -> str:
    """What of two declarations differs; empty = nothing, except for gangs that start together."""
    values = (
        (one.size_key, str(one.min_count), str(other.min_count) if one.gang == other.gang else str(one.min_count)),
        (names.LABEL_APP_ID, one.app, other.app),
        (names.LABEL_QUEUE, one.queue, other.queue),
        ("name of their controller", one.name, other.name),
    )
    for key, first, second in values:
        if first != second:
            return problems.contradictory_members(one.title, key, first, second)
    return ""


def _gangs(key: str) -> list[str]:
    """The gangs of Koordinator in a PodGroup, as ``namespace/name``. Of other dialects there are none."""
    namespace, _, declared = key.partition("/")
    dialect, _, identity = declared.partition("=")
    is_one = dialect == names.ANNOTATION_KOORDINATOR_NAME and identity
    return [f"{namespace}/{name}" for name in identity.split(",")] if is_one else []


def _index(ledger: Ledger, key: str, *, is_declared: bool) -> None:
    """Records which PodGroups each gang of Koordinator is in, and the only other one of a gang as contested."""
    gangs = _gangs(key)
    if not gangs or is_declared is (key in ledger.groups_of_gang.get(gangs[0], ())):
        return
    for gang in gangs:
        groups = ledger.groups_of_gang.setdefault(gang, {})
        groups.pop(key, None)
        if len(groups) == 1:
            ledger.contested_groups.update(groups)
        if is_declared:
            groups[key] = None
        elif not groups:
            del ledger.groups_of_gang[gang]


def _contradicted(ledger: Ledger, key: str) -> str:
    """Which gang of Koordinator is in another PodGroup, too; empty = none."""
    for gang in _gangs(key):
        other = next((one for one in islice(ledger.groups_of_gang.get(gang, ()), 2) if one != key), "")
        if other:
            one, two = sorted(", ".join(_gangs(found)) for found in (key, other))
            return problems.contradictory_gangs(gang, names.ANNOTATION_KOORDINATOR_GROUPS, one, two)
    return ""


def _is_held(ledger: Ledger, pod: Pod) -> bool:
    """Whether the pod cannot be requested, so that it is not one of the members that start together."""
    own = pod.membership.written or pod.membership
    return bool(own.refusal or own.marked or pod.gates or device_claims.is_missing(ledger, pod))


def forget(ledger: Ledger, uid: PodUid) -> None:
    """A pod is gone."""
    key = ledger.group_of.pop(uid, "")
    members = ledger.group_members.get(key)
    if members is not None:
        members.forget(uid)
        members.declare(uid, None)
        if members.is_empty:
            del ledger.group_members[key]
        _declare(ledger, key, members)
        if members.is_empty and key in ledger.pod_groups and not ledger.pod_groups[key].uid:
            del ledger.pod_groups[key]


def record_group(ledger: Ledger, fact: PodGroupEvent) -> str:
    """Records a PodGroup, or that it was deleted. Returns its key."""
    match fact:
        case PodGroupSeen(group):
            _recorded(ledger, group.key, group)
            return group.key
        case PodGroupGone(key):
            _recorded(ledger, key, None)
            return key
        case _:
            assert_never(fact)


def _recorded(ledger: Ledger, key: str, group: PodGroup | None) -> None:
    before, members = ledger.pod_groups.pop(key, None), ledger.group_members.get(key)
    if group is not None:
        name = group.app or pod_group_app_id(group.name)
        own = application_id(group.namespace, name, ledger.settings.sharing_groups)
        is_same = before is not None and before.app_id == own
        app_id = own if is_same else _running(ledger, members) or own
        group = ledger.pod_groups[key] = replace(group, app_id=app_id)
    if members is None:
        return
    if group is None or before is None or before.uid != group.uid or is_scheduled(group):
        members.reported = None
    if before is not None and group is not None and _required(before) == _required(group):
        return
    for uid in members.living:
        pod = ledger.pods.get(uid)
        members.disagree(uid, _disagreement(pod, group) if pod is not None and group is not None else "")


def _running(ledger: Ledger, members: GroupMembers | None) -> AppId | None:
    """The application of the members that have a node. It stays that of the group, for members that come later."""
    tasks = (ledger.tasks.get(uid) for uid in members.living) if members is not None else ()
    apps = (ledger.applications.get(task.app) for task in tasks if task is not None and task.node is not None)
    return next((app.common_id for app in apps if app is not None), None)


def is_scheduled(group: PodGroup) -> bool:
    """Whether the condition of the group says so, which is final."""
    return group.condition is not None and group.condition.is_scheduled


def _required(group: PodGroup) -> tuple[int | None, str]:
    """What the pods of the group must agree with."""
    return group.priority, group.preemption_policy


def _compared(group: PodGroup) -> PodGroup:
    """The group without what its pods are not compared with. Its problem is why they wait."""
    return replace(group, generation=0, condition=None, problem="")


def _disagreement(pod: Pod, group: PodGroup) -> str:
    """What of the pod does not agree with its PodGroup, in Kubernetes' words; empty = nothing."""
    if group.priority is not None and pod.priority != group.priority:
        return problems.other_priority(pod.priority, group.priority)
    policy = _LOWER if pod.preempts_others else _NEVER
    if group.preemption_policy and policy != group.preemption_policy:
        return problems.other_preemption_policy(policy, group.preemption_policy)
    return ""


def _wait(ledger: Ledger, key: str) -> tuple[str, str]:
    """Why the pods of the group wait, and the reason of the group's condition; empty = they may be scheduled."""
    group, members = ledger.pod_groups.get(key), ledger.group_members.get(key)
    if group is None:
        return problems.pod_group_missing(key.partition("/")[2]), UNSCHEDULABLE
    if problem := group.problem or _contradicted(ledger, key):
        return problem, SCHEDULER_ERROR
    if group.min_count and ledger.settings.disable_gang:
        return problems.pod_group_gangs_disabled(group.name), SCHEDULER_ERROR
    if members is None:
        return "", ""
    if members.disagreements:
        return min(members.disagreements), SCHEDULER_ERROR
    if len(members.schedulers) > 1:
        first, second = sorted(members.schedulers)[:2]
        return problems.mixed_scheduler_names(first, second), SCHEDULER_ERROR
    if not members.has_started and (problem := _missing(group, members)):
        return problem, UNSCHEDULABLE
    if members.is_paused:
        return problems.pod_group_paused(group.title), UNSCHEDULABLE
    return "", ""


def _missing(group: PodGroup, members: GroupMembers) -> str:
    """Which gang of the group has fewer pods than start together; empty = none."""
    if not group.gangs:
        if len(members.ready) >= group.min_count:
            return ""
        if group.declared_by:
            return problems.too_few_members(group.title, group.min_count, group.size_key)
        return problems.too_few_pods(group.name, group.min_count)
    for name, size in group.gangs:
        if members.sizes[name] < size:
            return problems.too_few_members(f'gang "{name}" of {group.title}', size, group.size_key)
    declared = dict(group.gangs)
    missing = next((name for name in group.gang_names if name not in declared), "")
    return missing and problems.gang_without_pods(missing, group.gang, names.ANNOTATION_KOORDINATOR_GROUPS)


def outdated(ledger: Ledger, key: str, now: float) -> list[PodUid]:
    """The pods of the group that may have another membership than at the last call.

    As long as the group waits, its pods are not compared again: they wait in any case, and are compared when it waits
    no more. A pause follows each time that requests are taken back or keys have changed, so that writes of a user cost
    one comparison in each pause, however many they are.
    """
    members = ledger.group_members.get(key)
    if members is None:
        return []
    group, why = status = _status(ledger, key)
    before = members.status
    if status == before or (why and before is not None and before[1]):
        return []
    has_other_keys = before is not None and before[0] != group
    if before is not None and not before[1] and (has_other_keys or len(members.bound) < len(members.living)):
        members.pause_s = min(MAX_PAUSE_S, max(PAUSE_S, 2 * members.pause_s))
        members.paused_until, members.is_paused = now + members.pause_s, True
        set_timer(ledger, Deadline(members.paused_until, TimerKind.POD_GROUP, PodUid(key)))
        status = _status(ledger, key)
    members.status = status
    if before is None or has_other_keys:
        return list(members.living)
    return (
        [uid for uid in members.living if uid not in members.bound] if len(members.bound) < len(members.living) else []
    )


def _status(ledger: Ledger, key: str) -> tuple[PodGroup | None, str]:
    group = ledger.pod_groups.get(key)
    return None if group is None else _compared(group), _wait(ledger, key)[0]


def settled(ledger: Ledger, pod: Pod) -> Pod:
    """The pod as a member of its PodGroup, or with the reason why it waits. A bound pod never waits."""
    if pod.membership.placeholder:
        return pod
    own = pod.membership.written or pod.membership
    key = key_of(pod)
    group = ledger.pod_groups.get(key)
    waits, _ = ("", "") if pod.node is not None else _wait(ledger, key)
    member = own if group is None else _of_group(own, group)
    member = replace(member, waits=waits, written=own)
    if group is None:
        return structs.replace(pod, membership=member)
    return structs.replace(pod, membership=member, controller=group.key, controller_name=group.title)


def _of_group(own: Membership, group: PodGroup) -> Membership:
    """The membership of a pod of the group: the group's keys, and warnings about those of the pod that contradict.

    The application is that of the group alone, so that pods with different IDs are one gang, also after a restart.
    """
    conflicts = list(own.conflicts)
    written = application_name(own.app)
    if own.app != group.app_id and written != pod_group_app_id(group.name):
        named = application_name(group.app_id)
        conflicts.append(_contradiction(names.LABEL_APP_ID, written, named, group))
    if group.queue and own.queue not in {"", group.queue}:
        conflicts.append(_contradiction(names.LABEL_QUEUE, own.queue, group.queue, group))
    if own.gang.is_written:
        conflicts.append(problems.pod_group_precedes(f"annotation {names.ANNOTATION_TASK_GROUPS}", group.title))
    is_gang = group.min_count > 0
    return replace(
        own,
        app=group.app_id,
        queue=group.queue or own.queue,
        task_group=((own.declared and own.declared.gang) or group.name) if is_gang else "",
        gang=_source(group) if is_gang else GangSource(),
        conflicts=tuple(conflicts),
        resumed=own.resumed and not is_gang,
    )


def _source(group: PodGroup) -> PodGroupSource:
    return PodGroupSource(
        name=group.name, min_count=group.min_count, title=group.title, topology=group.topology, gangs=group.gangs
    )


def _contradiction(key: str, written: str, used: str, group: PodGroup) -> str:
    return problems.pod_group_precedes(f"{key}={written[:63]}", f'{key}={used[:63]} of PodGroup "{group.name}"')


def watch(ledger: Ledger, key: str, now: float) -> None:
    """Sets the timer after which pods of the group that still wait get a condition."""
    members = ledger.group_members.get(key)
    if members is not None and ledger.phase is Phase.LIVE and now >= members.checked_at:
        members.checked_at = now + max(members.report_s, ledger.settings.condition_delay_s)
        set_timer(ledger, Deadline(members.checked_at, TimerKind.POD_GROUP, PodUid(key)))


def session_is_live(ledger: Ledger, out: Outcome, now: float) -> None:
    """Restarts the timers of all groups, and writes which are scheduled. Recovery has compared their pods with them."""
    for key, members in ledger.group_members.items():
        members.checked_at = 0.0
        members.status = _status(ledger, key)
        if members.is_paused:
            set_timer(ledger, Deadline(members.paused_until, TimerKind.POD_GROUP, PodUid(key)))
        watch(ledger, key, now)
        group = ledger.pod_groups.get(key)
        if group is not None and members.bound and len(members.bound) + len(members.succeeded) >= group.min_count:
            report(ledger, out, key, GroupCondition(is_scheduled=True, reason=SCHEDULED))


def on_timer(ledger: Ledger, out: Outcome, key: str, now: float) -> None:
    """Timer: ends a pause, and writes why the pods of the group wait: as conditions of the group and of those pods.

    The first pod gets an event too, because `kubectl describe` shows no messages of conditions. A pod that cannot be
    requested has a reason of its own.
    """
    members = ledger.group_members[key]
    if now >= members.paused_until:
        members.is_paused = False
    why, reason = _wait(ledger, key)
    if not why or now < members.checked_at:
        return
    if members.told and members.told != why:  # one write of a user must not cause thousands of writes each time
        members.report_s = min(_MAX_REPORT_S, 2 * max(members.report_s, ledger.settings.condition_delay_s))
    report(ledger, out, key, GroupCondition(is_scheduled=False, reason=reason, message=why))
    condition = Condition(messages.SKIPPED, why)
    found = (ledger.pods.get(uid) for uid in members.ready)
    waiting = [pod for pod in found if pod is not None and pod.node is None]
    for pod in waiting[: members.told != why]:
        out.commands.append(messages.failed_scheduling(why).about(pod.ref.namespace, pod.ref.name, pod.ref.uid))
    members.told = why
    for pod in waiting:
        if pod.condition != condition:
            out.commands.append(SetCondition(pod.ref, condition.reason, condition.message))


def least_resources(ledger: Ledger, pod: Pod) -> dict[str, int]:
    """The least that a member of the pod's PodGroup requests of each resource, so that no gang counts as too large."""
    if not pod.membership.pod_group:
        return {}
    members = ledger.group_members.get(key_of(pod))
    least = dict(pod.resources)
    for uid in members.living if members is not None else ():
        other = ledger.pods.get(uid)
        if other is not None and other.resources != least:
            least = {name: min(amount, other.resources.get(name, 0)) for name, amount in least.items()}
    return least


def unschedulable(ledger: Ledger, out: Outcome, task: Task, message: str) -> None:
    """The gang of the group cannot be scheduled now. ``task``: its originator."""
    key = key_of(task.pod)
    if key:
        report(ledger, out, key, GroupCondition(is_scheduled=False, reason=UNSCHEDULABLE, message=message))


def bound(ledger: Ledger, out: Outcome, task: Task) -> None:
    """A member was bound: the group is scheduled if enough members have a node."""
    key = key_of(task.pod)
    group, members = ledger.pod_groups.get(key), ledger.group_members.get(key)
    if group is None or members is None:
        return
    if task.counts.get(group.name, 0) + len(members.succeeded) >= group.min_count:
        report(ledger, out, key, GroupCondition(is_scheduled=True, reason=SCHEDULED))


def report(ledger: Ledger, out: Outcome, key: str, condition: GroupCondition) -> None:
    """Writes the condition of the group if it has changed. True is final. Only Kubernetes' own PodGroups have it."""
    condition = replace(condition, message=condition.message[: limits.CONDITION_CHARACTERS])
    group, members = ledger.pod_groups.get(key), ledger.group_members.get(key)
    if group is None or members is None or group.declared_by:
        return
    current = members.reported or group.condition
    if current == condition or (current is not None and current.is_scheduled):
        return
    members.reported = condition
    out.commands.append(SetGroupCondition(group.namespace, group.name, group.uid, group.generation, condition))


def unseen_condition(ledger: Ledger, key: str) -> GroupCondition | None:
    """The condition that was written and that the group does not show. None = there is none."""
    group, members = ledger.pod_groups.get(key), ledger.group_members.get(key)
    if group is None or members is None or members.reported == group.condition or is_scheduled(group):
        return None
    return members.reported


def write_again(ledger: Ledger, out: Outcome, key: str) -> None:
    """The sweep found that a written condition has not been seen since the last sweep."""
    group, condition = ledger.pod_groups.get(key), unseen_condition(ledger, key)
    if group is not None and condition is not None:
        out.commands.append(SetGroupCondition(group.namespace, group.name, group.uid, group.generation, condition))


def sweep(ledger: Ledger, out: Outcome, now: float) -> None:
    """Writes the conditions of waiting pods that do not have them."""
    for key, members in ledger.group_members.items():
        if now >= members.checked_at:
            isolate(on_timer, ledger, out, key, now)
