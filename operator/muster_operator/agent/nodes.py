"""What a node means: created with the pods that are on it, changed, cordoned, gone (contract 1.7, seed 003)."""

from __future__ import annotations

from muster_operator.agent import occupants, refusals, tasks
from muster_operator.agent.applications import ANSWERED
from muster_operator.agent.asks import allocation_of, foreign_allocation
from muster_operator.agent.ledger import Ledger
from muster_operator.model.allocations import AllocationSpec
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.news import NodeCreated, NodeDecommissioned, NodeDrained, NodeOpened, NodeUpdated
from muster_operator.model.nodes import Node
from muster_operator.model.outcome import Outcome
from muster_operator.model.states import AppState


def existing_allocation(ledger: Ledger, uid: PodUid, node: NodeName) -> AllocationSpec | None:
    """The allocation of a pod on a node that the core is told of now; None if it is not to be told."""
    task = ledger.tasks.get(uid)
    if task is not None:
        app = ledger.applications.get(task.app)
        if task.held or (app is not None and app.state is AppState.SUBMITTED):
            return None
        if node not in {task.node, task.pod.node}:
            return None  # its bind failed while the node was away
        if app is not None and app.state in ANSWERED:
            task.held = True
            return allocation_of(ledger, task, node)
        # The core would not take it as the application's; its room is counted all the same.
        occupants.stray_of(ledger, task.pod)
    occupant = occupants.find(ledger, uid)
    if occupant is None or occupant.reported:
        return None
    occupant.reported = True
    return foreign_allocation(occupant.pod, node)


def node_seen(ledger: Ledger, out: Outcome, old: Node | None, node: Node) -> None:
    """A node exists and looks like this; ``old`` is how it looked."""
    if old is None:
        waiting = sorted(ledger.homeless.pop(node.name, set()))
        existing = (existing_allocation(ledger, uid, node.name) for uid in waiting)
        out.news.append(NodeCreated(node, not node.schedulable, tuple(spec for spec in existing if spec is not None)))
        return
    if old.capacity != node.capacity or old.attributes != node.attributes:
        out.news.append(NodeUpdated(node))
    if old.schedulable != node.schedulable:
        out.news.append(NodeOpened(node.name) if node.schedulable else NodeDrained(node.name))


def node_gone(ledger: Ledger, out: Outcome, name: NodeName, now: float) -> None:
    """A node no longer exists: the core drops what is on it, also pods whose bind is under way.

    Its pods are kept, in case the node comes back; but a placeholder without a node is of no use, and a gang that still
    reserves gets another one sooner than the cluster's garbage collector would notice.
    """
    out.news.append(NodeDecommissioned(name))
    refusals.node_gone(ledger, name)
    for task in list(ledger.tasks.values()):
        if name in {task.node, task.pod.node}:
            task.held = False
            tasks.await_node(ledger, task.uid, name)
            if task.pod.membership.placeholder:
                tasks.kill(ledger, out, task, now, f"node {name} is gone")
    for occupant in (*ledger.foreign.values(), *ledger.strays.values()):
        if occupant.pod.node == name:
            occupant.reported = False
            tasks.await_node(ledger, occupant.pod.ref.uid, name)
