"""Canonical JSON: equal facts are equal strings, and the same short string is one object in memory (semantics 21)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from muster_operator.model import limits
from muster_operator.model.errors import BadInputError
from muster_operator.translate.memo import Memo

_TEXTS: Final[Memo[str]] = Memo()


def canonical(field: str, value: Any) -> str:
    """Sorted keys, no blanks.

    Raises:
        BadInputError: the value is nested too deeply, or holds what JSON or UTF-8 cannot say.
    """
    try:
        return _TEXTS.get(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), bytes.decode)
    except (TypeError, RecursionError) as error:
        raise BadInputError(field, f"cannot be written as JSON ({error})", "write plain, flat JSON") from error


def remembered(field: str, build: Callable[[dict[str, Any]], str]) -> Callable[[dict[str, Any]], str]:
    """The same function of a raw object's parts, which is asked once for equal parts; longer ones are refused unread.

    To write parts down as they are takes a tenth of the time that it takes to read them carefully. The function raises
    BadInputError, which names ``field``, for parts of more than CONSTRAINT_BYTES.
    """
    known: Memo[str] = Memo()

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
