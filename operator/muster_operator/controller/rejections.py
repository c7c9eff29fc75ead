"""Pods that the kubelet rejects or that cannot be bound, and writes that are retried later.

Differs: YuniKorn gives the place of a refused member to whoever is next.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from msgspec.structs import replace

from muster_operator.controller import reporting, state, tasks
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
from muster_operator.model import limits, names
from muster_operator.model.commands import (
    CommandFailed,
    CommandSucceeded,
    FailPod,
    MarkResumed,
    Outcome,
    Result,
    SetCondition,
)
from muster_operator.model.core_requests import AllocationReleased, AllocationReported, AllocationSpec
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.states import AppState
from muster_si import keys

#: Makes the key of a place from the UID of the pod that was refused.
_MARK = "/place"


def pod_rejected(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """A kubelet refused the pod. To be called before the core is told that it is gone."""
    app, node = ledger.applications.get(task.app), task.node
    if app is None or node is None or not task.pod.kubelet_refusal:
        return
    is_kept = keep_place(ledger, out, task, now)
    is_free = keys.TAG_REQUIRED_NODE not in task.pod.tags
    if is_free and (is_kept or not task.pod.membership.placeholder):
        nodes = tasks.nodes_to_avoid(task.avoid, node)
        refused_before = app.refusals.setdefault(task.pod.membership.task_group, deque(maxlen=limits.GANG_REFUSALS))
        refused_before.append(NodeRefusals(nodes, now + ledger.settings.avoid_node_s))
    if app.gang is not None:
        _tell(ledger, out, app, task, is_kept=is_kept)


def keep_place(ledger: Ledger, out: Outcome, task: Task, now: float) -> bool:
    """Keep the place of a pod that loses its node for whoever takes it over; False if no gang is short without it."""
    app, node = ledger.applications.get(task.app), task.node
    if app is None or node is None or task.release is not None or not _is_short_without(ledger, app, task):
        return False
    key = _free_key(ledger, task)
    # It is kept from now on: that its pod had the node for long would end a time-out of placeholders at once.
    place = AllocationSpec(replace(ask_of(ledger, task), key=key, placeholder=True, originator=False), node)
    until = now + ledger.settings.keep_place_s
    group = task.pod.membership.task_group
    ledger.places[key] = KeptSlot(task.app, group, node, place, until)
    ledger.places_of.setdefault(task.app, {}).setdefault(group, set()).add(key)
    set_timer(ledger, Deadline(until, TimerKind.PLACE, key))
    out.news.append(AllocationReported(place))
    return True


def _free_key(ledger: Ledger, task: Task) -> PodUid:
    """Of a new place: who cannot be bound again and again may leave one on several nodes."""
    key, number = PodUid(task.uid + _MARK), 1
    while key in ledger.places:
        key, number = PodUid(f"{task.uid}{_MARK}{number}"), number + 1
    return key


def _is_short_without(ledger: Ledger, app: Application, task: Task) -> bool:
    """Whether the gang runs, and has fewer members of the group than it was promised when this one goes."""
    name = task.pod.membership.task_group
    group = app.gang.group(name) if app.gang is not None else None
    runs = app.state is AppState.RUNNING or (app.state is AppState.RESERVING and app.core_is_running)
    if group is None or not runs or app.originator.ref.uid in ledger.resumed or not state.holds_slot(task):
        return False
    left = app.member_counts.get(name, 0) - 1 + len(ledger.places_of.get(app.id, {}).get(name, ()))
    return left < group.min_member


def _tell(ledger: Ledger, out: Outcome, app: Application, task: Task, *, is_kept: bool) -> None:
    pod = task.pod
    note = f"the kubelet of node {task.node} refused pod {pod.ref.name} ({pod.kubelet_refusal})"
    if is_kept:
        note += (
            f"; its place is kept for {round(ledger.settings.keep_place_s)} s for another pod of task group "
            f"{pod.membership.task_group}"
        )
    reporting.warn_gang(out, app.originator.ref, names.ACTION_MEMBER_REJECTED, note)


def inherit(ledger: Ledger, app: Application, task: Task, now: float) -> None:
    """A pod joins: if it replaces a refused one of its task group, it keeps off the nodes that refused."""
    waiting = app.refusals.get(task.pod.membership.task_group)
    while waiting and waiting[0].until <= now:
        waiting.popleft()
    if waiting and task.node is None and keys.TAG_REQUIRED_NODE not in task.pod.tags:
        found = waiting.popleft()
        tasks.avoid_node(ledger, task, found.nodes, found.until)


def resume_rejected(ledger: Ledger, now: float) -> None:
    """A session begins and every application has its answer: places of gangs that are still there are told again with
    their nodes, the others are over.
    """
    for key, place in list(ledger.places.items()):
        app = ledger.applications.get(place.app)
        goes_on = app is not None and app.gang is not None and app.state is AppState.ACCEPTED
        if not goes_on or place.node not in ledger.nodes or place.until <= now:
            slot_taken(ledger, key)
        else:
            set_timer(ledger, Deadline(place.until, TimerKind.PLACE, key))


def slot_taken(ledger: Ledger, key: PodUid) -> None:
    """The core gave the place to a pod, or took it back."""
    place = ledger.places.pop(key, None)
    if place is None:
        return
    of_app = ledger.places_of[place.app]
    of_app[place.group].discard(key)
    if not of_app[place.group]:
        del of_app[place.group]
    if not of_app:
        del ledger.places_of[place.app]


def node_gone(ledger: Ledger, node: NodeName) -> None:
    """The core dropped the places with their node."""
    for key in [key for key, place in ledger.places.items() if place.node == node]:
        slot_taken(ledger, key)


def rejection_over(ledger: Ledger, app: Application) -> None:
    """The core does not know the application any more."""
    for key in [key for of_group in ledger.places_of.get(app.id, {}).values() for key in of_group]:
        slot_taken(ledger, key)


def give_up(ledger: Ledger, out: Outcome, key: PodUid, now: float) -> None:
    """Nobody came for the place in time; one that was taken, and is kept once more, has its own."""
    place = ledger.places.get(key)
    if place is not None and place.until <= now:
        slot_taken(ledger, key)
        out.news.append(AllocationReleased(place.app, key, message="the kept place was not used in time"))


#: Seconds until such a write is ordered again.
AGAIN_S: Final = 15.0


def write_answered(ledger: Ledger, result: Result, command: FailPod | MarkResumed | SetCondition, now: float) -> None:
    """One of these writes ended; if it may be done later, come back to it."""
    if isinstance(result, CommandSucceeded):
        return
    uid = command.originator.uid if isinstance(command, MarkResumed) else command.pod.uid
    if isinstance(command, SetCondition):
        if (task := ledger.tasks.get(uid)) is not None:
            task.told = None  # it is not there, so it may be written again
            if _may_pass(result):
                set_timer(ledger, Deadline(now + AGAIN_S, TimerKind.WAITING, uid))
    elif _may_pass(result):
        ledger.pending_writes.setdefault(uid, []).append(command)
        set_timer(ledger, Deadline(now + AGAIN_S, TimerKind.WRITE, uid))


def retry_writes(ledger: Ledger, out: Outcome, uid: PodUid) -> None:
    """Order what waits for this pod, if the pod is still there to be written to; one with a node does not fail."""
    commands, pod = ledger.pending_writes.pop(uid, ()), ledger.pods.get(uid)
    if pod is not None and not pod.has_ended:
        out.commands += [each for each in commands if isinstance(each, MarkResumed) or pod.node is None]


def _may_pass(result: Result) -> bool:
    return not isinstance(result, CommandFailed) or result.may_pass
