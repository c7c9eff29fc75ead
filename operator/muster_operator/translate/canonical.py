"""Canonical JSON: equal facts are equal strings, and the same string is one object in memory (semantics 21)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import orjson

from muster_operator.model.errors import BadInputError

#: Distinct parts of objects whose facts are remembered; a class of pods has one of each.
_REMEMBERED: Final = 2048


@lru_cache(maxsize=8192)
def _text(encoded: bytes) -> str:
    return encoded.decode()


def canonical(field: str, value: Any) -> str:
    """Sorted keys, no blanks.

    Raises:
        BadInputError: the value is nested too deeply, or holds what JSON or UTF-8 cannot say.
    """
    try:
        return _text(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))
    except (TypeError, RecursionError) as error:
        raise BadInputError(field, f"cannot be written as JSON ({error})", "write plain, flat JSON") from error


def remembered(build: Callable[[dict[str, Any]], str]) -> Callable[[dict[str, Any]], str]:
    """The same function of a raw object's parts, which is asked once for equal parts.

    To write parts down as they are takes a tenth of the time that it takes to read them carefully.
    """

    @lru_cache(maxsize=_REMEMBERED)
    def of_text(text: bytes) -> str:
        return build(orjson.loads(text))

    def of_parts(parts: dict[str, Any]) -> str:
        try:
            text = orjson.dumps(parts)
        except (TypeError, RecursionError):
            return build(parts)
        return of_text(text)

    return of_parts
