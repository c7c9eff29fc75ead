"""Event handlers of Kubernetes objects.

`apply_event` updates the state and calls the handlers of pods here, and those in `nodes`, `applications` and
`volume_binding`.
Results are requests to the core and commands for Kubernetes; nothing is sent from here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from msgspec import structs

from muster_operator.controller import (
    absent_members,
    applications,
    device_claims,
    placeholders,
    pod_groups,
    rejections,
    reporting,
    runs,
    state,
    tasks,
    trust,
    volume_binding,
)
from muster_operator.controller.isolation import isolate
from muster_operator.controller.nodes import node_gone, node_seen, record_node
from muster_operator.controller.state import (
    Application,
    Deadline,
    ForeignAllocation,
    Ledger,
    Phase,
    Task,
    TimerKind,
    set_timer,
)
from muster_operator.controller.storage_state import device_key
from muster_operator.model import messages, problems
from muster_operator.model.cluster_events import (
    ClusterEvent,
    DeviceEvent,
    KeysSeen,
    NamespaceGone,
    NamespaceSeen,
    NodeGone,
    NodeSeen,
    ObjectSeen,
    OtherEvent,
    PlacementChosen,
    PodGone,
    PodGroupGone,
    PodGroupSeen,
    PodSeen,
    PriorityClassSeen,
    TaintRuleGone,
    TaintRuleSeen,
)
from muster_operator.model.commands import Outcome, SetCondition
from muster_operator.model.core_messages import TerminationType
from muster_operator.model.event_texts import Note
from muster_operator.model.ids import AppId, PodUid, application_name
from muster_operator.model.pods import ENDED_PHASES, Condition, ForeignPod, Membership, Pod
from muster_operator.model.states import AppState, TaskState
from muster_operator.model.storage import ClusterObject, ObjectKind

#: Read for each event. Reading them from their classes takes 60 ns in Python 3.11.
_LIVE: Final = Phase.LIVE
_BOUND: Final = TaskState.BOUND
_PREEMPTED: Final = TerminationType.PREEMPTED_BY_SCHEDULER


def handle_event(ledger: Ledger, fact: ClusterEvent, now: float) -> Outcome:
    """Handles an event of a Kubernetes object. ``now``: seconds of a monotonic clock."""
    out = Outcome()
    apply_event(ledger, out, fact, now)
    return out


def apply_event(ledger: Ledger, out: Outcome, fact: ClusterEvent, now: float) -> None:
    """Handles an event according to the phase of the session, and adds the results to ``out``."""
    if ledger.phase is _LIVE:
        if isinstance(fact, PodSeen):  # nearly all events
            _pod_seen(ledger, out, fact.pod, now)
        else:
            _react(ledger, out, fact, now)
    elif ledger.phase is Phase.RECOVERING:
        ledger.postponed.append(fact)
    else:
        record_event(ledger, fact)


def event_received(ledger: Ledger, out: Outcome, fact: ClusterEvent, now: float) -> None:
    """Handles an event. If that fails, at least records the state, from which the recovery starts that follows."""
    if not isolate(apply_event, ledger, out, fact, now):
        isolate(_keep, ledger, out, fact, now)


def _keep(ledger: Ledger, out: Outcome, fact: ClusterEvent, _now: float) -> None:
    """Records the state. A bound pod without a task counts on its node."""
    record_event(ledger, fact)
    match fact:
        case PodSeen(Pod() as pod) if pod.node is not None and not pod.has_ended and pod.ref.uid not in ledger.tasks:
            tasks.track_foreign(ledger, out, pod)
        case _:
            pass


def unreadable_seen(ledger: Ledger, out: Outcome, pod: ForeignPod, now: float) -> None:
    """Counts a bound pod that cannot be translated on its node. A pod that is known already stays as it is."""
    uid = pod.ref.uid
    if uid not in ledger.pods and uid not in ledger.tasks and uid not in ledger.foreign:
        reporting.post(out, pod.ref, messages.undecodable_pod())
        apply_event(ledger, out, PodSeen(pod), now)


def record_event(ledger: Ledger, fact: ClusterEvent) -> None:
    """Updates the state. Sends nothing."""
    match fact:
        case PodSeen(pod):
            _record_pod(ledger, pod)
        case PodGone(uid):
            ledger.pods.pop(uid, None)
            if uid in ledger.group_of:
                pod_groups.forget(ledger, uid)
            device_claims.forget_pod(ledger, uid)
            ledger.unverified.discard(uid)
            runs.forget_ended(ledger, uid)
            _forget_foreign(ledger, uid)
            ledger.forget_deletion(uid)
        case NodeSeen(node):
            record_node(ledger, node.name, node)
        case NodeGone(name):
            record_node(ledger, name, None)
        case NamespaceSeen() | NamespaceGone():
            _record_namespace(ledger, fact)
        case PriorityClassSeen(name, allow_preemption):
            ledger.priority_classes[name] = allow_preemption
        case ObjectSeen():
            volume_binding.record_object(ledger, fact.object)
        case PlacementChosen(placement):
            ledger.settings = replace(ledger.settings, gang_placement=placement)
        case KeysSeen(keys):
            ledger.keys = keys
        case PodGroupSeen() | PodGroupGone():
            pod_groups.record_group(ledger, fact)
        case _:
            volume_binding.record_storage(ledger, fact)


def _record_namespace(ledger: Ledger, fact: NamespaceSeen | NamespaceGone) -> None:
    match fact:
        case NamespaceSeen(namespace):
            ledger.namespaces[namespace.name] = namespace
        case NamespaceGone(name):
            ledger.namespaces.pop(name, None)
    volume_binding.record_object(ledger, _labels(fact))


def _labels(fact: NamespaceSeen | NamespaceGone) -> ClusterObject:
    """The namespace's labels as an object for the core's filters."""
    match fact:
        case NamespaceSeen(namespace):
            return ClusterObject(ObjectKind.NAMESPACE, namespace.name, namespace.labels)
        case NamespaceGone(name):
            return ClusterObject(ObjectKind.NAMESPACE, name, gone=True)


def _record_pod(ledger: Ledger, pod: Pod | ForeignPod) -> Pod | ForeignPod:
    """Records the pod and returns it with its placeholder signature verified.

    Pods that have ended hold no resources and are dropped, except our placeholders, which have to be deleted.
    """
    uid = pod.ref.uid
    if isinstance(pod, Pod):
        if uid in ledger.foreign:  # an earlier version of the pod could not be translated
            _forget_foreign(ledger, uid)
        if pod.membership.may_claim:
            pod = trust.settled(ledger, pod)
        if pod.membership.pod_group or uid in ledger.group_of:
            pod = pod_groups.record(ledger, pod)
        if pod.claims:
            device_claims.record_pod(ledger, pod)
        if pod.phase in ENDED_PHASES and not pod.membership.placeholder and uid not in ledger.unverified:
            ledger.pods.pop(uid, None)
            device_claims.forget_pod(ledger, uid)
            runs.remember_ended(ledger, pod)
        else:
            ledger.pods[uid] = pod
    elif pod.has_ended:
        _forget_foreign(ledger, uid)
    elif uid in ledger.foreign:
        ledger.foreign_by_node.remove(uid, ledger.foreign[uid].pod.node)
        ledger.foreign_by_node.add(uid, pod.node)
        ledger.foreign[uid].pod = pod
    else:
        ledger.foreign_by_node.add(uid, pod.node)
        ledger.foreign[uid] = ForeignAllocation(pod)
    return pod


def _forget_foreign(ledger: Ledger, uid: PodUid) -> None:
    pod_on_node = ledger.foreign.pop(uid, None)
    if pod_on_node is not None:
        ledger.foreign_by_node.remove(uid, pod_on_node.pod.node)


def _react(ledger: Ledger, out: Outcome, fact: OtherEvent, now: float) -> None:
    match fact:
        case PodGone(uid):
            _pod_gone(ledger, out, uid, now)
        case NodeSeen(node):
            old = ledger.nodes.get(node.name)
            record_event(ledger, fact)
            node_seen(ledger, out, old, node)
        case NodeGone(name):
            if name in ledger.nodes:
                record_event(ledger, fact)
                node_gone(ledger, out, name, now)
        case ObjectSeen():
            volume_binding.object_seen(ledger, out, fact.object)
        case NamespaceSeen() | NamespaceGone() | PriorityClassSeen():
            _react_around(ledger, out, fact, now)
        case PodGroupSeen() | PodGroupGone():
            group_changed(ledger, out, pod_groups.record_group(ledger, fact), now)
        case PlacementChosen():
            record_event(ledger, fact)
        case KeysSeen():
            record_event(ledger, fact)
            _keys_seen(ledger, out, now)
        case _ if isinstance(fact, DeviceEvent):
            _devices_seen(ledger, out, fact, now)
        case _:
            volume_binding.storage_seen(ledger, out, fact, now)


def _devices_seen(ledger: Ledger, out: Outcome, fact: DeviceEvent, now: float) -> None:
    """Handles an object of devices: reports it to the core, continues pods that wait for a claim."""
    if isinstance(fact, TaintRuleSeen | TaintRuleGone):
        for found in device_claims.slices_changed_by(ledger, fact):
            volume_binding.object_seen(ledger, out, found)
        return
    key = device_claims.claim_of(fact)
    before = device_claims.identity(ledger, key)
    if (reported := device_claims.record(ledger, fact)) is not None:
        volume_binding.object_seen(ledger, out, reported)
    if not key:
        return
    volume_binding.storage_changed(ledger, out, device_key(key), now)
    if device_claims.counts_otherwise(ledger, key) or device_claims.identity(ledger, key) != before:
        is_first = not ledger.devices.changed
        device_claims.note_changed(ledger, key)
        if is_first:
            claims_changed(ledger, out, now)


#: Pods with a changed claim that are handled at once, and seconds until the next ones. A user can let thousands of pods
#: name one claim, and delete and create it all the time.
_CHANGED_AT_ONCE: Final = 200
_CHANGED_PAUSE_S: Final = 0.1


def claims_changed(ledger: Ledger, out: Outcome, now: float) -> None:
    """Handles some of the pods with a changed claim, and sets the timer for the others."""
    changed = ledger.devices.changed
    for uid in _take_changed(changed):
        isolate(_claim_changed, ledger, out, uid, now)
    if changed:
        set_timer(ledger, Deadline(now + _CHANGED_PAUSE_S, TimerKind.CLAIMS, PodUid("")))


def _take_changed(changed: dict[str, dict[PodUid, None]]) -> list[PodUid]:
    """Takes the pods to handle next, one of each namespace in turn, so that none waits for all pods of another one."""
    taken: list[PodUid] = []
    while changed and len(taken) < _CHANGED_AT_ONCE:
        namespace, uids = next(iter(changed.items()))
        taken.append(next(iter(uids)))
        del uids[taken[-1]], changed[namespace]
        if uids:
            changed[namespace] = uids
    return taken


def _claim_changed(ledger: Ledger, out: Outcome, uid: PodUid, now: float) -> None:
    """A claim of the pod appeared, was deleted, or is another one now: requests the pod, or takes its request back.

    If other pods count its devices now, the request or allocation is sent again.
    """
    pod, before = ledger.pods.get(uid), ledger.tasks.get(uid)
    if pod is not None and pod.node is None:
        _pod_seen(ledger, out, pod, now)
    if before is not None and ledger.tasks.get(uid) is before:
        tasks.resend(ledger, out, before)


def withdraw_without_claim(ledger: Ledger, out: Outcome, now: float) -> None:
    """Sweep: requested pods need a claim for their extended resources now, because of a new class or a lost plugin."""
    for task in ledger.tasks.values() if ledger.devices.providers else ():
        if device_claims.extended(ledger, task.pod) and is_refused(ledger, task, task.pod):
            ledger.devices.changed.setdefault(task.pod.ref.namespace, {})[task.uid] = None
    if ledger.devices.changed:
        claims_changed(ledger, out, now)


def _react_around(
    ledger: Ledger, out: Outcome, fact: NamespaceSeen | NamespaceGone | PriorityClassSeen, now: float
) -> None:
    """Handles namespaces and priority classes."""
    match fact:
        case NamespaceSeen(namespace):
            before = ledger.namespaces.get(namespace.name)
            volume_binding.object_seen(ledger, out, _labels(fact))
            record_event(ledger, fact)
            runs.namespace_changed(ledger, namespace.name, namespace)
            applications.namespace_seen(ledger, out, before, namespace, now)
        case NamespaceGone(name):
            volume_binding.object_seen(ledger, out, _labels(fact))
            record_event(ledger, fact)
            runs.namespace_changed(ledger, name, None)
        case PriorityClassSeen(name, allow_preemption):
            was = ledger.priority_classes.get(name, True)
            record_event(ledger, fact)
            if was is not allow_preemption:
                class_seen(ledger, out, name, now)


def _pod_seen(ledger: Ledger, out: Outcome, pod: Pod | ForeignPod, now: float) -> None:
    known, group = ledger.foreign.get(pod.ref.uid), ledger.group_of.get(pod.ref.uid, "")
    is_first = not ledger.devices.changed
    pod = _record_pod(ledger, pod)
    if is_first and ledger.devices.changed:
        claims_changed(ledger, out, now)  # as for a pod that is gone
    if isinstance(pod, Pod):
        if known is not None:
            tasks.release_foreign(ledger, out, known)
        own_pod_seen(ledger, out, pod, now)
        if pod.membership.pod_group:
            group_changed(ledger, out, pod_groups.key_of(pod), now)
        if group and group != pod_groups.key_of(pod):
            group_changed(ledger, out, group, now)
    elif pod.has_ended and known is not None:
        tasks.release_foreign(ledger, out, known)
    else:
        tasks.foreign_seen(ledger, out, pod)


def _keys_seen(ledger: Ledger, out: Outcome, now: float) -> None:
    """Verifies placeholders again whose key was unknown, and creates placeholders that waited for a key."""
    for uid in list(ledger.unverified):
        isolate(_verify_again, ledger, out, uid, now)
    placeholders.keys_seen(ledger, out)


def _verify_again(ledger: Ledger, out: Outcome, uid: PodUid, now: float) -> None:
    pod = ledger.pods.get(uid)
    if pod is None:
        return
    pod = ledger.pods[uid] = trust.settled(ledger, pod)
    if uid in ledger.unverified:
        return
    task = ledger.tasks.get(uid)
    if task is not None and pod.membership.placeholder:  # it counted as a member
        applications.task_ended(ledger, out, task, now)
    tasks.untracked_gone(ledger, out, uid)
    own_pod_seen(ledger, out, pod, now)


def _pod_gone(ledger: Ledger, out: Outcome, uid: PodUid, now: float) -> None:
    known, group, is_first = ledger.foreign.get(uid), ledger.group_of.get(uid, ""), not ledger.devices.changed
    record_event(ledger, PodGone(uid))
    if is_first and ledger.devices.changed:
        claims_changed(ledger, out, now)  # before it is released, so that devices of a shared claim always count
    if known is not None:
        tasks.release_foreign(ledger, out, known)
    own_pod_gone(ledger, out, uid, now)
    if group:
        group_changed(ledger, out, group, now)


def group_changed(ledger: Ledger, out: Outcome, key: str, now: float) -> None:
    """A PodGroup or one of its pods changed: joins or takes back the pods whose membership is another one now.

    A gang that has not started begins again with another minimum.
    """
    _group_changed(ledger, out, key, now)
    while ledger.contested_groups:
        _group_changed(ledger, out, ledger.contested_groups.popitem()[0], now)


def _group_changed(ledger: Ledger, out: Outcome, key: str, now: float) -> None:
    pod_groups.watch(ledger, key, now)
    outdated: dict[AppId, Application] = {}
    for uid in pod_groups.outdated(ledger, key, now):
        pod = ledger.pods.get(uid)
        if pod is None or (after := pod_groups.settled(ledger, pod)).membership == pod.membership:
            continue
        ledger.pods[uid] = after
        if after.claims:
            device_claims.record_pod(ledger, after)
        isolate(own_pod_seen, ledger, out, after, now)
        task = ledger.tasks.get(uid)
        app = ledger.applications.get(task.app) if task is not None else None
        if app is not None and app.state in _NOT_STARTED and app.source != after.membership.gang:
            outdated[app.id] = app
    for app in outdated.values():
        isolate(applications.kill, ledger, out, app, now)


#: States in which the operator has not bound the pod. If such a pod is deleted, it needs no node any more.
_UNBOUND = frozenset(
    {TaskState.NEW, TaskState.PENDING, TaskState.SCHEDULING, TaskState.ALLOCATED, TaskState.REJECTED, TaskState.FAILED}
)

#: States of an application whose gang has no node yet.
_NOT_STARTED: Final = frozenset({AppState.NEW, AppState.SUBMITTED, AppState.ACCEPTED, AppState.RESERVING})

#: States without an allocation and without a deletion.
_WAITING = frozenset({TaskState.NEW, TaskState.PENDING, TaskState.SCHEDULING, TaskState.REJECTED})


def of_the_same_kind(task: Task, pod: Pod) -> Pod:
    """Keeps a placeholder a placeholder, and a member a member, whatever its metadata says later.

    If the metadata has become invalid, the pod also keeps its tags and resources.
    """
    old, was, now = task.pod, task.pod.membership, pod.membership
    if now.refusal and pod.node is None:
        pod = structs.replace(pod, tags=old.tags, common=old.common, resources=old.resources)
    if now.placeholder is was.placeholder:
        return pod
    return structs.replace(pod, membership=replace(now, placeholder=was.placeholder, owner=was.owner))


def is_anothers(ledger: Ledger, task: Task, pod: Pod) -> bool:
    """Whether a waiting pod belongs to another application now."""
    is_free = pod.node is None and not pod.terminating and not pod.membership.placeholder
    app = ledger.applications.get(task.app)
    belongs = app is None or (pod.membership.app, pod.membership.pod_group) == (
        app.common_id,
        task.pod.membership.pod_group,
    )
    return is_free and task.state in _WAITING and not belongs


def is_refused(ledger: Ledger, task: Task, pod: Pod) -> bool:
    """Whether a waiting pod has become invalid, or lost a claim. It is requested again when that changes."""
    is_waiting = pod.node is None and not pod.terminating and task.state in _WAITING
    member = pod.membership
    may_need_claim = pod.claims or ledger.devices.providers
    is_invalid = member.refusal or member.waits or (may_need_claim and device_claims.is_missing(ledger, pod))
    return is_waiting and bool(is_invalid) and not member.placeholder


def changed(ledger: Ledger, out: Outcome, task: Task, pod: Pod, now: float) -> None:
    """Handles a changed pod of an application."""
    old, task.pod = task.pod, pod
    state.recount(task)
    ledger.tasks_by_node.add(task.uid, pod.node)
    app = ledger.applications.get(task.app)
    if app is not None and app.originator.ref.uid == task.uid:
        app.originator = pod
    if app is not None and app.gang is not None:
        runs.index_living(app, task)
    if pod.membership is not old.membership:  # unchanged pods of a class share it
        _warn_ignored_labels(ledger, out, app, task, old.membership)
    if pod.node is None and pod.terminating and task.state in _UNBOUND | {TaskState.KILLING}:
        applications.task_ended(ledger, out, task, now)
        return
    # The core extends the deadline of a victim once its deletion is seen.
    is_final = task.release is not None and (task.release is not _PREEMPTED or not pod.terminating)
    if _has_changed(old, pod) and (pod.node is None or task.held) and not is_final:
        tasks.resend(ledger, out, task)
    if task.uid in ledger.untracked_pods:
        tasks.track_foreign(ledger, out, pod)
    if pod.node is not None and task.state is not _BOUND:
        _has_node(ledger, out, app, task, now)


def class_seen(ledger: Ledger, out: Outcome, name: str, now: float) -> None:
    """Sends the pods of a priority class again, because its allow-preemption setting has changed."""
    for task in ledger.tasks.values():
        if task.pod.priority_class == name and task.pod.allow_preemption is None:
            isolate(lambda ledger, out, task, _now: tasks.resend(ledger, out, task), ledger, out, task, now)


def _has_changed(old: Pod, new: Pod) -> bool:
    """Whether a part of the pod changed that was sent to the core."""
    sent = old.tags, old.resources, old.allow_preemption, old.claims
    return sent != (new.tags, new.resources, new.allow_preemption, new.claims)


def _warn_ignored_labels(ledger: Ledger, out: Outcome, app: Application | None, task: Task, old: Membership) -> None:
    """Posts an event when a label is changed that has no effect any more."""
    new = task.pod.membership
    if app is None or new.placeholder:
        return
    if new.app not in {old.app, app.common_id}:
        named = application_name(new.app)
        _post_ignored(ledger, out, task.pod, problems.changed_application_ignored(named, app.name))
    elif new.queue not in {old.queue, app.queue} and new.app == app.common_id:
        _post_ignored(ledger, out, task.pod, problems.changed_queue_ignored(new.queue, app.name, app.queue))


def _has_node(ledger: Ledger, out: Outcome, app: Application | None, task: Task, now: float) -> None:
    """Handles a pod with a node, bound by the operator or by another client."""
    node = task.pod.node
    if task.state not in _UNBOUND or node is None:
        return
    if task.state is TaskState.ALLOCATED and task.node == node:
        tasks.mark_bound(ledger, out, task)
    elif task.state in {TaskState.REJECTED, TaskState.FAILED}:
        tasks.track_foreign(ledger, out, task.pod)
    else:
        tasks.adopt_bound(ledger, out, task, node)
        if app is not None and app.state in applications.ANSWERED:
            tasks.report_bound(ledger, out, task)
        elif app is not None:
            tasks.count_on_node(ledger, out, task)
    if task.pod.membership.placeholder:
        applications.placeholder_bound(ledger, out, task, now)
    elif app is not None:
        placeholders.member_gone(ledger, app, task.uid, now)


def own_pod_seen(ledger: Ledger, out: Outcome, pod: Pod, now: float) -> None:
    """Handles a pod of this scheduler that was created or changed. It is recorded already."""
    uid = pod.ref.uid
    task = ledger.tasks.get(uid)
    if task is not None:
        pod = of_the_same_kind(task, pod)
    if pod.phase in ENDED_PHASES:
        _ended(ledger, out, pod, now)
    elif task is not None and pod.node is None and (is_anothers(ledger, task, pod) or is_refused(ledger, task, pod)):
        applications.task_ended(ledger, out, task, now)
        _appeared(ledger, out, pod, now)
    elif task is not None:
        changed(ledger, out, task, pod, now)
    elif uid in ledger.untracked_pods:
        tasks.track_foreign(ledger, out, pod)
    else:
        _appeared(ledger, out, pod, now)


def own_pod_gone(ledger: Ledger, out: Outcome, uid: PodUid, now: float) -> None:
    """Handles a deleted pod of this scheduler. It is removed from the record already."""
    ledger.forget_deletion(uid)
    ledger.noticed.discard(uid)
    ledger.ignored.pop(uid, None)
    task = ledger.tasks.get(uid)
    if task is not None:
        applications.task_ended(ledger, out, task, now)
    ledger.resumed.discard(uid)
    tasks.untracked_gone(ledger, out, uid)


def _ended(ledger: Ledger, out: Outcome, pod: Pod, now: float) -> None:
    """Handles a pod that succeeded or failed, so that it holds no resources. An ended placeholder is deleted."""
    task = ledger.tasks.get(pod.ref.uid)
    if task is not None:
        task.pod = pod
        state.recount(task)
        rejections.pod_rejected(ledger, out, task, now)
        applications.task_ended(ledger, out, task, now)
    tasks.untracked_gone(ledger, out, pod.ref.uid)
    if pod.membership.placeholder:
        tasks.order_delete(ledger, out, pod.ref, now, problems.placeholder_ended())


def is_held_back(ledger: Ledger, out: Outcome, pod: Pod, now: float) -> bool:
    """Whether the pod cannot be scheduled, or not yet. Posts an event with the reason once."""
    if pod.node is not None and pod.ref.uid in ledger.unverified:
        _post_once(ledger, out, pod, messages.pod_rejected(problems.unknown_key()))
        return False
    if pod.membership.refusal:
        _post_once(ledger, out, pod, messages.pod_rejected(pod.membership.refusal))
        if pod.node is not None:
            tasks.track_foreign(ledger, out, pod)
        return True
    if pod.claims and pod.node is None and (missing := device_claims.missing(ledger, pod)):
        if not ledger.settings.device_claims:
            _report_unsupported_claims(ledger, out, pod, missing)
            return True
        device_claims.keep_back(ledger, pod, missing, now)
        return True
    is_ready = pod.node is None and not pod.gates  # a gang waits for the claims of its members
    if is_ready and ledger.devices.providers and device_claims.order_claim(ledger, out, pod, now):
        return True
    if ledger.devices.held:
        device_claims.release(ledger, pod)
    if pod.gates and pod.node is None:
        _post_once(ledger, out, pod, messages.waiting_for_gates(", ".join(pod.gates)))
        return True
    if pod.membership.waits and pod.node is None:
        return True  # `pod_groups` reports the reason of the whole group
    ledger.noticed.discard(pod.ref.uid)
    return False


def _report_unsupported_claims(ledger: Ledger, out: Outcome, pod: Pod, problem: str) -> None:
    """Reports that resource claims are not enabled. The pod waits, because it could not start on a node."""
    note = messages.unsupported_claims(problem)
    is_there = pod.condition == Condition(note.kind.reason, note.text)
    if pod.ref.uid not in ledger.noticed and not is_there:
        out.commands.append(SetCondition(pod.ref, note.kind.reason, note.text))
    _post_once(ledger, out, pod, note)


def _post_once(ledger: Ledger, out: Outcome, pod: Pod, note: Note) -> None:
    if pod.ref.uid not in ledger.noticed:
        ledger.noticed.add(pod.ref.uid)
        reporting.post(out, pod.ref, note)


#: Maximum number of events about ignored labels of a pod. A write to a PodGroup can change the text of each pod.
_MAX_IGNORED: Final = 4


def _post_ignored(ledger: Ledger, out: Outcome, pod: Pod, problem: str) -> None:
    """Reports an ignored label or annotation, each text once."""
    posted = ledger.ignored.setdefault(pod.ref.uid, [])
    if problem not in posted and len(posted) < _MAX_IGNORED:
        posted.append(problem)
        reporting.post(out, pod.ref, messages.ignored(problem))


def _appeared(ledger: Ledger, out: Outcome, pod: Pod, now: float) -> None:
    if pod.terminating and pod.node is None:
        return
    if pod.membership.placeholder:
        _placeholder_appeared(ledger, out, pod, now)
        return
    if is_held_back(ledger, out, pod, now):
        return
    if pod.node is None:
        for conflict in pod.membership.conflicts:
            _post_ignored(ledger, out, pod, conflict)
    applications.join(ledger, out, pod, now)


def _placeholder_appeared(ledger: Ledger, out: Outcome, pod: Pod, now: float) -> None:
    app = runs.of(ledger, pod)
    if (note := other_requests(pod)) and app is not None and pod.ref.name in app.slots:
        delete_orphan(ledger, out, pod, now)
        applications.give_up_gang(ledger, out, app, now, note)
        return
    is_needed = app is not None and (app.state is AppState.RESERVING or absent_members.gang_of(ledger, app))
    if note or app is None or not is_needed or pod.terminating:
        delete_orphan(ledger, out, pod, now)
        return
    task = applications.attach(ledger, app, pod)
    if not placeholders.take_slot(ledger, app, task, now):
        tasks.report_bound(ledger, out, task)
        tasks.kill(ledger, out, task, now, problems.surplus_placeholder())
    elif task.state is TaskState.BOUND:
        tasks.report_bound(ledger, out, task)
        applications.placeholder_bound(ledger, out, task, now)
    else:
        placeholders.submit(ledger, out, app, task, now)


def other_requests(pod: Pod) -> str:
    """What is wrong with a placeholder that has other requests than Muster gave it; empty = nothing."""
    claim = pod.membership.claim
    if claim is None or not claim.other_requests:
        return ""
    return problems.requests_changed(pod.ref.name, claim.requests, claim.other_requests)


def delete_orphan(ledger: Ledger, out: Outcome, pod: Pod, now: float) -> None:
    """Deletes a placeholder that no gang needs. It counts on its node until it is gone."""
    if pod.node is not None:
        tasks.track_foreign(ledger, out, pod)
    tasks.order_delete(ledger, out, pod.ref, now, problems.placeholder_not_needed())
