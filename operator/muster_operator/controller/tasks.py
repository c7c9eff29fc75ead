"""The steps of one pod: request, bind, delete, end; foreign allocations.

A task follows the state table in `model/states`. Pods of other schedulers, and pods without an application, are
reported to the core as foreign allocations.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from msgspec import structs

from muster_operator.controller import device_claims, gang_start, pod_groups, reporting, state, trust
from muster_operator.controller.state import (
    Application,
    Deadline,
    Deletion,
    ForeignAllocation,
    Ledger,
    Phase,
    Task,
    TimerKind,
    set_timer,
)
from muster_operator.controller.storage_state import (
    ClaimWait,
    DeviceStep,
    Step,
    StepState,
    VolumeStep,
    names_of,
)
from muster_operator.model import limits, messages, problems
from muster_operator.model.commands import (
    BindPod,
    ClaimCommand,
    ClaimVolume,
    DeletePod,
    FailPod,
    MarkDisrupted,
    Outcome,
    ReserveClaim,
    SelectNode,
)
from muster_operator.model.core_messages import (
    AllocationReleased,
    AllocationReported,
    AllocationSpec,
    ApplicationSpec,
    AskReleased,
    AskSpec,
    AskSubmitted,
    TerminationType,
)
from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import NO_ALLOCATION_ID, AppId, NodeName, PodUid, Resources
from muster_operator.model.pods import ForeignPod, GangDefinition, Placement, Pod, PodPhase, PodRef, TaskGroup
from muster_operator.model.signing import Validity
from muster_operator.model.states import TASK, AppState, TaskEvent, TaskState, after
from muster_operator.translate.constraints import pod_constraints_tag, preferences_tag
from muster_operator.translate.gangs.totals import placeholder_ask
from muster_operator.translate.placeholders import placeholder_labels
from muster_operator.translate.present_members import tags_like
from muster_operator.translate.values import text_bytes
from muster_si import keys

#: Tags that matter only until the pod is bound.
_OF_ASKS: Final = frozenset({keys.TAG_CONSTRAINTS, keys.TAG_PREFERENCES, keys.TAG_REQUIRED_NODE})


def _allow_preempt_self(ledger: Ledger, pod: Pod) -> bool:
    """Whether the pod may be preempted: its annotation, else that of its priority class, else yes. As in YuniKorn."""
    if pod.allow_preemption is not None:
        return pod.allow_preemption
    return ledger.priority_classes.get(pod.priority_class, True)


def ask_of(ledger: Ledger, task: Task) -> AskSpec:
    """The request of a pod of this scheduler."""
    pod = task.pod
    tags = {**pod.tags, keys.TAG_AVOID_NODES: ",".join(task.avoid)} if task.avoid else pod.tags
    app = ledger.applications.get(task.app)
    uid, member, unverified = pod.ref.uid, pod.membership, is_unverified(pod)
    resources = pod.resources
    if pod.claims:
        tags = {**tags, **device_claims.tag(ledger, pod)}
        resources = device_claims.charged(ledger, pod)
    common = pod.common
    if member.placeholder and app is not None and (partner := app.partner(task)) is not None:
        followed = tags_like(tags, partner.pod)
        tags, common = followed, common if followed is tags else {}
    return AskSpec(  # positional: keyword arguments of a msgspec Struct are slower
        uid,
        task.app,
        resources,
        pod.priority,
        tags,
        "" if unverified else member.task_group,
        member.placeholder,
        app is not None and app.originator.ref.uid == uid and not unverified,
        _allow_preempt_self(ledger, pod),
        pod.preempts_others,
        common,
    )


def is_unverified(pod: Pod) -> bool:
    """Whether the pod is marked as a placeholder without a valid signature. It counts, but not for its gang."""
    return pod.membership.marked and not pod.membership.placeholder


def allocation_of(ledger: Ledger, task: Task, node: NodeName) -> AllocationSpec:
    """The allocation of a bound pod of this scheduler."""
    ask = ask_of(ledger, task)
    if task.pod.scheduled_at_ms is not None:
        at_ms = task.pod.scheduled_at_ms + ledger.clock_ahead_ms
        ask = structs.replace(ask, tags={**ask.tags, keys.TAG_ALLOCATED_AT: str(at_ms)})
    if is_unverified(task.pod):
        ask = structs.replace(ask, tags={**ask.tags, keys.TAG_UNVERIFIED: "true"})
    return AllocationSpec(ask, node, task.allocation_id)


def foreign_allocation(pod: ForeignPod, node: NodeName) -> AllocationSpec:
    """The allocation of a pod without an application. See docs/internals/semantics.md, 7."""
    tags = {**pod.tags, keys.TAG_FOREIGN: pod.kind}
    ask = AskSpec(key=pod.ref.uid, app=None, resources=pod.resources, priority=pod.priority, tags=tags)
    return AllocationSpec(ask, node)


def as_foreign_pod(pod: Pod) -> ForeignPod:
    """Converts a pod of this scheduler to one that only uses resources of its node."""
    tags = {tag: value for tag, value in pod.tags.items() if tag not in _OF_ASKS}
    return ForeignPod(pod.ref, pod.node, pod.phase, pod.resources, "default", pod.priority, tags)


def _member(app: Application, group: TaskGroup) -> dict[str, Any]:
    """The definition of a task group for the core, with the same constraints as its placeholders."""
    group = app.effective(group)
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


def _virtual_placeholder(ledger: Ledger, app: Application, gang: GangDefinition, group: TaskGroup) -> dict[str, Any]:
    """The properties of a placeholder of the group, for a gang without placeholder pods.

    In an Auto gang it includes the image of placeholder pods, so that the core plans both as one class.
    """
    pod_fields = json.loads(group.pod_fields)
    if gang.is_auto:
        pod_fields["containers"] = [{"image": ledger.settings.placeholder_image}]
    pod, preferences = app.originator, preferences_tag(pod_fields)
    facts = {
        "priority": pod.priority,
        "allowPreemptSelf": ledger.priority_classes.get(pod.priority_class, True),
        "allowPreemptOther": pod.preempts_others,
    }
    return {**facts, "preferences": json.loads(preferences)} if preferences else facts


def _members_tag(ledger: Ledger, app: Application, gang: GangDefinition) -> str:
    groups = [group for group in gang.groups if group.min_member]
    members = [_member(app, group) for group in groups]
    if gang.uses_virtual_placeholders:
        for member, group in zip(members, groups, strict=True):
            member.update(_virtual_placeholder(ledger, app, gang, group))
    return json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def can_announce(ledger: Ledger, app: Application, gang: GangDefinition) -> bool:
    """Whether the definition of the members is small enough for a tag of the application."""
    return _fits(_members_tag(ledger, app, gang))


def _fits(members: str) -> bool:
    """The core ignores longer texts: it reserves nothing, and does not check whether the gang can fit at all."""
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
    if gang.topology.keys:
        topology = {"keys": gang.topology.keys, "required": gang.topology.required}
        tags[keys.APP_TAG_TOPOLOGY] = json.dumps(topology, separators=(",", ":"))
    return tags


def is_bound_by_muster(ledger: Ledger, pod: Pod) -> bool:
    """Whether Muster bound the pod to its node."""
    if pod.node is None or not pod.binding:
        return False
    return trust.verify(ledger, pod.binding, _binding(pod.ref, pod.node)) is Validity.VALID


def sign_binding(ledger: Ledger, pod: PodRef, node: NodeName) -> str:
    """The signature of a binding; empty without a key."""
    return "" if ledger.keys is None else ledger.keys.sign(_binding(pod, node))


def _binding(pod: PodRef, node: NodeName) -> tuple[str, ...]:
    return ("binding", pod.namespace, pod.name, pod.uid, node)


def is_forced(ledger: Ledger, app: Application) -> bool:
    """Whether recovery submits the application with force, because it has a pod that Muster bound."""
    return any(is_bound_by_muster(ledger, task.pod) for task in app.members.values())


def application_spec(ledger: Ledger, app: Application) -> ApplicationSpec:
    """The application as submitted to the core, as in YuniKorn. Timeouts: docs/internals/semantics.md, 2."""
    pod = app.originator
    namespace = ledger.namespaces.get(pod.ref.namespace)
    tags = {keys.APP_TAG_NAMESPACE: pod.ref.namespace, **(namespace.tags if namespace else {})}
    tags[keys.APP_TAG_APPLICATION_ID] = app.name
    tags[keys.APP_TAG_CREATION_TIME] = str(app.created_s + ledger.clock_ahead_ms // 1000)
    if ledger.phase is Phase.RECOVERING and is_forced(ledger, app):
        tags[keys.APP_TAG_CREATE_FORCE] = "true"
    if app.gang_problem:
        tags[keys.APP_TAG_GANG_PROBLEM] = app.gang_problem[: limits.REASON_CHARACTERS]
    if app.gang is not None and app.gang.warnings:
        tags[keys.APP_TAG_GANG_WARNINGS] = "; ".join(app.gang.warnings)[: limits.REASON_CHARACTERS]
    if app.gang is None or not app.gang.size:
        return ApplicationSpec(app.id, app.queue, pod.membership.user, tags)
    return ApplicationSpec(
        app=app.id,
        queue=app.queue,
        user=pod.membership.user,
        tags=tags | _gang_tags(ledger, app, app.gang),
        placeholder_ask=_placeholder_ask(app, app.gang),
        style=app.gang.style,
        execution_timeout_ms=app.gang.placeholder_timeout_ms,
    )


def _placeholder_ask(app: Application, gang: GangDefinition) -> Resources:
    """Resources of all placeholders together, with what present members request beyond their task group."""
    try:
        return placeholder_ask(tuple(map(app.effective, gang.groups))) if app.present else gang.placeholder_ask
    except BadInputError:  # a sum does not fit 64 bits
        return gang.placeholder_ask


def renewal_spec(ledger: Ledger, app: Application) -> ApplicationSpec:
    """The specification of a known application, of which the core uses only the quota of its namespace."""
    spec = application_spec(ledger, app)
    return replace(spec, tags={**spec.tags, keys.APP_TAG_RENEWAL: "true"})


def given_up_spec(ledger: Ledger, app: Application, why: str) -> ApplicationSpec:
    """Like `renewal_spec`. The core fails the application, whose gang is given up, so that it is shown as Failed."""
    spec = renewal_spec(ledger, app)
    return replace(spec, tags={**spec.tags, keys.APP_TAG_GIVEN_UP: why[: limits.REASON_CHARACTERS]})


def missing_members_spec(ledger: Ledger, app: Application, why: str) -> ApplicationSpec:
    """Like `renewal_spec`. The core starts the timeout of the gang, or stops it if the text is empty."""
    spec = renewal_spec(ledger, app)
    return replace(spec, tags={**spec.tags, keys.APP_TAG_MEMBERS_MISSING: why[: limits.REASON_CHARACTERS]})


def wait_for_claims(ledger: Ledger, task: Task, claim_wait: ClaimWait) -> None:
    """Registers the pod for changes of these claims and volumes."""
    task.claim_wait = claim_wait
    for key, step in claim_wait.steps.items():
        for name in names_of(key, step):
            ledger.storage.waiting.setdefault(name, set()).add(task.uid)


def waiting_for(ledger: Ledger, name: str) -> list[PodUid]:
    """Returns the pods that wait for this claim or volume."""
    return sorted(ledger.storage.waiting.get(name, ()))


def stop_waiting_for_claims(ledger: Ledger, task: Task) -> ClaimWait | None:
    """Unregisters the pod from its claims and volumes. Returns what it waited for."""
    gang_start.not_ready(ledger, task)
    claim_wait, task.claim_wait = task.claim_wait, None
    if claim_wait is not None:
        for key, step in claim_wait.steps.items():
            for name in names_of(key, step):
                _forget(ledger, name, task.uid)
    return claim_wait


def _forget(ledger: Ledger, name: str, uid: PodUid) -> None:
    waiting = ledger.storage.waiting.get(name, set())
    waiting.discard(uid)
    if not waiting:
        ledger.storage.waiting.pop(name, None)


def order_claim(task: Task, step: Step, *, undo: bool = False) -> ClaimCommand | None:
    """The write that selects a volume, node or devices for the claim, or undoes it. None = the pod has no node."""
    if isinstance(step, DeviceStep):
        return ReserveClaim(task.pod.ref, step.claim, step.allocation, known=step.known)
    if isinstance(step, VolumeStep) and step.volume:
        return ClaimVolume(task.pod.ref, step.claim, step.volume, undo)
    return SelectNode(task.pod.ref, step.claim, task.node, undo) if task.node is not None else None


def abandon_claims(ledger: Ledger, out: Outcome, *members: Task, is_bound: bool = False) -> None:
    """The pods are not bound to their nodes: undoes the writes to their claims unless another pod waits for the claim.

    ``is_bound``: another client bound the pods, which keep their devices.
    """
    for task in members:
        if task.claim_wait is not None:
            gang_start.lost_node(ledger, task)
    for task, claim_wait in [(task, stop_waiting_for_claims(ledger, task)) for task in members]:
        reservations, task.reservations = task.reservations, ()
        for key, step in claim_wait.steps.items() if claim_wait is not None else ():
            if isinstance(step, DeviceStep):
                reservations += (step.order,) if isinstance(step.order, ReserveClaim) else ()
            elif _is_to_undo(ledger, key, step) and (undoing := order_claim(task, step, undo=True)) is not None:
                out.commands.append(undoing)
        for command in () if is_bound else reservations:
            device_claims.undo(ledger, out, command)


def _is_to_undo(ledger: Ledger, key: str, step: Step) -> bool:
    """Whether a volume or node was written to the claim, which is not bound, and no other pod waits for it."""
    claim = ledger.storage.claims.get(key)
    is_complete = claim is not None and claim.ref.uid == step.claim.uid and claim.is_bound
    return step.state is not StepState.TO_WRITE and not is_complete and key not in ledger.storage.waiting


_FAILABLE = frozenset({TaskState.NEW, TaskState.PENDING, TaskState.SCHEDULING, TaskState.ALLOCATED, TaskState.REJECTED})

#: Maximum number of nodes that a pod avoids.
_MAX_AVOIDED: Final = 8


def step(task: Task, event: TaskEvent) -> None:
    """Applies the event to the task's state table (model/states.py)."""
    state = TASK.get((task.state, event))
    task.state = after(TASK, task.state, event) if state is None else state


def submit(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """Sends the request of a pod to the core."""
    step(task, TaskEvent.SUBMIT)
    task.asked = True
    task.shortage = None
    if task.waits_since is None:
        task.waits_since = now
    task.is_early, task.is_outdated = _is_unaccepted(ledger, task), False
    out.requests.append(AskSubmitted(ask_of(ledger, task)))


def _is_unaccepted(ledger: Ledger, task: Task) -> bool:
    """Whether the operator has not received the acceptance of the application."""
    app = ledger.applications.get(task.app)
    return app is not None and app.state is AppState.SUBMITTED


def count_used_slot(ledger: Ledger, app_id: AppId, group: str, number: int) -> None:
    """Counts slots that members or timeouts of an Auto gang have used. Negative: slots that are available again.

    The number is at most ``min_member``: a member that ended keeps its slot, so more members than slots can get nodes.
    """
    app = ledger.applications.get(app_id)
    definition = app.gang.group(group) if app is not None and app.gang is not None else None
    if app is not None and app.gang is not None and app.gang.is_auto and definition is not None:
        used = min(app.used_slots.get(group, 0), definition.min_member)  # the minimum can be smaller after a restart
        app.used_slots[group] = max(min(used + number, definition.min_member), 0)


def count_node(ledger: Ledger, task: Task, number: int) -> None:
    """Counts the slot of a member that got a node, or (negative) lost its node and keeps no slot."""
    member = task.pod.membership
    if not member.task_group or member.placeholder or is_unverified(task.pod):
        return
    count_used_slot(ledger, task.app, member.task_group, number)
    app = ledger.applications.get(task.app)
    if number > 0 and app is not None and app.rejected_slots.get(member.task_group, 0):
        app.rejected_slots[member.task_group] -= 1  # members take slots without pods first


def allocate(ledger: Ledger, task: Task, node: NodeName) -> None:
    """Records the node that the core chose. ``order_bind`` binds the pod after its claims are bound."""
    step(task, TaskEvent.ALLOCATE)
    count_node(ledger, task, 1)
    task.asked, task.held, task.node = False, True, node
    task.is_early = task.is_outdated = False
    task.shortage = None
    state.recount(task)
    ledger.tasks_by_node.add(task.uid, node)


def order_bind(ledger: Ledger, out: Outcome, task: Task) -> None:
    """Orders the bind of the pod to its node."""
    if task.node is not None:
        task.binds = 1
        pod, signature = task.pod.ref, sign_binding(ledger, task.pod.ref, task.node)
        out.commands.append(BindPod(pod, task.node, task.pod.membership.placeholder, signature))


def mark_bound(ledger: Ledger, out: Outcome, task: Task) -> None:
    """The operator's bind has succeeded. Posts the Scheduled event for a pod that is not a placeholder."""
    if task.claim_wait is not None:
        gang_start.bound_elsewhere(ledger, task)
        stop_waiting_for_claims(ledger, task)
    task.reservations = ()
    step(task, TaskEvent.BIND)
    if task.pod.membership.pod_group:
        pod_groups.bound(ledger, out, task)
    ref = task.pod.ref
    if not task.pod.membership.placeholder:
        reporting.post(out, ref, messages.scheduled(ref.namespace, ref.name, task.node or ""))


def adopt_bound(ledger: Ledger, out: Outcome, task: Task, node: NodeName) -> None:
    """Another client bound the pod: releases the pod in the core and records the actual node.

    The core may have allocated the request already, without the operator having received it. The release covers that
    allocation too.
    """
    gang_start.bound_elsewhere(ledger, task)
    abandon_claims(ledger, out, task, is_bound=True)
    was_asked, why = task.asked, problems.bound_by_another_client()
    release_from_core(out, task, TerminationType.STOPPED_BY_RM, why)
    if was_asked:
        out.requests.append(AllocationReleased(task.app, task.uid, TerminationType.STOPPED_BY_RM, message=why))
    ledger.tasks_by_node.remove(task.uid, task.node)
    ledger.tasks_by_node.add(task.uid, node)
    count_node(ledger, task, int(task.node is None))
    task.node = node
    task.allocation_id = NO_ALLOCATION_ID
    step(task, TaskEvent.BIND)


def is_taken(ledger: Ledger, node: NodeName) -> bool:
    """Whether the core has accepted the node. Pods must not overtake their node, which uses another stream."""
    return node in ledger.nodes and node not in ledger.unacknowledged_nodes


def await_node(ledger: Ledger, uid: PodUid, node: NodeName) -> None:
    """Records that the pod's node is unknown to the core. The pod is reported with the node or after its acceptance."""
    ledger.awaiting_node.setdefault(node, set()).add(uid)


def await_no_node(ledger: Ledger, uid: PodUid, node: NodeName | None) -> None:
    """Removes a pod that has ended, and the entry of a node without waiting pods, since most nodes never return."""
    waiting = ledger.awaiting_node.get(node) if node is not None else None
    if node is not None and waiting is not None:
        waiting.discard(uid)
        if not waiting:
            del ledger.awaiting_node[node]


def report_bound(ledger: Ledger, out: Outcome, task: Task) -> None:
    """Reports the allocation of a bound pod to the core. If the core has not received the node yet, the pod waits."""
    if task.held or task.node is None:
        return
    if not is_taken(ledger, task.node):
        await_node(ledger, task.uid, task.node)
        return
    task.held = True
    state.recount(task)
    out.requests.append(AllocationReported(allocation_of(ledger, task, task.node)))


def resend(ledger: Ledger, out: Outcome, task: Task) -> None:
    """Sends the request or allocation again because the pod has changed. The core replaces the earlier one.

    An early request is sent again after the acceptance, so that there is one answer at most.
    """
    if task.state is TaskState.SCHEDULING and task.asked:
        task.is_outdated = task.is_early and _is_unaccepted(ledger, task)
        if not task.is_outdated:
            out.requests.append(AskSubmitted(ask_of(ledger, task)))
    elif task.held and task.node is not None:
        out.requests.append(AllocationReported(allocation_of(ledger, task, task.node)))


def release_from_core(out: Outcome, task: Task, termination: TerminationType, message: str = "") -> None:
    """Releases the request or allocation that the core has of the task."""
    if task.held:
        out.requests.append(AllocationReleased(task.app, task.uid, termination, task.allocation_id, message))
    if task.asked:
        out.requests.append(AskReleased(task.app, task.uid, termination, message))
    task.held = task.asked = False
    state.recount(task)


def nodes_to_avoid(nodes: tuple[NodeName, ...], node: NodeName) -> tuple[NodeName, ...]:
    """Appends a node to the nodes to avoid. The number is limited, so that nodes remain in a small cluster."""
    return (*(name for name in nodes if name != node), node)[-_MAX_AVOIDED:]


def avoid_node(ledger: Ledger, task: Task, nodes: tuple[NodeName, ...], until: float) -> None:
    """Lets the pod avoid these nodes until a time. See docs/internals/semantics.md, 5."""
    for node in nodes:
        task.avoid = nodes_to_avoid(task.avoid, node)
        set_timer(ledger, Deadline(until, TimerKind.AVOIDANCE, task.uid))


def roll_back(
    ledger: Ledger, out: Outcome, task: Task, now: float, message: str, *, has_slot_again: bool = True
) -> None:
    """A bind has failed permanently: releases the allocation and sends the request again, without that node.

    ``has_slot_again``: the slot of an Auto gang's member is available again. See docs/internals/semantics.md, 5.
    """
    abandon_claims(ledger, out, task)
    release_from_core(out, task, TerminationType.STOPPED_BY_RM, message)
    if task.node is not None:
        avoid_node(ledger, task, (task.node,), now + ledger.settings.avoid_node_s)
    gang_start.lost_node(ledger, task)
    step(task, TaskEvent.ROLL_BACK)
    if has_slot_again:
        count_node(ledger, task, -1)
    await_no_node(ledger, task.uid, task.node)
    ledger.tasks_by_node.remove(task.uid, task.node)
    task.node, task.asked, task.allocation_id = None, True, NO_ALLOCATION_ID
    out.requests.append(AskSubmitted(ask_of(ledger, task)))


def order_delete(ledger: Ledger, out: Outcome, placeholder: PodRef, now: float, reason: str) -> None:
    """Deletes a placeholder without a task."""
    _order_delete(ledger, out, Deletion(placeholder, reason, placeholder=True), now)


def _order_delete(ledger: Ledger, out: Outcome, deletion: Deletion, now: float) -> None:
    """Deletes a pod and sets a timer that checks whether it is gone. See docs/internals/semantics.md, 14."""
    pod = deletion.pod
    if pod.uid in ledger.deletions:
        return
    ledger.deletions[pod.uid] = deletion
    ledger.deleting.add((pod.namespace, pod.name))
    set_timer(ledger, Deadline(now + ledger.settings.delete_retry_s, TimerKind.DELETION, pod.uid))
    out.commands.append(DeletePod(pod, deletion.reason, deletion.force))


def mark_disrupted(out: Outcome, task: Task, message: str) -> None:
    """Sets the DisruptionTarget condition on a pod that is not a placeholder, and posts an event.

    The write queue sends the condition before the delete that follows.
    """
    if not task.pod.membership.placeholder:
        note = messages.preempted(message)
        out.commands.append(MarkDisrupted(task.pod.ref, note.text))
        reporting.post(out, task.pod.ref, note)


def kill(ledger: Ledger, out: Outcome, task: Task, now: float, reason: str, *, at_once: bool = False) -> None:
    """Deletes the pod. Its request or allocation in the core is released when the pod is gone.

    ``at_once``: a placeholder is deleted without waiting until its container has ended.
    """
    abandon_claims(ledger, out, task)
    if task.state is not TaskState.KILLING:
        step(task, TaskEvent.KILL)
        state.recount(task)
    is_placeholder = task.pod.membership.placeholder
    deletion = Deletion(task.pod.ref, reason, is_placeholder, force=is_placeholder and at_once)
    _order_delete(ledger, out, deletion, now)


def fail(ledger: Ledger, out: Outcome, task: Task, reason: str, message: str) -> None:
    """Sets the phase of a pod that was never bound to Failed, as YuniKorn does."""
    if task.state in _FAILABLE:
        abandon_claims(ledger, out, task)
        release_from_core(out, task, TerminationType.STOPPED_BY_RM, message)
        step(task, TaskEvent.FAIL)
        out.commands.append(FailPod(task.pod.ref, reason, message))


def end(ledger: Ledger, out: Outcome, task: Task) -> None:
    """The pod is gone or has ended: releases it in the core, with the core's own release type if it ordered the end.

    See docs/internals/semantics.md, 4.
    """
    abandon_claims(ledger, out, task)
    why = keys.RELEASE_SUCCEEDED if task.pod.phase is PodPhase.SUCCEEDED else ""
    release_from_core(out, task, task.release or TerminationType.STOPPED_BY_RM, why)
    step(task, TaskEvent.KILLED if task.state is TaskState.KILLING else TaskEvent.COMPLETE)
    ledger.tasks.pop(task.uid, None)
    ledger.tasks_by_node.remove(task.uid, task.node, task.pod.node)
    await_no_node(ledger, task.uid, task.node)


def find_foreign(ledger: Ledger, uid: PodUid) -> ForeignAllocation | None:
    """The foreign allocation of the pod, of another scheduler or untracked."""
    return ledger.foreign.get(uid) or ledger.untracked_pods.get(uid)


def report_foreign(ledger: Ledger, out: Outcome, pod_on_node: ForeignAllocation) -> None:
    """Reports a foreign allocation to the core if the core has an older state.

    Waits for the node if needed. During recovery foreign allocations are reported with their nodes. A repeated report
    replaces the earlier one. If a pod was only nominated to a node, its node can change or be deleted, and the earlier
    allocation is released.
    """
    node = pod_on_node.pod.node
    if ledger.phase is not Phase.LIVE:
        return
    if pod_on_node.reported and pod_on_node.reported_pod is not None and pod_on_node.reported_pod.node != node:
        pod_on_node.reported = False
        out.requests.append(AllocationReleased(None, pod_on_node.pod.ref.uid))
    if node is None or is_reported(pod_on_node):
        return
    if not is_taken(ledger, node):
        await_node(ledger, pod_on_node.pod.ref.uid, node)
        return
    out.requests.append(AllocationReported(as_reported(pod_on_node, node)))


def as_reported(pod_on_node: ForeignAllocation, node: NodeName) -> AllocationSpec:
    """Marks the allocation as reported and returns its specification."""
    pod_on_node.reported, pod_on_node.reported_pod = True, pod_on_node.pod
    return foreign_allocation(pod_on_node.pod, node)


def is_reported(pod_on_node: ForeignAllocation) -> bool:
    """Whether the core has the allocation with its present resources, priority and tags."""
    pod, known = pod_on_node.pod, pod_on_node.reported_pod
    if not pod_on_node.reported or known is None:
        return False
    return (pod.resources, pod.priority, pod.tags) == (known.resources, known.priority, known.tags)


def release_foreign(ledger: Ledger, out: Outcome, pod_on_node: ForeignAllocation) -> None:
    """Releases a foreign allocation, because the pod is gone or has ended."""
    uid = pod_on_node.pod.ref.uid
    if pod_on_node.reported:
        out.requests.append(AllocationReleased(None, uid))
    else:
        await_no_node(ledger, uid, pod_on_node.pod.node)


def foreign_seen(ledger: Ledger, out: Outcome, pod: ForeignPod) -> None:
    """Reports a recorded pod of another scheduler."""
    pod_on_node = ledger.foreign.get(pod.ref.uid)
    if pod_on_node is not None:
        report_foreign(ledger, out, pod_on_node)


def untracked_of(ledger: Ledger, pod: Pod) -> ForeignAllocation:
    """The foreign allocation of a pod of this scheduler; creates it if there is none."""
    ledger.untracked_by_node.add(pod.ref.uid, pod.node)
    return ledger.untracked_pods.setdefault(pod.ref.uid, ForeignAllocation(as_foreign_pod(pod)))


def track_foreign(ledger: Ledger, out: Outcome, pod: Pod) -> None:
    """Counts a pod of this scheduler without an application on its node."""
    pod_on_node = untracked_of(ledger, pod)
    pod_on_node.pod = as_foreign_pod(pod)
    report_foreign(ledger, out, pod_on_node)


def count_on_node(ledger: Ledger, out: Outcome, task: Task) -> None:
    """Counts a bound pod on its node only, because the core has not accepted its application."""
    if task.node is not None and not task.held:
        track_foreign(ledger, out, task.pod)


def untracked_gone(ledger: Ledger, out: Outcome, uid: PodUid) -> None:
    """Releases an untracked pod that is gone, has ended, or belongs to an application now."""
    pod_on_node = ledger.untracked_pods.pop(uid, None)
    if pod_on_node is not None:
        ledger.untracked_by_node.remove(uid, pod_on_node.pod.node)
        release_foreign(ledger, out, pod_on_node)
