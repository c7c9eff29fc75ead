"""The steps of one pod: ask, bind, delete, end. Each keeps the task in step with what the core knows of it."""

from __future__ import annotations

from typing import Final

from muster_operator.agent import standing, telling, trust, volumes
from muster_operator.agent.asks import allocation_of, ask_of
from muster_operator.agent.deadlines import remember
from muster_operator.agent.ledger import Deadline, Deletion, Ledger, Look, Task
from muster_operator.model import vocabulary as words
from muster_operator.model.allocations import TerminationType
from muster_operator.model.commands import BindPod, DeletePod, FailPod, MarkDisrupted
from muster_operator.model.ids import NO_ALLOCATION_ID, NodeName, PodUid
from muster_operator.model.news import AllocationReleased, AllocationReported, AskReleased, AskSubmitted
from muster_operator.model.outcome import Outcome
from muster_operator.model.pods import PodRef
from muster_operator.model.states import TASK, TaskEvent, TaskState, after

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
    standing.recount(task)
    ledger.tasks_by_node.add(task.uid, node)


def order_bind(ledger: Ledger, out: Outcome, task: Task) -> None:
    """Nothing is in the way any more: bind it to its node."""
    if task.node is not None:
        task.binds = 1
        pod, signature = task.pod.ref, trust.sign_binding(ledger, task.pod.ref, task.node)
        out.commands.append(BindPod(pod, task.node, task.pod.membership.placeholder, signature))


def mark_bound(ledger: Ledger, out: Outcome, task: Task) -> None:
    """Our bind is done; a real pod's user is told."""
    volumes.wait_no_longer(ledger, task)
    step(task, TaskEvent.BIND)
    ref = task.pod.ref
    if not task.pod.membership.placeholder:
        telling.inform(
            out, ref, words.REASON_SCHEDULED, f"Successfully assigned {ref.namespace}/{ref.name} to node {task.node}"
        )


def adopt_bound(ledger: Ledger, out: Outcome, task: Task, node: NodeName) -> None:
    """The pod got a node without us: take back what the core thought, report what is.

    An ask may have been answered already, which we have not heard yet: its allocation is taken back with it.
    """
    volumes.abandon(ledger, out, task)
    was_asked, why = task.asked, "the pod was bound by somebody else"
    take_back(out, task, TerminationType.STOPPED_BY_RM, why)
    if was_asked:
        out.news.append(AllocationReleased(task.app, task.uid, TerminationType.STOPPED_BY_RM, message=why))
    ledger.tasks_by_node.remove(task.uid, task.node)
    ledger.tasks_by_node.add(task.uid, node)
    task.node = node
    task.allocation_id = NO_ALLOCATION_ID
    step(task, TaskEvent.BIND)


def is_taken(ledger: Ledger, node: NodeName) -> bool:
    """Whether the core has the node: what it is told of pods comes by another stream than what it is told of nodes."""
    return node in ledger.nodes and node not in ledger.arrived


def await_node(ledger: Ledger, uid: PodUid, node: NodeName) -> None:
    """The pod's node is not there: the core is told of the pod together with the node, or when it has taken that."""
    ledger.homeless.setdefault(node, set()).add(uid)


def await_no_node(ledger: Ledger, uid: PodUid, node: NodeName | None) -> None:
    """The pod is gone; most nodes that went never come back, so nothing is kept of one that nobody waits for."""
    waiting = ledger.homeless.get(node) if node is not None else None
    if node is not None and waiting is not None:
        waiting.discard(uid)
        if not waiting:
            del ledger.homeless[node]


def report_bound(ledger: Ledger, out: Outcome, task: Task) -> None:
    """Tell the core of a pod that has its node already; without the node it waits for it."""
    if task.held or task.node is None:
        return
    if not is_taken(ledger, task.node):
        await_node(ledger, task.uid, task.node)
        return
    task.held = True
    standing.recount(task)
    out.news.append(AllocationReported(allocation_of(ledger, task, task.node)))


def retell(ledger: Ledger, out: Outcome, task: Task) -> None:
    """The pod is another than the core was told: the new ask takes the place of the old, or the new allocation."""
    if task.state is TaskState.SCHEDULING and task.asked:
        out.news.append(AskSubmitted(ask_of(ledger, task)))
    elif task.held and task.node is not None:
        out.news.append(AllocationReported(allocation_of(ledger, task, task.node)))


def take_back(out: Outcome, task: Task, termination: TerminationType, message: str = "") -> None:
    """Take back exactly what the core knows of the task, once."""
    if task.held:
        out.news.append(AllocationReleased(task.app, task.uid, termination, task.allocation_id, message))
    if task.asked:
        out.news.append(AskReleased(task.app, task.uid, termination, message))
    task.held = task.asked = False
    standing.recount(task)


def nodes_to_avoid(nodes: tuple[NodeName, ...], node: NodeName) -> tuple[NodeName, ...]:
    """These and one more, the newest last; not so many that a small cluster is out of bounds."""
    return (*(name for name in nodes if name != node), node)[-_MAX_AVOIDED:]


def keep_off(ledger: Ledger, task: Task, nodes: tuple[NodeName, ...], until: float) -> None:
    """Let a pod avoid these nodes until then (semantics 5)."""
    for node in nodes:
        task.avoid = nodes_to_avoid(task.avoid, node)
        remember(ledger, Deadline(until, Look.AVOIDANCE, task.uid))


def roll_back(ledger: Ledger, out: Outcome, task: Task, now: float, message: str) -> None:
    """A bind failed for good: release, and ask again with the same key, away from that node (semantics 5)."""
    volumes.abandon(ledger, out, task)
    take_back(out, task, TerminationType.STOPPED_BY_RM, message)
    if task.node is not None:
        keep_off(ledger, task, (task.node,), now + ledger.settings.avoid_node_s)
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
    remember(ledger, Deadline(now + ledger.settings.delete_retry_s, Look.DELETION, pod.uid))
    out.commands.append(DeletePod(pod, reason))


def mark_disrupted(out: Outcome, task: Task, message: str) -> None:
    """Say on a real pod, and to people, that it is preempted; the link writes it before the delete that follows."""
    if not task.pod.membership.placeholder:
        why = message or "preempted by the scheduler"
        out.commands.append(MarkDisrupted(task.pod.ref, why))
        telling.inform(out, task.pod.ref, words.REASON_PREEMPTED, why)


def kill(ledger: Ledger, out: Outcome, task: Task, now: float, reason: str) -> None:
    """The pod has to go; what the core knows of it is taken back when it is gone."""
    volumes.abandon(ledger, out, task)
    if task.state is not TaskState.KILLING:
        step(task, TaskEvent.KILL)
        standing.recount(task)
    order_delete(ledger, out, task.pod.ref, now, reason, placeholder=task.pod.membership.placeholder)


def fail(ledger: Ledger, out: Outcome, task: Task, reason: str, message: str) -> None:
    """A pod that never got a node ends as failed (contract 6.2)."""
    if task.state in _FAILABLE:
        volumes.abandon(ledger, out, task)
        take_back(out, task, TerminationType.STOPPED_BY_RM, message)
        step(task, TaskEvent.FAIL)
        out.commands.append(FailPod(task.pod.ref, reason, message))


def end(ledger: Ledger, out: Outcome, task: Task) -> None:
    """The pod is gone or has ended: the core is told, with its own type if it had ordered it (semantics 4)."""
    volumes.abandon(ledger, out, task)
    take_back(out, task, task.release or TerminationType.STOPPED_BY_RM)
    step(task, TaskEvent.KILLED if task.state is TaskState.KILLING else TaskEvent.COMPLETE)
    ledger.tasks.pop(task.uid, None)
    ledger.tasks_by_node.remove(task.uid, task.node, task.pod.node)
    await_no_node(ledger, task.uid, task.node)
