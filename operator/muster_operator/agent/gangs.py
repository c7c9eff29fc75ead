"""The placeholders of a gang: which exist, which are missing, which are too many (contract 1.8, semantics 17).

Only the book-keeping of members; what follows for the application is decided in ``applications`` and ``endings``.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from muster_operator.agent import tasks
from muster_operator.agent.deadlines import remember
from muster_operator.agent.ledger import Application, Deadline, Ledger, Look, Slot, SlotState, Task
from muster_operator.model.commands import CreatePlaceholder
from muster_operator.model.groups import GangDefinition, PlaceholderSpec, TaskGroup
from muster_operator.model.ids import NodeName
from muster_operator.model.outcome import Outcome
from muster_operator.model.states import TaskState
from muster_operator.translate.placeholders import placeholder_name

#: A placeholder that is created this often and never seen is given up.
MAX_CREATES: Final = 5


def _name(app: Application, group: str, ordinal: int) -> str:
    return placeholder_name(app.originator.ref.uid, app.id, group, ordinal)


def adopt(app: Application, gang: GangDefinition) -> list[Task]:
    """Give the placeholders that exist a slot each, bound ones first; returns those that are too many."""
    room = {group.name: group.min_member for group in gang.groups}
    surplus: list[Task] = []
    for task in sorted(app.placeholders.values(), key=lambda task: (task.node is None, task.pod.ref.name)):
        group, name = task.pod.membership.task_group, task.pod.ref.name
        if room.get(group, 0) == 0 or task.state is TaskState.KILLING:
            surplus.append(task)
            continue
        room[group] -= 1
        app.slots[name] = Slot(name, group, 0, SlotState.SEEN)
        if task.state is not TaskState.BOUND:
            app.open_slots.add(name)
    return surplus


def order_missing(ledger: Ledger, out: Outcome, app: Application, gang: GangDefinition, now: float) -> int:
    """Order every placeholder that is missing, all at once; returns how many."""
    taken = set(app.slots) | {task.pod.ref.name for task in app.placeholders.values()}
    taken |= {deletion.pod.name for deletion in ledger.deletions.values()}
    ordered = 0
    for group in gang.groups:
        missing = group.min_member - sum(slot.group == group.name for slot in app.slots.values())
        free = ((name, ordinal) for ordinal in count() if (name := _name(app, group.name, ordinal)) not in taken)
        for _, (name, ordinal) in zip(range(missing), free, strict=False):
            _order(out, app, group, Slot(name, group.name, ordinal))
            ordered += 1
    if ordered:
        watch_creations(ledger, app, now)
    return ordered


def watch_creations(ledger: Ledger, app: Application, now: float) -> None:
    """Look again whether all that was created has been seen."""
    remember(ledger, Deadline(now + ledger.settings.create_retry_s, Look.CREATIONS, app.id))


def _order(out: Outcome, app: Application, group: TaskGroup, slot: Slot) -> None:
    app.slots[slot.name] = slot
    app.open_slots.add(slot.name)
    out.commands.append(CreatePlaceholder(_spec(app, group, slot.name)))


def _spec(app: Application, group: TaskGroup, name: str) -> PlaceholderSpec:
    pod = app.originator
    return PlaceholderSpec(
        name=name,
        app=app.id,
        queue=app.queue,
        group=group,
        owner=pod.ref,
        scheduler_name=pod.scheduler_name,
        priority_class=pod.priority_class,
        image_pull_secrets=pod.image_pull_secrets,
        source=app.source,
    )


def take_slot(ledger: Ledger, app: Application, task: Task, now: float) -> bool:
    """A placeholder was seen: whether it is one that is waited for."""
    slot = app.slots.get(task.pod.ref.name)
    if slot is None or slot.state is SlotState.SEEN:
        return False
    slot.state = SlotState.SEEN
    tasks.keep_off(ledger, task, slot.avoid, now + ledger.settings.avoid_node_s)
    return True


def close_slot(app: Application, name: str) -> Slot | None:
    """A placeholder is gone, or not to be waited for any more."""
    app.open_slots.discard(name)
    return app.slots.pop(name, None)


def replace(ledger: Ledger, out: Outcome, app: Application, lost: Slot, task: Task, now: float) -> None:
    """Make a new placeholder for a lost one; it keeps off a node whose kubelet refused the old one (semantics 5)."""
    avoid = task.avoid
    if task.pod.kubelet_refusal and task.node is not None:
        avoid = tasks.nodes_to_avoid(avoid, task.node)
    _order_instead(out, app, lost, avoid)
    watch_creations(ledger, app, now)


def _order_instead(out: Outcome, app: Application, lost: Slot, avoid: tuple[NodeName, ...]) -> None:
    """Another placeholder under a name that this gang has not used.

    Names of one group differ by ordinal, and adding the group's size keeps the ordinals of its members apart.
    """
    group = app.gang.group(lost.group) if app.gang else None
    if group is None:
        return
    taken = set(app.slots) | {task.pod.ref.name for task in app.placeholders.values()} | {lost.name}
    ordinal = lost.ordinal + group.min_member
    while (name := _name(app, group.name, ordinal)) in taken:
        ordinal += group.min_member
    _order(out, app, group, Slot(name, group.name, ordinal, tries=lost.tries, avoid=avoid))


def order_again(out: Outcome, app: Application) -> Slot | None:
    """Create what was created and never seen once more; returns a slot for which that was tried too often.

    Where the API server said that the name is taken and our watch shows no such placeholder, it is the name of a pod
    that is not ours: another one is used.
    """
    for slot in list(app.slots.values()):
        if slot.state is SlotState.CREATED and not slot.is_taken:
            slot.state = SlotState.LATE
        elif slot.state in {SlotState.CREATED, SlotState.LATE}:
            if slot.tries >= MAX_CREATES:
                return slot
            slot.tries += 1
            if slot.is_taken:
                close_slot(app, slot.name)
                _order_instead(out, app, slot, slot.avoid)
            else:
                _order_once_more(out, app, slot)
    return None


def _order_once_more(out: Outcome, app: Application, slot: Slot) -> None:
    group = app.gang.group(slot.group) if app.gang else None
    if group is not None:
        slot.state = SlotState.ORDERED
        out.commands.append(CreatePlaceholder(_spec(app, group, slot.name)))


def forget_unseen(app: Application) -> None:
    """The core holds all places: placeholders on their way are too many, and deleted when they are seen."""
    for slot in list(app.slots.values()):
        if slot.state is not SlotState.SEEN:
            close_slot(app, slot.name)


def kill_all(ledger: Ledger, out: Outcome, app: Application, now: float, reason: str) -> None:
    """Delete every placeholder; those on their way are deleted when they are seen."""
    app.slots.clear()
    app.open_slots.clear()
    for task in list(app.placeholders.values()):
        tasks.kill(ledger, out, task, now, reason)
