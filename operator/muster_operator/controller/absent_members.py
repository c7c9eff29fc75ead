"""Placeholder pods for the absent members of an Auto gang.

The core reserves a slot for each member. Controllers create pods in bursts, so the operator first waits until no member
has appeared or ended for ``gang.memberQuietPeriod``, at most ``gang.memberWait`` after the first such change. Then it
compares members and slots, and creates placeholder pods for absent members. If all slots have nodes, it waits longer
before it creates them, see `_creation_time`.

Modules that handle members, kept slots and placeholder pods call `changed`. See docs/internals/semantics.md, 16.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from muster_operator.controller import missing_members, placeholders, reporting, state, tasks
from muster_operator.controller.state import (
    Application,
    Deadline,
    Ledger,
    MemberWait,
    SlotState,
    Task,
    TimerKind,
    set_timer,
)
from muster_operator.model import messages, problems
from muster_operator.model.commands import Outcome
from muster_operator.model.core_messages import SchedulingStateChanged, TerminationType
from muster_operator.model.ids import AppId
from muster_operator.model.pods import GangDefinition, TaskGroup
from muster_operator.model.states import AppState, TaskState

_FILLING = frozenset({AppState.RESERVING, AppState.RUNNING})

#: Seconds until placeholder pods are created again after they could not be created or used. The pause doubles with each
#: failure up to a maximum, and is reset when a placeholder pod is bound.
_AGAIN_S, _LONGEST_PAUSE_S, _MOST_DOUBLED = 60.0, 600.0, 4

#: Maximum wait for members of a gang whose slots all have nodes, as a multiple of ``gang.memberWait``.
_LONGEST_WAIT: Final = 12

#: A placeholder pod in one of these states has no node.
_UNASSIGNED = frozenset({TaskState.PENDING, TaskState.SCHEDULING, TaskState.REJECTED})


def gang_of(ledger: Ledger, app: Application) -> GangDefinition | None:
    """The gang if it is an Auto gang whose slots may have placeholder pods, else None."""
    gang = app.gang
    if gang is None or not gang.is_auto or app.state not in _FILLING or app.originator.ref.uid in ledger.resumed:
        return None
    if not ledger.is_current(app):
        return None  # a later run has begun
    return gang


def begin(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """The core has accepted the application: adopts existing placeholder pods and starts to wait for members."""
    gang = gang_of(ledger, app)
    if gang is None:
        return
    for task in placeholders.adopt(app, gang, app.used_slots):
        tasks.kill(ledger, out, task, now, problems.surplus_placeholder())
    app.report.reached = reporting.count_placeholders(app)
    for task in app.placeholders.values():
        if task.state is TaskState.PENDING:
            tasks.submit(ledger, out, task, now)
    changed(ledger, app, now)


def changed(ledger: Ledger, app: Application, now: float) -> None:
    """A member appeared or ended, or the gang began to wait: compares members and slots after the quiet period."""
    missing_members.changed(ledger, app, now)
    gang = gang_of(ledger, app)
    if gang is None or all(_is_used(app, group) for group in gang.groups):
        return
    settings, wait = ledger.settings, app.member_wait
    if wait is None:
        _set_due(ledger, app, MemberWait(now, now, now + min(settings.member_quiet_s, settings.member_wait_s)))
        return
    wait.last = now
    if _has_pods(app) and now + settings.member_quiet_s < wait.due:
        wait.due = now + settings.member_quiet_s  # one of these pods may be surplus
        _set_due(ledger, app, wait)


def session_is_live(ledger: Ledger, now: float) -> None:
    """Restarts all waits for members, because members that appeared during recovery are processed only now."""
    for app in ledger.applications.values():
        if app.member_wait is not None:
            app.member_wait = None
            changed(ledger, app, now)


def _is_used(app: Application, group: TaskGroup) -> bool:
    """Whether no slot of the task group is left for an absent member."""
    return group.name in app.timed_out_groups or app.used_slots.get(group.name, 0) >= group.min_member


def _set_due(ledger: Ledger, app: Application, wait: MemberWait) -> None:
    app.member_wait = wait
    set_timer(ledger, Deadline(wait.due, TimerKind.MEMBERS, app.id))


def _has_pods(app: Application) -> bool:
    """Whether slots have placeholder pods, or will have them."""
    return bool(app.slots or app.creations.missing)


def on_timer(ledger: Ledger, out: Outcome, app_id: AppId, now: float) -> None:
    """Timer: compares members and slots, or waits longer if a member appeared or ended since the timer was set."""
    app = ledger.applications.get(app_id)
    if app is not None and app.has_virtual_slots_only and now >= app.pods_again_at:
        app.has_virtual_slots_only = False
        changed(ledger, app, now)
    wait = app.member_wait if app is not None else None
    if app is None or wait is None or now < wait.due:
        return  # it is the timer of an earlier application with this ID, or of an earlier end of this wait
    settings = ledger.settings
    due = min(wait.last + settings.member_quiet_s, wait.first + settings.member_wait_s)
    if now >= due:
        app.member_wait = None
        gang = gang_of(ledger, app)
        has_originator = app.originator.ref.uid in app.members  # it owns the pods, which are deleted with their owner
        if gang is None or not has_originator or state.is_namespace_terminating(ledger, app.namespace):
            return
        due = max(due, _creation_time(ledger, app, wait))
        if not _compare(ledger, out, app, gang, now, may_create=now >= due) or now >= due:
            return
    wait.due = due
    _set_due(ledger, app, wait)


def _creation_time(ledger: Ledger, app: Application, wait: MemberWait) -> float:
    """When absent members get placeholder pods.

    A gang that waits for nodes needs these pods so that an autoscaler adds nodes. If all slots have nodes, the pods
    only show other schedulers and autoscalers what is reserved, and members may appear slowly: a controller with many
    gangs, or with a limited request rate, creates a pod of each gang only every few seconds. Nodes can be
    missing for a running gang after a restart.
    """
    if not has_all_nodes(app):
        return wait.last
    member_wait_s = ledger.settings.member_wait_s
    return min(wait.last + member_wait_s, wait.first + _LONGEST_WAIT * member_wait_s)


def has_all_nodes(app: Application) -> bool:
    """Whether the core has completed the gang, so that it looks for no more nodes."""
    return app.core_is_running and not app.report.shortages


def originator_ended(ledger: Ledger, out: Outcome, app: Application) -> None:
    """Stops the creation of placeholder pods. `changed` plans them for the next originator."""
    if gang_of(ledger, app) is not None:
        placeholders.forget_unseen(ledger, out, app)


def _compare(
    ledger: Ledger, out: Outcome, app: Application, gang: GangDefinition, now: float, *, may_create: bool
) -> bool:
    """Creates placeholder pods for absent members, and deletes unassigned ones whose members appeared.

    ``may_create``: whether pods are created now. Returns whether members are absent.
    """
    waiting = Counter(task.pod.membership.task_group for task in app.members.values() if _waits(task))
    with_pods = Counter(slot.group for slot in app.slots.values())
    missing: dict[str, int] = {}
    surplus: dict[str, int] = {}
    for group in gang.groups:
        if group.name in app.timed_out_groups:
            continue
        taken = min(app.used_slots.get(group.name, 0), group.min_member) + waiting[group.name]
        pods = with_pods[group.name] + app.creations.missing.get(group.name, 0)
        absent = group.min_member - taken - pods
        without_pods = _slots_without_pods(ledger, app, group.name)
        if absent > without_pods:
            missing[group.name] = absent - without_pods
        elif absent < 0 and pods:
            surplus[group.name] = -absent
    if surplus:
        _delete_surplus(ledger, out, app, surplus, now)
    if missing and may_create and not app.has_virtual_slots_only:
        if not app.core_is_running:  # otherwise it would replace the event that the gang is reserved
            reporting.progress(out, app, messages.creating_placeholders(sum(missing.values()), gang.size))
        placeholders.add_creations(ledger, out, app, missing)
        placeholders.watch_creations(ledger, app, now)
    return bool(missing)


def _slots_without_pods(ledger: Ledger, app: Application, group: str) -> int:
    """Returns the number of slots without a member that get no placeholder pod.

    They are kept for the replacement of a member that lost its node, or a kubelet rejected their pod.
    """
    rejected = app.rejected_slots.get(group, 0) if has_all_nodes(app) else 0
    return rejected + len(ledger.places_of.get(app.id, {}).get(group, ()))


def _waits(task: Task) -> bool:
    """Whether the member will take a slot: it has no node, and it is not being deleted."""
    return task.node is None and not task.pod.terminating and not tasks.is_unverified(task.pod)


def _delete_surplus(ledger: Ledger, out: Outcome, app: Application, surplus: dict[str, int], now: float) -> None:
    """Removes placeholder pods without a node, those that do not exist yet first. ``surplus``: number by task group."""
    for group, count in surplus.items():
        planned = min(app.creations.missing.get(group, 0), count)
        if planned:
            surplus[group] -= planned
            app.creations.missing[group] -= planned
            if not app.creations.missing[group]:
                del app.creations.missing[group]
    _close_unseen(ledger, out, app, surplus)
    for task in list(app.placeholders.values()) if any(surplus.values()) else ():
        group = task.pod.membership.task_group
        if surplus.get(group, 0) and task.state in _UNASSIGNED:
            placeholders.close_slot(app, task.pod.ref.name)
            tasks.kill(ledger, out, task, now, problems.member_appeared())
            surplus[group] -= 1


def _close_unseen(ledger: Ledger, out: Outcome, app: Application, counts: dict[str, int]) -> None:
    """Removes slots without a seen pod. ``counts``: their maximum number by task group, reduced by the removed ones.

    If no slot waits for a creation any more, the queued ones are cancelled. Other pods are deleted when they are seen.
    """
    closed = 0
    for slot in [slot for slot in app.slots.values() if slot.state is not SlotState.SEEN]:
        if counts.get(slot.group, 0):
            placeholders.close_slot(app, slot.name)
            counts[slot.group] -= 1
            closed += 1
    if closed and not _needs_creations(app):
        placeholders.cancel_creations(ledger, out, app)


def _needs_creations(app: Application) -> bool:
    """Whether a slot still waits for the creation of its pod."""
    return app.creations.are_waiting or any(slot.state is SlotState.ORDERED for slot in app.slots.values())


def placeholder_ended(ledger: Ledger, app: Application, task: Task, now: float, *, had_slot: bool) -> None:
    """A placeholder pod has ended. If the core still has its slot, its member is absent again.

    If a kubelet rejected the pod and the core keeps its node for the slot, the slot gets no other pod until a member of
    the group gets a node.
    """
    if gang_of(ledger, app) is None:
        return
    group = task.pod.membership.task_group
    if had_slot and task.release is TerminationType.TIMEOUT:
        tasks.count_used_slot(ledger, app.id, group, 1)
    elif had_slot and task.release is None and task.pod.kubelet_refusal and has_all_nodes(app):
        app.rejected_slots[group] = app.rejected_slots.get(group, 0) + 1
    changed(ledger, app, now)


def slots_timed_out(ledger: Ledger, out: Outcome, change: SchedulingStateChanged, _now: float) -> None:
    """The core has released the slots of absent members of a task group: creates no more placeholder pods for it."""
    app, group = ledger.applications.get(change.app), change.key.removeprefix(f"{change.app}/")
    definition = app.gang.group(group) if app is not None and app.gang is not None else None
    if app is None or app.gang is None or definition is None or not app.gang.is_auto:
        return
    app.timed_out_groups.add(group)
    app.creations.missing.pop(group, None)
    _close_unseen(ledger, out, app, {group: len(app.slots)})


def stop_pods(ledger: Ledger, out: Outcome, app: Application, problem: str, now: float) -> None:
    """Stops the creation of placeholder pods after an error until the next attempt. The core keeps the slots."""
    if not app.has_virtual_slots_only:
        app.has_virtual_slots_only = True
        app.pods_again_at = now + min(_AGAIN_S * 2**app.pod_failures, _LONGEST_PAUSE_S)
        app.pod_failures = min(app.pod_failures + 1, _MOST_DOUBLED)
        set_timer(ledger, Deadline(app.pods_again_at, TimerKind.MEMBERS, app.id))
        reporting.post(out, app.originator.ref, messages.slots_without_pods(problem))
        placeholders.forget_unseen(ledger, out, app)


def request_rejected(ledger: Ledger, out: Outcome, app: Application, task: Task, problem: str, now: float) -> None:
    """The core rejected the request of a placeholder pod: deletes the pod, so that its slot can get another one later.

    In the other placement modes the gang is given up.
    """
    if gang_of(ledger, app) is not None:
        placeholders.close_slot(app, task.pod.ref.name)
        tasks.kill(ledger, out, task, now, problem)
