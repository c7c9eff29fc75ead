"""Journal of events and cycles.

The scheduler task writes one JSON line per event and cycle. The same events and cycle budgets produce the same
decisions, so a journal reproduces a run exactly. An event that is applied in parts has one line per part. Only the
first one contains the event, because a second event with equal content would be another event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from fractions import Fraction
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType, ModuleType
from typing import BinaryIO, Final, cast

import orjson

from muster_core import model
from muster_core.model.constraints import NO_INTER_POD_CONSTRAINTS
from muster_core.model.effects import Effect
from muster_core.model.events import Event
from muster_core.model.resources import Limit, Resources
from muster_core.model.specs import NO_PROPERTIES
from muster_core.scheduling.scheduler import CycleBudget

#: All modules of `muster_core.model`, so that new classes there need no change here.
_MODULES: Final[tuple[ModuleType, ...]] = tuple(
    import_module(f"{model.__name__}.{module.name}") for module in iter_modules(model.__path__)
)

CLASSES: Final[Mapping[str, type]] = MappingProxyType(
    {
        name: found
        for module in _MODULES
        for name, found in vars(module).items()
        if isinstance(found, type)
        and (is_dataclass(found) or hasattr(found, "_fields") or (issubclass(found, StrEnum) and found is not StrEnum))
    }
)

#: Constants that the core also compares by identity, because that is faster.
_SHARED: Final[Mapping[str, object]] = MappingProxyType(
    {type(value).__name__: value for value in (NO_INTER_POD_CONSTRAINTS, NO_PROPERTIES)}
)

#: Maximum nesting. No value of the core exceeds it, because the length of queue paths is bounded
#: (docs/internals/semantics.md, rule 26).
_DEPTH: Final = 200


def to_plain(value: object, depth: int = _DEPTH) -> object:
    """Converts a value of the core to JSON values. Raises TypeError for any other value."""
    if depth == 0:
        raise TypeError("a value that nests without end")
    deeper = depth - 1
    match value:
        case StrEnum():
            return {"$enum": type(value).__name__, "is": value.value}
        case None | bool() | int() | float() | str():
            return value
        case Fraction():
            return {"$fraction": str(value)}
        case Resources() | Limit():
            return {"$": type(value).__name__, "amounts": dict(value.items())}
        case tuple() if type(value).__name__ in CLASSES:  # with names for its fields
            names = cast("tuple[str, ...]", vars(type(value))["_fields"])
            return {"$": type(value).__name__, **{name: to_plain(getattr(value, name), deeper) for name in names}}
        case tuple() | list():
            return [to_plain(item, deeper) for item in value]
        case frozenset():
            return {"$set": sorted(value)}
        case Mapping():
            return {"$map": {str(key): to_plain(item, deeper) for key, item in value.items()}}
        case _ if is_dataclass(value) and type(value).__name__ in CLASSES:
            found = {one.name: to_plain(getattr(value, one.name), deeper) for one in fields(value) if one.init}
            return {"$": type(value).__name__, **found}
        case _:
            raise TypeError(f"{type(value).__name__} is no value of the core")


def from_plain(found: object) -> object:
    """Converts the result of `to_plain` back. Raises KeyError or TypeError for other input."""
    if isinstance(found, list):
        return tuple(from_plain(item) for item in found)
    if not isinstance(found, dict):
        return found
    if "$enum" in found:
        return CLASSES[found["$enum"]](found["is"])
    if "$fraction" in found:
        return Fraction(found["$fraction"])
    if "$set" in found:
        return frozenset(found["$set"])
    if "$map" in found:
        return {key: from_plain(item) for key, item in found["$map"].items()}
    name = cast("str", found["$"])
    if name in ("Resources", "Limit"):
        return (Resources if name == "Resources" else Limit)(found["amounts"])
    value: object = CLASSES[name](**{key: from_plain(item) for key, item in found.items() if key != "$"})
    shared = _SHARED.get(name)
    return shared if value == shared else value


class Journal:
    """Appends lines to a file. The caller opens and closes the file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def stepped(self, now_ns: int, event: Event, effects: Sequence[Effect], *, is_continued: bool = False) -> None:
        """Writes an event, or a part of one, and its effects. `is_continued`: not its first part."""
        what = {"continued": True} if is_continued else {"event": to_plain(event)}
        self._write({"now": now_ns, **what, "effects": to_plain(effects)})

    def cycled(self, now_ns: int, budget: CycleBudget, effects: Sequence[Effect]) -> None:
        """Writes a cycle, its time budget and its effects."""
        self._write({"now": now_ns, "granted": budget.granted, "effects": to_plain(effects)})

    def recovery_started(self) -> None:
        """Writes that the scheduler state was discarded."""
        self._write({"restart": True})

    def _write(self, line: object) -> None:
        self._file.write(orjson.dumps(line) + b"\n")
