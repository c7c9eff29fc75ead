"""Renders the manifests of scheduler_perf: the part of Go's text/template that they use.

Actions are ``{{expression}}``, ``{{$name := expression}}``, ``if``, ``else``, ``range`` over a number, and ``end``. An
expression is a value, a call (``DivideInt .Index 4``), or a pipeline of both. Anything else raises ValueError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import yaml

Values = dict[str, Any]
_ACTION = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_TOKEN = re.compile(r'\s*("[^"]*"|[()|]|:=|[$.\w]+)')
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "AddInt": lambda a, b: int(a) + int(b),
    "DivideInt": lambda a, b: int(a) // int(b),
    "Mod": lambda a, b: int(a) % int(b),
    "Int": int,
    "JSON": json.dumps,
    "or": lambda *values: next(filter(None, values), values[-1]),
}


def manifest(text: str, values: Mapping[str, Any]) -> Any:  # a document of any kind
    """Return the YAML document of a template with these values (``.name`` in the template)."""
    return yaml.load(render(text, values), _LOADER)  # noqa: S506 # a safe loader


def render(text: str, values: Mapping[str, Any]) -> str:
    """Return the text of a template with these values. A value that is missing is empty."""
    parts = _parts(text)
    found, end = _render(parts, 0, {f".{name}": value for name, value in values.items()})
    if end != len(parts):
        raise ValueError(f"unexpected {parts[end]!r}")
    return found


@cache
def _parts(text: str) -> list[str]:
    """Return text and actions alternately."""
    return _ACTION.split(text)


def _render(parts: list[str], at: int, values: Values | None) -> tuple[str, int]:
    """Render from a text until the action that ends the block. Returns the position of that action.

    ``values``: None for a block to skip, whose expressions may have no value.
    """
    found = [parts[at]]
    while (at := at + 1) < len(parts):
        action, _, rest = parts[at].partition(" ")
        some = ""
        match action:
            case "end" | "else":
                break
            case "if":
                holds = values is not None and bool(_value(rest, values))
                some, at = _render(parts, at + 1, values if holds else None)
                if parts[at] == "else":
                    other, at = _render(parts, at + 1, None if holds else values)
                    some = some if holds else other
            case "range":
                count = 0 if values is None else int(_value(rest, values))
                rendered = [_render(parts, at + 1, {**(values or {}), ".": number}) for number in range(count)]
                some = "".join(text for text, _ in rendered)
                at = _render(parts, at + 1, None)[1]
            case _ if values is None:
                pass
            case _ if rest.startswith(":="):
                values[action] = _value(rest.removeprefix(":="), values)
            case _:
                some = _shown(_value(parts[at], values))
        at += 1
        found += [some, parts[at]]
    return "" if values is None else "".join(found), at


def _value(expression: str, values: Values) -> Any:  # the value of a template
    tokens = [match[1] for match in _TOKEN.finditer(expression)]
    if "".join(tokens) != re.sub(r'\s+(?=(?:[^"]*"[^"]*")*[^"]*$)', "", expression):
        raise ValueError(f"unsupported expression: {expression}")
    reading = iter(tokens)
    return _pipeline(reading, values)


def _pipeline(tokens: Iterator[str], values: Values) -> Any:
    """Evaluate up to the end or the closing parenthesis. The result of a command is the argument of the next."""
    command: list[Any] = []
    for token in tokens:
        match token:
            case "(":
                command.append(_pipeline(tokens, values))
            case ")":
                break
            case "|":
                command = [_FUNCTIONS[next(tokens)], _called(command)]
            case _:
                command.append(_FUNCTIONS[token] if token in _FUNCTIONS else _operand(token, values))
    return _called(command)


def _called(command: list[Any]) -> Any:
    first, *arguments = command
    if callable(first):
        return first(*arguments)
    if arguments:
        raise ValueError(f"{first!r} is not a function")
    return first


def _operand(token: str, values: Values) -> Any:
    if token.startswith('"'):
        return token[1:-1]
    if token[0] in ".$":
        return values.get(token)
    return None if token == "nil" else int(token)  # noqa: S105 # no password


def _shown(value: object) -> str:
    return "" if value is None else str(value)
