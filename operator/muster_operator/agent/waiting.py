"""Why a pod waits, as a condition of the pod (contract 6.2, semantics 6 and 28).

Only for pods that wait longer than ``condition_delay_s``; a new reason is written at once, a message that merely counts
differently at most every ``condition_refresh_s``.
"""

from __future__ import annotations

from muster_operator.agent import telling
from muster_operator.agent.deadlines import remember
from muster_operator.agent.ledger import Deadline, Ledger, Look, Task
from muster_operator.model import vocabulary as words
from muster_operator.model.commands import SetCondition
from muster_operator.model.ids import AppId, NodeName, PodUid
from muster_operator.model.outcome import Outcome
from muster_operator.model.pods import Condition
from muster_operator.model.states import AppState, TaskState
from muster_operator.model.verdicts import CoreEvent, EventKind, SchedulingState, SchedulingStateChanged

_REASONS = {
    SchedulingState.FAILED: words.CONDITION_UNSCHEDULABLE,
    SchedulingState.SKIPPED: words.CONDITION_SKIPPED,
}
_DEFAULT_MESSAGE = "request is waiting for cluster resources become available"


def state_changed(ledger: Ledger, out: Outcome, change: SchedulingStateChanged, now: float) -> None:
    """The core said what keeps an ask waiting, or that nothing does."""
    task = ledger.tasks.get(change.key)
    if task is None or task.state is not TaskState.SCHEDULING:
        return
    reason = _REASONS.get(change.state)
    task.shortage = Condition(reason, change.reason or _DEFAULT_MESSAGE) if reason else None
    express(ledger, out, task, now)


def express(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """Write the condition if it is due and not there already, else come back when it is."""
    wanted = task.shortage
    if wanted is None or task.state is not TaskState.SCHEDULING or wanted in {task.told, task.pod.condition}:
        return
    settings = ledger.settings
    due = (now if task.waits_since is None else task.waits_since) + settings.condition_delay_s
    if task.told is not None and task.told.reason == wanted.reason:
        due = max(due, task.told_at + settings.condition_refresh_s)
    if now < due:
        remember(ledger, Deadline(due, Look.WAITING, task.uid))
        return
    task.told, task.told_at = wanted, now
    out.commands.append(SetCondition(task.pod.ref, wanted.reason, wanted.message))


def core_event(ledger: Ledger, out: Outcome, event: CoreEvent) -> None:
    """What the core has to say to people: on the pod, on the originator, on the node."""
    match event.kind:
        case EventKind.REQUEST:
            task = ledger.tasks.get(PodUid(event.object_id))
            if task is not None:
                telling.inform(out, task.pod.ref, words.REASON_INFORMATIONAL, event.message)
        case EventKind.APP:
            _application_event(ledger, out, event)
        case EventKind.NODE:
            node = ledger.nodes.get(NodeName(event.object_id))
            if node is not None:
                telling.inform_node(out, node.name, node.uid, event.message)
        case EventKind.QUEUE:
            return


def _application_event(ledger: Ledger, out: Outcome, event: CoreEvent) -> None:
    """A gang that these nodes could not hold is said at once, also as a condition (semantics 10)."""
    app = ledger.applications.get(AppId(event.object_id))
    if app is None:
        return
    pod = app.originator
    telling.warn(out, pod.ref, words.REASON_GANG, event.message)
    condition = Condition(words.CONDITION_UNSCHEDULABLE, event.message)
    if app.state is AppState.RESERVING and pod.node is None and pod.condition != condition:
        out.commands.append(SetCondition(pod.ref, condition.reason, condition.message))
