"""What the conditions of waiting pods say: pure functions of an application, its pods, and the core's reasons.

`reporting` decides when they are written. ``app.report`` has the reasons of a gang.

Differs: a placeholder that a quota or the order holds back gets no condition; its gang's members do.
"""

from __future__ import annotations

from typing import Final

from muster_operator.controller.state import Application, Task
from muster_operator.model import messages
from muster_operator.model.core_messages import SchedulingState, SchedulingStateChanged
from muster_operator.model.pods import Condition
from muster_operator.model.states import AppState, TaskState

_REASONS: Final = {
    SchedulingState.FAILED: messages.UNSCHEDULABLE,
    SchedulingState.SKIPPED: messages.SKIPPED,
}

#: States of pods that wait for their own request or for the reservation of their gang.
WAITING_STATES: Final = frozenset({TaskState.SCHEDULING, TaskState.PENDING})


def of_change(change: SchedulingStateChanged) -> Condition | None:
    """The condition of a pod in this state; None if the pod does not wait."""
    reason = _REASONS.get(change.state)
    return Condition(reason, change.reason or messages.waits()) if reason else None


def with_reserved_node(before: Condition | None, change: SchedulingStateChanged) -> Condition:
    """The condition of a pod with a reserved node. The pod still waits for resources, so autoscalers must see it.

    The missing resources stay in the message, because the core does not report them again. While preempted pods
    terminate for the pod, their node is nominated, as by kube-scheduler, so that autoscalers add no node.
    """
    shortage = missing_resources(before) if before and before.reason == messages.UNSCHEDULABLE else ""
    message = messages.node_reserved(shortage, change.reason) or messages.waits()
    return Condition(messages.UNSCHEDULABLE, message, change.preemption_node)


def missing_resources(condition: Condition) -> str:
    """The missing resources in the condition's message, without the reserved node."""
    return condition.message.partition(messages.RESERVED)[0]


def is_reserving_in_core(app: Application) -> bool:
    """Whether the core is reserving for the application without waiting for placeholder pods."""
    is_looked_for = app.state is AppState.RESERVING or (app.state is AppState.RUNNING and bool(app.report.shortages))
    return is_looked_for and app.gang is not None and app.gang.uses_virtual_placeholders


def blocked_placeholder(app: Application) -> Task | None:
    """The placeholder whose reason is shown for the gang; None if none waits. Missing nodes first, as in Direct."""
    short = [
        (task.shortage.reason != messages.UNSCHEDULABLE, task.uid)
        for task in app.placeholders.values()
        if task.state is TaskState.SCHEDULING and task.shortage is not None
    ]
    return app.placeholders[min(short)[1]] if short else None


def first_shortage(app: Application) -> tuple[Condition, str] | None:
    """The reason, and its kind, of the task group that is shown for the gang. Missing nodes first."""
    shortages = app.report.shortages
    first = min(shortages, key=lambda group: (shortages[group][0].reason != messages.UNSCHEDULABLE, group), default="")
    return shortages.get(first)


def of_gang(app: Application, task: Task, kind: str) -> Condition:
    """The reason why the gang waits, for one of its members. The originator has the details, the others the kind.

    `kind`: the one to show in the conditions of other members of a gang with placeholder pods.
    """
    if is_reserving_in_core(app):
        # After a restart the originator can have a node already, and then it does not wait.
        originator = app.members.get(app.originator.ref.uid)
        has_details = originator is None or originator is task or originator.state not in WAITING_STATES
        return _full_direct_condition(app) if has_details else _short_direct_condition(app)
    if task.uid == app.originator.ref.uid:
        return _originator_condition(app)
    return Condition(messages.SKIPPED, messages.member_waits(app.name, kind, app.originator.ref.name))


def all_of_gang(app: Application) -> set[Condition | None]:
    """Conditions that members have because of the gang."""
    return {_full_direct_condition(app), _short_direct_condition(app), app.report.impossible}


def _full_direct_condition(app: Application) -> Condition:
    shortage, impossible = app.report.shortage, app.report.impossible
    if impossible is not None and shortage is not None and shortage.reason == messages.UNSCHEDULABLE:
        return impossible
    reason = shortage.reason if shortage else messages.SKIPPED
    return Condition(reason, messages.gang_waits(app.name, _why(app)))


def _short_direct_condition(app: Application) -> Condition:
    """The reason in one sentence. Each member is `Unschedulable` for autoscalers, because there are no placeholders."""
    report = app.report
    reason = report.shortage.reason if report.shortage else messages.SKIPPED
    is_impossible = report.impossible is not None and reason == messages.UNSCHEDULABLE
    kind = messages.NO_NODES_EMPTY if is_impossible else kind_of(app)
    return Condition(reason, messages.member_waits(app.name, kind, app.originator.ref.name))


def _originator_condition(app: Application) -> Condition:
    """The reason why placeholders wait, for the originator. A quota takes precedence over missing nodes."""
    shortage, impossible = app.report.shortage, app.report.impossible
    if impossible is not None and shortage is not None and shortage.reason == messages.UNSCHEDULABLE:
        return impossible_condition(app, impossible.message)
    bound = len(app.slots) - len(app.open_slots)
    message = messages.originator_waits(app.name, bound, app.wanted, _why(app))
    return Condition(messages.SKIPPED, message)


def impossible_condition(app: Application, message: str) -> Condition:
    """The condition of the originator. An autoscaler must not add a node for it and for its placeholder."""
    return Condition(messages.UNSCHEDULABLE if is_reserving_in_core(app) else messages.SKIPPED, message)


def _why(app: Application) -> str:
    """The members that are missing, and what the gang waits for."""
    shortage = app.report.shortage
    return "; ".join(filter(None, (app.members_missing, shortage.message if shortage else "")))


def kind_of(app: Application) -> str:
    """The reason without names and amounts; empty = none is known."""
    shortage = app.report.shortage
    if shortage is None or shortage.reason == messages.UNSCHEDULABLE:
        return messages.NO_NODES if shortage else ""
    return messages.SHORT_REASONS.get(app.report.kind, "")
