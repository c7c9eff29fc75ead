"""Placeholder creations in windows: a gang has so many open at once, and so have all gangs of a namespace together.

A gang may want 10,000 placeholders and be given up after the first one. So only a window of them is ordered; the next
go out as earlier ones are answered, and what was ordered and not sent is cancelled when nobody waits for it any more.
Gangs of a namespace take turns. Only the book-keeping of creations; which are missing is said by ``gangs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster_operator.agent import telling, trust
from muster_operator.agent.ledger import Application, Creations, Ledger, NamespaceCreations, Slot, SlotState
from muster_operator.model import limits
from muster_operator.model import vocabulary as words
from muster_operator.model.commands import CancelCreations, CreatePlaceholder
from muster_operator.model.groups import PlaceholderSpec, TaskGroup
from muster_operator.model.ids import NodeName
from muster_operator.model.outcome import Outcome
from muster_operator.translate.placeholders import placeholder_name

#: Creations that one gang orders before the next one of its namespace has its turn.
_TURN: Final = 50
_NO_KEY: Final = (
    "placeholders wait for the signing key: Muster cannot read or create the Secret muster-signing; "
    "check the log and the permissions of the operator"
)


def want(ledger: Ledger, out: Outcome, app: Application, missing: Mapping[str, int]) -> None:
    """So many more placeholders of each task group are to be created."""
    app.creations.missing.update(missing)
    _go_on(ledger, out, app)


def order_again(ledger: Ledger, out: Outcome, app: Application, slots: list[Slot]) -> None:
    """Create these once more."""
    for slot in slots:
        slot.state = SlotState.ORDERED
        app.creations.again.append(slot.name)
    _go_on(ledger, out, app)


def order_instead(ledger: Ledger, out: Outcome, app: Application, lost: Slot, avoid: tuple[NodeName, ...]) -> None:
    """Another placeholder under a name that this gang has not used.

    Names of one group differ by ordinal, and adding the group's size keeps the ordinals of its members apart.
    """
    group = app.gang.group(lost.group) if app.gang else None
    if group is None:
        return
    ordinal = lost.ordinal + group.min_member
    while (name := _name(app, group.name, ordinal)) == lost.name or _is_taken(ledger, app, name):
        ordinal += group.min_member
    slot = Slot(name, group.name, ordinal, tries=lost.tries, avoid=avoid)
    app.slots[name] = slot
    app.open_slots.add(name)
    order_again(ledger, out, app, [slot])


def _go_on(ledger: Ledger, out: Outcome, app: Application) -> None:
    """Order what the windows have room for, now that the application may have more to create."""
    if app.creations.are_waiting:
        if ledger.keys is None:
            telling.warn_gang(out, app.originator.ref, words.ACTION_PLACEHOLDER_CREATE_FAILED, _NO_KEY)
        ledger.creations.setdefault(app.namespace, NamespaceCreations()).waiting.setdefault(app.id)
        _refill(ledger, out, app.namespace)


def answered(ledger: Ledger, out: Outcome, app: Application, name: str) -> None:
    """Close a finished creation, successful or not, and order the next one."""
    if name not in app.creations.open:
        return
    app.creations.open.remove(name)
    of_namespace = ledger.creations[app.namespace]
    of_namespace.open -= 1
    if app.creations.are_waiting:
        of_namespace.waiting.setdefault(app.id)
    _refill(ledger, out, app.namespace)


def cancel(ledger: Ledger, out: Outcome, app: Application) -> None:
    """Cancel all unsent placeholder creations of the application."""
    of_namespace = ledger.creations.get(app.namespace)
    if of_namespace is None:
        return
    if app.creations.open:
        out.commands.append(CancelCreations(app.id))
    of_namespace.open -= len(app.creations.open)
    of_namespace.waiting.pop(app.id, None)
    app.creations = Creations()
    _refill(ledger, out, app.namespace)


def keys_seen(ledger: Ledger, out: Outcome) -> None:
    """There are keys to sign with: order what waited for them."""
    for namespace in list(ledger.creations):
        _refill(ledger, out, namespace)


def _refill(ledger: Ledger, out: Outcome, namespace: str) -> None:
    of_namespace = ledger.creations[namespace]
    while ledger.keys is not None and of_namespace.waiting and of_namespace.open < limits.NAMESPACE_OPEN_CREATIONS:
        app_id = next(iter(of_namespace.waiting))
        del of_namespace.waiting[app_id]
        app = ledger.applications.get(app_id)
        if app is None:
            continue
        before = len(app.creations.open)
        room = min(limits.GANG_OPEN_CREATIONS - before, limits.NAMESPACE_OPEN_CREATIONS - of_namespace.open, _TURN)
        while len(app.creations.open) < before + room and _order_next(ledger, out, app):
            pass
        of_namespace.open += len(app.creations.open) - before
        if app.creations.are_waiting and len(app.creations.open) < limits.GANG_OPEN_CREATIONS:
            of_namespace.waiting[app_id] = None
    if not of_namespace.open and not of_namespace.waiting:
        del ledger.creations[namespace]


def _order_next(ledger: Ledger, out: Outcome, app: Application) -> bool:
    """Order the next creation of an application; False = there is none."""
    creations = app.creations
    while creations.again:
        slot = app.slots.get(creations.again.popleft())
        if slot is not None and slot.state is SlotState.ORDERED:
            return _order(ledger, out, app, slot)
    group = next(iter(creations.missing), None)
    if group is None:
        return False
    creations.missing[group] -= 1
    if not creations.missing[group]:
        del creations.missing[group]
    ordinal = creations.ordinals.get(group, 0)
    while _is_taken(ledger, app, name := _name(app, group, ordinal)):
        ordinal += 1
    creations.ordinals[group] = ordinal + 1
    app.slots[name] = slot = Slot(name, group, ordinal)
    app.open_slots.add(name)
    return _order(ledger, out, app, slot)


def _order(ledger: Ledger, out: Outcome, app: Application, slot: Slot) -> bool:
    group = app.gang.group(slot.group) if app.gang else None
    if group is not None:
        app.creations.open.add(slot.name)
        out.commands.append(CreatePlaceholder(_spec(ledger, app, group, slot)))
    return True


def _name(app: Application, group: str, ordinal: int) -> str:
    return placeholder_name(app.originator.ref.uid, app.name, group, ordinal)


def _is_taken(ledger: Ledger, app: Application, name: str) -> bool:
    """Whether a placeholder of the application has the name, or one that is on its way out."""
    return name in app.slots or name in app.placeholder_names or (app.namespace, name) in ledger.deleting


def _spec(ledger: Ledger, app: Application, group: TaskGroup, slot: Slot) -> PlaceholderSpec:
    pod = app.originator
    return PlaceholderSpec(
        name=slot.name,
        app=app.id,
        queue=app.queue,
        group=group,
        owner=pod.ref,
        scheduler_name=pod.scheduler_name,
        priority_class=pod.priority_class,
        image_pull_secrets=pod.image_pull_secrets,
        source=app.source,
        ordinal=slot.ordinal,
        signature=trust.sign_placeholder(ledger, app, group, slot.name, slot.ordinal),
    )
