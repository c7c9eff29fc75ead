"""Slots of a gang with virtual placeholders: what each of them requests, and which placeholder pods have one.

The slot of a member whose request has arrived requests exactly what its pod requests. The slot of an absent member
requests what its task group declares (`match_members`); in an Auto gang, a placeholder pod may have it.
The number of slots of a task group changes only when a member takes one or a timeout releases it
(docs/internals/semantics.md, rule 16).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Final

from muster_core.model import messages
from muster_core.model.constraints import ANYWHERE
from muster_core.model.decisions import PlaceholderReplacement
from muster_core.model.ids import (
    AllocationKey,
    NodeId,
    TaskGroup,
    allocation_id,
    virtual_placeholder_key,
    virtual_slot_key,
)
from muster_core.model.limits import CLASSES_PER_GROUP
from muster_core.model.records import Change, Detail
from muster_core.model.specs import NO_VOLUMES, AskSpec, Member
from muster_core.model.states import ApplicationState
from muster_core.placement.plugins import node_properties
from muster_core.scheduling import gangs, ledger, lifecycle, reservations, selectors, victims
from muster_core.scheduling.commit import commit
from muster_core.state.applications import Allocation, Application, Ask
from muster_core.state.request_classes import AskClass, class_of
from muster_core.state.scheduler_state import Partition
from muster_core.state.snapshot import wanted


def match_members(partition: Partition, app: Application) -> bool:
    """Makes the requested slots of a reserving gang request what the pods of its present members request.

    Called before each plan of a gang with virtual placeholders. A member is present if its request waits. Slots without
    a present member request what the task group declares. Returns whether some slots request something else now.
    """
    is_changed = False
    present = _present(app)
    for member in app.spec.members:
        members, keys = present.get(member.group, {}), app.gang.asked_virtual.get(member.group, {})
        count = sum(app.asks[key].left for key in keys)
        is_changed |= _match_group(partition, app, member, _slots_of(partition, app, member, members, count))
    return is_changed


def _present(app: Application) -> dict[TaskGroup, dict[AskClass, int]]:
    """Returns the number of waiting members by task group and class."""
    found: dict[TaskGroup, dict[AskClass, int]] = {}
    for kind in app.waiting:
        if kind.group and not kind.placeholder:
            found.setdefault(kind.group, {})[kind] = wanted(app, kind, sys.maxsize)
    return found


#: Members of a gang with device claims. Each has claims of its own, and takes one search of all nodes.
_MEMBERS_WITH_DEVICES: Final = 1_024


def awaits_pods(app: Application) -> str:
    """Returns why the gang must not be planned yet, because of pods that have to appear or to end. Empty = it may."""
    return _awaits_members(app) or _awaits_deletion(app)


def _awaits_members(app: Application) -> str:
    """Returns why a gang with device claims waits: its devices are planned at once for all members or for none.

    An absent member has no claims yet.
    """
    present = _present(app)
    kinds = [kind for members in present.values() for kind in members]
    if not any(kind.pod_on_node.facts.devices for kind in kinds):
        return ""
    if len(kinds) > _MEMBERS_WITH_DEVICES:
        return f"{len(kinds)} members have device claims, the limit is {_MEMBERS_WITH_DEVICES}: use smaller gangs"
    asked = {group: sum(app.asks[key].left for key in keys) for group, keys in app.gang.asked_virtual.items()}
    there = sum(min(sum(present.get(group, {}).values()), count) for group, count in asked.items())
    total = sum(asked.values())
    if there >= total:
        return ""
    return f"waiting for the pods of all members, whose devices are allocated together: {there} of {total} exist"


def _awaits_deletion(app: Application) -> str:
    """Returns why the gang waits: placeholder pods have slots of members that appeared.

    The pods may request more than the placeholder pods. The resource manager deletes the placeholder pods.
    """
    virtual = sum(len(keys) for keys in app.gang.asked_virtual.values())
    if app.placeholder_asks == virtual:
        return ""
    pods = Counter(ask.spec.group for ask in app.asks.values() if ask.spec.placeholder and not ask.spec.is_virtual)
    for group, members in _present(app).items():
        slots = sum(app.asks[key].left for key in app.gang.asked_virtual.get(group, ()))
        if pods[group] and sum(members.values()) > slots:
            return messages.waiting_for_placeholder_deletion(group)
    return ""


#: Number of slots of one class, and the function that creates their request.
_Slots = tuple[int, Callable[[], AskSpec]]


def _slots_of(
    partition: Partition, app: Application, member: Member, members: Mapping[AskClass, int], count: int
) -> dict[AskClass, _Slots]:
    """Returns what the `count` slots of a task group request, by class.

    If more members are present than slots, those come last of which no more fit. Members beyond `CLASSES_PER_GROUP`
    classes are planned like absent ones, with the largest requests of all.
    """
    known = partition.unschedulable_classes
    classes = [(replace(kind, priority=member.priority, placeholder=True, as_usual=True), kind) for kind in members]
    if sum(members.values()) > count:
        classes.sort(key=lambda pair: (cached := known.get(pair[0])) is not None and not cached.room)
    found: dict[AskClass, _Slots] = {}
    has_devices = any(kind.pod_on_node.facts.devices for kind in members)
    for slot, kind in classes[: None if has_devices else CLASSES_PER_GROUP]:
        taken = min(members[kind], count)
        count -= taken
        if taken:
            found[slot] = taken, partial(_slot_of_member, app, member, kind)
    if count:
        spec = _slot_of_absent(app, member, members)
        slot = class_of(spec, as_usual=True, tags=partition.nodes.pods_on_nodes.tags.project(spec.tags))
        there, make = found.get(slot, (0, lambda: spec))
        found[slot] = there + count, make
    return found


def _slot_of_member(app: Application, member: Member, kind: AskClass) -> AskSpec:
    """Returns the request of a slot for waiting members of this class. All that decides its class is the pod's."""
    pod = app.asks[next(iter(app.waiting[kind]))].spec
    return replace(
        gangs.virtual_ask(app.spec, member),
        resources=pod.resources,
        constraints=pod.constraints,
        tags=pod.tags,
        avoid=pod.avoid,
        required_node=pod.required_node,
        placement=pod.placement,
        facts=pod.facts,
        home=pod.home,
    )


def _slot_of_absent(app: Application, member: Member, members: Mapping[AskClass, int]) -> AskSpec:
    """Returns the request of a slot for an absent member: what its task group declares, and what its siblings show.

    Pods of a task group usually come from one template, one after the other. So if present members request more of a
    resource than declared, the absent one is expected to request as much, and if they all have constraints where the
    task group declares none, it is expected to have them too.
    """
    spec = gangs.virtual_ask(app.spec, member)
    pods = [app.asks[next(iter(app.waiting[kind]))].spec for kind in members]
    if not pods:
        return spec
    resources, first = spec.resources, pods[0]
    for pod in pods:
        resources = resources.widened(pod.resources)
    if spec.constraints == ANYWHERE and all(pod.constraints == first.constraints for pod in pods):
        spec = replace(spec, constraints=first.constraints)
    if not spec.facts.concerns_others and len({(pod.facts.inter_pod, pod.facts.ports) for pod in pods}) == 1:
        # A declared image is that of placeholder pods. Preferences are not compared.
        spec = replace(spec, facts=replace(first.facts, volumes=NO_VOLUMES, devices=()), tags=first.tags)
    return replace(spec, resources=spec.resources if resources == spec.resources else resources)


def _match_group(partition: Partition, app: Application, member: Member, target: dict[AskClass, _Slots]) -> bool:
    """Requests so many slots of each class. Slots of the same class keep their requests and node reservations.

    Returns whether some slots changed.
    """
    current: Counter[AskClass] = Counter()
    for key in app.gang.asked_virtual.get(member.group, ()):
        current[app.asks[key].kind] += app.asks[key].left
    if current == {kind: count for kind, (count, _) in target.items()}:
        return False
    app.gang.checked_at = None
    for kind, (count, make) in target.items():
        if count > current[kind]:
            gangs.add_slots(partition, app, kind, make, count - current[kind])
    for kind, count in current.items():
        left, _ = target.get(kind, (0, None))
        if count > left:
            gangs.remove_slots(partition, app, kind, count - left)
    return True


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
    """Returns a virtual placeholder on a node that the pod may use, or None.

    A search without a result is not repeated for equal pods until a slot or a node changes.
    """
    gang = app.gang
    searched = spec.group, spec.constraints, spec.resources, partition.nodes.facts_epoch
    if gang.search_without_slot == searched:
        return None
    allowed, rows = node_properties.allowed(spec.constraints, partition.nodes), partition.nodes.rows
    too_small = None  # the slots of a task group usually share one object
    for node, names in gang.live_virtual_on.get(spec.group, {}).items():
        if node in spec.avoid or not allowed.item(rows.row(node)):
            continue
        for identity in names:
            slot = app.allocations[identity]
            if slot.spec.resources is too_small:
                continue
            if slot.spec.resources.covers(spec.resources):
                return slot
            too_small = slot.spec.resources
    if not spec.avoid:
        gang.search_without_slot = searched
    return None


def _search_last(app: Application, spec: AskSpec, chosen: NodeId) -> None:
    """Moves the nodes without a usable slot behind the others, so that they are not searched for each pod.

    Nodes that only this pod avoids are not moved.
    """
    by_node = app.gang.live_virtual_on[spec.group]
    useless = [node for node in takewhile(lambda node: node != chosen, by_node) if node not in spec.avoid]
    for node in useless:
        by_node[node] = by_node.pop(node)


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
        _search_last(app, ask.spec, slot.node)
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


def request_again(partition: Partition, app: Application, spec: AskSpec) -> None:
    """Requests a virtual placeholder for the slot of a placeholder pod whose request or allocation ends.

    It does so only while the gang reserves. Call it before the request is removed, so that the gang is not taken for
    complete in between.
    """
    if not app.spec.is_auto or not app.is_reserving or not spec.placeholder or spec.is_virtual:
        return
    surplus = app.gang.surplus.get(spec.group, 0)
    member = next((one for one in app.spec.members if one.group == spec.group), None)
    if surplus:
        app.gang.surplus[spec.group] = surplus - 1
    elif member is not None:
        virtual = gangs.virtual_ask(app.spec, member)
        key = _new_key(partition, app, spec.group)
        gangs.add_virtual_ask(partition, app, replace(virtual, key=key, max_allocations=1), app.submitted_ns)


def _new_key(partition: Partition, app: Application, group: TaskGroup) -> AllocationKey:
    return virtual_slot_key(virtual_placeholder_key(app.id, group), partition.next_number())


def schedule_individually(partition: Partition, app: Application, ask: Ask) -> None:
    """Gives up the replacement of a placeholder. Its request is scheduled like any other.

    The member of an Auto gang still has the slot of the placeholder. The slot must not be kept for another member when
    the placeholder ends.
    """
    placeholder = ask.replacement.placeholder if ask.replacement is not None else None
    ledger.unlink(partition, app, ask.spec.key)
    ledger.wait_again(partition, app, ask, as_usual=True)
    if app.spec.is_auto and placeholder is not None and placeholder in app.allocations:
        ask.given_up_for = placeholder
        app.gang.given_up_replacements[placeholder] = ask.spec.key


def end_given_up_replacement(partition: Partition, app: Application, ended: Allocation) -> bool:
    """Returns whether a member that was scheduled individually has used the slot of the ended placeholder.

    If the member still waits, it can take the slot now.
    """
    key = app.gang.given_up_replacements.pop(ended.id, None)
    ask = app.asks.get(key) if key is not None else None
    if ask is not None:
        ask.given_up_for = None
        ledger.wait_again(partition, app, ask, as_usual=False)
    return key is not None and ask is None


def forget_given_up_replacement(app: Application, ask: Ask) -> None:
    """The request is removed. If it is scheduled individually, its slot is free again."""
    if ask.given_up_for is not None:
        app.gang.given_up_replacements.pop(ask.given_up_for, None)


def keep_reserved(partition: Partition, app: Application, ended: Allocation, now_ns: int) -> bool:
    """Keeps the slot of a placeholder pod that ended although the core did not release it.

    In a complete gang, a virtual placeholder takes its node at once, so the resources are never free. Returns False
    if the slot is not kept: after the placeholder timeout, or because its node accepts no new pods.
    """
    if not app.spec.is_auto or ended.spec.is_virtual or not ended.spec.placeholder:
        return False
    gang = app.gang
    is_complete = gang.over and app.state is ApplicationState.RUNNING and gang.timer and not app.ending
    if not is_complete or is_timed_out(partition, app, now_ns) or not _allows(partition, ended.spec, ended.node):
        return False
    spec = replace(ended.spec, key=_new_key(partition, app, ended.spec.group), is_virtual=True)
    kept = Allocation(spec, allocation_id(spec.key, 0), ended.node, now_ns)
    selectors.join(partition, spec)
    ledger.book(partition, app, kept)
    partition.note_allocations(app, (kept,), Change.ADD, Detail.APP_ALLOC)
    ledger.hand_over(partition, app, ended, kept, now_ns)
    partition.scheduling.requeue(app)
    return True


def is_timed_out(partition: Partition, app: Application, now_ns: int) -> bool:
    """Whether the placeholder timer has expired."""
    gang = app.gang
    elapsed_ns = gang.elapsed_ns + (now_ns - gang.since_ns if gang.timer else 0)
    return elapsed_ns >= lifecycle.placeholder_timeout_ns(partition, app)


def release_surplus(partition: Partition, app: Application, found: Allocation, bound_ns: int, now_ns: int) -> None:
    """Releases a reported placeholder pod without a slot, because its gang was completed without it or has timed out.

    `bound_ns`: when the pod was bound; 0 = it is no pod, but the slot of a member (`release_virtual_placeholders`).
    """
    is_surplus = app.spec.is_auto and app.gang.over and found.spec.placeholder and bool(bound_ns)
    if is_surplus and found.releasing is None:
        answer = partition.outbox.answer(partition.rm)
        why = messages.placeholder_not_needed(app.name)
        victims.release_on_timeout(partition, app, [found], why, now_ns, answer)
