"""Pods that only take room on their node: other schedulers' pods, and ours without an application (semantics 7)."""

from __future__ import annotations

from muster_operator.agent.asks import as_occupant, foreign_allocation
from muster_operator.agent.ledger import Ledger, Occupant, Phase
from muster_operator.model.ids import PodUid
from muster_operator.model.news import AllocationReleased, AllocationReported
from muster_operator.model.outcome import Outcome
from muster_operator.model.pods import ForeignPod, Pod


def find(ledger: Ledger, uid: PodUid) -> Occupant | None:
    """The occupant of that UID, foreign or stray."""
    return ledger.foreign.get(uid) or ledger.strays.get(uid)


def report(ledger: Ledger, out: Outcome, occupant: Occupant) -> None:
    """Tell the core once, or wait for the node. While a session is being filled it is told with its node."""
    node = occupant.pod.node
    if occupant.reported or node is None or ledger.phase is not Phase.LIVE:
        return
    if node not in ledger.nodes:
        ledger.homeless.setdefault(node, set()).add(occupant.pod.ref.uid)
        return
    occupant.reported = True
    out.news.append(AllocationReported(foreign_allocation(occupant.pod, node)))


def release(ledger: Ledger, out: Outcome, occupant: Occupant) -> None:
    """It is gone or has ended."""
    uid, node = occupant.pod.ref.uid, occupant.pod.node
    if occupant.reported:
        out.news.append(AllocationReleased(None, uid))
    elif node is not None and node in ledger.homeless:
        ledger.homeless[node].discard(uid)


def foreign_seen(ledger: Ledger, out: Outcome, pod: ForeignPod) -> None:
    """A pod of another scheduler was recorded: count it on its node."""
    occupant = ledger.foreign.get(pod.ref.uid)
    if occupant is not None:
        report(ledger, out, occupant)


def stray_of(ledger: Ledger, pod: Pod) -> Occupant:
    """The pod's entry as one that only takes room."""
    return ledger.strays.setdefault(pod.ref.uid, Occupant(as_occupant(pod)))


def make_stray(ledger: Ledger, out: Outcome, pod: Pod) -> None:
    """A pod of ours without an application: it takes room as long as it is there."""
    occupant = stray_of(ledger, pod)
    if occupant.pod.node is None and pod.node is not None:
        occupant.pod = as_occupant(pod)
    report(ledger, out, occupant)


def stray_gone(ledger: Ledger, out: Outcome, uid: PodUid) -> None:
    """A stray is gone or has ended."""
    occupant = ledger.strays.pop(uid, None)
    if occupant is not None:
        release(ledger, out, occupant)
