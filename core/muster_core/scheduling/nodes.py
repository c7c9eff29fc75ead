"""Handlers for added, changed, drained and removed nodes, and for other cluster objects. Called by `step`.

Cluster objects are the objects that filters read besides nodes: volumes, claims, storage classes, CSI drivers, devices
and namespace labels.
"""

from __future__ import annotations

from typing import assert_never

from muster_core.model import messages
from muster_core.model.devices import DeviceFact
from muster_core.model.effects import NodeAccepted, NodeRejected, Release
from muster_core.model.events import ClusterObjectsReported, NodeAction, NodeActionReported, NodeAdded, NodeUpdated
from muster_core.model.ids import ROOT, NodeId, Termination
from muster_core.model.records import Change, Detail, Notice
from muster_core.model.states import NODE, NodeEvent, NodeState, follow
from muster_core.model.storage import Claim, NamespaceLabels, ObjectGone, ObjectKind, StorageFact
from muster_core.scheduling import allocations, ledger, reservations, selectors, slots
from muster_core.state.applications import Allocation
from muster_core.state.nodes import ANY_CLAIM
from muster_core.state.scheduler_state import Partition


def update_cluster_objects(partition: Partition, event: ClusterObjectsReported) -> None:
    """Stores changed objects in the given order."""
    for fact in event.facts:
        if isinstance(fact, NamespaceLabels):
            partition.nodes.pods_on_nodes.namespace(fact.name, fact.labels)
            partition.nodes.wake_up_nodes.note_anywhere()  # namespace labels may affect any node
        elif isinstance(fact, DeviceFact):
            partition.nodes.pods_on_nodes.devices.update(fact)
            partition.nodes.wake_up_nodes.note_devices()
        else:
            _store(partition, fact)


def _store(partition: Partition, fact: StorageFact) -> None:
    """Stores a storage object, and wakes up pods that may wait for it.

    A claim affects only the pods that use it. Any other object may affect any claim.
    """
    nodes = partition.nodes
    attachments = nodes.pods_on_nodes.attachments
    storage = attachments.storage
    kept = len(storage.taken)
    attachments.resolved(storage.update(fact))
    is_claim = isinstance(fact, Claim) or (isinstance(fact, ObjectGone) and fact.kind is ObjectKind.CLAIM)
    # A volume that is no longer assumed for its claim may serve any other claim.
    is_own = is_claim and len(storage.taken) == kept
    nodes.wake_up_nodes.note_claim(fact.name if is_own else ANY_CLAIM)


def add_node(partition: Partition, event: NodeAdded, now_ns: int) -> None:
    """Adds a node (CREATE or CREATE_DRAIN), with the allocations that run there already."""
    spec = event.spec
    if partition.is_closing:
        _reject(partition, spec.id, messages.partition_closing(partition.id))
        return
    if spec.id in partition.nodes:
        _reject(partition, spec.id, messages.node_exists())
        return
    partition.nodes.add(spec, draining=event.draining)
    partition.outbox.put(NodeAccepted(partition.rm, spec.id))
    _note_schedulable(partition, spec.id, draining=event.draining)
    _note_total(partition)
    text = messages.node_added()
    partition.note(Notice.NODE, spec.id, change=Change.ADD, resource=spec.capacity, message=text)
    for existing in event.existing:
        allocations.report_allocation(partition, existing, now_ns)


def update_node(partition: Partition, event: NodeUpdated, now_ns: int) -> None:
    """Updates a node. Allocations stay, even above the new capacity. Reported allocations are added."""
    spec = event.spec
    if spec.id not in partition.nodes:
        _reject(partition, spec.id, messages.node_not_added())
        return
    old = partition.nodes.record(spec.id).spec
    partition.nodes.update(spec)
    reservations.shrink_node(partition, spec.id)
    for detail, before, now in (
        (Detail.NODE_CAPACITY, old.capacity, spec.capacity),
        (Detail.NODE_OCCUPIED, old.occupied, spec.occupied),
    ):
        if before != now:
            partition.note(Notice.NODE, spec.id, change=Change.SET, detail=detail, resource=now)
    if old.capacity != spec.capacity:
        _note_total(partition)
    for existing in event.existing:
        allocations.report_allocation(partition, existing, now_ns)


def set_node_action(partition: Partition, event: NodeActionReported, now_ns: int) -> None:
    """Handles DRAIN_NODE, DRAIN_TO_SCHEDULABLE and DECOMISSION."""
    if event.node not in partition.nodes:
        _reject(partition, event.node, messages.no_node_for_action(event.action))
        return
    state = partition.nodes.record(event.node).state
    match event.action:
        case NodeAction.DRAIN:
            follow(NODE, state, NodeEvent.DRAIN)
            _set_draining(partition, event.node, draining=True)
        case NodeAction.OPEN:
            if state is NodeState.DRAINING:
                _set_draining(partition, event.node, draining=False)
            else:
                _reject(partition, event.node, messages.node_not_draining(state))
        case NodeAction.DECOMMISSION:
            _decommission(partition, event.node, now_ns)
        case _:
            assert_never(event.action)


def _set_draining(partition: Partition, node: NodeId, *, draining: bool) -> None:
    if draining:
        reservations.leave_node(partition, node)
        # A replacement that is not confirmed yet would become a new allocation on the draining node.
        _abandon_targets(partition, node, list(partition.placed.get(node, {}).values()))
    partition.nodes.set_draining(node, draining=draining)
    _note_schedulable(partition, node, draining=draining)


def _note_schedulable(partition: Partition, node: NodeId, *, draining: bool) -> None:
    text = messages.node_schedulable(str(not draining).lower())
    partition.note(Notice.NODE, node, change=Change.SET, detail=Detail.NODE_SCHEDULABLE, message=text)


def _note_total(partition: Partition) -> None:
    """Records the changed total of the nodes, which is the maximum of root."""
    total = partition.nodes.capacity_total
    partition.note(Notice.QUEUE, ROOT, change=Change.SET, detail=Detail.QUEUE_MAX, resource=total)


def _decommission(partition: Partition, node: NodeId, now_ns: int) -> None:
    """Removes a node and all its allocations. Replacements are handled as in docs/internals/semantics.md, rule 14."""
    reservations.leave_node(partition, node)
    partition.nodes.set_draining(node, draining=True)
    gone = list(partition.placed.get(node, {}).values())
    _abandon_targets(partition, node, gone)
    answer = partition.outbox.answer(partition.rm)
    for allocation in gone:
        if not allocation.spec.is_virtual:
            answer.released.append(_release_of(partition, allocation, node))
        app = partition.applications[allocation.spec.application]
        allocations.end_allocation(partition, app, allocation, now_ns, node_removed=True)
    for identity in partition.nodes.record(node).foreign_pods:
        spec = partition.foreign.pop(identity)
        selectors.part(partition, spec)
        ledger.leave(partition, node, spec)
    capacity = partition.nodes.record(node).spec.capacity
    partition.nodes.remove(node)
    _note_total(partition)
    text, detail = messages.node_left(), Detail.NODE_DECOMISSION
    partition.note(Notice.NODE, node, change=Change.REMOVE, detail=detail, resource=capacity, message=text)


def _abandon_targets(partition: Partition, node: NodeId, gone: list[Allocation]) -> None:
    """Ends the replacements whose target is this node. Their real requests are scheduled like any other."""
    here = [(one.spec.application, one.replaced_by) for one in gone if one.replaced_by is not None]
    for name, key in [*here, *partition.targets.get(node, {})]:
        app = partition.applications[name]
        ask = app.asks[key]
        if ask.replacement is not None and ask.replacement.node == node:
            slots.schedule_individually(partition, app, ask)


def _release_of(partition: Partition, allocation: Allocation, node: NodeId) -> Release:
    spec = allocation.spec
    why = messages.node_removed(node)
    return Release(partition.id, spec.application, spec.key, allocation.id, Termination.STOPPED_BY_RM, why)


def _reject(partition: Partition, node: NodeId, reason: str) -> None:
    partition.outbox.put(NodeRejected(partition.rm, node, reason))
