"""The core's values as plain JSON, and back: what the journal writes and reads.

Self-describing, so that a reader needs no schema: a dataclass is an object
with its class in `$`, an enum `$enum`, a frozen set `$set`, a mapping `$map`.
Every value class of model/ is known by its name, which is unique there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType, ModuleType
from typing import Final, cast

from muster_core import model
from muster_core.model.resources import Limit, Resources

#: All of model/, so that a value that is added there can be written at once.
_MODULES: Final[tuple[ModuleType, ...]] = tuple(
    import_module(f"{model.__name__}.{module.name}") for module in iter_modules(model.__path__)
)
_CLASSES: Final[Mapping[str, type]] = MappingProxyType(
    {
        name: found
        for module in _MODULES
        for name, found in vars(module).items()
        if isinstance(found, type) and (is_dataclass(found) or (issubclass(found, StrEnum) and found is not StrEnum))
    }
)
#: Nothing of the core nests deeper: a queue's path is bounded (semantics 26).
_DEPTH: Final = 200


def to_plain(value: object, depth: int = _DEPTH) -> object:
    """JSON of a value. Raises TypeError for what is no value of the core."""
    if depth == 0:
        raise TypeError("a value that nests without end")
    deeper = depth - 1
    match value:
        case StrEnum():
            return {"$enum": type(value).__name__, "is": value.value}
        case None | bool() | int() | float() | str():
            return value
        case Resources() | Limit():
            return {"$": type(value).__name__, "amounts": dict(value.items())}
        case tuple() | list():
            return [to_plain(item, deeper) for item in value]
        case frozenset():
            return {"$set": sorted(value)}
        case Mapping():
            return {"$map": {str(key): to_plain(item, deeper) for key, item in value.items()}}
        case _ if is_dataclass(value) and type(value).__name__ in _CLASSES:
            found = {one.name: to_plain(getattr(value, one.name), deeper) for one in fields(value) if one.init}
            return {"$": type(value).__name__, **found}
        case _:
            raise TypeError(f"{type(value).__name__} is no value of the core")


def from_plain(found: object) -> object:
    """The value of such JSON. Raises KeyError or TypeError for what `to_plain` did not write."""
    if isinstance(found, list):
        return tuple(from_plain(item) for item in found)
    if not isinstance(found, dict):
        return found
    if "$enum" in found:
        return _CLASSES[found["$enum"]](found["is"])
    if "$set" in found:
        return frozenset(found["$set"])
    if "$map" in found:
        return {key: from_plain(item) for key, item in found["$map"].items()}
    name = cast("str", found["$"])
    if name in ("Resources", "Limit"):
        return (Resources if name == "Resources" else Limit)(found["amounts"])
    return _CLASSES[name](**{key: from_plain(item) for key, item in found.items() if key != "$"})
