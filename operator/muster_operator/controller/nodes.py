"""Handlers of node events and of the core's answers to node requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from muster_operator.controller import rejections, reporting, state, tasks, volume_binding
from muster_operator.controller.applications import ANSWERED
from muster_operator.controller.isolation import isolate
from muster_operator.controller.state import Ledger, Task
from muster_operator.controller.tasks import allocation_of
from muster_operator.controller.volume_binding import as_reported
from muster_operator.model import messages, problems
from muster_operator.model.commands import Outcome
from muster_operator.model.core_messages import (
    AllocationReported,
    AllocationSpec,
    Node,
    NodeCreated,
    NodeDecommissioned,
    NodeDrained,
    NodeOpened,
    NodeUpdated,
)
from muster_operator.model.ids import NodeName, PodUid


def record_node(ledger: Ledger, name: NodeName, node: Node | None) -> None:
    """Records the node, or that it is gone (None)."""
    old = ledger.nodes.pop(name, None) if node is None else ledger.nodes.get(name)
    if node is not None:
        ledger.nodes[name] = node
    if old is None or node is None or old.capacity != node.capacity:
        ledger.devices.lately |= ledger.devices.on_nodes or set()
        ledger.devices.on_nodes = None


def existing_allocation(ledger: Ledger, uid: PodUid, node: NodeName) -> AllocationSpec | None:
    """The allocation of a pod on a node, to be reported now. Marks it as reported. None if there is none to report."""
    task = ledger.tasks.get(uid)
    if task is not None:
        app = ledger.applications.get(task.app)
        if task.held:
            return None
        if node not in {task.node, task.pod.node}:
            return None  # its bind failed while the node was away
        if app is not None and app.state in ANSWERED:
            task.held = True
            state.recount(task)
            return allocation_of(ledger, task, node)
        # The core has not accepted the application: the pod counts on its node.
        tasks.untracked_of(ledger, task.pod)
    pod_on_node = tasks.find_foreign(ledger, uid)
    if pod_on_node is None or tasks.is_reported(pod_on_node):
        return None
    if uid in ledger.foreign and pod_on_node.pod.node != node:
        return None  # its scheduler had nominated this node and has withdrawn that
    return tasks.as_reported(pod_on_node, node)


def existing_places(ledger: Ledger) -> dict[NodeName, list[AllocationSpec]]:
    """Reservations by node without a pod, sent to the core in a new session because no pod represents them."""
    places: dict[NodeName, list[AllocationSpec]] = defaultdict(list)
    for place in ledger.places.values():
        places[place.node].append(place.known)
    return places


def node_seen(ledger: Ledger, out: Outcome, old: Node | None, node: Node) -> None:
    """Handles a node that was created or changed. ``old`` is its previous state.

    A node with the same name and another UID, whose deletion was missed, counts as the same node: pods are bound to
    names and stay bound until they are deleted.
    """
    if old is None or old.capacity != node.capacity or old.schedulable != node.schedulable:
        reporting.may_fit(ledger)
    if old is None:
        ledger.unacknowledged_nodes[node.name] = ledger.unacknowledged_nodes.get(node.name, 0) + 1
        pods_on_node = tuple(_waiting_allocations(ledger, node.name))
        out.requests.append(NodeCreated(as_reported(ledger, node), not node.schedulable, pods_on_node))
        return
    if old.capacity != node.capacity or old.attributes != node.attributes:
        out.requests.append(NodeUpdated(as_reported(ledger, node)))
    if old.schedulable != node.schedulable:
        out.requests.append(NodeOpened(node.name) if node.schedulable else NodeDrained(node.name))


def _waiting_allocations(ledger: Ledger, name: NodeName) -> Iterator[AllocationSpec]:
    """Allocations of the pods that waited for the node."""
    for uid in sorted(ledger.awaiting_node.pop(name, set())):
        spec = existing_allocation(ledger, uid, name)
        if spec is not None:
            yield spec


def accepted(ledger: Ledger, out: Outcome, name: NodeName, _now: float) -> None:
    """The core accepted a node. Posts an event if the node was created during the session.

    Pods that were bound to it in the meantime are reported now, because they use another stream and could have
    overtaken the node.

    Differs: YuniKorn writes NodeAccepted for every node at every start, and NodeDeleted for a node that is deleted;
    Kubernetes has its own event for that.
    """
    node = ledger.nodes.get(name)
    if not _is_last_answer(ledger, name) or node is None:
        return
    note = messages.node_accepted(name) if node.schedulable else messages.cordoned_node_accepted(name)
    reporting.post_node(out, name, node.uid, note)
    out.requests += (AllocationReported(spec) for spec in _waiting_allocations(ledger, name))


def rejected(ledger: Ledger, out: Outcome, rejection: tuple[NodeName, str], _now: float) -> None:
    """The core rejected a node for a reason. Its pods stay in the waiting list, for a later node of that name."""
    name, reason = rejection
    node = ledger.nodes.get(name)
    reporting.post_node(out, name, node.uid if node else "", messages.node_rejected(reason))
    _is_last_answer(ledger, name)


def _is_last_answer(ledger: Ledger, name: NodeName) -> bool:
    """Whether this answers the last creation of the node. A node can be deleted and created before the first answer."""
    open_answers = ledger.unacknowledged_nodes.pop(name, 0) - 1
    if open_answers > 0:
        ledger.unacknowledged_nodes[name] = open_answers
    return open_answers == 0


def node_gone(ledger: Ledger, out: Outcome, name: NodeName, now: float) -> None:
    """Handles a deleted node. The core drops its allocations, including pods whose bind is in progress.

    Its pods are kept in case the node returns. Placeholders are deleted, so that a gang that still reserves gets new
    ones before the pod garbage collector runs.
    """
    out.requests.append(NodeDecommissioned(name))
    rejections.node_gone(ledger, name, now)
    for uid in ledger.tasks_by_node.on(name):
        isolate(partial(_lost_node, name=name), ledger, out, ledger.tasks[uid], now)
    for by_node, allocations in (
        (ledger.foreign_by_node, ledger.foreign),
        (ledger.untracked_by_node, ledger.untracked_pods),
    ):
        for uid in by_node.on(name):
            allocations[uid].reported = False
            tasks.await_node(ledger, uid, name)


def _lost_node(ledger: Ledger, out: Outcome, task: Task, now: float, *, name: NodeName) -> None:
    task.held = False
    state.recount(task)
    if task.claim_wait is not None:
        volume_binding.fail_binding(ledger, out, task, now, problems.node_deleted(name))
        return
    tasks.await_node(ledger, task.uid, name)
    if task.pod.membership.placeholder:
        tasks.kill(ledger, out, task, now, problems.node_deleted(name))
