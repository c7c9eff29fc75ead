"""The sweep: what a lost event or an exception left behind is found and ordered again.

Once a minute `on_timer` looks for pods and placeholders in a short-lived state: a bind, a creation, a deletion or a
write of a claim was ordered and has no result, or a claim is allocated that no pod uses. What was in the
same state at the last sweep is ordered again. The
write queue drops the repetition if the command is still queued or in flight, and counts it otherwise. A repeated write
is harmless: the API server answers that it is done, or the object is read.

The timers of deletions and creations are shorter and belong to what the API server has confirmed: a pod that does not
end, a placeholder that no watch shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster_operator.controller import (
    applications,
    cluster_events,
    device_claims,
    placeholders,
    pod_groups,
    tasks,
    volume_binding,
)
from muster_operator.controller.isolation import isolate
from muster_operator.controller.state import Ledger, SlotState, Task, sweep_later
from muster_operator.model import problems
from muster_operator.model.commands import CancelCreations, DeletePod, Outcome, PostEvent, Repeat
from muster_operator.model.ids import AppId, PodUid
from muster_operator.model.states import AppState, TaskState


def on_timer(ledger: Ledger, out: Outcome, now: float) -> None:
    """Timer: orders again what is in the same short-lived state as at the last sweep."""
    sweep_later(ledger, now)
    pod_groups.sweep(ledger, out, now)
    device_claims.sweep(ledger, out, now)
    cluster_events.withdraw_without_claim(ledger, out, now)
    before, ledger.short_lived = ledger.short_lived, dict(_short_lived(ledger))
    for subject, progress in ledger.short_lived.items():
        if before.get(subject) == progress:
            commands = len(out.commands)
            isolate(_order_again, ledger, out, subject, now)
            out.commands[commands:] = [
                one if isinstance(one, PostEvent | CancelCreations | Repeat) else Repeat(one)
                for one in out.commands[commands:]
            ]


def _short_lived(ledger: Ledger) -> Iterator[tuple[tuple[str, ...], object]]:
    """What waits for the result of a command: the object, and its progress, which changes with each order."""
    for task in ledger.tasks.values():
        if task.state is TaskState.ALLOCATED:
            steps = task.claim_wait.steps if task.claim_wait is not None else {}
            writes = tuple((key, step.state, step.tries) for key, step in steps.items())
            yield (task.uid,), (task.allocation_id, task.binds, writes)
        elif task.state is TaskState.KILLING and task.uid not in ledger.deletions:
            yield (task.uid,), task.state
    for deletion in ledger.deletions.values():
        if deletion.answered is None:
            yield (deletion.pod.uid,), deletion.tries
    yield from _short_lived_of_applications(ledger)
    for key in ledger.group_members:
        if (condition := pod_groups.unseen_condition(ledger, key)) is not None:
            yield (_POD_GROUP, key), condition
    for claim in device_claims.leftovers(ledger):
        yield (_RESOURCE_CLAIM, claim.ref.key), claim
    for key, pods in ledger.devices.undoing.items():
        yield (_UNDO, key), frozenset(pods)


def _short_lived_of_applications(ledger: Ledger) -> Iterator[tuple[tuple[str, ...], object]]:
    for app in ledger.applications.values():
        if app.state is AppState.ACCEPTED:
            yield (app.id,), app.state
        waiting = set(app.creations.again)
        for name in app.open_slots - waiting:
            if app.slots[name].state is SlotState.ORDERED:
                yield (app.id, name), app.slots[name].tries


#: Begins the subject of a PodGroup or a ResourceClaim. No UID and no application ID is this word.
_POD_GROUP: Final = "PodGroup"
_RESOURCE_CLAIM: Final = "ResourceClaim"
_UNDO: Final = "ResourceClaim that is being deallocated"


def _order_again(ledger: Ledger, out: Outcome, subject: tuple[str, ...], now: float) -> None:
    if subject[0] == _POD_GROUP:
        pod_groups.write_again(ledger, out, subject[1])
        return
    if subject[0] == _RESOURCE_CLAIM:
        device_claims.deallocate(ledger, out, ledger.devices.claims[subject[1]])
        return
    if subject[0] == _UNDO:
        device_claims.all_undone(ledger, out, subject[1])
        return
    uid, app = PodUid(subject[0]), ledger.applications.get(AppId(subject[0]))
    if uid in ledger.deletions:
        deletion = ledger.deletions[uid]
        out.commands.append(DeletePod(deletion.pod, deletion.reason, deletion.force))
    elif (task := ledger.tasks.get(uid)) is not None:
        _order_for_pod_again(ledger, out, task, now)
    elif app is not None and len(subject) > 1:
        placeholders.order_again(ledger, out, app, app.slots[subject[1]])
    elif app is not None:
        applications.begin(ledger, out, app, now)


def _order_for_pod_again(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    if task.state is TaskState.KILLING:
        tasks.kill(ledger, out, task, now, problems.released_by_core())
    elif task.claim_wait is not None:
        volume_binding.write_again(ledger, out, task, now)
    else:
        tasks.order_bind(ledger, out, task)
