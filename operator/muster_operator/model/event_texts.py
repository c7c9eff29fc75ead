"""The parts of an event that the catalogue defines (``model/messages.py``), and the decorators that define one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, ParamSpec

from msgspec import Struct

from muster_operator.model.commands import EventType, Importance, PostEvent, Subject

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class EventTemplate:
    """Everything of an event except its text and its object.

    ``importance``: full buffers drop the least important events first. ``pod_reason``: ``status.reason`` of pods that
    fail for the reason of the event, and the reason of the condition of those that wait.
    """

    reason: str
    type: EventType
    subject: Subject
    action: str
    importance: Importance
    pod_reason: str


class Note(Struct, frozen=True, gc=False):
    """An event without its object."""

    kind: EventTemplate
    text: str

    def about(self, namespace: str, name: str, uid: str, series: str = "") -> PostEvent:
        """The event of this object. ``namespace`` and ``uid`` are empty for cluster-scoped objects."""
        kind = self.kind
        return PostEvent(
            kind.subject, namespace, name, uid, kind.type, kind.reason, kind.action, self.text, kind.importance, series
        )


@dataclass(frozen=True, slots=True)
class EventText(Generic[P]):
    """One text of an event. A call with the values of the text returns the note."""

    kind: EventTemplate
    text: Callable[P, str] = field(repr=False)

    def __call__(self, *values: P.args, **named: P.kwargs) -> Note:
        """Returns the event with these values in its text."""
        return Note(self.kind, self.text(*values, **named))


def event(
    reason: str,
    event_type: EventType = EventType.WARNING,
    subject: Subject = Subject.POD,
    *,
    action: str = "",
    importance: Importance | None = None,
    pod_reason: str = "",
) -> Callable[[Callable[P, str]], EventText[P]]:
    """Adds an event to the catalogue. The default importance is that of its type."""
    by_type = Importance.PROBLEM if event_type is EventType.WARNING else Importance.RESULT
    chosen = by_type if importance is None else importance
    kind = EventTemplate(reason, event_type, subject, action or reason, chosen, pod_reason or reason)
    return lambda text: EventText(kind, text)


#: Reason of the events about gangs; ``action`` is the kind.
GANG: Final = "GangScheduling"


def gang_event(
    action: str, event_type: EventType = EventType.WARNING, *, pod_reason: str = ""
) -> Callable[[Callable[P, str]], EventText[P]]:
    """Adds an event about a gang, which is posted on its originator unless the text says otherwise."""
    importance = None if event_type is EventType.WARNING else Importance.PROGRESS
    return event(GANG, event_type, action=action, importance=importance, pod_reason=pod_reason)
