"""Reading of raw JSON-like objects, Kubernetes quantities, canonical JSON and its cache."""

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
    """The value if it is an object, else an empty one. Not to be written to."""
    return value if isinstance(value, dict) else _EMPTY


def items(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one. Not to be written to."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[Raw]:
    """The objects in a list; everything else in it counts as absent."""
    return [item for item in items(value) if isinstance(item, dict)]


def text(value: Any) -> str:
    """The value if it is a string that can be written as UTF-8, else an empty one."""
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def text_bytes(value: str) -> int:
    """Bytes of a text as UTF-8."""
    return len(value) if value.isascii() else len(value.encode("utf-8", "replace"))


def strings(value: Any) -> dict[str, str]:
    """The entries of an object whose key and value are strings."""
    return {text(key): text(entry) for key, entry in mapping(value).items() if isinstance(entry, str)}


def integer(value: Any, default: int = 0) -> int:
    """The value if it is an integer (a boolean is none), else the default."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def is_true(value: Any) -> bool:
    """Whether the text says true, in the spellings that Go accepts."""
    return isinstance(value, str) and value in _TRUE


@lru_cache(maxsize=8192)
def _epoch_ms(stamp: str) -> int | None:
    try:
        moment = datetime.fromisoformat(stamp)
        return round(moment.timestamp() * 1000) if moment.tzinfo is not None else None
    except (ValueError, OverflowError, OSError):
        return None


def epoch_ms(value: Any) -> int | None:
    """An RFC 3339 time as epoch milliseconds, None if it is none."""
    return _epoch_ms(value) if isinstance(value, str) and len(value) <= _LONGEST_TIME else None


NANO: Final = 10**9
_NANO_PER_MILLI: Final = 10**6

#: Longer ones are no amounts but attacks: 64 bits need 19 digits, nano another 9.
_MAX_LENGTH: Final = 64
_MAX_EXPONENT: Final = 40

_GRAMMAR: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]+))?",
    re.ASCII,
)

_BINARY: Final = {name: 2 ** (10 * power) for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}

#: Names of the contract for the same resource as ``cpu`` (contract 1.3).
_CPU_NAMES: Final = frozenset({"cpu", keys.CPU})
_FIX: Final = 'write a Kubernetes quantity such as "500m", "2" or "4Gi"'


@lru_cache(maxsize=4096)
def _parsed(written: str) -> int | str:
    """Nano units, or what is wrong."""
    match = _GRAMMAR.fullmatch(written)
    if match is None or not (match["whole"] or match["part"]):
        return "is not a quantity"
    part = match["part"] or ""
    exponent = int(match["exponent"] or 0) + _DECIMAL.get(match["suffix"] or "", 0)
    if abs(exponent) > _MAX_EXPONENT:
        return "is absurdly large or small"
    digits = int((match["whole"] or "") + part) * _BINARY.get(match["suffix"] or "", 1)
    power = exponent - len(part) + 9
    size = 10 ** abs(power)
    nanos: int = digits * size if power >= 0 else -(-digits // size)
    if nanos > MAX_AMOUNT * NANO:
        return "does not fit 64 bits"
    return -nanos if match["sign"] == "-" else nanos


def nanos(field: str, value: Any) -> int:
    """A quantity, written as text or as a plain JSON number, in nano units.

    Raises:
        BadInputError: it is none, or too large; ``field`` names it.
    """
    if value is None:
        return 0  # the zero quantity, as Kubernetes decodes null
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadInputError(field, f"{type(value).__name__} is not a quantity", _FIX)
    if isinstance(value, int) and abs(value) > MAX_AMOUNT:
        raise BadInputError(field, "does not fit 64 bits", _FIX)
    written = str(value)
    parsed = _parsed(written) if len(written) <= _MAX_LENGTH else "is absurdly long"
    if isinstance(parsed, str):
        raise BadInputError(field, f'"{written[:40]}" {parsed}', _FIX)
    return parsed


def canonical_name(resource: str) -> str:
    """The scheduler's name of a Kubernetes resource (contract 1.10)."""
    return keys.CPU if resource in _CPU_NAMES else resource


def amount(resource: str, nano: int) -> int:
    """A sum of nano units in the scheduler's unit of the resource: millicores or whole units, rounded up."""
    unit = _NANO_PER_MILLI if resource == keys.CPU else NANO
    return -(-nano // unit)


def amounts(nano_by_name: dict[str, int]) -> dict[str, int]:
    """Sums in nano units, by the scheduler's names, in the scheduler's units.

    Raises:
        BadInputError: a sum does not fit 64 bits.
    """
    result = {name: amount(name, nano) for name, nano in nano_by_name.items()}
    for name, value in result.items():
        if abs(value) > MAX_AMOUNT:
            raise BadInputError(name, "the sum does not fit 64 bits", "ask for less")
    return result


V = TypeVar("V")

#: Bytes of an entry beside its value: the digest, its place in the dictionary.
_OVERHEAD: Final = 160


def digest(text: bytes) -> bytes:
    """Collision-resistant digest of 16 bytes."""
    return blake2b(text, digest_size=16).digest()


class TranslationCache(Generic[V]):
    """Holds `limit_bytes` at most; what was used least recently goes first. `weigh`: bytes of a value."""

    def __init__(self, weigh: Callable[[V], int] = sys.getsizeof, limit_bytes: int = limits.MEMO_BYTES) -> None:
        self._weigh, self._limit = weigh, limit_bytes
        self._known: OrderedDict[bytes, tuple[V, int]] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    def get(self, text: bytes, build: Callable[[bytes], V]) -> V:
        """The value of the text, built if it is not known; what `build` raises is not kept."""
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
    """Sorted keys, no blanks.

    Raises:
        BadInputError: the value is nested too deeply, or holds what JSON or UTF-8 cannot say.
    """
    try:
        return _TEXTS.get(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), bytes.decode)
    except (TypeError, RecursionError) as error:
        raise BadInputError(field, f"cannot be written as JSON ({error})", "write plain, flat JSON") from error


def memoized(field: str, build: Callable[[dict[str, Any]], str]) -> Callable[[dict[str, Any]], str]:
    """The same function of a raw object's parts, which is asked once for equal parts; longer ones are refused unread.

    To write parts down as they are takes a tenth of the time that it takes to read them carefully. The function raises
    BadInputError, which names ``field``, for parts of more than CONSTRAINT_BYTES.
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
