"""Creation of placeholders and tracking of gang members.

The number of open creations is limited per gang and namespace. Existing placeholders are compared with the gang
definition, so that missing ones are created after a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace as dataclasses_replace
from types import MappingProxyType
from typing import Final

from muster_operator.controller import provisioning, reporting, tasks, trust
from muster_operator.controller.state import (
    Application,
    Creations,
    Deadline,
    Ledger,
    MemberWait,
    NamespaceCreations,
    Slot,
    SlotState,
    Task,
    TimerKind,
    set_timer,
)
from muster_operator.model import limits, messages, problems
from muster_operator.model.commands import CancelCreations, CreatePlaceholder, Outcome
from muster_operator.model.core_messages import TerminationType
from muster_operator.model.ids import AppId, NodeName, PodUid
from muster_operator.model.pods import GangDefinition, PlaceholderSpec, Pod, TaskGroup
from muster_operator.model.states import AppState, TaskEvent, TaskState
from muster_operator.translate.placeholders import placeholder_name, requests_text
from muster_operator.translate.present_members import PresentMembers, to_write
from muster_si import keys

#: Creations of one gang before the next gang of its namespace continues (round robin).
_BATCH: Final = 50


def add_creations(ledger: Ledger, out: Outcome, app: Application, missing: Mapping[str, int]) -> None:
    """Adds creations: so many placeholders of each task group."""
    for group, count in missing.items():
        app.creations.missing[group] = app.creations.missing.get(group, 0) + count
    _start_creations(ledger, out, app)


def retry_creation(ledger: Ledger, out: Outcome, app: Application, slots: list[Slot]) -> None:
    """Creates the placeholders of these slots again."""
    for slot in slots:
        slot.state = SlotState.ORDERED
        app.creations.again.append(slot.name)
    _start_creations(ledger, out, app)


def order_again(ledger: Ledger, out: Outcome, app: Application, slot: Slot) -> None:
    """Creates a placeholder whose creation has no result."""
    if slot.name in app.creations.open:
        _order(ledger, out, app, slot)
    else:
        retry_creation(ledger, out, app, [slot])


def order_replacement(
    ledger: Ledger, out: Outcome, app: Application, lost_slot: Slot, avoid: tuple[NodeName, ...]
) -> None:
    """Creates a placeholder in place of a lost one, under a name that this gang has not used.

    Names of one group differ by ordinal. Adding the group's size keeps the ordinals of its members distinct.
    """
    group = app.gang.group(lost_slot.group) if app.gang else None
    if group is None:
        return
    ordinal = lost_slot.ordinal + group.min_member
    while (name := _name(app, group.name, ordinal)) == lost_slot.name or _is_taken(ledger, app, name):
        ordinal += group.min_member
    slot = Slot(name, group.name, ordinal, tries=lost_slot.tries, avoid=avoid)
    app.slots[name] = slot
    app.open_slots.add(name)
    retry_creation(ledger, out, app, [slot])


def _start_creations(ledger: Ledger, out: Outcome, app: Application) -> None:
    """Starts pending creations as far as the limits allow."""
    if app.creations.are_waiting:
        if ledger.keys is None:
            reporting.post(out, app.originator.ref, messages.no_signing_key())
        ledger.creations.setdefault(app.namespace, NamespaceCreations()).waiting.setdefault(app.id)
        _refill(ledger, out, app.namespace)


def creation_answered(ledger: Ledger, out: Outcome, app: Application, name: str) -> None:
    """Handles the answer to a creation, successful or not, and sends the next one."""
    if name not in app.creations.open:
        return
    app.creations.open.remove(name)
    in_namespace = ledger.creations[app.namespace]
    in_namespace.open -= 1
    if app.creations.are_waiting:
        in_namespace.waiting.setdefault(app.id)
    _refill(ledger, out, app.namespace)


def cancel_creations(ledger: Ledger, out: Outcome, app: Application) -> None:
    """Cancels all creations of the application that have not been sent."""
    in_namespace = ledger.creations.get(app.namespace)
    if in_namespace is None:
        return
    if app.creations.open:
        out.commands.append(CancelCreations(app.id))
    in_namespace.open -= len(app.creations.open)
    in_namespace.waiting.pop(app.id, None)
    app.creations = Creations()
    _refill(ledger, out, app.namespace)


def keys_seen(ledger: Ledger, out: Outcome) -> None:
    """Signing keys are available: sends the creations that waited for them."""
    for namespace in list(ledger.creations):
        _refill(ledger, out, namespace)


def _refill(ledger: Ledger, out: Outcome, namespace: str) -> None:
    in_namespace = ledger.creations[namespace]
    while ledger.keys is not None and in_namespace.waiting and in_namespace.open < limits.NAMESPACE_OPEN_CREATIONS:
        app_id = next(iter(in_namespace.waiting))
        del in_namespace.waiting[app_id]
        app = ledger.applications.get(app_id)
        if app is None:
            continue
        before = len(app.creations.open)
        room = min(limits.GANG_OPEN_CREATIONS - before, limits.NAMESPACE_OPEN_CREATIONS - in_namespace.open, _BATCH)
        while len(app.creations.open) < before + room and _order_next(ledger, out, app):
            pass
        in_namespace.open += len(app.creations.open) - before
        if app.creations.are_waiting and len(app.creations.open) < limits.GANG_OPEN_CREATIONS:
            in_namespace.waiting[app_id] = None
    if not in_namespace.open and not in_namespace.waiting:
        del ledger.creations[namespace]


def _order_next(ledger: Ledger, out: Outcome, app: Application) -> bool:
    """Sends the next creation of an application. Returns False if there is none."""
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
    """Whether a placeholder of the application has the name, also if it is being deleted."""
    return name in app.slots or name in app.placeholder_names or (app.namespace, name) in ledger.deleting


def _spec(ledger: Ledger, app: Application, group: TaskGroup, slot: Slot) -> PlaceholderSpec:
    nodes_request = provisioning.request_name(ledger, app)
    return dataclasses_replace(
        provisioning.placeholder_template(app, group),
        name=slot.name,
        ordinal=slot.ordinal,
        signature=trust.sign_placeholder(ledger, app, app.effective(group), slot.name, slot.ordinal),
        nodes_request=nodes_request,
        provisioning_class=ledger.settings.provisioning_class if nodes_request else "",
    )


def member_seen(ledger: Ledger, out: Outcome, app: Application, gang: GangDefinition, pod: Pod, now: float) -> None:
    """Handles a waiting member of a Reserve gang: the placeholders of its group become as large as its members.

    Requests of placeholders that differ are withdrawn, so that these get no node before `follow_members` replaces them.
    """
    group = gang.group(pod.membership.task_group)
    is_waiting = pod.node is None and not pod.terminating and not pod.has_ended and not tasks.is_unverified(pod)
    if group is None or not is_waiting or app.state not in _FOLLOWS or not ledger.settings.placeholders_follow:
        return
    if app.present.setdefault(group.name, PresentMembers()).add(pod) and app.state is AppState.RESERVING:
        _members_changed(ledger, app, now)
        for task in app.placeholders.values():
            if task.state is TaskState.SCHEDULING and _is_outdated(app, task):
                tasks.release_from_core(out, task, TerminationType.STOPPED_BY_RM)
                tasks.step(task, TaskEvent.ROLL_BACK)
                task.shortage = None


def member_gone(ledger: Ledger, app: Application, uid: PodUid, now: float) -> None:
    """A member ended or got a node: the placeholders no longer have to be as large as it."""
    if any(present.remove(uid) for present in app.present.values()) and app.state is AppState.RESERVING:
        _members_changed(ledger, app, now)


def _members_changed(ledger: Ledger, app: Application, now: float) -> None:
    """The requests of placeholders may have changed: compares them after the quiet period."""
    if app.follow_wait is not None:
        app.follow_wait.last = now
    else:
        _set_due(ledger, app, MemberWait(now, now, now + _quiet_s(ledger, app)))


def _set_due(ledger: Ledger, app: Application, wait: MemberWait) -> None:
    app.follow_wait = wait
    set_timer(ledger, Deadline(wait.due, TimerKind.FOLLOW, app.id))


def _quiet_s(ledger: Ledger, app: Application) -> float:
    """Seconds without a change before placeholders are replaced. They double each time that this was necessary."""
    return ledger.settings.member_quiet_s * 2.0 ** min(app.follow_rounds, _MOST_DOUBLED)


def follow_members(ledger: Ledger, out: Outcome, app_id: AppId, now: float) -> None:
    """Timer: replaces the placeholders without a node that request more or less than their members need.

    Those with a node are kept. The gang waits until no member has changed this for the quiet period, so that many
    members cause one replacement of each placeholder.
    """
    app = ledger.applications.get(app_id)
    wait = app.follow_wait if app is not None else None
    if app is None or wait is None or now < wait.due:
        return  # it is the timer of an earlier application with this ID
    quiet_s = _quiet_s(ledger, app)
    wait.due = min(wait.last + quiet_s, wait.first + max(quiet_s, ledger.settings.member_wait_s))
    if now < wait.due:
        _set_due(ledger, app, wait)
        return
    app.follow_wait = None
    if app.gang is None or app.state is not AppState.RESERVING:
        return
    report_differences(out, app, app.gang)
    waiting = [task for task in app.placeholders.values() if task.state in {TaskState.PENDING, TaskState.SCHEDULING}]
    outdated = [task for task in waiting if _is_outdated(app, task)]
    app.follow_rounds += bool(outdated)
    for task in outdated:
        tasks.release_from_core(out, task, TerminationType.STOPPED_BY_RM)
        tasks.kill(ledger, out, task, now, problems.placeholder_outdated())
    for task in waiting:
        if task.state is TaskState.PENDING:
            submit(ledger, out, app, task, now)


_FOLLOWS: Final = frozenset({AppState.NEW, AppState.SUBMITTED, AppState.ACCEPTED, AppState.RESERVING})

#: Number of times that the quiet period doubles at most.
_MOST_DOUBLED: Final = 6


def _is_outdated(app: Application, task: Task) -> bool:
    """Whether the placeholder was created for members that request more or less than the present ones."""
    definition = app.gang.group(task.pod.membership.task_group) if app.gang is not None else None
    claim = task.pod.membership.claim
    if definition is None or claim is None:
        return False
    group, own = app.effective(definition), task.pod.resources
    return claim.requests != requests_text(group) and any(
        group.min_resource.get(name, 0) != own.get(name, 0)
        for name in group.min_resource.keys() | own.keys()
        if name != keys.PODS
    )


def pair_existing(app: Application) -> None:
    """Pairs existing placeholders with members after a restart, in the order of creation, those with a node first."""
    found = app.placeholders.values() if app.present else ()
    for task in sorted(found, key=lambda task: (task.node is None, len(task.pod.ordinal), task.pod.ordinal)):
        if (present := app.present.get(task.pod.membership.task_group)) is not None:
            present.pair(task.uid)


def submit(ledger: Ledger, out: Outcome, app: Application, task: Task, now: float) -> None:
    """Requests a node for a placeholder, or replaces the placeholder because its members request more or less.

    While members appear, it waits for `follow_members`, because it could be replaced several times.
    """
    if _is_outdated(app, task):
        if app.follow_wait is None:
            tasks.kill(ledger, out, task, now, problems.placeholder_outdated())
        return
    if (present := app.present.get(task.pod.membership.task_group)) is not None:
        present.pair(task.uid)
    tasks.submit(ledger, out, task, now)


def report_differences(out: Outcome, app: Application, gang: GangDefinition) -> None:
    """Reports once per task group, and again if members need more, how its placeholders differ from its definition."""
    for group in gang.groups:
        present = app.present.get(group.name)
        if present is None or not group.min_member:
            continue
        differences, fields = to_write(group, app.effective(group))
        kept = ", ".join(present.only_reserved_by_scheduler(group))
        for note in (
            messages.placeholders_follow(group.name, differences, fields) if differences else None,
            messages.scheduler_follows(group.name, kept) if kept else None,
        ):
            if note is not None and note.text not in app.mismatches:
                app.mismatches.add(note.text)
                reporting.post(out, app.originator.ref, note)


#: Number of creations of one placeholder without it being seen, after which the gang is given up.
MAX_CREATES: Final = 5


def adopt(app: Application, gang: GangDefinition, used: Mapping[str, int] = MappingProxyType({})) -> list[Task]:
    """Gives each existing placeholder a slot, bound ones first. Returns surplus placeholders.

    ``used``: slots that placeholders cannot have, by task group.
    """
    room = {group.name: max(group.min_member - used.get(group.name, 0), 0) for group in gang.groups}
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


def reserve(ledger: Ledger, out: Outcome, app: Application, gang: GangDefinition, now: float) -> None:
    """Creates the missing placeholders and submits requests for the existing ones."""
    for task in adopt(app, gang):
        tasks.kill(ledger, out, task, now, problems.surplus_placeholder())
    app.report.reached = reporting.count_placeholders(
        app
    )  # the operator that led before has reported these placeholders
    report_differences(out, app, gang)
    if ordered := order_missing(ledger, out, app, gang, now):
        reporting.progress(out, app, messages.creating_placeholders(ordered, gang.size))
    for task in list(app.placeholders.values()):
        if task.state is TaskState.PENDING:
            submit(ledger, out, app, task, now)


def order_missing(ledger: Ledger, out: Outcome, app: Application, gang: GangDefinition, now: float) -> int:
    """Starts the creation of missing placeholders. Returns their number."""
    there = Counter(slot.group for slot in app.slots.values())
    missing = {group.name: group.min_member - there[group.name] for group in gang.groups}
    missing = {group: count for group, count in missing.items() if count > 0}
    add_creations(ledger, out, app, missing)
    if missing:
        watch_creations(ledger, app, now)
    return sum(missing.values())


def watch_creations(ledger: Ledger, app: Application, now: float) -> None:
    """Sets a timer to check whether all created placeholders have been seen, unless it is set already."""
    if app.creations_checked_at <= now:
        app.creations_checked_at = now + ledger.settings.create_retry_s
        set_timer(ledger, Deadline(app.creations_checked_at, TimerKind.CREATIONS, app.id))


def take_slot(ledger: Ledger, app: Application, task: Task, now: float) -> bool:
    """Marks the slot of a new placeholder as seen. Returns False if no slot waits for it."""
    slot = app.slots.get(task.pod.ref.name)
    if slot is None or slot.state is SlotState.SEEN:
        return False
    slot.state = SlotState.SEEN
    tasks.avoid_node(ledger, task, slot.avoid, now + ledger.settings.avoid_node_s)
    return True


def close_slot(app: Application, name: str) -> Slot | None:
    """Removes the slot of a placeholder that is gone or not needed any more."""
    app.open_slots.discard(name)
    return app.slots.pop(name, None)


def ended(app: Application, task: Task) -> Slot | None:
    """Removes an ended placeholder. Returns the slot that it had."""
    app.placeholders.pop(task.uid, None)
    app.placeholder_names.discard(task.pod.ref.name)
    if (present := app.present.get(task.pod.membership.task_group)) is not None:
        present.part(task.uid)
    return close_slot(app, task.pod.ref.name)


def replace(ledger: Ledger, out: Outcome, app: Application, lost_slot: Slot, task: Task, now: float) -> None:
    """Creates a new placeholder for a lost one. It avoids a node whose kubelet rejected the old one.

    See docs/internals/semantics.md, 5.
    """
    avoid = task.avoid
    if task.pod.kubelet_refusal and task.node is not None:
        avoid = tasks.nodes_to_avoid(avoid, task.node)
    order_replacement(ledger, out, app, lost_slot, avoid)
    watch_creations(ledger, app, now)


def retry_placeholder(ledger: Ledger, out: Outcome, app: Application) -> Slot | None:
    """Creates placeholders again that were created and not seen. Returns a slot with too many attempts, or None.

    If the API server reports that the name exists and no such placeholder is seen, another pod has the name. In that
    case a new name is used.
    """
    again: list[Slot] = []
    lost_slot: Slot | None = None
    for slot in list(app.slots.values()):
        if slot.state is SlotState.CREATED and not slot.is_taken:
            slot.state = SlotState.LATE
        elif slot.state in {SlotState.CREATED, SlotState.LATE}:
            if slot.tries >= MAX_CREATES:
                lost_slot = slot
                break
            slot.tries += 1
            if slot.is_taken:
                close_slot(app, slot.name)
                order_replacement(ledger, out, app, slot, slot.avoid)
            else:
                again.append(slot)
    retry_creation(ledger, out, app, again)
    return lost_slot


def forget_unseen(ledger: Ledger, out: Outcome, app: Application) -> None:
    """Cancels creations and removes the slots of pods that were not seen. Such pods are deleted when they are seen."""
    cancel_creations(ledger, out, app)
    for name in list(app.open_slots):
        if app.slots[name].state is not SlotState.SEEN:
            close_slot(app, name)


def forget_all(ledger: Ledger, out: Outcome, app: Application) -> None:
    """Cancels all creations and removes all slots, because the reservation has ended."""
    provisioning.withdraw(ledger, out, app)
    cancel_creations(ledger, out, app)
    app.slots.clear()
    app.open_slots.clear()


def kill_all(ledger: Ledger, out: Outcome, app: Application, now: float, reason: str) -> None:
    """Deletes every placeholder. Those that are not seen yet are deleted when they are seen."""
    forget_all(ledger, out, app)
    for task in list(app.placeholders.values()):
        tasks.kill(ledger, out, task, now, reason)
