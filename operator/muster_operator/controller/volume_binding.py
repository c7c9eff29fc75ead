"""Writes to the claims of a pod before it is bound, and storage events.

The core chooses the volumes; the operator selects them on the claims, waits until Kubernetes has bound them, and then
binds the pod. It reserves the ResourceClaims of the pod in the same way (`device_claims`).

Differs: kube-scheduler leaves marks that came to nothing where they are, so that the claim stays with its node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

import orjson

from muster_operator.controller import applications, device_claims, gang_start, rejections, reporting, tasks
from muster_operator.controller.isolation import isolate
from muster_operator.controller.state import (
    Application,
    Deadline,
    Ledger,
    Task,
    TimerKind,
    set_timer,
)
from muster_operator.controller.storage_state import ClaimWait, DeviceStep, Step, StepState, VolumeStep, step_key
from muster_operator.model import device_problems, messages, problems
from muster_operator.model.cluster_events import (
    AttachmentGone,
    AttachmentSeen,
    ClaimGone,
    ClaimSeen,
    DeviceEvent,
    DriversSeen,
    StorageEvent,
    VolumeGone,
    VolumeSeen,
)
from muster_operator.model.commands import (
    ClaimCommand,
    CommandFailed,
    CommandSucceeded,
    CommandUnanswered,
    Outcome,
    ReserveClaim,
    Result,
)
from muster_operator.model.core_messages import Allocated, ClusterObjectReported, CoreRequest, Node, NodeUpdated
from muster_operator.model.ids import AppId, NodeName, PodUid
from muster_operator.model.storage import (
    Attachment,
    Claim,
    ClaimRef,
    ClusterObject,
    ObjectKind,
    Requirement,
    Volume,
)
from muster_si import keys


def reaches(node: Node, volume: Volume) -> bool:
    """Whether the node matches the volume's node affinity: one of its terms. An empty term matches no node."""
    if volume.reach is None:
        return True
    return any(term and all(_holds(node, requirement) for requirement in term) for term in volume.reach)


def _holds(node: Node, requirement: Requirement) -> bool:
    value = node.attributes.get(keys.NODE_LABEL_PREFIX + requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, requirement)
        case _:
            return False


def _compares(value: str | None, requirement: Requirement) -> bool:
    try:
        [bound] = requirement.values
        number, limit = int(value or ""), int(bound)
    except ValueError:
        return False
    return number > limit if requirement.operator == "Gt" else number < limit


#: Number of attempts of a write without an answer before it counts as failed.
_MAX_TRIES: Final = 3

#: State of a claim: bound, or waiting. Any other text is the reason why it cannot be bound on this node.
_BOUND: Final = None
_NOT_YET: Final = ""


def begin_binding(ledger: Ledger, out: Outcome, task: Task, chosen: Allocated, now: float) -> None:
    """Starts binding the claims of a pod to the volumes and devices that the core chose with the node."""
    claims = ledger.storage.claims
    steps: dict[str, Step] = {
        key: VolumeStep(claim=_ref(claims, key), volume=volume) for key, volume in sorted(chosen.volumes.items())
    }
    try:
        steps |= device_claims.steps(ledger, task, chosen.devices)
    except KeyError as missing:
        fail_binding(ledger, out, task, now, device_problems.device_class_missing(str(missing.args[0])), is_device=True)
        return
    until = device_claims.until(ledger, steps.values(), now)
    tasks.wait_for_claims(ledger, task, ClaimWait(steps, until, task.pod.membership.task_group))
    set_timer(ledger, Deadline(until, TimerKind.VOLUMES, task.uid))
    continue_binding(ledger, out, task, now)


def _ref(claims: Mapping[str, Claim], key: str) -> ClaimRef:
    """The present claim. If it is gone, a reference without UID, which matches no claim."""
    if key in claims:
        return claims[key].ref
    namespace, _, name = key.partition("/")
    return ClaimRef(namespace, name, "")


def storage_changed(ledger: Ledger, out: Outcome, name: str, now: float) -> None:
    """Continues the pods that wait for this claim or volume."""
    for uid in tasks.waiting_for(ledger, name):
        if (task := ledger.tasks.get(uid)) is not None:
            isolate(continue_binding, ledger, out, task, now)


def too_late(ledger: Ledger, out: Outcome, uid: PodUid, now: float) -> None:
    """Timer: fails the binding if the claims are not bound in time. The first one ends the wait of a whole gang."""
    task = ledger.tasks.get(uid)
    if task is None or task.claim_wait is None or task.claim_wait.until > now:
        return
    app = gang_start.gang_of(ledger, task)
    members = [task] if app is None else [one for one in app.members.values() if gang_start.is_needed(app, one)]
    late = [(one, steps) for one in members if (steps := _not_bound(ledger, one))]
    for _, steps in late:  # before the first failure, because members can share claims
        for step in steps.values():
            if isinstance(step, DeviceStep):
                device_claims.expire(ledger, step)
    for one, steps in late:
        _fail_late(ledger, out, one, steps, now)
    if app is not None and not late:
        why = device_problems.devices_not_ready(ledger.settings.volume_bind_s, "other members of the gang")
        reporting.post(out, task.pod.ref, messages.devices_failed(task.node or "", why))
        _begin_again(ledger, out, app, now)


def _not_bound(ledger: Ledger, task: Task) -> dict[str, Step]:
    """The claims that the pod still waits for."""
    steps = task.claim_wait.steps if task.claim_wait is not None else {}
    return {key: step for key, step in steps.items() if _state(ledger, task, step) is not _BOUND}


def _fail_late(ledger: Ledger, out: Outcome, task: Task, steps: Mapping[str, Step], now: float) -> None:
    seconds, names = ledger.settings.volume_bind_s, ", ".join(steps)
    is_device = all(isinstance(step, DeviceStep) for step in steps.values())
    problem = device_problems.devices_not_ready if is_device else problems.not_bound_in_time
    fail_binding(ledger, out, task, now, problem(seconds, names), is_device=is_device)


def binding_answered(ledger: Ledger, out: Outcome, result: Result, command: ClaimCommand, now: float) -> None:
    """Handles the result of a write. Results of earlier attempts are ignored."""
    if isinstance(command, ReserveClaim) and command.undo:
        device_claims.undone(ledger, out, command)
        return
    task = ledger.tasks.get(command.pod.uid)
    step = task.claim_wait.steps.get(step_key(command)) if task is not None and task.claim_wait is not None else None
    if task is None or step is None or step.order != command:
        return
    match result:
        case CommandSucceeded(version=version):
            if step.state is StepState.ORDERED:
                step.state, step.version = StepState.WRITTEN, version
            continue_binding(ledger, out, task, now)
        case CommandUnanswered() if step.tries < _MAX_TRIES:
            step.tries += 1
            out.commands.append(command)
        case CommandUnanswered():
            fail_binding(ledger, out, task, now, problems.no_answer(), is_device=isinstance(step, DeviceStep))
        case CommandFailed(message=message):
            fail_binding(ledger, out, task, now, message, is_device=isinstance(step, DeviceStep))


def write_again(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """Orders the writes without a result again, and continues with the present state of the claims."""
    steps = task.claim_wait.steps.values() if task.claim_wait is not None else ()
    out.commands += [step.order for step in steps if step.order is not None and step.state is StepState.ORDERED]
    continue_binding(ledger, out, task, now)


def fail_binding(ledger: Ledger, out: Outcome, task: Task, now: float, why: str, *, is_device: bool = False) -> None:
    """The claims cannot be bound on this node: undoes the writes and requests another node."""
    failed = messages.devices_failed if is_device else messages.volumes_failed
    reporting.post(out, task.pod.ref, failed(task.node or "", why))
    is_of_gang = gang_start.gang_of(ledger, task) is not None  # which begins again, so that each failure costs all
    steps = task.claim_wait.steps.values() if task.claim_wait is not None else ()
    device_claims.fail(ledger, out, steps, now, why if is_of_gang else "")
    is_kept = not is_of_gang and rejections.keep_place(ledger, out, task, now)
    tasks.roll_back(ledger, out, task, now, why, has_slot_again=is_kept)


def continue_binding(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """Continues the binding: sends writes, binds the pod if all claims are bound, or fails."""
    claim_wait = task.claim_wait
    if claim_wait is None:
        return
    states = [(step, _state(ledger, task, step)) for step in claim_wait.steps.values()]
    for step, state in states:
        if state:
            fail_binding(ledger, out, task, now, state, is_device=isinstance(step, DeviceStep))
            return
    for step, state in states:
        if state is not _BOUND and step.state is StepState.TO_WRITE and (command := tasks.order_claim(task, step)):
            step.state, step.order = StepState.ORDERED, command
            out.commands.append(command)
    if not all(state is _BOUND for _, state in states):
        gang_start.not_ready(ledger, task)
        return
    for one in gang_start.to_bind(ledger, task):
        _bind(ledger, out, one)


def _bind(ledger: Ledger, out: Outcome, task: Task) -> None:
    claim_wait = tasks.stop_waiting_for_claims(ledger, task)
    orders = [step.order for step in claim_wait.steps.values()] if claim_wait is not None else []
    task.reservations = tuple(order for order in orders if isinstance(order, ReserveClaim))
    tasks.order_bind(ledger, out, task)


def check_start(ledger: Ledger, out: Outcome, app_id: AppId, now: float) -> None:
    """Timer: binds what waits if the gang has started. If too few members have nodes, the gang begins again."""
    app = ledger.applications.get(app_id)
    if app is None:
        return
    if not gang_start.waits(ledger, app):
        for task in gang_start.ready(app):
            isolate(continue_binding, ledger, out, task, now)
    elif gang_start.is_short(app):
        _begin_again(ledger, out, app, now)


def _begin_again(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Submits the gang again, which takes back everything that it has. Its members keep avoiding nodes."""
    avoided = {uid: task.avoid for uid, task in app.members.items() if task.avoid}
    applications.kill(ledger, out, app, now)
    for uid, nodes in avoided.items():
        if (again := ledger.tasks.get(uid)) is not None:
            tasks.avoid_node(ledger, again, nodes, now + ledger.settings.avoid_node_s)


def _state(ledger: Ledger, task: Task, step: Step) -> str | None:
    """Returns _BOUND, _NOT_YET, or the reason why the claim cannot be bound on the node."""
    if isinstance(step, DeviceStep):
        return device_claims.state_of(ledger, step)
    claim = ledger.storage.claims.get(step.claim.key)
    if claim is None or claim.ref.uid != step.claim.uid:
        return problems.claim_gone(step.claim.name)
    if claim.is_deleting:
        return problems.claim_being_deleted(step.claim.name)
    if claim.is_bound:
        return _state_of_bound(ledger, task, claim)
    if isinstance(step, VolumeStep) and step.volume:
        return _state_of_chosen(ledger, step)
    return _state_of_provisioned(task, step, claim)


def _state_of_bound(ledger: Ledger, task: Task, claim: Claim) -> str | None:
    """Checks whether the node can access the volume. Another client may have bound the claim."""
    volume, node = ledger.storage.volumes.get(claim.volume), ledger.nodes.get(task.node) if task.node else None
    if volume is None or node is None:
        return _NOT_YET
    if not reaches(node, volume):
        return problems.volume_unreachable(volume.name, node.name)
    return _BOUND


def _state_of_chosen(ledger: Ledger, step: VolumeStep) -> str:
    volume = ledger.storage.volumes.get(step.volume)
    if volume is None or volume.is_deleting:
        return problems.volume_gone(step.volume)
    if volume.claim is None:
        return problems.volume_released(volume.name) if step.state is StepState.SEEN else _NOT_YET
    if volume.claim.key != step.claim.key or volume.claim.uid not in {"", step.claim.uid}:
        return problems.volume_taken(volume.name, volume.claim.key)
    if volume.claim.uid:
        step.state = StepState.SEEN
    return _NOT_YET


def _state_of_provisioned(task: Task, step: Step, claim: Claim) -> str:
    if claim.selected_node == task.node:
        step.state = StepState.SEEN
    elif claim.selected_node:
        return problems.provisioned_elsewhere(claim.ref.name, claim.selected_node)
    elif step.state is StepState.SEEN or 0 < step.version < claim.version:
        # The watch may show only the state after the provisioner has removed the node.
        return problems.provisioning_failed(claim.ref.name)
    return _NOT_YET


def record_object(ledger: Ledger, found: ClusterObject) -> None:
    """Records the object, or its deletion."""
    key = found.kind, found.name
    if found.gone:
        ledger.objects.pop(key, None)
    else:
        ledger.objects[key] = found


def object_seen(ledger: Ledger, out: Outcome, found: ClusterObject) -> None:
    """Records the object, or its deletion, and reports it to the core if it has changed."""
    known = ledger.objects.get((found.kind, found.name))
    record_object(ledger, found)
    if known != found and (known is not None or not found.gone):
        out.requests.append(ClusterObjectReported(found))


def all_objects(ledger: Ledger, at_once: int) -> Iterator[list[CoreRequest]]:
    """All recorded objects in batches of ``at_once``, for the start of a session."""
    everything = iter(list(ledger.objects.values()))
    while portion := [ClusterObjectReported(found) for found in islice(everything, at_once)]:
        yield list[CoreRequest](portion)


def record_storage(ledger: Ledger, fact: StorageEvent | DeviceEvent) -> None:
    """Updates the state. Sends nothing."""
    storage = ledger.storage
    match fact:
        case _ if isinstance(fact, DeviceEvent):
            if (found := device_claims.record(ledger, fact)) is not None:
                record_object(ledger, found)
            return
        case VolumeSeen(volume):
            storage.volumes[volume.name] = volume
        case VolumeGone(name):
            storage.volumes.pop(name, None)
        case ClaimSeen(claim):
            storage.claims[claim.ref.key] = claim
        case ClaimGone(key):
            storage.claims.pop(key, None)
        case DriversSeen(drivers) if drivers.limits:
            storage.drivers[drivers.node] = drivers
        case DriversSeen(drivers):
            storage.drivers.pop(drivers.node, None)
        case AttachmentSeen(attachment):
            _detach(ledger, attachment.name)
            storage.attachments[attachment.name] = attachment
            storage.attached_to[attachment.node][attachment.name] = attachment
            storage.holders[attachment.volume].add(attachment.name)
        case AttachmentGone(name):
            _detach(ledger, name)
    if (object_for_core := _for_core(fact)) is not None:
        record_object(ledger, object_for_core)


def _detach(ledger: Ledger, name: str) -> None:
    storage = ledger.storage
    known = storage.attachments.pop(name, None)
    if known is None:
        return
    storage.attached_to[known.node].pop(name, None)
    storage.holders[known.volume].discard(name)
    if not storage.attached_to[known.node]:
        del storage.attached_to[known.node]
    if not storage.holders[known.volume]:
        del storage.holders[known.volume]


def _for_core(fact: StorageEvent) -> ClusterObject | None:
    """The volume or claim as an object for the core. None for other events, which change nodes only."""
    match fact:
        case VolumeSeen(volume):
            return volume.reported
        case VolumeGone(name):
            return ClusterObject(ObjectKind.VOLUME, name, gone=True)
        case ClaimSeen(claim):
            return claim.reported
        case ClaimGone(key):
            return ClusterObject(ObjectKind.CLAIM, key, gone=True)
        case _:
            return None


def storage_seen(ledger: Ledger, out: Outcome, fact: StorageEvent, now: float) -> None:
    """Handles an event of a storage object: reports it and changed nodes to the core, continues waiting pods."""
    nodes = _nodes_of(ledger, fact)
    before = {node.name: as_reported(ledger, node) for node in nodes}
    object_for_core = _for_core(fact)
    if object_for_core is not None:
        object_seen(ledger, out, object_for_core)
    record_storage(ledger, fact)
    for node in nodes:
        if (after := as_reported(ledger, node)) != before[node.name]:
            out.requests.append(NodeUpdated(after))
    for name in _affected_names(fact):
        storage_changed(ledger, out, name, now)


def _affected_names(fact: StorageEvent) -> list[str]:
    """Names of claims and volumes whose waiting pods have to continue. A provisioned volume continues its claim."""
    match fact:
        case VolumeSeen(volume):
            return [volume.name, volume.claim.key] if volume.claim is not None else [volume.name]
        case VolumeGone(name):
            return [name]
        case ClaimSeen(claim):
            return [claim.ref.key]
        case ClaimGone(key):
            return [key]
        case _:
            return []


def _nodes_of(ledger: Ledger, fact: StorageEvent) -> list[Node]:
    """Nodes whose attributes can change with this event."""
    storage = ledger.storage
    match fact:
        case DriversSeen(drivers):
            names = {drivers.node}
        case AttachmentSeen(attachment):
            names = {attachment.node, *_node_of(ledger, attachment.name)}
        case AttachmentGone(name):
            names = set(_node_of(ledger, name))
        case VolumeSeen(volume):
            names = {storage.attachments[name].node for name in storage.holders.get(volume.name, ())}
        case VolumeGone(name):
            names = {storage.attachments[held].node for held in storage.holders.get(name, ())}
        case _:
            names = set[NodeName]()
    return [ledger.nodes[name] for name in sorted(names) if name in ledger.nodes]


def _node_of(ledger: Ledger, attachment: str) -> list[NodeName]:
    known = ledger.storage.attachments.get(attachment)
    return [known.node] if known is not None else []


def as_reported(ledger: Ledger, node: Node) -> Node:
    """The node with its attach limits and attached volumes."""
    storage, attributes = ledger.storage, {}
    if (drivers := storage.drivers.get(node.name)) is not None:
        attributes[keys.NODE_VOLUME_LIMITS] = drivers.limits
        if drivers.migrated:
            attributes[keys.NODE_MIGRATED] = drivers.migrated
    if attached := _attached(ledger, storage.attached_to.get(node.name, {})):
        attributes[keys.NODE_ATTACHED] = attached
    return replace(node, attributes={**node.attributes, **attributes}) if attributes else node


def _attached(ledger: Ledger, attachments: dict[str, Attachment]) -> str:
    """Volume handles by driver. Volumes that are unknown or not of a CSI driver do not count."""
    found: dict[str, set[str]] = defaultdict(set)
    for attachment in attachments.values():
        volume = ledger.storage.volumes.get(attachment.volume)
        if volume is not None and volume.handle:
            found[attachment.driver].add(volume.handle)
    sorted_handles = {driver: sorted(handles) for driver, handles in found.items()}
    return orjson.dumps(sorted_handles, option=orjson.OPT_SORT_KEYS).decode() if found else ""
