"""Runs of an application: which pods belong together, and which members of a gang have succeeded.

Pods with one application ID are one application, as in YuniKorn. Differs: when all pods of a gang have ended, or their
namespace was deleted, the next pod begins a new run. A run is an application of its own in the core, with an ID that
users do not see, so that it is queued, checked and reserved again, and late messages of an earlier run cannot affect
it. Pods that still terminate stay in the run that they belong to. See docs/internals/semantics.md, 13.

Two workloads can have the same application ID at the same time, for example Jobs from copied manifests. They must not
fill one gang together, because then each of them starts in part. So if the pods of one controller are a complete gang
by themselves, and the application has members of others, they are a run of their own. The operator does not read
controllers. To see whether one creates enough pods, it holds its first pods back for a short time.

Differs: a controller whose pods are a complete gang has a run of its own; YuniKorn lets the first pods fill the gang.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop
from typing import Final

from muster_operator.controller import absent_members, pod_groups, reporting, state, tasks
from muster_operator.controller.state import (
    Application,
    Deadline,
    EndedMember,
    Ledger,
    MemberWait,
    Task,
    TimerKind,
    set_timer,
)
from muster_operator.model import messages
from muster_operator.model.cluster_events import Namespace
from muster_operator.model.commands import Outcome
from muster_operator.model.ids import AppId, PodUid
from muster_operator.model.pods import GangDefinition, GangProblem, GangSource, Placement, Pod, PodPhase
from muster_operator.translate.gangs.dialects import read_gang
from muster_operator.translate.gangs.totals import placeholder_ask


def oldest_living(app: Application) -> Pod | None:
    """The oldest member that is not being deleted. Removes the others from the heap."""
    while app.ages:
        task = app.members.get(app.ages[0][2])
        if task is not None and not task.pod.terminating:
            return task.pod
        heappop(app.ages)
    return None


def oldest(app: Application) -> Pod | None:
    """The oldest member, preferably one that is not being deleted.

    Returns None if all pods have the mark of placeholders without a signature of Muster.
    """
    living = oldest_living(app)
    if living is not None:
        return living
    return next((task.pod for task in app.members.values() if not tasks.is_unverified(task.pod)), None)


def is_over(ledger: Ledger, app: Application, pod: Pod) -> bool:
    """Whether a new pod begins a new run instead of joining this application.

    Without task groups, pods join as in YuniKorn, unless the namespace was deleted.
    """
    if app.is_closed:
        return True
    if ledger.settings.disable_gang or not (app.source.is_written or pod.membership.gang.is_written):
        return False
    if app.failure is not None and app.core_has_begun:
        return True  # the core releases all its members
    return oldest_living(app) is None


def namespace_changed(ledger: Ledger, name: str, found: Namespace | None) -> None:
    """Closes the applications of a namespace that is terminating or gone (``found`` is None).

    Pods cannot be created in a terminating namespace, so applications that begin then belong to the next namespace of
    that name. Applications of several namespaces stay open.
    """
    uid = found.uid if found is not None and not found.terminating else ""
    for app in ledger.applications.values():
        if app.namespace != name or app.common_id.startswith("@"):
            continue
        app.is_closed = app.is_closed or app.namespace_uid not in {"", uid}
        app.namespace_uid = app.namespace_uid or uid


@dataclass(frozen=True, slots=True)
class Run:
    """The pods of one run that begins, or that exists at the start of a session, originator first.

    ``id``: its ID in the core. ``key``: its key in `Ledger.runs`. ``is_over``: new pods are another run. ``unsure``:
    pods that may belong to another workload than ``members``, as pods that appear now may.
    """

    id: AppId
    key: AppId
    members: list[Pod]
    placeholders: list[Pod]
    is_over: bool = False
    unsure: list[Pod] = field(default_factory=list)


def key_of(app: AppId, controller: str) -> AppId:
    """The key in `Ledger.runs` of a run that has the pods of one controller only."""
    return AppId(f"{app}\0{controller}")


def of(ledger: Ledger, pod: Pod) -> Application | None:
    """The run that a pod joins unless it is over: that of its controller, which can be a pod, or that of its ID."""
    app = pod.membership.app
    own = ledger.runs.get(key_of(app, pod.controller))
    if pod.membership.pod_group:
        return own
    if own is None and (task := ledger.tasks.get(pod.membership.owner or PodUid(pod.controller))) is not None:
        own = ledger.applications.get(task.app)
    if own is None or own.common_id != app or not ledger.is_current(own):
        return ledger.runs.get(app)
    return own


def index_living(app: Application, task: Task) -> None:
    """Updates the living members of a gang. Call it after a member joins or leaves, or its pod changes."""
    is_living = task.uid in app.members and can_be_member(task.pod)
    group = task.pod.membership.task_group if is_living else None
    if group == task.living_in:
        return
    if task.living_in is not None:
        del app.living[task.living_in][task.uid]
    if group is not None:
        app.living.setdefault(group, {})[task.uid] = task
    task.living_in = group


def can_be_member(pod: Pod) -> bool:
    """Whether the pod is valid, has not ended and is not being deleted."""
    return not (pod.has_ended or pod.terminating or pod.membership.refusal)


#: The longest time for which pods are held back, as a multiple of ``gang.memberWait``.
_LONGEST_WAIT: Final = 12


def is_newcomer(ledger: Ledger, app: Application, pod: Pod) -> bool:
    """Whether the pod waits because it may belong to another workload than the members of its task group."""
    member = pod.membership
    if app.controllers[pod.controller] or not pod.controller or pod.node is not None or app.failure is not None:
        return False
    if app.run_key != app.common_id:  # it is the run of its controller already
        return False
    if member.task_group not in app.groups_seen or tasks.is_unverified(pod):
        return False
    return not ledger.settings.disable_gang and _size(member.gang) > 1


def _size(source: GangSource) -> int:
    gang = read_gang(source)
    return gang.size if isinstance(gang, GangDefinition) else 0


def defer(ledger: Ledger, app: Application, pod: Pod, now: float) -> bool:
    """Holds a newcomer back. Returns whether so many pods of its controller wait that they may be a complete gang."""
    absent_members.changed(ledger, app, now)
    key = key_of(pod.membership.app, pod.controller)
    wait = ledger.newcomers.get(key)
    if wait is None:
        wait = ledger.newcomers[key] = MemberWait(now, now, now)
        _set_due(ledger, key, wait, now + ledger.settings.member_quiet_s)
    if pod.ref.uid in wait.pods:
        return False
    wait.pods[pod.ref.uid] = None
    wait.last = now
    return len(wait.pods) == _size(pod.membership.gang)


def _set_due(ledger: Ledger, key: AppId, wait: MemberWait, due: float) -> None:
    wait.due = due
    set_timer(ledger, Deadline(due, TimerKind.NEWCOMERS, key))


def held_back(ledger: Ledger, key: AppId) -> list[Pod]:
    """The pods of a controller that are still held back, oldest first."""
    found = (ledger.pods[uid] for uid in ledger.newcomers[key].pods if uid in ledger.pods and uid not in ledger.tasks)
    waiting = [pod for pod in found if key_of(pod.membership.app, pod.controller) == key and can_be_member(pod)]
    return sorted(waiting, key=lambda pod: (pod.created_s, pod.ref.name, pod.ref.uid))


def keep_back(ledger: Ledger, key: AppId, app: Application, now: float) -> bool:
    """Whether pods are held back longer, because their controller may create more. Sets the timer in this case.

    If the application has enough members without them, it is in no hurry.
    """
    wait, settings = ledger.newcomers[key], ledger.settings
    groups = app.gang.groups if app.gang is not None else ()
    is_full = bool(groups) and all(len(app.living.get(group.name, ())) >= group.min_member for group in groups)
    quiet_s = settings.member_wait_s if is_full else settings.member_quiet_s
    due = min(wait.last + quiet_s, wait.first + _LONGEST_WAIT * settings.member_wait_s)
    if now < due:
        _set_due(ledger, key, wait, due)
    return now < due


def own_run(ledger: Ledger, pods: list[Pod]) -> Run | None:
    """The run that newcomers of one controller are by themselves; None = they are not a complete gang.

    Members of the controller that have succeeded count.
    """
    gang, app, controller = read_gang(pods[0].membership.gang), pods[0].membership.app, pods[0].controller
    before = (ledger.ended[uid] for uid in ledger.ended_of.get(app, {}).get(controller, ()))
    counts = Counter(pod.membership.task_group for pod in pods) + Counter(
        one.group for one in before if one.has_succeeded
    )
    if not isinstance(gang, GangDefinition) or not _are_enough(gang, counts):
        return None
    return Run(state.numbered(ledger, app), key_of(app, controller), pods, [])


def is_complete(gang: GangDefinition, pods: Iterable[Pod]) -> bool:
    """Whether the pods that exist or have succeeded are enough members of each task group."""
    counts = Counter(pod.membership.task_group for pod in pods if _counts(pod))
    return _are_enough(gang, counts)


def _counts(pod: Pod) -> bool:
    return pod.phase is PodPhase.SUCCEEDED or can_be_member(pod)


def _are_enough(gang: GangDefinition, counts: Counter[str]) -> bool:
    return all(counts[group.name] >= group.min_member for group in gang.groups)


def remember(ledger: Ledger) -> None:
    """Records the runs of the session that ends, and the controllers of their members, until they are recovered."""
    for app in ledger.runs.values():
        known = app.run_key, app.id
        ledger.earlier_runs[app.run_key] = known
        ledger.earlier_runs.update((key_of(app.common_id, controller), known) for controller in app.controllers)


def split(ledger: Ledger, app: AppId, members: list[Pod], placeholders: list[Pod]) -> list[Run]:
    """Separates the pods of one application ID into runs. That of the originator is the last one.

    A terminating pod is of an earlier run if its deletion was requested before the first living pod was created. Pods
    of the controllers that an earlier session of this process had stay in their runs, which keep their IDs.
    """
    _, last_id = ledger.earlier_runs.get(app, (app, app))
    if any(pod.membership.pod_group for pod in members):
        return _split_groups(ledger, app, members, placeholders)
    if not any(pod.membership.gang.is_written for pod in members):
        return [Run(last_id, app, members, placeholders)]
    began_s = min((pod.created_s for pod in members if not pod.terminating), default=None)
    before = [pod for pod in members if pod.terminating and (began_s is None or 0 < pod.deleted_s <= began_s)]
    ended = {pod.ref.uid for pod in before}
    by_controller = _by_controller(pod for pod in members if pod.ref.uid not in ended)
    own = _of_their_own(ledger, app, by_controller, {pod.membership.owner for pod in placeholders})
    found = [Run(state.numbered(ledger, app), app, before, [], is_over=True)] if before else []
    for controller in own:
        key = key_of(app, controller)
        _, run_id = ledger.earlier_runs.get(key) or (key, state.numbered(ledger, app))
        found.append(Run(run_id, key, by_controller.pop(controller), []))
    sure = _sure(ledger, app, by_controller)
    is_sure = {pod.ref.uid: controller in sure for controller, pods in by_controller.items() for pod in pods}
    rest = [pod for pod in members if pod.ref.uid in is_sure]
    last = Run(last_id, app, [pod for pod in rest if is_sure[pod.ref.uid]], [])
    last.unsure.extend(pod for pod in rest if not is_sure[pod.ref.uid])
    found.append(last)
    run_of: dict[PodUid | None, Run] = {pod.ref.uid: run for run in found for pod in run.members}
    for pod in placeholders:
        run_of.get(pod.membership.owner, last).placeholders.append(pod)
    return [run for run in found if run.members or run.unsure or run.placeholders]


def _split_groups(ledger: Ledger, app: AppId, members: list[Pod], placeholders: list[Pod]) -> list[Run]:
    """Each PodGroup is a run of its own, next to the runs of the other pods with its application ID."""
    groups = _by_controller(pod for pod in members if pod.membership.pod_group)
    others = [pod for pod in members if not pod.membership.pod_group]
    found = split(ledger, app, others, placeholders) if others or placeholders else []
    for controller, pods in groups.items():
        key = key_of(app, controller)
        is_only = len(groups) == 1 and not found
        _, run_id = ledger.earlier_runs.get(key) or (key, app if is_only else state.numbered(ledger, app))
        found.append(Run(run_id, key, pods, []))
    return found


def _by_controller(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """The pods by controller. Those of a controller that is one of the pods, like a Spark driver, are with that pod."""
    pods = list(pods)
    controllers: dict[str, str] = {pod.ref.uid: pod.controller for pod in pods}
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        found.setdefault(controllers.get(pod.controller, pod.controller), []).append(pod)
    return found


def _of_their_own(
    ledger: Ledger, app: AppId, by_controller: Mapping[str, list[Pod]], owners: Collection[PodUid | None]
) -> list[str]:
    """The controllers whose pods are a run of their own.

    If the earlier sessions did not have the controller, its pods are one if they are a complete gang by themselves, or
    own placeholders, unless they are the originator's. ``by_controller``: originator first.
    """
    first = next((one for one, pods in by_controller.items() if not all(pod.has_ended for pod in pods)), "")

    def is_own(controller: str, pods: list[Pod]) -> bool:
        key = key_of(app, controller)
        earlier, _ = ledger.earlier_runs.get(key, (None, None))
        if earlier is not None or controller in {"", first}:
            return earlier == key
        return any(pod.ref.uid in owners for pod in pods) or (any(map(can_be_member, pods)) and _is_whole(pods))

    return [controller for controller, pods in by_controller.items() if is_own(controller, pods)]


def _sure(ledger: Ledger, app: AppId, by_controller: Mapping[str, list[Pod]]) -> set[str]:
    """The controllers whose pods certainly are members of the shared run. Those of others are held back at first."""
    sure = {
        controller
        for controller, pods in by_controller.items()
        if not controller or key_of(app, controller) in ledger.earlier_runs or any(pod.node is not None for pod in pods)
    }
    living = [one for one, pods in by_controller.items() if any(map(can_be_member, pods))]
    if living and not sure.intersection(living):
        sure.add(living[0])
    return sure


def _is_whole(pods: list[Pod]) -> bool:
    gang = next((read_gang(pod.membership.gang) for pod in pods if pod.membership.gang.is_written), None)
    return isinstance(gang, GangDefinition) and gang.size > 1 and is_complete(gang, pods)


def remember_ended(ledger: Ledger, pod: Pod) -> None:
    """Records a member that was bound and has ended. A pod that its kubelet rejected is not a member."""
    member, uid = pod.membership, pod.ref.uid
    if pod.terminating:
        forget_ended(ledger, uid)
    elif member.task_group and pod.node is not None and pod.scheduled_at_ms is not None and not pod.kubelet_refusal:
        has_succeeded = pod.phase is PodPhase.SUCCEEDED
        ledger.ended[uid] = EndedMember(
            member.app, member.task_group, pod.controller, pod.created_s, pod.scheduled_at_ms, has_succeeded
        )
        ledger.ended_of.setdefault(member.app, {}).setdefault(pod.controller, set()).add(uid)


def forget_ended(ledger: Ledger, uid: PodUid) -> None:
    """Removes the record of an ended member, because its pod is gone or being deleted."""
    member = ledger.ended.pop(uid, None)
    if member is not None:
        of_app = ledger.ended_of[member.app]
        of_app[member.controller].discard(uid)
        if not of_app[member.controller]:
            del of_app[member.controller]
        if not of_app:
            del ledger.ended_of[member.app]


def succeeded(ledger: Ledger, gang: GangDefinition, run_key: AppId, living: Collection[Pod]) -> Mapping[str, int]:
    """The number of succeeded members of a run by task group, from its living pods.

    A controller that creates a pod again after others have succeeded continues its run, for example a Job that retries
    one index. The run is as old as its oldest living pod, or the oldest ended pod of the same controllers. Members that
    were bound before that belong to an earlier run: an application ID may be used again. So do those of a controller
    with a run of its own.
    """
    living = [pod for pod in living if not pod.has_ended]
    app = living[0].membership.app
    members = [ledger.ended[uid] for uids in ledger.ended_of.get(app, {}).values() for uid in uids]
    controllers = {pod.controller for pod in living} - {""}
    counts: dict[str, Counter[str]] = {}
    for one in members:
        counts.setdefault(one.controller, Counter())[one.group] += one.has_succeeded

    def is_of_run(controller: str) -> bool:
        key = key_of(app, controller)
        if key == run_key or key in ledger.runs or run_key != app:
            return key == run_key
        return controller in {"", *controllers} or gang.size < 2 or not _are_enough(gang, counts[controller])

    ours = set(filter(is_of_run, counts))
    members = [one for one in members if one.controller in ours]
    ages = [pod.created_s for pod in living] + [one.created_s for one in members if one.controller in controllers]
    if not members or not ages:
        return {}
    since_ms = min(ages) * 1000
    return Counter(one.group for one in members if one.has_succeeded and one.bound_ms >= since_ms)


def defined_gang(ledger: Ledger, out: Outcome, pod: Pod) -> GangDefinition | GangProblem | None:
    """The gang that the originator defines, or None. A problem is reported as an event on the pod.

    A gang with devices is always Direct.
    """
    is_given_up = pod.membership.resumed or pod.ref.uid in ledger.resumed
    if ledger.settings.disable_gang or tasks.is_unverified(pod) or is_given_up:
        return None
    placement, least = ledger.settings.default_placement(pod.scheduler_name), pod_groups.least_resources(ledger, pod)
    found = read_gang(pod.membership.gang, placement, least)
    if isinstance(found, GangProblem):
        if pod.node is None:
            reporting.post(out, pod.ref, messages.gang_ignored(found.message))
        return found
    if found is not None and pod.node is None:
        for warning in found.warnings:
            reporting.post(out, pod.ref, messages.parameter_ignored(warning))
    if found is not None and pod.membership.app in ledger.devices.apps:
        found = replace(found, placement=Placement.DIRECT)
    return found


def without(gang: GangDefinition, counts: Mapping[str, int], pods: Iterable[Pod]) -> GangDefinition:
    """The gang without its succeeded members, by task group. ``pods``: of the run.

    A PodGroup has started then. If none of its pods has a node, they are scheduled one by one: others may have failed.
    """
    if not counts:
        return gang
    is_over = all(pod.membership.pod_group and pod.node is None for pod in pods if not pod.has_ended)
    remaining = (
        (group, 0 if is_over else max(0, group.min_member - counts.get(group.name, 0))) for group in gang.groups
    )
    groups = tuple(replace(group, min_member=count) for group, count in remaining)
    return replace(gang, groups=groups, placeholder_ask=placeholder_ask(groups))
