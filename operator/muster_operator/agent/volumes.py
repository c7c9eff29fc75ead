"""The claims of one pod on their way to their volumes: who waits for what, and taking back what was begun."""

from __future__ import annotations

from muster_operator.agent.ledger import Ledger, Task
from muster_operator.agent.stored import Mounting, Step, StepState
from muster_operator.model.commands import ClaimVolume, SelectNode, StorageCommand
from muster_operator.model.ids import PodUid
from muster_operator.model.outcome import Outcome


def wait(ledger: Ledger, task: Task, mounting: Mounting) -> None:
    """From now on the pod hears of these claims and volumes."""
    task.mounting = mounting
    for key, step in mounting.steps.items():
        for name in filter(None, (key, step.volume)):
            ledger.storage.waiting.setdefault(name, set()).add(task.uid)


def waiting_for(ledger: Ledger, name: str) -> list[PodUid]:
    """The pods that wait for this claim or volume."""
    return sorted(ledger.storage.waiting.get(name, ()))


def wait_no_longer(ledger: Ledger, task: Task) -> Mounting | None:
    """The pod hears of them no more; returns what it waited for."""
    mounting, task.mounting = task.mounting, None
    if mounting is not None:
        for key, step in mounting.steps.items():
            for name in filter(None, (key, step.volume)):
                _forget(ledger, name, task.uid)
    return mounting


def _forget(ledger: Ledger, name: str, uid: PodUid) -> None:
    waiting = ledger.storage.waiting.get(name, set())
    waiting.discard(uid)
    if not waiting:
        ledger.storage.waiting.pop(name, None)


def order(task: Task, step: Step, *, undo: bool = False) -> StorageCommand | None:
    """The write that brings the claim to its volume, or takes it back; None if the pod has no node to make it for."""
    if step.volume:
        return ClaimVolume(task.pod.ref, step.claim, step.volume, undo)
    return SelectNode(task.pod.ref, step.claim, task.node, undo) if task.node is not None else None


def abandon(ledger: Ledger, out: Outcome, task: Task) -> None:
    """The pod does not go to its node: whatever it began is taken back, unless another pod goes on with it."""
    mounting = wait_no_longer(ledger, task)
    for key, step in mounting.steps.items() if mounting is not None else ():
        claim = ledger.storage.claims.get(key)
        is_bound = claim is not None and claim.ref.uid == step.claim.uid and claim.is_bound
        if step.state is StepState.TO_WRITE or is_bound or key in ledger.storage.waiting:
            continue
        if (undoing := order(task, step, undo=True)) is not None:
            out.commands.append(undoing)
