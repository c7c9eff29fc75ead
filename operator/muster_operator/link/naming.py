"""Names of inputs in log lines: kind and object name. Never a complete object, which may contain confidential data."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import astuple

from muster_operator.link.api.urgency import named_command
from muster_operator.link.inbox import Ended, Input, Said, Seen, Unreadable
from muster_operator.model.facts import PodSeen
from muster_operator.model.results import Result
from muster_operator.translate.raw import mapping, text
from muster_operator.translate.sketch import Sketch

#: Characters of a name.
_LONGEST = 320


def named_input(item: Input | None) -> dict[str, str]:
    """The kind of an input (None = something that is due), and which object it is about; never raises."""
    match item:
        case None:
            return {"input": "Reminder"}
        case Seen(fact=fact) if isinstance(fact, Struct):
            return {"input": type(fact).__name__, "object": _object(fact)[:_LONGEST]}
        case Ended(result=result) if isinstance(result, Result):
            return {"input": type(result).__name__, **named_command(result.command)}
        case Said(message=message):
            return {"input": type(message).__name__}
        case Unreadable(plural=plural, raw=raw):
            return {"input": plural, "object": _of_metadata(raw)[:_LONGEST]}
        case _:
            return {"input": type(item).__name__}


def _object(fact: Struct) -> str:
    """Every fact begins with what it is about: a name, or something that has one."""
    if isinstance(fact, PodSeen):
        return f"{fact.pod.ref.namespace}/{fact.pod.ref.name}"
    about = astuple(fact)[0]
    if isinstance(about, str):
        return about
    return str(getattr(about, "name", "") or getattr(getattr(about, "ref", None), "key", ""))


def _of_metadata(raw: object) -> str:
    if isinstance(raw, Sketch):
        return f"{raw.metadata.namespace}/{raw.metadata.name}"
    metadata = mapping(mapping(raw).get("metadata"))
    return f"{text(metadata.get('namespace'))}/{text(metadata.get('name'))}"
