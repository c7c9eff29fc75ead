"""Inputs of the task that owns the controller's state: what `loop` stores in its inbox and handles.

They are not in `model`, because they refer to sessions and messages of the core and to raw objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, get_args

from msgspec import Struct
from msgspec.structs import astuple

from muster_operator.kube.write_queue import named_command
from muster_operator.model.cluster_events import ClusterEvent, PodSeen
from muster_operator.model.commands import Result
from muster_operator.model.core_messages import Inventory
from muster_operator.si.session import FromCore, Session
from muster_operator.translate.pod_classes import PartialPod
from muster_operator.translate.values import Raw, mapping, text


class EventReceived(Struct, frozen=True, gc=False):
    """A new state of an object, from a watch, a list or a read."""

    fact: ClusterEvent


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object whose translation raised an exception. This is a bug, because invalid objects are ignored."""

    plural: str
    raw: Raw | PartialPod
    error: Exception


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of this resource is complete. All its events precede this in the inbox."""

    plural: str


@dataclass(frozen=True, slots=True)
class SessionUp:
    """A session with the core was opened."""

    session: Session


@dataclass(frozen=True, slots=True)
class SessionLost:
    """A session with the core has ended."""

    session: Session
    reason: str


@dataclass(frozen=True, slots=True)
class RecoveryStep:
    """A step of the recovery was sent, so that the next one can begin."""

    session: Session


@dataclass(frozen=True, slots=True)
class BarrierAck:
    """The core has processed all messages of the recovery."""

    session: Session


@dataclass(frozen=True, slots=True)
class Compared:
    """An inventory of a part of the core's state. All messages that it is based on were received before."""

    session: Session
    inventory: Inventory


class CoreMessage(Struct, frozen=True, gc=False):
    """A message of the core."""

    session: Session
    message: FromCore


class CommandEnded(Struct, frozen=True, gc=False):
    """The result of a command."""

    result: Result


#: Changes of a session, and results of its requests.
OfSession = SessionUp | SessionLost | RecoveryStep | BarrierAck | Compared
#: The same as types of an input, because `isinstance` of a union is slow.
OF_SESSION: Final = frozenset(get_args(OfSession))
Input = EventReceived | Unreadable | Listed | OfSession | CoreMessage | CommandEnded

#: Maximum characters of a name.
_LONGEST = 320


def named_input(item: Input | None) -> dict[str, str]:
    """Kind and object of an input for log lines; None = a timer. Never raises."""
    match item:
        case None:
            return {"input": "Reminder"}
        case EventReceived(fact=fact) if isinstance(fact, Struct):
            return {"input": type(fact).__name__, "object": _object(fact)[:_LONGEST]}
        case CommandEnded(result=result) if isinstance(result, Result):
            return {"input": type(result).__name__, **named_command(result.command)}
        case CoreMessage(message=message):
            return {"input": type(message).__name__}
        case Unreadable(plural=plural, raw=raw):
            return {"input": plural, "object": _of_metadata(raw)[:_LONGEST]}
        case _:
            return {"input": type(item).__name__}


def _object(fact: Struct) -> str:
    """The object of an event: its first field is a name, or has one."""
    if isinstance(fact, PodSeen):
        return f"{fact.pod.ref.namespace}/{fact.pod.ref.name}"
    about = astuple(fact)[0]
    if isinstance(about, str):
        return about
    return str(getattr(about, "name", "") or getattr(getattr(about, "ref", None), "key", ""))


def _of_metadata(raw: object) -> str:
    if isinstance(raw, PartialPod):
        return f"{raw.metadata.namespace}/{raw.metadata.name}"
    metadata = mapping(mapping(raw).get("metadata"))
    return f"{text(metadata.get('namespace'))}/{text(metadata.get('name'))}"
