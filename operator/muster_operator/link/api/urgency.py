"""How soon a command has to go, which is also how writes are counted and held back: kind by kind."""

from __future__ import annotations

from muster_operator.model.commands import (
    BindPod,
    ClaimVolume,
    Command,
    CreatePlaceholder,
    DeletePod,
    FailPod,
    MarkDisrupted,
    MarkResumed,
    PostEvent,
    SelectNode,
    SetCondition,
)
from muster_operator.model.enums import NumberEnum


class Urgency(NumberEnum):
    """Smaller goes first."""

    BIND = 0
    DELETE = 1
    CREATE = 2
    PATCH = 3
    EVENT = 4


def urgency_of(command: Command) -> Urgency:
    """How soon a command has to go."""
    match command:
        case BindPod() | ClaimVolume(undo=False) | SelectNode(undo=False):
            return Urgency.BIND
        case DeletePod():
            return Urgency.DELETE
        case CreatePlaceholder():
            return Urgency.CREATE
        case FailPod() | SetCondition() | MarkResumed() | MarkDisrupted() | ClaimVolume() | SelectNode():
            return Urgency.PATCH
        case PostEvent():
            return Urgency.EVENT


def is_of_session(command: Command) -> bool:
    """Whether it is in force only as long as the session that decided it: a bind and what has to come before it, and a
    placeholder, which the next session orders again where it is still missing.
    """
    return urgency_of(command) in {Urgency.BIND, Urgency.CREATE}


def namespace_of(command: Command) -> str:
    """Whose write it is; empty for what is in no namespace."""
    match command:
        case CreatePlaceholder(spec=spec):
            return spec.namespace
        case MarkResumed(originator=pod):
            return pod.namespace
        case PostEvent(namespace=namespace):
            return namespace
        case _:
            return command.pod.namespace


def key_of(command: Command) -> str:
    """Which pod (`namespace/name`), volume or claim a command writes to; empty for events."""
    match command:
        case BindPod(pod=pod) | DeletePod(pod=pod) | FailPod(pod=pod) | SetCondition(pod=pod) | MarkDisrupted(pod=pod):
            return f"{pod.namespace}/{pod.name}"
        case MarkResumed(originator=pod):
            return f"{pod.namespace}/{pod.name}"
        case CreatePlaceholder(spec=spec):
            return f"{spec.namespace}/{spec.name}"
        case ClaimVolume(volume=name):
            return f"volume {name}"
        case SelectNode(claim=claim):
            return f"claim {claim.key}"
        case PostEvent():
            return ""


def named_command(command: Command) -> dict[str, str]:
    """What a log line says of a command: its kind and what it writes to, never what it writes."""
    written = f"{command.namespace}/{command.name}" if isinstance(command, PostEvent) else key_of(command)
    return {"command": type(command).__name__, "object": written}
