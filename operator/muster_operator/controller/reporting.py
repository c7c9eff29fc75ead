"""Kubernetes events and pod conditions.

`conditions` says what a condition says, from the core's reasons. It is written only if it differs from the present one,
and repeated events are suppressed for some time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Final

from muster_operator.controller import conditions, pod_groups, state
from muster_operator.controller.conditions import WAITING_STATES
from muster_operator.controller.isolation import isolate
from muster_operator.controller.state import (
    Application,
    Deadline,
    Ledger,
    SlotState,
    Task,
    TimerKind,
    set_timer,
)
from muster_operator.model import messages
from muster_operator.model.commands import Outcome, SetCondition
from muster_operator.model.core_messages import CoreEvent, EventKind, SchedulingState, SchedulingStateChanged
from muster_operator.model.event_texts import Note
from muster_operator.model.ids import AppId, NodeName, PodUid
from muster_operator.model.pods import Condition, Placement, PodRef
from muster_operator.model.states import AppState, TaskState


def post(out: Outcome, pod: PodRef, note: Note, series: str = "") -> None:
    """Posts an event on a pod. Events with the same non-empty ``series`` are one event."""
    out.commands.append(note.about(pod.namespace, pod.name, pod.uid, series))


def post_node(out: Outcome, node: NodeName, uid: str, note: Note) -> None:
    """Posts an event on a node."""
    out.commands.append(note.about("", node, uid))


def post_namespace(out: Outcome, name: str, note: Note) -> None:
    """Posts an event on a namespace."""
    out.commands.append(note.about("", name, ""))


def gang_series(app: AppId) -> str:
    """The series name of a gang's progress events."""
    return f"gang/{app}"


def progress(out: Outcome, app: Application, note: Note) -> None:
    """Posts a progress event of a gang in one series on the originator."""
    post(out, app.originator.ref, note, gang_series(app.id))


#: Number of condition writes of a pod without an increasing pause.
_FREE_WRITES: Final = 3
_LONGEST_WRITE_PAUSE_S: Final = 300.0

#: Seconds after a restart in which a condition with the same reason is not written again. All pods get their first
#: report then, and most of them differ from the condition in amounts only.
_FIRST_PAUSE_S: Final = 60.0


def pod_states_changed(ledger: Ledger, out: Outcome, changes: Iterable[SchedulingStateChanged], now: float) -> None:
    """The core reported why requests of pods wait, or that they do not wait any more.

    The conditions are written after all changes, because a request can have two: a reason and a reserved node. If the
    reason of a gang's placeholder changes, the condition of the originator, which contains it, changes with it.
    """
    changed: dict[PodUid, Task] = {}
    for change in changes:
        isolate(partial(_record_reason, changed=changed), ledger, out, change, now)
    for task in changed.values():
        isolate(update_pod_condition, ledger, out, task, now)
    for app_id in dict.fromkeys(task.app for task in changed.values() if task.pod.membership.placeholder):
        isolate(_placeholder_states_changed, ledger, out, app_id, now)


def _placeholder_states_changed(ledger: Ledger, out: Outcome, app_id: AppId, now: float) -> None:
    app = ledger.applications.get(app_id)
    is_shown = app is not None and app.state is AppState.RESERVING and app.report.shortage is not None
    if app is not None and is_shown and not conditions.is_reserving_in_core(app):
        _note_blocked_placeholder(app)
        _write_gang_conditions(ledger, out, app, now, all_members=False)


def _record_reason(
    ledger: Ledger, _out: Outcome, change: SchedulingStateChanged, _now: float, *, changed: dict[PodUid, Task]
) -> None:
    task = ledger.tasks.get(change.key)
    if task is None or task.state is not TaskState.SCHEDULING:
        return
    if change.state is SchedulingState.RESERVED:
        task.shortage = conditions.with_reserved_node(task.shortage, change)
    else:
        task.shortage = conditions.of_change(change)
    task.reason_kind = change.kind
    changed[task.uid] = task


def update_pod_condition(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """Writes the condition of a waiting pod if it has changed and the delay has passed. Otherwise sets a timer.

    Another reason is also an event, because `kubectl describe` shows no messages of conditions.
    """
    wanted, current = task.shortage, task.reported_condition or task.pod.condition
    if (
        wanted is None
        or task.state not in WAITING_STATES
        or wanted == current
        or _is_condition_unneeded(task, wanted, current)
    ):
        return
    settings = ledger.settings
    since = now if task.waits_since is None else task.waits_since
    due = since + settings.condition_delay_s
    is_renominated = current is not None and current.nominated_node != wanted.nominated_node
    if is_renominated:
        pass  # without a pause: an autoscaler could add a node that is not needed, or ignore the pod
    elif current is not None and current.reason == wanted.reason:
        is_earlier = task.reported_condition is None  # written before a restart
        pause = _FIRST_PAUSE_S if is_earlier else _pause(task, settings.condition_refresh_s)
        due = max(due, (since if is_earlier else task.reported_at) + pause)
    elif task.writes >= _FREE_WRITES:
        due = max(due, task.reported_at + _pause(task, settings.condition_delay_s))
    if now >= due:
        task.reported_condition, task.reported_at, task.writes = wanted, now, task.writes + 1
        out.commands.append(SetCondition(task.pod.ref, wanted.reason, wanted.message, wanted.nominated_node))
        if task.pod.membership.pod_group and _is_originator(ledger, task):
            pod_groups.unschedulable(ledger, out, task, wanted.message)
        is_other = current is None or current.reason != wanted.reason
        if is_other and not task.pod.membership.placeholder and _is_unposted(task, wanted.message, now):
            post(out, task.pod.ref, messages.failed_scheduling(wanted.message))
    elif not now < task.checked_at <= due:
        task.checked_at = due
        set_timer(ledger, Deadline(due, TimerKind.WAITING, task.uid))


def _is_originator(ledger: Ledger, task: Task) -> bool:
    app = ledger.applications.get(task.app)
    return app is not None and app.originator.ref.uid == task.uid


def _is_condition_unneeded(task: Task, wanted: Condition, current: Condition | None) -> bool:
    """Whether the condition is not needed: SchedulingSkipped on a placeholder.

    Only autoscalers read conditions of placeholders. SchedulingSkipped is written only to replace Unschedulable.
    """
    return (
        task.pod.membership.placeholder
        and wanted.reason == messages.SKIPPED
        and (current is None or current.reason != messages.UNSCHEDULABLE)
    )


def _pause(task: Task, first: float) -> float:
    return min(first * 2.0 ** max(0, min(task.writes, 30) - _FREE_WRITES), max(first, _LONGEST_WRITE_PAUSE_S))


#: Seconds between two checks of a gang. They double up to the maximum.
FIRST_CHECK_S: Final = 2.0
_LONGEST_GANG_PAUSE_S: Final = 60.0

#: From this pause on, a gang that waits only for the operator's writes gets a condition on its originator. Its other
#: members follow at the maximum pause, because their conditions would delay the writes of other gangs.
_OWN_WRITES_PAUSE_S: Final = 32.0
_REPORTED_STATES: Final = frozenset({AppState.SUBMITTED, AppState.ACCEPTED, AppState.RESERVING, AppState.RUNNING})


def watch_progress(ledger: Ledger, app: Application, now: float, pause: float = FIRST_CHECK_S) -> None:
    """Sets the timer for the next progress check of the gang."""
    app.report.check_pause = pause
    set_timer(ledger, Deadline(now + pause, TimerKind.GANG, app.id))


def check_progress(ledger: Ledger, out: Outcome, app_id: AppId, now: float) -> None:
    """Timer: posts the progress since the last check. Without progress, writes the reason as pod conditions."""
    app = ledger.applications.get(app_id)
    if app is None or app.state is not AppState.RESERVING or state.is_namespace_terminating(ledger, app.namespace):
        return
    if app.gang is not None and app.gang.placement is not Placement.DIRECT and not app.report.shortages:
        _note_blocked_placeholder(app)
    report, reached = app.report, count_placeholders(app)
    bound = reached[1]
    if reached == report.reached:
        waits_for_writes = _waits_for_own_writes(app)
        if not waits_for_writes or report.check_pause >= _OWN_WRITES_PAUSE_S:
            is_for_all = not waits_for_writes or report.check_pause >= _LONGEST_GANG_PAUSE_S
            _write_gang_conditions(ledger, out, app, now, all_members=is_for_all)
    elif bound and bound != report.reached[1]:
        progress(out, app, messages.placeholders_bound(bound, app.wanted))
    if reached != report.reached and report.shortage is not None:
        _write_gang_conditions(ledger, out, app, now, all_members=False)
    report.reached = reached
    watch_progress(ledger, app, now, min(report.check_pause * 2, _LONGEST_GANG_PAUSE_S))


def count_placeholders(app: Application) -> tuple[int, int]:
    """Number of placeholders that were seen, and number that are bound."""
    seen = sum(slot.state is SlotState.SEEN for slot in app.slots.values())
    return seen, len(app.slots) - len(app.open_slots)


def _note_blocked_placeholder(app: Application) -> None:
    blocked = conditions.blocked_placeholder(app)
    app.report.shortage = blocked.shortage if blocked is not None else app.report.impossible
    app.report.kind = blocked.reason_kind if blocked is not None else ""


def _waits_for_own_writes(app: Application) -> bool:
    """Whether the gang waits only for writes of the operator: placeholders to be created, seen or bound."""
    if app.report.shortages:
        return False
    if any(task.state is TaskState.SCHEDULING and task.shortage is not None for task in app.placeholders.values()):
        return False
    seen, _ = count_placeholders(app)
    return seen < app.wanted or any(task.state is TaskState.ALLOCATED for task in app.placeholders.values())


def reservation_note(app: Application) -> Note:
    """The event of a complete reservation."""
    if conditions.is_reserving_in_core(app) and app.gang is not None:
        return messages.all_members_reserved(app.gang.size)
    return messages.all_placeholders_bound(len(app.slots))


def states_changed(ledger: Ledger, out: Outcome, changes: Iterable[SchedulingStateChanged], now: float) -> None:
    """The core reported why it cannot reserve for task groups, or that nothing blocks them any more.

    Reports before the first check are shown at the first check, because most gangs are reserved by then. A report can
    arrive before the application is accepted, because it uses another stream (docs/internals/semantics.md, 1). After a
    restart a gang with a bound member runs, and waits for the reservation of the other members.
    """
    changed: dict[AppId, Application] = {}
    for change in changes:
        isolate(partial(_record_shortage, changed=changed), ledger, out, change, now)
    for app in changed.values():
        isolate(_shortage_changed, ledger, out, app, now)


def _shortage_changed(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    before = conditions.all_of_gang(app)
    app.report.shortage, app.report.kind = conditions.first_shortage(app) or (app.report.impossible, "")
    if not app.report.shortages:
        _clear_conditions(app, before)
    elif app.state is AppState.RUNNING or (app.state is AppState.RESERVING and app.report.check_pause > FIRST_CHECK_S):
        _write_gang_conditions(ledger, out, app, now)


def _record_shortage(
    ledger: Ledger, _out: Outcome, change: SchedulingStateChanged, _now: float, *, changed: dict[AppId, Application]
) -> None:
    """Records the reason of a gang whose reservations the core keeps, and the gang if the reason has changed.

    The core reports a reason again when it requests the slot of an ended placeholder pod again.
    """
    app = ledger.applications.get(change.app)
    group = change.key.removeprefix(f"{change.app}/")
    if app is None or app.state not in _REPORTED_STATES or app.gang is None or app.gang.group(group) is None:
        return
    if change.state is SchedulingState.RESERVED:  # by preemption: no node has to be added for the members
        why: Condition | None = Condition(messages.SKIPPED, change.reason)
    else:
        why = conditions.of_change(change)
    before = app.report.shortages.pop(group, None)
    after = None if why is None else (why, change.kind)
    if after is not None:
        app.report.shortages[group] = after
    if after != before:
        changed[app.id] = app


def joined(ledger: Ledger, out: Outcome, app: Application, task: Task, now: float) -> None:
    """A member joined a gang without placeholder pods that waits: gives the pod the condition of the gang."""
    if conditions.is_reserving_in_core(app) and app.report.check_pause != FIRST_CHECK_S:
        task.shortage = conditions.of_gang(app, task, "")
        update_pod_condition(ledger, out, task, now)


def reservation_over(app: Application) -> None:
    """The gang does not wait for a reservation without placeholder pods any more. Each member waits for itself."""
    if conditions.is_reserving_in_core(app):
        _clear_conditions(app, conditions.all_of_gang(app))
        app.report.shortages.clear()


def _clear_conditions(app: Application, gang_conditions: set[Condition | None]) -> None:
    for task in app.members.values():
        if task.shortage in gang_conditions:
            task.shortage = None


def cannot_fit(ledger: Ledger, out: Outcome, app: Application, message: str, now: float) -> None:
    """The gang would not fit even if the nodes were empty. Writes this condition on the originator without a delay."""
    ledger.unsatisfiable.add(app.id)
    app.report.impossible = Condition(messages.UNSCHEDULABLE, message)
    app.report.shortage = app.report.shortage or app.report.impossible
    task = ledger.tasks.get(app.originator.ref.uid)
    if task is not None and app.state is AppState.RESERVING:
        task.waits_since = now - ledger.settings.condition_delay_s
        task.shortage = conditions.impossible_condition(app, message)
        update_pod_condition(ledger, out, task, now)


def members_missing(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """The gang waits for members that nothing creates, or for no such members any more. Writes it without a delay."""
    task = app.members.get(app.originator.ref.uid)
    if task is not None:
        since = now - max(ledger.settings.condition_delay_s, ledger.settings.condition_refresh_s)
        task.waits_since, task.reported_at, task.writes = since, since, 0
    _write_gang_conditions(ledger, out, app, now, all_members=False)


def may_fit(ledger: Ledger) -> None:
    """Nodes have changed: drops all conditions that a gang cannot fit, until the core reports them again."""
    for app_id in ledger.unsatisfiable:
        app = ledger.applications[app_id]
        app.report.shortage = None if app.report.shortage == app.report.impossible else app.report.shortage
        app.report.impossible = None
    ledger.unsatisfiable.clear()


def _write_gang_conditions(
    ledger: Ledger, out: Outcome, app: Application, now: float, *, all_members: bool = True
) -> None:
    """Writes the reason why the gang waits as conditions of all its pods, or only of the originator."""
    in_core = conditions.is_reserving_in_core(app)
    waiting = WAITING_STATES if in_core else {TaskState.PENDING}
    kind = _shown_kind(app, now) if all_members and not in_core else ""
    originator = app.members.get(app.originator.ref.uid)
    others = [task for task in app.members.values() if task is not originator] if in_core or all_members else []
    for task in others if originator is None else [originator, *others]:
        if task.state in waiting:
            _wait(ledger, out, task, conditions.of_gang(app, task, kind), now)


def _shown_kind(app: Application, now: float) -> str:
    """The kind of the reason that members other than the originator show.

    A large gang has many members, so their condition changes rarely: if the kind was the same at the last two checks,
    and to each kind at most once per hour.
    """
    kind, report = conditions.kind_of(app), app.report
    shown = next(reversed(report.shown_kinds), None)
    is_lasting = kind == report.last_kind and now >= report.shown_kinds.get(kind, -EVENT_TTL_S) + EVENT_TTL_S
    if shown is None or (kind != shown and is_lasting):
        report.shown_kinds.pop(kind, None)
        report.shown_kinds[kind], shown = now, kind
    report.last_kind = kind
    return shown or ""


def _wait(ledger: Ledger, out: Outcome, task: Task, why: Condition, now: float) -> None:
    if task.waits_since is None:
        task.waits_since = now - ledger.settings.condition_delay_s
    task.shortage = why
    update_pod_condition(ledger, out, task, now)


#: Seconds that an API server keeps an event by default (kube-apiserver, --event-ttl).
EVENT_TTL_S: Final = 3600.0

#: Maximum number of remembered event messages per pod.
_CACHED_MESSAGES: Final = 8
_NUMBER: Final = re.compile(r"\d+(?:m|[KMGTP]i)?\b|\d+")


def report_core_event(ledger: Ledger, out: Outcome, event: CoreEvent, now: float) -> None:
    """Posts an event of the core on its pod, node or application. Events of queues are not posted."""
    match event.kind:
        case EventKind.REQUEST:
            task = ledger.tasks.get(PodUid(event.object_id))
            if task is not None and _is_unposted(task, event.message, now):
                _post_to_pod(out, task, event.message)
        case EventKind.APP:
            _application_event(ledger, out, event, now)
        case EventKind.NODE:
            node = ledger.nodes.get(NodeName(event.object_id))
            if node is not None:
                post_node(out, node.name, node.uid, messages.node_notice(event.message))
        case EventKind.QUEUE:
            return


def _post_to_pod(out: Outcome, task: Task, message: str) -> None:
    """Why the pod waits, or what of a pod with a node was ignored."""
    is_waiting = task.state in WAITING_STATES
    post(out, task.pod.ref, messages.failed_scheduling(message) if is_waiting else messages.ignored(message))


def _is_unposted(task: Task, message: str, now: float) -> bool:
    """Whether the event was not posted within the event lifetime. Messages that differ only in numbers are equal.

    After a restart nothing is remembered, and a message that the pod's condition contains counts as posted.
    """
    text = _NUMBER.sub("#", message)
    before = () if task.posted or not _is_in_condition(task, text) else ((text, now),)
    posted = {message_text: at for message_text, at in (*task.posted, *before) if now < at + EVENT_TTL_S}
    if text in posted:
        return False
    task.posted = (*posted.items(), (text, now))[-_CACHED_MESSAGES:]
    return True


def _is_in_condition(task: Task, text: str) -> bool:
    """Whether the condition of the pod has this message, apart from numbers."""
    condition = task.pod.condition
    return condition is not None and _NUMBER.sub("#", conditions.missing_resources(condition)) == text


def _application_event(ledger: Ledger, out: Outcome, event: CoreEvent, now: float) -> None:
    """Posts an event of an application. With a task group it means that the members do not fit on the nodes.

    An event of a gang that still reserves reports what it waits for.

    See docs/internals/semantics.md, 10.
    """
    app = ledger.applications.get(AppId(event.object_id))
    if app is None:
        return
    task = ledger.tasks.get(app.originator.ref.uid)
    if task is None or _is_unposted(task, event.message, now):
        is_incomplete = event.reference_id or (app.gang is not None and app.state is AppState.RESERVING)
        text = messages.gang_incomplete if is_incomplete else messages.application_problem
        post(out, app.originator.ref, text(event.message))
    if event.reference_id:
        cannot_fit(ledger, out, app, event.message, now)
