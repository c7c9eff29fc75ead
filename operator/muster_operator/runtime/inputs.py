"""Inputs of the task that owns the controller's state: what `loop` stores in its inbox and handles.

They are not in `model`, because they refer to sessions and messages of the core and to raw objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, get_args

from msgspec import Struct

from muster_operator.model.cluster_events import ClusterEvent
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


def object_name(raw: object) -> str:
    """Namespace and name of a raw object, for log lines, which never contain anything else of it."""
    if isinstance(raw, PartialPod):
        return f"{raw.metadata.namespace}/{raw.metadata.name}"[:_LONGEST]
    metadata = mapping(mapping(raw).get("metadata"))
    return f"{text(metadata.get('namespace'))}/{text(metadata.get('name'))}"[:_LONGEST]
