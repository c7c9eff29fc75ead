"""Canonical JSON: equal facts are equal strings, and the same string is one object in memory (semantics 21)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import orjson

from muster_operator.model.errors import BadInputError


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
