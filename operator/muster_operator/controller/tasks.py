"""The steps of one pod: request, bind, delete, end; foreign allocations.

A task follows the life cycle in `model/states`. Pods that other schedulers bound are reported to the core as foreign
allocations.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from msgspec import structs

from muster_operator.controller import reporting, state, trust
from muster_operator.controller.state import (
    Application,
    Deadline,
    Deletion,
    ForeignAllocation,
    Ledger,
    Phase,
    Step,
    StepState,
    Task,
    TimerKind,
    VolumeWait,
    set_timer,
)
from muster_operator.model import limits, names
from muster_operator.model.commands import (
    BindPod,
    ClaimVolume,
    DeletePod,
    FailPod,
    MarkDisrupted,
    Outcome,
    SelectNode,
    StorageCommand,
)
from muster_operator.model.core_requests import (
    AllocationReleased,
    AllocationReported,
    AllocationSpec,
    ApplicationSpec,
    AskReleased,
    AskSpec,
    AskSubmitted,
    TerminationType,
)
from muster_operator.model.ids import NO_ALLOCATION_ID, NodeName, PodUid
from muster_operator.model.pods import ForeignPod, GangDefinition, Placement, Pod, PodRef, TaskGroup
from muster_operator.model.states import TASK, TaskEvent, TaskState, after
from muster_operator.translate.constraints import pod_constraints_tag, preferences_tag
from muster_operator.translate.gangs import placeholder_labels
from muster_operator.translate.values import text_bytes
from muster_si import keys

#: What is of no use of a pod that has its node.
_OF_ASKS: Final = frozenset({keys.TAG_CONSTRAINTS, keys.TAG_PREFERENCES, keys.TAG_REQUIRED_NODE})


def _allow_preempt_self(ledger: Ledger, pod: Pod) -> bool:
    """The pod decides, else its priority class, else yes (contract 1.2)."""
    if pod.allow_preemption is not None:
        return pod.allow_preemption
    return ledger.priority_classes.get(pod.priority_class, True)


def ask_of(ledger: Ledger, task: Task) -> AskSpec:
    """The ask of a pod of ours."""
    pod = task.pod
    tags = {**pod.tags, keys.TAG_AVOID_NODES: ",".join(task.avoid)} if task.avoid else pod.tags
    app = ledger.applications.get(task.app)
    uid, member = pod.ref.uid, pod.membership
    return AskSpec(  # by position: a struct looks up each name among all
        uid,
        task.app,
        pod.resources,
        pod.priority,
        tags,
        "" if is_unverified(pod) else member.task_group,
        member.placeholder,
        app is not None and app.originator.ref.uid == uid and not is_unverified(pod),
        _allow_preempt_self(ledger, pod),
        pod.preempts_others,
        pod.common,
    )


def is_unverified(pod: Pod) -> bool:
    """Whether the pod may be a placeholder, and Muster cannot verify that: it counts, and shows nothing of its gang."""
    return pod.membership.marked and not pod.membership.placeholder


def allocation_of(ledger: Ledger, task: Task, node: NodeName) -> AllocationSpec:
    """The allocation of a pod of ours that has its node already."""
    ask = ask_of(ledger, task)
    if task.pod.scheduled_at_ms is not None:
        at_ms = task.pod.scheduled_at_ms + ledger.clock_ahead_ms
        ask = structs.replace(ask, tags={**ask.tags, keys.TAG_ALLOCATED_AT: str(at_ms)})
    if is_unverified(task.pod):
        ask = structs.replace(ask, tags={**ask.tags, keys.TAG_UNVERIFIED: "true"})
    return AllocationSpec(ask, node, task.allocation_id)


def foreign_allocation(pod: ForeignPod, node: NodeName) -> AllocationSpec:
    """What a pod takes from its node without belonging to an application (semantics 7)."""
    tags = {**pod.tags, keys.TAG_FOREIGN: pod.kind}
    ask = AskSpec(key=pod.ref.uid, app=None, resources=pod.resources, priority=pod.priority, tags=tags)
    return AllocationSpec(ask, node)


def as_occupant(pod: Pod) -> ForeignPod:
    """A pod of ours as one that only takes room."""
    tags = {tag: value for tag, value in pod.tags.items() if tag not in _OF_ASKS}
    return ForeignPod(pod.ref, pod.node, pod.phase, pod.resources, "default", pod.priority, tags)


def _member(app: Application, group: TaskGroup) -> dict[str, Any]:
    """A task group, with the same facts as its placeholders will have."""
    labels = placeholder_labels(group, app.name, app.queue)
    inter_pod = pod_constraints_tag(json.loads(group.pod_fields), app.namespace, labels)
    facts = {"constraints": group.constraints, "podConstraints": inter_pod}
    return {
        "name": group.name,
        "minMember": group.min_member,
        "resource": {**group.min_resource, keys.PODS: 1},
        "labels": labels,
        **{name: json.loads(text) for name, text in facts.items() if text},
    }


def _virtual_placeholder(ledger: Ledger, app: Application, group: TaskGroup) -> dict[str, Any]:
    """What a placeholder of the group would say of itself, where none is made."""
    pod, preferences = app.originator, preferences_tag(json.loads(group.pod_fields))
    facts = {
        "priority": pod.priority,
        "allowPreemptSelf": ledger.priority_classes.get(pod.priority_class, True),
        "allowPreemptOther": pod.preempts_others,
    }
    return {**facts, "preferences": json.loads(preferences)} if preferences else facts


def _members_tag(ledger: Ledger, app: Application, gang: GangDefinition) -> str:
    groups = [group for group in gang.groups if group.min_member]
    members = [_member(app, group) for group in groups]
    if gang.is_direct:
        for member, group in zip(members, groups, strict=True):
            member.update(_virtual_placeholder(ledger, app, group))
    return json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def can_announce(ledger: Ledger, app: Application, gang: GangDefinition) -> bool:
    """Whether the core can be told of the members before they ask."""
    return _fits(_members_tag(ledger, app, gang))


def _fits(members: str) -> bool:
    """The core ignores longer texts: it does not warn of a gang that can never fit, and does not reserve for it."""
    return text_bytes(members) <= limits.GANG_MEMBERS_TAG_BYTES


def _gang_tags(ledger: Ledger, app: Application, gang: GangDefinition) -> dict[str, str]:
    """Tags that describe a gang. Differs: the text of the annotation is not sent; these tags contain all of it."""
    tags: dict[str, str] = {}
    if _fits(members := _members_tag(ledger, app, gang)):
        tags[keys.APP_TAG_MEMBERS] = members
    if app.source.parameters:
        tags[keys.APP_TAG_POLICY_PARAMETERS] = app.source.parameters
    if gang.placement is not Placement.RESERVE:
        tags[keys.APP_TAG_GANG_PLACEMENT] = gang.placement.value
    if gang.wait_timeout_ms:
        tags[keys.APP_TAG_GANG_WAIT_TIMEOUT] = str(gang.wait_timeout_ms)
    if gang.topology.key:
        topology = {"key": gang.topology.key, "required": gang.topology.required}
        tags[keys.APP_TAG_TOPOLOGY] = json.dumps(topology, separators=(",", ":"))
    return tags


def is_forced(ledger: Ledger, app: Application) -> bool:
    """Whether a recovery submits it by force, which the core answers at once, because Muster bound a pod of it."""
    return any(trust.is_bound_by_muster(ledger, task.pod) for task in app.members.values())


def application_spec(ledger: Ledger, app: Application) -> ApplicationSpec:
    """The application as it is submitted (contract 1.6, 1.9; semantics 2)."""
    pod = app.originator
    namespace = ledger.namespaces.get(pod.ref.namespace)
    tags = {keys.APP_TAG_NAMESPACE: pod.ref.namespace, **(namespace.tags if namespace else {})}
    tags[keys.APP_TAG_APPLICATION_ID] = app.name
    tags[keys.APP_TAG_CREATION_TIME] = str(app.created_s + ledger.clock_ahead_ms // 1000)
    if ledger.phase is Phase.RECOVERING and is_forced(ledger, app):
        tags[keys.APP_TAG_CREATE_FORCE] = "true"
    if app.gang is None or not app.gang.size:
        return ApplicationSpec(app.id, app.queue, pod.membership.user, tags)
    return ApplicationSpec(
        app=app.id,
        queue=app.queue,
        user=pod.membership.user,
        tags=tags | _gang_tags(ledger, app, app.gang),
        placeholder_ask=app.gang.placeholder_ask,
        style=app.gang.style,
        execution_timeout_ms=app.gang.placeholder_timeout_ms,
    )


def renewal_spec(ledger: Ledger, app: Application) -> ApplicationSpec:
    """The same for an application that is there, of which only the quota of its namespace counts (contract 1.6)."""
    spec = application_spec(ledger, app)
    return replace(spec, tags={**spec.tags, keys.APP_TAG_RENEWAL: "true"})


def wait_for_volumes(ledger: Ledger, task: Task, volume_wait: VolumeWait) -> None:
    """From now on the pod hears of these claims and volumes."""
    task.volume_wait = volume_wait
    for key, step in volume_wait.steps.items():
        for name in filter(None, (key, step.volume)):
            ledger.storage.waiting.setdefault(name, set()).add(task.uid)


def waiting_for(ledger: Ledger, name: str) -> list[PodUid]:
    """The pods that wait for this claim or volume."""
    return sorted(ledger.storage.waiting.get(name, ()))


def stop_waiting_for_volumes(ledger: Ledger, task: Task) -> VolumeWait | None:
    """The pod hears of them no more; returns what it waited for."""
    volume_wait, task.volume_wait = task.volume_wait, None
    if volume_wait is not None:
        for key, step in volume_wait.steps.items():
            for name in filter(None, (key, step.volume)):
                _forget(ledger, name, task.uid)
    return volume_wait


def _forget(ledger: Ledger, name: str, uid: PodUid) -> None:
    waiting = ledger.storage.waiting.get(name, set())
    waiting.discard(uid)
    if not waiting:
        ledger.storage.waiting.pop(name, None)


def order_volumes(task: Task, step: Step, *, undo: bool = False) -> StorageCommand | None:
    """The write that brings the claim to its volume, or takes it back; None if the pod has no node to make it for."""
    if step.volume:
        return ClaimVolume(task.pod.ref, step.claim, step.volume, undo)
    return SelectNode(task.pod.ref, step.claim, task.node, undo) if task.node is not None else None


def abandon_volumes(ledger: Ledger, out: Outcome, task: Task) -> None:
    """The pod does not go to its node: whatever it began is taken back, unless another pod continues with it."""
    volume_wait = stop_waiting_for_volumes(ledger, task)
    for key, step in volume_wait.steps.items() if volume_wait is not None else ():
        claim = ledger.storage.claims.get(key)
        is_bound = claim is not None and claim.ref.uid == step.claim.uid and claim.is_bound
        if step.state is StepState.TO_WRITE or is_bound or key in ledger.storage.waiting:
            continue
        if (undoing := order_volumes(task, step, undo=True)) is not None:
            out.commands.append(undoing)


_FAILABLE = frozenset({TaskState.NEW, TaskState.PENDING, TaskState.SCHEDULING, TaskState.ALLOCATED, TaskState.REJECTED})

#: Nodes that one pod avoids at most.
_MAX_AVOIDED: Final = 8


def step(task: Task, event: TaskEvent) -> None:
    """Follow the table."""
    task.state = after(TASK, task.state, event)


def submit(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """Ask the core for a node; from now on the pod waits."""
    step(task, TaskEvent.SUBMIT)
    task.asked = True
    task.shortage = None
    if task.waits_since is None:
        task.waits_since = now
    out.news.append(AskSubmitted(ask_of(ledger, task)))


def allocate(ledger: Ledger, task: Task, node: NodeName) -> None:
    """The core gave it a node; it is bound there by ``order_bind``, when its claims are."""
    step(task, TaskEvent.ALLOCATE)
    task.asked, task.held, task.node = False, True, node
    task.shortage = None
    state.recount(task)
    ledger.tasks_by_node.add(task.uid, node)


def order_bind(ledger: Ledger, out: Outcome, task: Task) -> None:
    """Nothing is in the way any more: bind it to its node."""
    if task.node is not None:
        task.binds = 1
        pod, signature = task.pod.ref, trust.sign_binding(ledger, task.pod.ref, task.node)
        out.commands.append(BindPod(pod, task.node, task.pod.membership.placeholder, signature))


def mark_bound(ledger: Ledger, out: Outcome, task: Task) -> None:
    """Our bind is done; a real pod's user is told."""
    stop_waiting_for_volumes(ledger, task)
    step(task, TaskEvent.BIND)
    ref = task.pod.ref
    if not task.pod.membership.placeholder:
        reporting.inform(
            out, ref, names.REASON_SCHEDULED, f"Successfully assigned {ref.namespace}/{ref.name} to node {task.node}"
        )


def adopt_bound(ledger: Ledger, out: Outcome, task: Task, node: NodeName) -> None:
    """The pod got a node without us: take back what the core thought, report what is.

    An ask may have been answered already, which we have not received yet: its allocation is taken back with it.
    """
    abandon_volumes(ledger, out, task)
    was_asked, why = task.asked, "the pod was bound by another client"
    release_from_core(out, task, TerminationType.STOPPED_BY_RM, why)
    if was_asked:
        out.news.append(AllocationReleased(task.app, task.uid, TerminationType.STOPPED_BY_RM, message=why))
    ledger.tasks_by_node.remove(task.uid, task.node)
    ledger.tasks_by_node.add(task.uid, node)
    task.node = node
    task.allocation_id = NO_ALLOCATION_ID
    step(task, TaskEvent.BIND)


def is_taken(ledger: Ledger, node: NodeName) -> bool:
    """Whether the core has the node: what it is told of pods comes by another stream than what it is told of nodes."""
    return node in ledger.nodes and node not in ledger.unacknowledged_nodes


def await_node(ledger: Ledger, uid: PodUid, node: NodeName) -> None:
    """The pod's node is not there: the core is told of the pod together with the node, or when it has taken that."""
    ledger.awaiting_node.setdefault(node, set()).add(uid)


def await_no_node(ledger: Ledger, uid: PodUid, node: NodeName | None) -> None:
    """The pod is gone; most nodes that went never come back, so nothing is kept of one that nobody waits for."""
    waiting = ledger.awaiting_node.get(node) if node is not None else None
    if node is not None and waiting is not None:
        waiting.discard(uid)
        if not waiting:
            del ledger.awaiting_node[node]


def report_bound(ledger: Ledger, out: Outcome, task: Task) -> None:
    """Tell the core of a pod that has its node already; without the node it waits for it."""
    if task.held or task.node is None:
        return
    if not is_taken(ledger, task.node):
        await_node(ledger, task.uid, task.node)
        return
    task.held = True
    state.recount(task)
    out.news.append(AllocationReported(allocation_of(ledger, task, task.node)))


def resend(ledger: Ledger, out: Outcome, task: Task) -> None:
    """The pod is another than the core was told: the new ask takes the place of the old, or the new allocation."""
    if task.state is TaskState.SCHEDULING and task.asked:
        out.news.append(AskSubmitted(ask_of(ledger, task)))
    elif task.held and task.node is not None:
        out.news.append(AllocationReported(allocation_of(ledger, task, task.node)))


def release_from_core(out: Outcome, task: Task, termination: TerminationType, message: str = "") -> None:
    """Take back exactly what the core knows of the task, once."""
    if task.held:
        out.news.append(AllocationReleased(task.app, task.uid, termination, task.allocation_id, message))
    if task.asked:
        out.news.append(AskReleased(task.app, task.uid, termination, message))
    task.held = task.asked = False
    state.recount(task)


def nodes_to_avoid(nodes: tuple[NodeName, ...], node: NodeName) -> tuple[NodeName, ...]:
    """These and one more, the newest last; not so many that a small cluster is out of bounds."""
    return (*(name for name in nodes if name != node), node)[-_MAX_AVOIDED:]


def avoid_node(ledger: Ledger, task: Task, nodes: tuple[NodeName, ...], until: float) -> None:
    """Let a pod avoid these nodes until then (semantics 5)."""
    for node in nodes:
        task.avoid = nodes_to_avoid(task.avoid, node)
        set_timer(ledger, Deadline(until, TimerKind.AVOIDANCE, task.uid))


def roll_back(ledger: Ledger, out: Outcome, task: Task, now: float, message: str) -> None:
    """A bind failed for good: release, and ask again with the same key, away from that node (semantics 5)."""
    abandon_volumes(ledger, out, task)
    release_from_core(out, task, TerminationType.STOPPED_BY_RM, message)
    if task.node is not None:
        avoid_node(ledger, task, (task.node,), now + ledger.settings.avoid_node_s)
    step(task, TaskEvent.ROLL_BACK)
    await_no_node(ledger, task.uid, task.node)
    ledger.tasks_by_node.remove(task.uid, task.node)
    task.node, task.asked, task.allocation_id = None, True, NO_ALLOCATION_ID
    out.news.append(AskSubmitted(ask_of(ledger, task)))


def order_delete(
    ledger: Ledger, out: Outcome, pod: PodRef, now: float, reason: str, *, placeholder: bool = True
) -> None:
    """Delete a pod; sent once, then watched until it is gone (architecture 7, semantics 14)."""
    if pod.uid in ledger.deletions:
        return
    ledger.deletions[pod.uid] = Deletion(pod, reason, placeholder)
    ledger.deleting.add((pod.namespace, pod.name))
    set_timer(ledger, Deadline(now + ledger.settings.delete_retry_s, TimerKind.DELETION, pod.uid))
    out.commands.append(DeletePod(pod, reason))


def mark_disrupted(out: Outcome, task: Task, message: str) -> None:
    """Say on a real pod, and to people, that it is preempted; the link writes it before the delete that follows."""
    if not task.pod.membership.placeholder:
        why = message or "preempted by the scheduler"
        out.commands.append(MarkDisrupted(task.pod.ref, why))
        reporting.inform(out, task.pod.ref, names.REASON_PREEMPTED, why)


def kill(ledger: Ledger, out: Outcome, task: Task, now: float, reason: str) -> None:
    """The pod has to go; what the core knows of it is taken back when it is gone."""
    abandon_volumes(ledger, out, task)
    if task.state is not TaskState.KILLING:
        step(task, TaskEvent.KILL)
        state.recount(task)
    order_delete(ledger, out, task.pod.ref, now, reason, placeholder=task.pod.membership.placeholder)


def fail(ledger: Ledger, out: Outcome, task: Task, reason: str, message: str) -> None:
    """A pod that never got a node ends as failed (contract 6.2)."""
    if task.state in _FAILABLE:
        abandon_volumes(ledger, out, task)
        release_from_core(out, task, TerminationType.STOPPED_BY_RM, message)
        step(task, TaskEvent.FAIL)
        out.commands.append(FailPod(task.pod.ref, reason, message))


def end(ledger: Ledger, out: Outcome, task: Task) -> None:
    """The pod is gone or has ended: the core is told, with its own type if it had ordered it (semantics 4)."""
    abandon_volumes(ledger, out, task)
    release_from_core(out, task, task.release or TerminationType.STOPPED_BY_RM)
    step(task, TaskEvent.KILLED if task.state is TaskState.KILLING else TaskEvent.COMPLETE)
    ledger.tasks.pop(task.uid, None)
    ledger.tasks_by_node.remove(task.uid, task.node, task.pod.node)
    await_no_node(ledger, task.uid, task.node)


def find_foreign(ledger: Ledger, uid: PodUid) -> ForeignAllocation | None:
    """The occupant of that UID, foreign or stray."""
    return ledger.foreign.get(uid) or ledger.untracked_pods.get(uid)


def report_foreign(ledger: Ledger, out: Outcome, pod_on_node: ForeignAllocation) -> None:
    """Tell the core, once and when it takes or says something else than before, or wait for the node.

    While a session is being filled it is told with its node. What is known is sent again: the core revises it. Only who
    was promised room may turn up elsewhere, or nowhere.
    """
    node = pod_on_node.pod.node
    if ledger.phase is not Phase.LIVE:
        return
    if pod_on_node.reported and pod_on_node.told is not None and pod_on_node.told.node != node:
        pod_on_node.reported = False
        out.news.append(AllocationReleased(None, pod_on_node.pod.ref.uid))
    if node is None or is_reported(pod_on_node):
        return
    if not is_taken(ledger, node):
        await_node(ledger, pod_on_node.pod.ref.uid, node)
        return
    out.news.append(AllocationReported(as_reported(pod_on_node, node)))


def as_reported(pod_on_node: ForeignAllocation, node: NodeName) -> AllocationSpec:
    """What the core is told of it, from now on."""
    pod_on_node.reported, pod_on_node.told = True, pod_on_node.pod
    return foreign_allocation(pod_on_node.pod, node)


def is_reported(pod_on_node: ForeignAllocation) -> bool:
    """Whether the core was told of it as it is."""
    pod, told = pod_on_node.pod, pod_on_node.told
    if not pod_on_node.reported or told is None:
        return False
    return (pod.resources, pod.priority, pod.tags) == (told.resources, told.priority, told.tags)


def release_foreign(ledger: Ledger, out: Outcome, pod_on_node: ForeignAllocation) -> None:
    """It is gone or has ended."""
    uid = pod_on_node.pod.ref.uid
    if pod_on_node.reported:
        out.news.append(AllocationReleased(None, uid))
    else:
        await_no_node(ledger, uid, pod_on_node.pod.node)


def foreign_seen(ledger: Ledger, out: Outcome, pod: ForeignPod) -> None:
    """A pod of another scheduler was recorded: count it on its node."""
    pod_on_node = ledger.foreign.get(pod.ref.uid)
    if pod_on_node is not None:
        report_foreign(ledger, out, pod_on_node)


def untracked_of(ledger: Ledger, pod: Pod) -> ForeignAllocation:
    """The pod's entry as one that only takes room."""
    ledger.untracked_by_node.add(pod.ref.uid, pod.node)
    return ledger.untracked_pods.setdefault(pod.ref.uid, ForeignAllocation(as_occupant(pod)))


def track_foreign(ledger: Ledger, out: Outcome, pod: Pod) -> None:
    """A pod of ours without an application: it takes room as long as it is there."""
    pod_on_node = untracked_of(ledger, pod)
    pod_on_node.pod = as_occupant(pod)
    report_foreign(ledger, out, pod_on_node)


def count_on_node(ledger: Ledger, out: Outcome, task: Task) -> None:
    """The core has not accepted the pod's application: if the pod is bound, it counts on its node only."""
    if task.node is not None and not task.held:
        track_foreign(ledger, out, task.pod)


def untracked_gone(ledger: Ledger, out: Outcome, uid: PodUid) -> None:
    """A stray is gone or has ended."""
    pod_on_node = ledger.untracked_pods.pop(uid, None)
    if pod_on_node is not None:
        ledger.untracked_by_node.remove(uid, pod_on_node.pod.node)
        release_foreign(ledger, out, pod_on_node)
