"""Amounts, percents and spans of time as shapes carry them."""

from __future__ import annotations

from typing import Final

from muster_core.model.resources import Limit, Resources

_PERCENT: Final = 100
_SECOND: Final = 1_000_000_000
_UNITS: Final = ((3600 * _SECOND, "h"), (60 * _SECOND, "m"))


def amounts(found: Resources | Limit) -> dict[str, int]:
    """Amounts or bounds by name."""
    return dict(sorted(found.items()))


def percents(used: Resources, whole: Resources | Limit) -> dict[str, int]:
    """How much of the whole is used, of every resource that it has."""
    return {name: used[name] * _PERCENT // amount for name, amount in sorted(whole.items()) if amount > 0}


def span(nanoseconds: int) -> str:
    """A duration as Go writes it: `30s`, `1m30s`, `1h0m0s`."""
    if nanoseconds % _SECOND:
        return f"{nanoseconds / _SECOND:g}s"
    text, rest = "", nanoseconds
    for unit, letter in _UNITS:
        if rest >= unit or text:
            text += f"{rest // unit}{letter}"
            rest %= unit
    return f"{text}{rest // _SECOND}s"
