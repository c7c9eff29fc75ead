"""Typed access to raw JSON objects, Kubernetes quantities, canonical JSON and the cache of translations."""

from __future__ import annotations

import re
import sys
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, Generic, TypeVar

import orjson

from muster_operator.model import limits
from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import MAX_AMOUNT
from muster_si import keys

#: A raw Kubernetes object or a part of one.
Raw = dict[str, Any]
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_EMPTY: Final[Raw] = {}

#: Characters; RFC 3339 with nanoseconds and an offset has 35.
_LONGEST_TIME: Final = 64


def mapping(value: Any) -> Raw:
    """Returns the value if it is an object, else an empty object. Callers must not write to the result."""
    return value if isinstance(value, dict) else _EMPTY


def items(value: Any) -> list[Any]:
    """Returns the value if it is a list, else an empty list. Callers must not write to the result."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[Raw]:
    """Returns the objects in a list. Other items are ignored."""
    return [item for item in items(value) if isinstance(item, dict)]


def text(value: Any) -> str:
    """Returns the value if it is a string, else an empty string. Characters that UTF-8 cannot encode become "?"."""
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def shown(value: str, most: int) -> str:
    """User text for a message: at most ``most`` characters, with control characters escaped."""
    cut = value if len(value) <= most else f"{value[:most]}…"
    return cut if cut.isprintable() else "".join(char if char.isprintable() else repr(char)[1:-1] for char in cut)


def text_bytes(value: str) -> int:
    """Size of the UTF-8 encoding."""
    return len(value) if value.isascii() else len(value.encode("utf-8", "replace"))


def strings(value: Any) -> dict[str, str]:
    """The entries of an object whose key and value are strings."""
    return {text(key): text(entry) for key, entry in mapping(value).items() if isinstance(entry, str)}


def integer(value: Any, default: int = 0) -> int:
    """Returns the value if it is an integer, else the default. A boolean is not an integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default


#: Characters of a controller's name that messages show.
_SHOWN: Final = 128


def controller_name(kind: str, name: str) -> str:
    """The name of a controller for messages, like ``Job/train``."""
    return f"{kind}/{name}"[:_SHOWN]


def controller(metadata: Raw) -> tuple[str, str]:
    """The UID of the object's controller, and its name for messages; empty = it has none."""
    for owner in objects(metadata.get("ownerReferences")):
        if owner.get("controller") is True:
            return text(owner.get("uid")), controller_name(text(owner.get("kind")), text(owner.get("name")))
    return "", ""


def deletion_requested_s(stamp: object, grace_s: int | None) -> int:
    """When the deletion of a pod was requested, epoch seconds; 0 = not. Its time stamp includes the grace period."""
    at_ms = epoch_ms(stamp) if stamp else None
    return 0 if at_ms is None else max(at_ms // 1000 - (grace_s or 0), 0)


def is_true(value: Any) -> bool:
    """Whether the text means true, in the spellings that Go's strconv.ParseBool accepts."""
    return isinstance(value, str) and value in _TRUE


@lru_cache(maxsize=8192)
def _epoch_ms(stamp: str) -> int | None:
    try:
        moment = datetime.fromisoformat(stamp)
        return round(moment.timestamp() * 1000) if moment.tzinfo is not None else None
    except (ValueError, OverflowError, OSError):
        return None


def epoch_ms(value: Any) -> int | None:
    """Converts an RFC 3339 time to epoch milliseconds. Returns None for any other value."""
    return _epoch_ms(value) if isinstance(value, str) and len(value) <= _LONGEST_TIME else None


NANO: Final = 10**9
_NANO_PER_MILLI: Final = 10**6

#: Characters of a quantity; 64 bits need 19 digits, and nano units need 9 more. Longer texts are not parsed.
_MAX_LENGTH: Final = 64
_MAX_EXPONENT: Final = 40

_GRAMMAR: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]+))?",
    re.ASCII,
)

_BINARY: Final = {name: 2 ** (10 * power) for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}

#: YuniKorn's names of CPU.
_CPU_NAMES: Final = frozenset({"cpu", keys.CPU})
_FIX: Final = 'write a Kubernetes quantity such as "500m", "2" or "4Gi"'


@lru_cache(maxsize=4096)
def _parsed(written: str) -> int | str:
    """Returns nano units, or the description of the problem."""
    match = _GRAMMAR.fullmatch(written)
    if match is None or not (match["whole"] or match["part"]):
        return "is not a quantity"
    part = match["part"] or ""
    exponent = int(match["exponent"] or 0) + _DECIMAL.get(match["suffix"] or "", 0)
    if abs(exponent) > _MAX_EXPONENT:
        return "is out of range"
    digits = int((match["whole"] or "") + part) * _BINARY.get(match["suffix"] or "", 1)
    power = exponent - len(part) + 9
    size = 10 ** abs(power)
    nanos: int = digits * size if power >= 0 else -(-digits // size)
    if nanos > MAX_AMOUNT * NANO:
        return "does not fit 64 bits"
    return -nanos if match["sign"] == "-" else nanos


def nanos(field: str, value: Any) -> int:
    """Converts a quantity, written as text or as a plain JSON number, to nano units.

    Raises:
        BadInputError: the value is not a quantity or does not fit 64 bits. ``field`` names it in the message.
    """
    if value is None:
        return 0  # the zero quantity, as Kubernetes decodes null
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadInputError(field, f"{type(value).__name__} is not a quantity", _FIX)
    if isinstance(value, int) and abs(value) > MAX_AMOUNT:
        raise BadInputError(field, "does not fit 64 bits", _FIX)
    written = str(value)
    parsed = _parsed(written) if len(written) <= _MAX_LENGTH else "is too long"
    if isinstance(parsed, str):
        raise BadInputError(field, f'"{written[:40]}" {parsed}', _FIX)
    return parsed


def canonical_name(resource: str) -> str:
    """The scheduler's name of a Kubernetes resource: ``cpu`` becomes ``vcore``, as in YuniKorn."""
    return keys.CPU if resource in _CPU_NAMES else resource


def amount(resource: str, nano: int) -> int:
    """Converts nano units to the scheduler's unit of the resource, rounded up: millicores of CPU, else whole units."""
    unit = _NANO_PER_MILLI if resource == keys.CPU else NANO
    return -(-nano // unit)


def amounts(nano_by_name: dict[str, int]) -> dict[str, int]:
    """Converts sums in nano units, by scheduler name, to the scheduler's units.

    Raises:
        BadInputError: a sum does not fit 64 bits.
    """
    result = {name: amount(name, nano) for name, nano in nano_by_name.items()}
    for name, value in result.items():
        if abs(value) > MAX_AMOUNT:
            raise BadInputError(name, "the sum does not fit 64 bits", "request less")
    return result


V = TypeVar("V")

#: Bytes of a cache entry in addition to its value: the key and the dictionary slot.
_OVERHEAD: Final = 160


def digest(text: bytes) -> bytes:
    """Collision-resistant digest of 16 bytes."""
    return blake2b(text, digest_size=16).digest()


class TranslationCache(Generic[V]):
    """LRU cache of at most `limit_bytes`, keyed by the digest of a text. `weigh` returns the bytes of a value."""

    def __init__(self, weigh: Callable[[V], int] = sys.getsizeof, limit_bytes: int = limits.MEMO_BYTES) -> None:
        self._weigh, self._limit = weigh, limit_bytes
        self._known: OrderedDict[bytes, tuple[V, int]] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    def get(self, text: bytes, build: Callable[[bytes], V]) -> V:
        """Returns the cached value of the text, or builds and caches it. Exceptions of `build` are not cached."""
        if len(text) > limits.MEMO_ENTRY_BYTES:
            return build(text)
        key = digest(text)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known[0]
        value = build(text)
        size = self._weigh(value) + _OVERHEAD
        if size <= self._limit // 64:
            self._known[key] = value, size
            self.bytes += size
            while self.bytes > self._limit:
                self.bytes -= self._known.popitem(last=False)[1][1]
        return value


_TEXTS: Final[TranslationCache[str]] = TranslationCache()


def canonical(field: str, value: Any) -> str:
    """JSON with sorted keys and no blanks.

    Raises:
        BadInputError: the value is nested too deeply, or JSON or UTF-8 cannot represent it.
    """
    try:
        return _TEXTS.get(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), bytes.decode)
    except (TypeError, RecursionError) as error:
        raise BadInputError(field, f"cannot be written as JSON ({error})", "write plain, flat JSON") from error


def memoized(field: str, build: Callable[[dict[str, Any]], str]) -> Callable[[dict[str, Any]], str]:
    """Caches a function of the parts of a raw object.

    The cache key is the plain JSON of the parts: writing it takes a tenth of the time of translating the parts. The
    returned function raises BadInputError, which names ``field``, if the parts have more than CONSTRAINT_BYTES of JSON.
    """
    known: TranslationCache[str] = TranslationCache()

    def of_text(text: bytes) -> str:
        return build(orjson.loads(text))

    def of_parts(parts: dict[str, Any]) -> str:
        try:
            text = orjson.dumps(parts)
        except (TypeError, RecursionError):
            return build(parts)
        if len(text) > limits.CONSTRAINT_BYTES:
            raise BadInputError(
                field, f"{len(text)} bytes, more than {limits.CONSTRAINT_BYTES}", "write fewer or shorter terms"
            )
        return known.get(text, of_text)

    return of_parts
