"""Pods that the kubelet rejects or that cannot be bound, and writes that are retried later.

Differs: YuniKorn gives the slot of a refused member to the next request.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from msgspec.structs import replace

from muster_operator.controller import absent_members, reporting, state, tasks
from muster_operator.controller.state import (
    Application,
    Deadline,
    KeptSlot,
    Ledger,
    NodeRefusals,
    Task,
    TimerKind,
    set_timer,
)
from muster_operator.controller.tasks import ask_of
from muster_operator.model import limits, messages, problems
from muster_operator.model.commands import (
    CommandFailed,
    CommandSucceeded,
    FailPod,
    MarkResumed,
    Outcome,
    Result,
    SetCondition,
)
from muster_operator.model.core_messages import AllocationReleased, AllocationReported, AllocationSpec
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.states import AppState
from muster_si import keys

#: Suffix of a kept slot's allocation key, after the UID of the pod that lost the slot.
_KEY_SUFFIX = "/place"


def pod_rejected(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """Handles a pod that its kubelet rejected. Call it before the release is sent to the core."""
    app, node = ledger.applications.get(task.app), task.node
    if app is None or node is None or not task.pod.kubelet_refusal:
        return
    is_kept = keep_place(ledger, out, task, now)
    if is_kept:
        tasks.count_node(ledger, task, -1)
    is_free = keys.TAG_REQUIRED_NODE not in task.pod.tags
    if is_free and (is_kept or not task.pod.membership.placeholder):
        nodes = tasks.nodes_to_avoid(task.avoid, node)
        refused_before = app.refusals.setdefault(task.pod.membership.task_group, deque(maxlen=limits.GANG_REFUSALS))
        refused_before.append(NodeRefusals(nodes, now + ledger.settings.avoid_node_s))
    if app.gang is not None:
        _report_rejection(ledger, out, app, task, is_kept=is_kept)


def keep_place(ledger: Ledger, out: Outcome, task: Task, now: float) -> bool:
    """Keeps the slot of a pod that loses its node for a replacement. Returns False if the gang does not need it."""
    app, node = ledger.applications.get(task.app), task.node
    if app is None or node is None or task.release is not None or not _is_short_without(ledger, app, task):
        return False
    if app.gang is not None and app.gang.is_auto and task.pod.membership.placeholder:
        return False  # the core keeps the slot itself
    key = _free_key(ledger, task)
    # The allocation has no time of the lost pod: an old time would make the placeholder timeout expire immediately.
    place = AllocationSpec(replace(ask_of(ledger, task), key=key, placeholder=True, originator=False), node)
    until = now + ledger.settings.keep_slot_s
    group = task.pod.membership.task_group
    ledger.places[key] = KeptSlot(task.app, group, node, place, until)
    ledger.places_of.setdefault(task.app, {}).setdefault(group, set()).add(key)
    set_timer(ledger, Deadline(until, TimerKind.PLACE, key))
    out.requests.append(AllocationReported(place))
    return True


def _free_key(ledger: Ledger, task: Task) -> PodUid:
    """An unused key for a kept slot. A pod whose bind fails repeatedly can leave slots on several nodes."""
    key, number = PodUid(task.uid + _KEY_SUFFIX), 1
    while key in ledger.places:
        key, number = PodUid(f"{task.uid}{_KEY_SUFFIX}{number}"), number + 1
    return key


def _is_short_without(ledger: Ledger, app: Application, task: Task) -> bool:
    """Whether the gang runs and has fewer members of the group than its minimum without this pod."""
    name = task.pod.membership.task_group
    group = app.gang.group(name) if app.gang is not None else None
    runs = app.state is AppState.RUNNING or (app.state is AppState.RESERVING and app.core_is_running)
    if group is None or not runs or app.originator.ref.uid in ledger.resumed or not state.holds_slot(task):
        return False
    remaining = app.member_counts.get(name, 0) - 1 + len(ledger.places_of.get(app.id, {}).get(name, ()))
    return remaining < group.min_member


def _report_rejection(ledger: Ledger, out: Outcome, app: Application, task: Task, *, is_kept: bool) -> None:
    node, pod, problem = task.node or "", task.pod.ref.name, task.pod.kubelet_refusal
    note = messages.member_rejected(node, pod, problem)
    if is_kept:
        seconds, group = round(ledger.settings.keep_slot_s), task.pod.membership.task_group
        note = messages.member_rejected_slot_kept(node, pod, problem, seconds, group)
    reporting.post(out, app.originator.ref, note)


def inherit(ledger: Ledger, app: Application, task: Task, now: float) -> None:
    """A new pod of a task group with rejected pods replaces one of them and avoids the nodes that rejected it."""
    waiting = app.refusals.get(task.pod.membership.task_group)
    while waiting and waiting[0].until <= now:
        waiting.popleft()
    if waiting and task.node is None and keys.TAG_REQUIRED_NODE not in task.pod.tags:
        found = waiting.popleft()
        tasks.avoid_node(ledger, task, found.nodes, found.until)


def resume_rejected(ledger: Ledger, now: float) -> None:
    """Recovery: keeps the slots of accepted gangs and drops the others.

    Called after every application was answered. The slots are reported with their nodes.
    """
    for key, place in list(ledger.places.items()):
        app = ledger.applications.get(place.app)
        is_accepted = app is not None and app.gang is not None and app.state is AppState.ACCEPTED
        if not is_accepted or place.node not in ledger.nodes or place.until <= now:
            slot_taken(ledger, key)
        else:
            set_timer(ledger, Deadline(place.until, TimerKind.PLACE, key))


def slot_taken(ledger: Ledger, key: PodUid) -> None:
    """Removes a kept slot, because the core gave it to a pod or does not have it."""
    place = ledger.places.pop(key, None)
    if place is None:
        return
    of_app = ledger.places_of[place.app]
    of_app[place.group].discard(key)
    if not of_app[place.group]:
        del of_app[place.group]
    if not of_app:
        del ledger.places_of[place.app]


def slot_ended(ledger: Ledger, key: PodUid, now: float) -> None:
    """Removes a kept slot that no pod has taken.

    If all slots of the gang have nodes, the gang loses this slot. Otherwise the core requests it again for an absent
    member.
    """
    place = ledger.places.get(key)
    if place is None:
        return
    slot_taken(ledger, key)
    app = ledger.applications.get(place.app)
    if app is not None and absent_members.has_all_nodes(app):
        tasks.count_used_slot(ledger, place.app, place.group, 1)
    elif app is not None:
        absent_members.changed(ledger, app, now)


def node_gone(ledger: Ledger, node: NodeName, now: float) -> None:
    """Removes the kept slots of a deleted node, which the core dropped with the node."""
    for key in [key for key, place in ledger.places.items() if place.node == node]:
        slot_ended(ledger, key, now)


def rejection_over(ledger: Ledger, app: Application) -> None:
    """Removes the kept slots of an application that the core has removed."""
    for key in [key for of_group in ledger.places_of.get(app.id, {}).values() for key in of_group]:
        slot_taken(ledger, key)


def release_slots(ledger: Ledger, out: Outcome, app: Application) -> None:
    """Releases the kept slots of an application whose next run has begun, although some of its pods still terminate."""
    for key in [key for of_group in ledger.places_of.get(app.id, {}).values() for key in of_group]:
        slot_taken(ledger, key)
        out.requests.append(AllocationReleased(app.id, key, message=problems.application_ended()))


def give_up(ledger: Ledger, out: Outcome, key: PodUid, now: float) -> None:
    """Timer: releases a kept slot that was not used in time. A slot that was kept again has a later timer.

    In an Auto gang it becomes the slot of an absent member, which can get a placeholder pod.
    """
    place = ledger.places.get(key)
    if place is not None and place.until <= now:
        slot_taken(ledger, key)
        out.requests.append(AllocationReleased(place.app, key, message="the reserved slot was not used in time"))
        if (app := ledger.applications.get(place.app)) is not None:
            absent_members.changed(ledger, app, now)


#: Seconds until a failed write is sent again.
AGAIN_S: Final = 15.0


def write_answered(ledger: Ledger, result: Result, command: FailPod | MarkResumed | SetCondition, now: float) -> None:
    """Handles the result of such a write. If it failed with a temporary error, sets a timer for the next attempt."""
    if isinstance(result, CommandSucceeded):
        return
    uid = command.originator.uid if isinstance(command, MarkResumed) else command.pod.uid
    if isinstance(command, SetCondition):
        if (task := ledger.tasks.get(uid)) is not None:
            task.reported_condition = None  # the condition was not written, so it can be sent again
            if _may_pass(result):
                set_timer(ledger, Deadline(now + AGAIN_S, TimerKind.WAITING, uid))
    elif _may_pass(result):
        ledger.pending_writes.setdefault(uid, []).append(command)
        set_timer(ledger, Deadline(now + AGAIN_S, TimerKind.WRITE, uid))


def retry_writes(ledger: Ledger, out: Outcome, uid: PodUid) -> None:
    """Sends the pending writes of a pod that exists and has not ended. A bound pod is not set to Failed."""
    commands, pod = ledger.pending_writes.pop(uid, ()), ledger.pods.get(uid)
    if pod is not None and not pod.has_ended:
        out.commands += [each for each in commands if isinstance(each, MarkResumed) or pod.node is None]


def _may_pass(result: Result) -> bool:
    return not isinstance(result, CommandFailed) or result.may_pass
