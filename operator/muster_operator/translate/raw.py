"""Careful reading of raw JSON-like objects: a value of another kind than expected counts as absent.

Used by every module here and by nothing outside: raw objects end in this package.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any, Final

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
