"""Decodes values in messages: names, amounts, times, and JSON texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Final, TypeVar, TypeVarTuple, Unpack

import msgspec
from msgspec.json import Decoder

from muster_core.model import limits
from muster_core.model.ids import AllocationKey, ApplicationId, TaskGroup
from muster_core.model.resources import Resources


class InvalidField(Exception):
    """`field` of an item is missing or out of bounds. `why` continues the sentence that names it."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field} {why}")
        self.field = field
        self.why = why

    def inside(self, field: str) -> InvalidField:
        """Returns the same error for the field that contains this one."""
        return InvalidField(f"{field}: {self.field}", self.why)


#: Longest JSON text of one map value in characters.
TEXT_LIMIT: Final = 65_536

#: Longest name of any object.
NAME_LIMIT: Final = 256

#: Longest part of an invalid value that an error shows.
TEXT_SHOWN: Final = 256

#: Number of cached texts. Pods of one class share one text.
CACHED_VALUES: Final = 1024
Decoded = TypeVar("Decoded")
Value = TypeVar("Value")
Arguments = TypeVarTuple("Arguments")


def memoized(read: Callable[[Unpack[Arguments]], Value]) -> Callable[[Unpack[Arguments]], Value]:
    """Cache the results for short texts, so that equal texts share one value. Longer texts are decoded each time and
    never cached, so that users cannot fill the memory.
    """
    short = lru_cache(maxsize=CACHED_VALUES)(read)

    @wraps(read)
    def reading(*texts: *Arguments) -> Value:
        return read(*texts) if _characters(texts) > limits.CACHED_CHARACTERS else short(*texts)

    return reading


def _characters(texts: tuple[object, ...]) -> int:
    """Total length of all texts, including those in tuples."""
    return sum(
        len(text) if isinstance(text, str) else _characters(text) if isinstance(text, tuple) else 0 for text in texts
    )


def decoded(text: str, form: Decoder[Decoded], at_most: int = TEXT_LIMIT) -> Decoded:
    """Decodes a JSON text of at most `at_most` characters. Make `form` at import, so that the first message does not
    wait for its types.

    Raises:
        InvalidField: it is longer, not JSON, or not of this form. The field is the path inside the document.
    """
    if len(text) > at_most:
        raise InvalidField("the value", f"is longer than {at_most} characters")
    try:
        return form.decode(text)
    except msgspec.ValidationError as error:
        why, _, where = str(error).partition(" - at `$")
        raise InvalidField(where.strip(".`") or "the value", f"is wrong: {why[:TEXT_SHOWN]}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidField("the value", f"is not JSON: {error}") from error


def of_tag(tags: Mapping[str, str], tag: str, read: Callable[[str], Value]) -> Value | None:
    """Decodes the text of a tag; absent or empty = None. Raises InvalidField, which names the tag."""
    text = tags.get(tag)
    try:
        return read(text) if text else None
    except InvalidField as invalid:
        raise invalid.inside(tag) from invalid


#: Largest quantity. The sum of two of them still fits into int64.
QUANTITY_LIMIT: Final = 2**62
_DIGITS_OF_A_TIME: Final = 16


@memoized
def moment_ns(text: str, unit_ns: int) -> int:
    """Converts a time since the epoch, given as an integer of `unit_ns`."""
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS_OF_A_TIME:
        raise InvalidField(text[:32] or "an empty string", "is not a time")
    moment = int(text) * unit_ns
    if moment > QUANTITY_LIMIT:
        raise InvalidField(text, "is too far in the future")
    return moment


def span_ns(milliseconds: int, field: str) -> int:
    """Converts a timeout to nanoseconds; 0 and less = none."""
    if milliseconds <= 0:
        return 0
    if milliseconds > QUANTITY_LIMIT // 1_000_000:
        raise InvalidField(field, f"is out of range: {milliseconds} ms")
    return milliseconds * 1_000_000


def resources(amounts: Mapping[str, int], most: int = QUANTITY_LIMIT, *, counts: bool = False) -> Resources:
    """An amount from outside: refuses negative quantities, those of more than `most`, and too many. `counts`: it is of
    something that is there and has to count; what is too much of it is left out.
    """
    if counts:
        amounts = {name: min(amount, most) for name, amount in sorted(amounts.items())[: limits.RESOURCE_NAMES]}
    if len(amounts) > limits.RESOURCE_NAMES:
        raise InvalidField(
            "the amount",
            f"names {len(amounts)} resources, the limit is {limits.RESOURCE_NAMES}: request fewer resources",
        )
    for name, amount in amounts.items():
        if amount < 0:
            raise InvalidField(name[:NAME_LIMIT], f"is negative: {amount}")
        if amount > most:
            raise InvalidField(name[:NAME_LIMIT], f"is out of range: {amount}, at most {most} is accepted")
        if not name or len(name) > NAME_LIMIT:
            raise InvalidField("a resource's name", "is empty or too long")
    return Resources(amounts)


def shown(name: str) -> ApplicationId:
    """Returns a name for use in a response."""
    return ApplicationId(name[:NAME_LIMIT])


def bounded(name: str, label: str) -> str:
    """Returns a name with limited length that may be empty."""
    if len(name) > NAME_LIMIT:
        raise InvalidField(label, f"is longer than {NAME_LIMIT} characters")
    return name


def named(name: str, label: str) -> str:
    """Returns a required name."""
    if not name:
        raise InvalidField(label, "is missing")
    return bounded(name, label)


def long_name(name: str, label: str) -> str:
    """Returns the name of a namespaced object, which may be twice as long."""
    if not name or len(name) > 2 * NAME_LIMIT:
        raise InvalidField(label, f"is missing or longer than {2 * NAME_LIMIT} characters")
    return name


def application_id(name: str) -> ApplicationId:
    """Decodes an application ID."""
    return ApplicationId(named(name, "applicationID"))


def allocation_key(name: str) -> AllocationKey:
    """Decodes an allocation key."""
    return AllocationKey(named(name, "allocationKey"))


def group(name: str) -> TaskGroup:
    """Decodes a task group name; empty = none."""
    return TaskGroup(bounded(name, "taskGroupName"))


def moment_of(tags: Mapping[str, str], tag: str, unit_ns: int) -> int:
    """Returns the time in `tag` in nanoseconds since the epoch; 0 = not set."""
    return of_tag(tags, tag, lambda text: moment_ns(text, unit_ns)) or 0
