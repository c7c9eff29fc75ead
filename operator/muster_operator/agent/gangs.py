"""The placeholders of a gang: which exist, which are missing, which are too many (contract 1.8, semantics 17).

Only the book-keeping of members; what follows for the application is decided in ``applications`` and ``endings``.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from muster_operator.agent import creations, tasks
from muster_operator.agent.deadlines import remember
from muster_operator.agent.ledger import Application, Deadline, Ledger, Look, Slot, SlotState, Task
from muster_operator.model.groups import GangDefinition
from muster_operator.model.outcome import Outcome
from muster_operator.model.states import TaskState

#: A placeholder that is created this often and never seen is given up.
MAX_CREATES: Final = 5


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
    """Order every placeholder that is missing, as the windows let them; returns how many."""
    there = Counter(slot.group for slot in app.slots.values())
    missing = {group.name: group.min_member - there[group.name] for group in gang.groups}
    missing = {group: count for group, count in missing.items() if count > 0}
    creations.want(ledger, out, app, missing)
    if missing:
        watch_creations(ledger, app, now)
    return sum(missing.values())


def watch_creations(ledger: Ledger, app: Application, now: float) -> None:
    """Look again whether all that was created has been seen."""
    remember(ledger, Deadline(now + ledger.settings.create_retry_s, Look.CREATIONS, app.id))


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
    creations.order_instead(ledger, out, app, lost, avoid)
    watch_creations(ledger, app, now)


def order_again(ledger: Ledger, out: Outcome, app: Application) -> Slot | None:
    """Create what was created and never seen once more; returns a slot for which that was tried too often.

    Where the API server said that the name is taken and our watch shows no such placeholder, it is the name of a pod
    that is not ours: another one is used.
    """
    again: list[Slot] = []
    lost: Slot | None = None
    for slot in list(app.slots.values()):
        if slot.state is SlotState.CREATED and not slot.is_taken:
            slot.state = SlotState.LATE
        elif slot.state in {SlotState.CREATED, SlotState.LATE}:
            if slot.tries >= MAX_CREATES:
                lost = slot
                break
            slot.tries += 1
            if slot.is_taken:
                close_slot(app, slot.name)
                creations.order_instead(ledger, out, app, slot, slot.avoid)
            else:
                again.append(slot)
    creations.order_again(ledger, out, app, again)
    return lost


def forget_unseen(ledger: Ledger, out: Outcome, app: Application) -> None:
    """The core holds all places: placeholders on their way are too many, and deleted when they are seen."""
    creations.cancel(ledger, out, app)
    for slot in list(app.slots.values()):
        if slot.state is not SlotState.SEEN:
            close_slot(app, slot.name)


def forget_all(ledger: Ledger, out: Outcome, app: Application) -> None:
    """Cancel the creations of placeholders."""
    creations.cancel(ledger, out, app)
    app.slots.clear()
    app.open_slots.clear()


def kill_all(ledger: Ledger, out: Outcome, app: Application, now: float, reason: str) -> None:
    """Delete every placeholder; those on their way are deleted when they are seen."""
    forget_all(ledger, out, app)
    for task in list(app.placeholders.values()):
        tasks.kill(ledger, out, task, now, reason)
