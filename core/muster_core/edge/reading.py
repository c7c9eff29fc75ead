"""The pieces that values of the SI's string maps are made of: JSON of a fixed shape, bounded, nothing unknown in it.

Raises Unfit, which names what is wrong; knows no facts. Called by the modules that read one kind of value each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Final, TypeVar, TypeVarTuple, Unpack, cast

import orjson

from muster_core.edge.refusals import Unfit
from muster_core.model import limits

#: Longest JSON text of one map value, in characters.
TEXT_LIMIT: Final = 65_536
#: Longest name of anything.
NAME_LIMIT: Final = 256
#: Distinct texts remembered; a class of pods has one.
REMEMBERED: Final = 1024

Item = TypeVar("Item")
Value = TypeVar("Value")
Texts = TypeVarTuple("Texts")
Object = Mapping[str, object]


def remembered(read: Callable[[Unpack[Texts]], Value]) -> Callable[[Unpack[Texts]], Value]:
    """Cache the results for short texts, so that equal texts share one value. Longer texts are decoded each time and
    never cached, so that users cannot fill the memory.
    """
    short = lru_cache(maxsize=REMEMBERED)(read)

    @wraps(read)
    def reading(*texts: *Texts) -> Value:
        return read(*texts) if _characters(texts) > limits.REMEMBERED_CHARACTERS else short(*texts)

    return reading


def _characters(texts: tuple[object, ...]) -> int:
    """Of all texts, also of those in tuples."""
    return sum(
        len(text) if isinstance(text, str) else _characters(text) if isinstance(text, tuple) else 0 for text in texts
    )


def parsed(text: str, at_most: int = TEXT_LIMIT) -> object:
    """A map's value as JSON, of so many characters at most."""
    if len(text) > at_most:
        raise Unfit("the value", f"is longer than {at_most} characters")
    try:
        return cast("object", orjson.loads(text))
    except orjson.JSONDecodeError as error:
        raise Unfit("the value", f"is not JSON: {error}") from error


def each(found: object, field: str, read: Callable[[Object], Item]) -> tuple[Item, ...]:
    """Every element of a list of objects."""
    if not isinstance(found, list):
        raise Unfit(field, "is not a list")
    try:
        return tuple([read(an_object(item, "an element")) for item in found])
    except Unfit as unfit:
        raise unfit.inside(field) from unfit


def an_object(found: object, field: str) -> Object:
    """An object, or a refusal that names the field."""
    if not isinstance(found, dict):
        raise Unfit(field, "is not an object")
    return found


def pairs(found: object, field: str) -> tuple[tuple[str, str], ...]:
    """An object of texts, as sorted pairs."""
    pairs = an_object(found or {}, field)
    if not all(isinstance(value, str) for value in pairs.values()):
        raise Unfit(field, "holds something that is not a text")
    return tuple(sorted(cast("Mapping[str, str]", pairs).items()))


def text_of(found: Object, field: str) -> str:
    """A text; absent = empty."""
    value = found.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Unfit(field, "is not a text")
    return value


def one_of(found: Object, field: str, allowed: frozenset[str]) -> str:
    """A text out of a few."""
    value = text_of(found, field)
    if value not in allowed:
        raise Unfit(field, f"is {value[:32]!r}, not one of {', '.join(sorted(allowed))}")
    return value


def only(found: Object, fields: frozenset[str]) -> None:
    """Refuses fields that nobody reads: who sent them expects something."""
    unknown = found.keys() - fields
    if unknown:
        raise Unfit(min(unknown)[:NAME_LIMIT], "is not known")


def texts(found: Object, field: str) -> tuple[str, ...]:
    """A list of texts; absent = empty."""
    values = found.get(field) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise Unfit(field, "is not a list of texts")
    return tuple(values)


def number(found: Object, field: str, default: int = 0, *, least: int = 0, most: int = 2**62) -> int:
    """A whole number within bounds; absent = `default`."""
    value = found.get(field, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise Unfit(field, f"is not a whole number from {least} to {most}")
    return value


def flag(found: Object, field: str, *, default: bool = False) -> bool:
    """True or false; absent = `default`."""
    value = found.get(field, default)
    if not isinstance(value, bool):
        raise Unfit(field, "is neither true nor false")
    return value
