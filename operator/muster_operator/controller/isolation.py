"""Isolation of failures: an item whose handler raises an exception is skipped alone.

`isolate` handles each event, part of a message, result, timer and object, in a live session and in a recovery.
What fails is logged, counted and reported on its object (`InternalError`). Requests and commands from before the
exception are kept, because each of them matches a change of the state. What the handler did not do is unknown, so
after a pause a recovery computes the state of all objects again; a repair for each handler would need its own rules.
The pause grows with each recovery that the same object causes, so that an object that always fails does not stop
scheduling, and delays the recovery of another one by a minute at most.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from muster_operator.controller.state import Deadline, Ledger, TimerKind, set_timer
from muster_operator.model import limits, messages
from muster_operator.model.commands import Failure, Outcome
from muster_operator.model.core_messages import Node
from muster_operator.model.ids import AppId, NodeName, PodUid
from muster_operator.model.pods import PodRef

#: Seconds from a failure to the recovery, four times as long after each further recovery that the object caused.
_FIRST_S: Final = 1.0
_LONGEST_S: Final = 3600.0

#: All objects together, as if they were one object. Recoveries that many objects cause are so far apart at least.
_ALL: Final = "all objects"
_LONGEST_OF_ALL_S: Final = 60.0

#: Seconds without failures after which the pause is short again.
_CALM_S: Final = 3 * _LONGEST_S

Item = TypeVar("Item")
Handler = Callable[[Ledger, Outcome, Item, float], object]


def isolate(handle: Handler[Item], ledger: Ledger, out: Outcome, item: Item, now: float) -> bool:
    """Handles an item. Returns False if that raised an exception; only this function catches all of them."""
    try:
        handle(ledger, out, item, now)
    except Exception as error:  # noqa: BLE001 - it is reported with the outcome
        failed(ledger, out, item, error, now)
        return False
    return True


def failed(ledger: Ledger, out: Outcome, item: object, error: Exception, now: float) -> None:
    """Reports the failure of an item, and sets the timer of the recovery."""
    subject = subject_of(item)
    pod, node = _pod(ledger, subject), ledger.nodes.get(NodeName(subject))
    name = f"{pod.namespace}/{pod.name}" if pod is not None and subject == pod.uid else subject
    out.failures.append(Failure(type(item).__name__, name, error))
    if subject not in ledger.failed:
        ledger.failed.add(subject)
        if pod is not None:
            out.commands.append(messages.internal_error().about(pod.namespace, pod.name, pod.uid))
        elif node is not None:
            out.commands.append(messages.internal_error_of_node().about("", node.name, node.uid))
    due = max(_recovery_of(ledger, subject, _LONGEST_S, now), _recovery_of(ledger, _ALL, _LONGEST_OF_ALL_S, now))
    if ledger.recovery_at is None or due < ledger.recovery_at:
        ledger.recovery_at = due
        set_timer(ledger, Deadline(due, TimerKind.RECOVERY, PodUid("")))


def _recovery_of(ledger: Ledger, subject: str, longest_s: float, now: float) -> float:
    """Time of the recovery that follows a failure of the object. A failure before that time changes nothing."""
    caused, due = ledger.recoveries.pop(subject, (0, now))
    if now >= due:
        caused = 0 if now >= due + _CALM_S else caused
        caused, due = min(caused + 1, 10), now + min(_FIRST_S * 4.0**caused, longest_s)
    ledger.recoveries[subject] = caused, due
    if len(ledger.recoveries) > limits.FAILED_OBJECTS:
        del ledger.recoveries[next(iter(ledger.recoveries))]
    return due


def _pod(ledger: Ledger, subject: str) -> PodRef | None:
    """The pod, or the first pod of the application."""
    uid, app = PodUid(subject), ledger.applications.get(AppId(subject))
    with suppress(AttributeError):  # the object can be what is wrong
        if uid in ledger.tasks:
            return ledger.tasks[uid].pod.ref
        if uid in ledger.foreign:
            return ledger.foreign[uid].pod.ref
        if uid in ledger.pods:
            return ledger.pods[uid].ref
        return app.originator.ref if app is not None else None
    return None


#: Fields that identify an object, and fields whose value has one, in this order.
_NAMES: Final = ("uid", "key", "app", "id", "subject", "object_id", "name")
_PARTS: Final = ("ref", "pod", "originator", "spec", "request", "node", "namespace", "object", "command")


def subject_of(item: object) -> str:
    """The UID of the pod, the ID of the application or the name of the object that an item is about; empty = none."""
    if isinstance(item, tuple) and item:
        return subject_of(item[0])
    if isinstance(item, str):
        return item
    if isinstance(item, Node):
        return item.name  # its UID is that of an object that can be created again
    for name in _NAMES:
        if isinstance(found := getattr(item, name, None), str) and found:
            return found
    parts = (getattr(item, name, None) for name in _PARTS)
    return next((found for part in parts if part is not None and (found := subject_of(part))), "")
