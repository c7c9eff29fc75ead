"""Regular expressions that people write, by an engine that cannot be made to hang.

RE2 is the grammar that YuniKorn's users know (Go has the same), takes time in
proportion to the text, and memory up to a bound: no expression and no name,
however made, stops the core. Source: contract 2.10.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import re2

#: Characters of an expression.
MOST_CHARACTERS: Final = 1024
#: Bytes that one compiled expression may take.
_MOST_MEMORY: Final = 1024 * 1024


def problem(expression: str) -> str:
    """Why the expression cannot be used; empty = it can."""
    if len(expression) > MOST_CHARACTERS:
        return f"it is longer than {MOST_CHARACTERS} characters"
    try:
        _compiled(expression)
    except re2.error as error:
        said = error.args[0] if error.args else error
        return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    return ""


def matches(expression: str, name: str) -> bool:
    """Whether the expression, one without a problem, is found anywhere in the name."""
    return _compiled(expression).search(name) is not None


@lru_cache(maxsize=256)
def _compiled(expression: str) -> re2._Regexp:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    return re2.compile(expression, options)
