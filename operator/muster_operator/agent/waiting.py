"""Why a pod waits, as a condition of the pod (contract 6.2, semantics 6 and 28).

Only for pods that wait longer than ``condition_delay_s``. A new reason is written at once, a message that merely says
it otherwise after ``condition_refresh_s``; a pod whose reason goes to and fro is written ever more seldom, so that an
hour of it costs some twenty writes at most.

Differs: a placeholder that a quota or the order holds back gets no condition; its gang's members do (``reserving``).
"""

from __future__ import annotations

from typing import Final

from muster_operator.agent.deadlines import remember
from muster_operator.agent.ledger import Deadline, Ledger, Look, Task
from muster_operator.model import vocabulary as words
from muster_operator.model.commands import SetCondition
from muster_operator.model.outcome import Outcome
from muster_operator.model.pods import Condition
from muster_operator.model.states import TaskState
from muster_operator.model.verdicts import SchedulingState, SchedulingStateChanged

_REASONS = {
    SchedulingState.FAILED: words.CONDITION_UNSCHEDULABLE,
    SchedulingState.SKIPPED: words.CONDITION_SKIPPED,
}
#: Between what a pod lacks and the node that is reserved for it.
_WAITING: Final = " Waiting: "
_DEFAULT_MESSAGE = "request is waiting for cluster resources become available"
#: A pod waits for its own ask, or for the places of its gang.
_WAITS: Final = frozenset({TaskState.SCHEDULING, TaskState.PENDING})
#: So many conditions of a pod are written before the pauses between two begin to grow.
_FREE_WRITES: Final = 3
_LONGEST_PAUSE_S: Final = 300.0


def state_changed(ledger: Ledger, out: Outcome, change: SchedulingStateChanged, now: float) -> None:
    """The core said what keeps an ask waiting, or that nothing does."""
    task = ledger.tasks.get(change.key)
    if task is None or task.state is not TaskState.SCHEDULING:
        return
    task.shortage = (
        _reserved(task.shortage, change) if change.state is SchedulingState.RESERVED else shortage_of(change)
    )
    app = ledger.applications.get(task.app)
    if app is not None and task.pod.membership.placeholder and task.shortage is not None:
        app.shortage = task.shortage
    express(ledger, out, task, now)


def shortage_of(change: SchedulingStateChanged) -> Condition | None:
    """What a pod says that waits for this; None = nothing keeps it waiting."""
    reason = _REASONS.get(change.state)
    return Condition(reason, change.reason or _DEFAULT_MESSAGE) if reason else None


def _reserved(before: Condition | None, change: SchedulingStateChanged) -> Condition:
    """The condition of a pod for which a node is reserved: it still waits for resources, and the autoscaler may help.

    What it lacks stays in the message, because the core does not report that again.
    """
    lack = lack_of(before) if before and before.reason == words.CONDITION_UNSCHEDULABLE else ""
    message = f"{lack}{_WAITING}{change.reason}" if lack else change.reason
    return Condition(words.CONDITION_UNSCHEDULABLE, message or _DEFAULT_MESSAGE)


def lack_of(condition: Condition) -> str:
    """What the pod lacks, without the node that is reserved for it."""
    return condition.message.partition(_WAITING)[0]


def express(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """Write the condition if it is due and not there already, else come back when it is."""
    wanted, standing = task.shortage, task.told or task.pod.condition
    if wanted is None or task.state not in _WAITS or wanted == standing or _is_for_nobody(task, wanted, standing):
        return
    settings = ledger.settings
    since = now if task.waits_since is None else task.waits_since
    due = since + settings.condition_delay_s
    if standing is not None and standing.reason == wanted.reason:
        due = max(due, (since if task.told is None else task.told_at) + _pause(task, settings.condition_refresh_s))
    elif task.writes >= _FREE_WRITES:
        due = max(due, task.told_at + _pause(task, settings.condition_delay_s))
    if now >= due:
        task.told, task.told_at, task.writes = wanted, now, task.writes + 1
        out.commands.append(SetCondition(task.pod.ref, wanted.reason, wanted.message))
    elif not now < task.looked_at <= due:
        task.looked_at = due
        remember(ledger, Deadline(due, Look.WAITING, task.uid))


def _is_for_nobody(task: Task, wanted: Condition, standing: Condition | None) -> bool:
    """Autoscalers look at placeholders, people at real pods: "not for want of nodes" is said where that was said."""
    return (
        task.pod.membership.placeholder
        and wanted.reason == words.CONDITION_SKIPPED
        and (standing is None or standing.reason != words.CONDITION_UNSCHEDULABLE)
    )


def _pause(task: Task, first: float) -> float:
    return min(first * 2.0 ** max(0, min(task.writes, 30) - _FREE_WRITES), max(first, _LONGEST_PAUSE_S))
