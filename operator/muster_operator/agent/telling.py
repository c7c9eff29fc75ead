"""Events for people: one per fact that a user acts on (contract 6.2, semantics 28)."""

from __future__ import annotations

from muster_operator.agent.ledger import Application
from muster_operator.model import vocabulary as words
from muster_operator.model.commands import EventType, Importance, PostEvent, Subject
from muster_operator.model.ids import AppId, NodeName
from muster_operator.model.outcome import Outcome
from muster_operator.model.pods import PodRef


def _about_pod(pod: PodRef, kind: EventType, reason: str, action: str, note: str) -> PostEvent:
    importance = Importance.PROBLEM if kind is EventType.WARNING else Importance.RESULT
    return PostEvent(Subject.POD, pod.namespace, pod.name, pod.uid, kind, reason, action, note, importance)


def warn(out: Outcome, pod: PodRef, reason: str, note: str, action: str = "") -> None:
    """A problem that somebody has to solve."""
    out.commands.append(_about_pod(pod, EventType.WARNING, reason, action or reason, note))


def inform(out: Outcome, pod: PodRef, reason: str, note: str) -> None:
    """A result that somebody waits for."""
    out.commands.append(_about_pod(pod, EventType.NORMAL, reason, reason, note))


def warn_gang(out: Outcome, pod: PodRef, action: str, note: str) -> None:
    """A problem of a gang, on its originator."""
    warn(out, pod, words.REASON_GANG, note, action)


def gang_series(app: AppId) -> str:
    """The name of a gang's one series of progress events."""
    return f"gang/{app}"


def progress(out: Outcome, app: Application, action: str, note: str) -> None:
    """How far a gang is: one series on the originator, first to be dropped under load."""
    pod = app.originator.ref
    out.commands.append(
        PostEvent(
            subject=Subject.POD,
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            type=EventType.NORMAL,
            reason=words.REASON_GANG,
            action=action,
            note=note,
            importance=Importance.PROGRESS,
            series=gang_series(app.id),
        )
    )


def warn_node(out: Outcome, node: NodeName, uid: str, reason: str, note: str) -> None:
    """A problem of a node."""
    out.commands.append(
        PostEvent(Subject.NODE, "", node, uid, EventType.WARNING, reason, reason, note, Importance.PROBLEM)
    )


def inform_node(out: Outcome, node: NodeName, uid: str, note: str, reason: str = words.REASON_INFORMATIONAL) -> None:
    """What became of a node in the core (contract 6.2); first to be dropped under load."""
    out.commands.append(
        PostEvent(Subject.NODE, "", node, uid, EventType.NORMAL, reason, reason, note, Importance.PROGRESS)
    )


def warn_namespace(out: Outcome, name: str, note: str) -> None:
    """A problem of a namespace's annotations, which its pods cannot solve."""
    reason = words.REASON_SCHEDULING
    out.commands.append(
        PostEvent(Subject.NAMESPACE, "", name, "", EventType.WARNING, reason, reason, note, Importance.PROBLEM)
    )
