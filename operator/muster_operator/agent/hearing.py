"""What the core has to say to people: on the pod, on the originator, on the node (contract 6.1, semantics 28)."""

from __future__ import annotations

import re
from typing import Final

from muster_operator.agent import reserving, telling, waiting
from muster_operator.agent.ledger import Ledger, Task
from muster_operator.model import vocabulary as words
from muster_operator.model.ids import AppId, NodeName, PodUid
from muster_operator.model.outcome import Outcome
from muster_operator.model.verdicts import CoreEvent, EventKind

#: Seconds that an API server keeps an event, unless it is told otherwise (kube-apiserver, --event-ttl).
STANDS_S: Final = 3600.0
#: Different words about one pod that are remembered.
_REMEMBERED: Final = 8
_NUMBER: Final = re.compile(r"\d+")


def core_event(ledger: Ledger, out: Outcome, event: CoreEvent, now: float) -> None:
    """Post it where somebody will look for it."""
    match event.kind:
        case EventKind.REQUEST:
            task = ledger.tasks.get(PodUid(event.object_id))
            if task is not None and _is_news(task, event.message, now):
                telling.inform(out, task.pod.ref, words.REASON_INFORMATIONAL, event.message)
        case EventKind.APP:
            _application_event(ledger, out, event, now)
        case EventKind.NODE:
            node = ledger.nodes.get(NodeName(event.object_id))
            if node is not None:
                telling.inform_node(out, node.name, node.uid, event.message)
        case EventKind.QUEUE:
            return


def _is_news(task: Task, message: str, now: float) -> bool:
    """Whether no event stands that says the same; other numbers make no other words.

    A session that begins knows of none: what the pod's condition says already was told before.
    """
    text = _NUMBER.sub("#", message)
    before = () if task.heard or not _says(task, text) else ((text, now),)
    heard = {said: at for said, at in (*task.heard, *before) if now < at + STANDS_S}
    if text in heard:
        return False
    task.heard = (*heard.items(), (text, now))[-_REMEMBERED:]
    return True


def _says(task: Task, text: str) -> bool:
    """Whether that is what the condition of the pod says, numbers aside."""
    condition = task.pod.condition
    return condition is not None and _NUMBER.sub("#", waiting.lack_of(condition)) == text


def _application_event(ledger: Ledger, out: Outcome, event: CoreEvent, now: float) -> None:
    """One that names a task group is about members which these nodes could not hold (semantics 10)."""
    app = ledger.applications.get(AppId(event.object_id))
    if app is None:
        return
    task = ledger.tasks.get(app.originator.ref.uid)
    if task is None or _is_news(task, event.message, now):
        telling.warn(out, app.originator.ref, words.REASON_GANG, event.message)
    if event.reference_id:
        reserving.cannot_fit(ledger, out, app, event.message, now)
