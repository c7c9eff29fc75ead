"""Slots of an Auto gang: a member without a pod has a virtual placeholder, or a placeholder pod that replaced it.

Handlers of requests and allocations call it. The number of slots of a task group changes only when a member takes one
or a timeout releases it (docs/internals/semantics.md, rule 16).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Final

from muster_core.model import messages
from muster_core.model.decisions import PlaceholderReplacement
from muster_core.model.ids import (
    AllocationKey,
    NodeId,
    TaskGroup,
    allocation_id,
    virtual_placeholder_key,
    virtual_slot_key,
)
from muster_core.model.records import Change, Detail
from muster_core.model.specs import AskSpec
from muster_core.model.states import ApplicationState
from muster_core.placement.filters import node_properties
from muster_core.scheduling import gangs, ledger, lifecycle, reservations, selectors
from muster_core.scheduling.commit import commit
from muster_core.state.applications import Allocation, Application, Ask
from muster_core.state.scheduler_state import Partition

#: Maximum number of virtual placeholders that are evaluated for one placeholder pod.
_MAX_TRIED: Final = 64


def refusal(spec: AskSpec) -> str:
    """Returns why a placeholder pod cannot be requested for the gang; empty = it can."""
    is_several = spec.placeholder and spec.max_allocations != 1
    return messages.one_placeholder_per_request(spec.max_allocations) if is_several else ""


def has_slot(partition: Partition, app: Application, spec: AskSpec) -> bool:
    """Whether a virtual placeholder can give its slot to a placeholder pod."""
    if app.is_reserving:
        return spec.group in app.gang.asked_virtual
    return _reserved_slot(partition, app, spec) is not None


def _reserved_slot(partition: Partition, app: Application, spec: AskSpec) -> Allocation | None:
    held = (app.allocations[identity] for identity in app.gang.live_virtual.get(spec.group, ()))
    for slot in islice(held, _MAX_TRIED):
        is_usable = slot.node not in spec.avoid and _allows(partition, spec, slot.node)
        if is_usable and slot.spec.resources.covers(spec.resources):
            return slot
    return None


def _allows(partition: Partition, spec: AskSpec, node: NodeId) -> bool:
    """Whether the node accepts new pods like this one. A drained node does not."""
    nodes = partition.nodes
    return bool(node_properties.allowed(spec.constraints, nodes)[nodes.rows.row(node)])


def take(partition: Partition, app: Application, ask: Ask, now_ns: int) -> None:
    """Gives the slot of a virtual placeholder to the pending request of a placeholder pod, which was added before.

    In a complete gang the pod gets the node of the slot at once.
    """
    slot = None if app.is_reserving else _reserved_slot(partition, app, ask.spec)
    if slot is not None:
        taken = PlaceholderReplacement(partition.id, app.id, ask.spec.key, slot.id, slot.node, same_node=True)
        commit(partition, taken, now_ns)
        return
    virtual = gangs.last_virtual_ask(app, ask.spec.group)
    if virtual is None:
        return
    reservation = partition.reservations.by_ask.get((app.id, virtual.spec.key))
    app.gang.groups[ask.spec.group].count -= 1
    gangs.drop_virtual_placeholder(partition, app, virtual)
    if (
        reservation is not None
        and virtual.spec.key not in app.asks
        and reservation.resources.covers(ask.spec.resources)
    ):
        reservations.put(partition, app, ask, reservation.node, now_ns, preemption=reservation.preemption)


def return_request(partition: Partition, app: Application, ask: Ask) -> None:
    """Requests a virtual placeholder for the slot of a placeholder pod whose request is about to be removed."""
    if app.spec.is_auto and app.is_reserving and ask.spec.placeholder and not ask.spec.is_virtual:
        _ask_again(partition, app, ask.spec.group)


def _ask_again(partition: Partition, app: Application, group: TaskGroup) -> None:
    surplus = app.gang.surplus.get(group, 0)
    member = next((one for one in app.spec.members if one.group == group), None)
    if surplus:
        app.gang.surplus[group] = surplus - 1
    elif member is not None:
        spec = gangs.virtual_ask(app.spec, member)
        key = _free_key(partition, app, group)
        gangs.add_virtual_ask(partition, app, replace(spec, key=key, max_allocations=1), app.submitted_ns)


def _free_key(partition: Partition, app: Application, group: TaskGroup) -> AllocationKey:
    base = virtual_placeholder_key(app.id, group)
    while True:
        key = virtual_slot_key(base, partition.next_number())
        if key not in app.asks and allocation_id(key, 0) not in app.allocations:
            return key


def keep_reserved(partition: Partition, app: Application, ended: Allocation, now_ns: int) -> bool:
    """Keeps the slot of a placeholder pod that ended although the core did not release it.

    In a complete gang, a virtual placeholder takes its node at once, so the resources are never free. Returns False
    if the slot is not kept: after the placeholder timeout, or because its node accepts no new pods.
    """
    if not app.spec.is_auto or ended.spec.is_virtual or not ended.spec.placeholder:
        return False
    gang = app.gang
    is_complete = gang.over and app.state is ApplicationState.RUNNING and gang.timer and not app.ending
    left_ns = lifecycle.placeholder_timeout_ns(partition, app) - gang.elapsed_ns - (now_ns - gang.since_ns)
    if not is_complete or left_ns <= 0 or not _allows(partition, ended.spec, ended.node):
        return False
    spec = replace(ended.spec, key=_free_key(partition, app, ended.spec.group), is_virtual=True)
    kept = Allocation(spec, allocation_id(spec.key, 0), ended.node, now_ns)
    selectors.join(partition, spec)
    ledger.book(partition, app, kept)
    partition.note_allocations(app, (kept,), Change.ADD, Detail.APP_ALLOC)
    ledger.hand_over(partition, app, ended, kept, now_ns)
    partition.requeue_one(app)
    return True


def ask_again(partition: Partition, app: Application, ended: Allocation) -> None:
    """Requests the slot of a lost placeholder pod again, while the gang reserves."""
    if app.spec.is_auto and app.is_reserving and ended.spec.placeholder and not ended.spec.is_virtual:
        _ask_again(partition, app, ended.spec.group)
