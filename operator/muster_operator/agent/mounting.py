"""A pod has its node and claims that are not bound yet: first they get their volumes, then the pod its node.

What kube-scheduler's VolumeBinding does before it binds: a free volume is marked as the claim's, a claim without one is
marked with the node for which its provisioner has to make it, and then the volume controller and the provisioner have
to do their part. All of it is heard on the watch, nothing is asked for again and again. A failure, or too long a wait,
gives the node back as a bind that failed does: the core is asked again, off that node (semantics 5).

Differs: kube-scheduler leaves marks that came to nothing where they are, so that the claim stays with its node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster_operator.agent import refusals, tasks, telling, volumes
from muster_operator.agent.deadlines import remember
from muster_operator.agent.ledger import Deadline, Ledger, Look, Task
from muster_operator.agent.reaching import reaches
from muster_operator.agent.stored import Mounting, Step, StepState
from muster_operator.model import vocabulary as words
from muster_operator.model.commands import StorageCommand
from muster_operator.model.ids import PodUid
from muster_operator.model.outcome import Outcome
from muster_operator.model.results import CommandFailed, CommandSucceeded, CommandUnanswered, Result
from muster_operator.model.storage import ChosenVolumes, Claim, ClaimRef

#: How often a write that nobody answered is sent before it counts as failed.
_MAX_TRIES: Final = 3
#: What a claim is: bound, or not yet. Anything else is a text that says why it never will be on this node.
_BOUND: Final = None
_NOT_YET: Final = ""


def begin(ledger: Ledger, out: Outcome, task: Task, chosen: ChosenVolumes, now: float) -> None:
    """The pod was given its node, and volumes for its claims."""
    until = now + ledger.settings.volume_bind_s
    claims = ledger.storage.claims
    steps = {key: Step(_ref(claims, key), volume) for key, volume in sorted(chosen.items())}
    volumes.wait(ledger, task, Mounting(steps, until))
    remember(ledger, Deadline(until, Look.VOLUMES, task.uid))
    _go_on(ledger, out, task, now)


def _ref(claims: Mapping[str, Claim], key: str) -> ClaimRef:
    """The claim as it is now; one that is gone already is none with this UID."""
    if key in claims:
        return claims[key].ref
    namespace, _, name = key.partition("/")
    return ClaimRef(namespace, name, "")


def heard(ledger: Ledger, out: Outcome, name: str, now: float) -> None:
    """Something is new about a claim or a volume."""
    for uid in volumes.waiting_for(ledger, name):
        task = ledger.tasks.get(uid)
        if task is not None and task.mounting is not None:
            _go_on(ledger, out, task, now)


def too_late(ledger: Ledger, out: Outcome, uid: PodUid, now: float) -> None:
    """A time-out came; of a wait that is over it means nothing."""
    task = ledger.tasks.get(uid)
    if task is None or task.mounting is None or task.mounting.until > now:
        return
    states = ((key, _state(ledger, task, step)) for key, step in task.mounting.steps.items())
    waiting = ", ".join(key for key, state in states if state is not _BOUND)
    fail(ledger, out, task, now, f"not bound within {ledger.settings.volume_bind_s:g} s: {waiting}")


def answered(ledger: Ledger, out: Outcome, result: Result, command: StorageCommand, now: float) -> None:
    """A write ended; one of an earlier attempt, or that took something back, is nobody's business any more."""
    task = ledger.tasks.get(command.pod.uid)
    step = task.mounting.steps.get(command.claim.key) if task is not None and task.mounting is not None else None
    if task is None or step is None or step.order != command:
        return
    match result:
        case CommandSucceeded():
            if step.state is StepState.ORDERED:
                step.state = StepState.WRITTEN
            _go_on(ledger, out, task, now)
        case CommandUnanswered() if step.tries < _MAX_TRIES:
            step.tries += 1
            out.commands.append(command)
        case CommandUnanswered():
            fail(ledger, out, task, now, "the API server did not answer")
        case CommandFailed(message=message):
            fail(ledger, out, task, now, message)


def fail(ledger: Ledger, out: Outcome, task: Task, now: float, why: str) -> None:
    """The claims do not get their volumes there: take back what was begun, and ask for another node."""
    telling.warn(out, task.pod.ref, words.REASON_VOLUMES_FAILURE, f"volumes for node {task.node} failed: {why}")
    refusals.keep_place(ledger, out, task, now)
    tasks.roll_back(ledger, out, task, now, why)


def _go_on(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """Whatever can be done now: writes that are due, the bind if all is done, the way back if it never will be."""
    mounting = task.mounting
    if mounting is None:
        return
    states = [(step, _state(ledger, task, step)) for step in mounting.steps.values()]
    if (why := next((state for _, state in states if state), None)) is not None:
        fail(ledger, out, task, now, why)
        return
    for step, state in states:
        if state is not _BOUND and step.state is StepState.TO_WRITE and (command := volumes.order(task, step)):
            step.state, step.order = StepState.ORDERED, command
            out.commands.append(command)
    if all(state is _BOUND for _, state in states):
        volumes.wait_no_longer(ledger, task)
        tasks.order_bind(ledger, out, task)


def _state(ledger: Ledger, task: Task, step: Step) -> str | None:
    """_BOUND, _NOT_YET, or why it never will be."""
    claim = ledger.storage.claims.get(step.claim.key)
    if claim is None or claim.ref.uid != step.claim.uid:
        return f'persistentvolumeclaim "{step.claim.name}" is gone'
    if claim.is_going:
        return f'persistentvolumeclaim "{step.claim.name}" is being deleted'
    if claim.is_bound:
        return _state_of_bound(ledger, task, claim)
    return _state_of_chosen(ledger, step) if step.volume else _state_of_made(task, step, claim)


def _state_of_bound(ledger: Ledger, task: Task, claim: Claim) -> str | None:
    """Whoever bound it may have bound it to a volume that the node does not reach."""
    volume, node = ledger.storage.volumes.get(claim.volume), ledger.nodes.get(task.node) if task.node else None
    if volume is None or node is None:
        return _NOT_YET
    if not reaches(node, volume):
        return f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}"'
    return _BOUND


def _state_of_chosen(ledger: Ledger, step: Step) -> str:
    volume = ledger.storage.volumes.get(step.volume)
    if volume is None or volume.is_going:
        return f'persistentvolume "{step.volume}" is gone'
    if volume.claim is None:
        return f'ClaimRef got reset for pv "{volume.name}"' if step.state is StepState.SEEN else _NOT_YET
    if volume.claim.key != step.claim.key or volume.claim.uid not in {"", step.claim.uid}:
        return f'persistentvolume "{volume.name}" was taken by claim {volume.claim.key}'
    if volume.claim.uid:
        step.state = StepState.SEEN
    return _NOT_YET


def _state_of_made(task: Task, step: Step, claim: Claim) -> str:
    if claim.selected_node == task.node:
        step.state = StepState.SEEN
    elif claim.selected_node:
        return f'persistentvolumeclaim "{claim.ref.name}" is made for node {claim.selected_node}'
    elif step.state is StepState.SEEN:
        return f'provisioning failed for PVC "{claim.ref.name}"'
    return _NOT_YET
