"""Pods that only take room on their node: other schedulers' pods, and ours without an application (semantics 7)."""

from __future__ import annotations

from muster_operator.agent import tasks
from muster_operator.agent.asks import as_occupant, foreign_allocation
from muster_operator.agent.ledger import Ledger, Occupant, Phase
from muster_operator.model.allocations import AllocationSpec
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.news import AllocationReleased, AllocationReported
from muster_operator.model.outcome import Outcome
from muster_operator.model.pods import ForeignPod, Pod


def find(ledger: Ledger, uid: PodUid) -> Occupant | None:
    """The occupant of that UID, foreign or stray."""
    return ledger.foreign.get(uid) or ledger.strays.get(uid)


def report(ledger: Ledger, out: Outcome, occupant: Occupant) -> None:
    """Tell the core, once and when it takes or says something else than before, or wait for the node.

    While a session is being filled it is told with its node. What is known is told anew: the core revises it. Only who
    was promised room may turn up elsewhere, or nowhere.
    """
    node = occupant.pod.node
    if ledger.phase is not Phase.LIVE:
        return
    if occupant.reported and occupant.told is not None and occupant.told.node != node:
        occupant.reported = False
        out.news.append(AllocationReleased(None, occupant.pod.ref.uid))
    if node is None or is_told(occupant):
        return
    if not tasks.is_taken(ledger, node):
        tasks.await_node(ledger, occupant.pod.ref.uid, node)
        return
    out.news.append(AllocationReported(as_reported(occupant, node)))


def as_reported(occupant: Occupant, node: NodeName) -> AllocationSpec:
    """What the core is told of it, from now on."""
    occupant.reported, occupant.told = True, occupant.pod
    return foreign_allocation(occupant.pod, node)


def is_told(occupant: Occupant) -> bool:
    """Whether the core was told of it as it is."""
    pod, told = occupant.pod, occupant.told
    if not occupant.reported or told is None:
        return False
    return (pod.resources, pod.priority, pod.tags) == (told.resources, told.priority, told.tags)


def release(ledger: Ledger, out: Outcome, occupant: Occupant) -> None:
    """It is gone or has ended."""
    uid = occupant.pod.ref.uid
    if occupant.reported:
        out.news.append(AllocationReleased(None, uid))
    else:
        tasks.await_no_node(ledger, uid, occupant.pod.node)


def foreign_seen(ledger: Ledger, out: Outcome, pod: ForeignPod) -> None:
    """A pod of another scheduler was recorded: count it on its node."""
    occupant = ledger.foreign.get(pod.ref.uid)
    if occupant is not None:
        report(ledger, out, occupant)


def stray_of(ledger: Ledger, pod: Pod) -> Occupant:
    """The pod's entry as one that only takes room."""
    ledger.strays_by_node.add(pod.ref.uid, pod.node)
    return ledger.strays.setdefault(pod.ref.uid, Occupant(as_occupant(pod)))


def make_stray(ledger: Ledger, out: Outcome, pod: Pod) -> None:
    """A pod of ours without an application: it takes room as long as it is there."""
    occupant = stray_of(ledger, pod)
    occupant.pod = as_occupant(pod)
    report(ledger, out, occupant)


def stray_gone(ledger: Ledger, out: Outcome, uid: PodUid) -> None:
    """A stray is gone or has ended."""
    occupant = ledger.strays.pop(uid, None)
    if occupant is not None:
        ledger.strays_by_node.remove(uid, occupant.pod.node)
        release(ledger, out, occupant)
