"""Quantities and semantic versions as CEL expressions read them: a canonical text, equal for equal values."""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil
from typing import Final

_QUANTITY: Final = re.compile(
    r"([+-]?)(\d{1,64}\.?\d{0,64}|\.\d{1,64})([KMGTPE]i|[numkMGTPE]?|[eE][+-]?\d{1,3})\Z", re.ASCII
)
_BINARY: Final = {name: 1024 ** (power + 1) for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}

#: Kubernetes stores quantities down to a billionth, and rounds up.
_BILLION: Final = 10**9


def quantity(text: str) -> int:
    """Returns a quantity in billionths. Raises ValueError if the text is none."""
    found = _QUANTITY.match(text)
    if found is None:
        raise ValueError(f"invalid quantity {text[:64]!r}")
    sign, digits, suffix = found.groups()
    number = Fraction(digits + "0" if digits.endswith(".") else digits)
    if suffix in _BINARY:
        number *= _BINARY[suffix]
    else:
        number *= Fraction(10) ** (_DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:]))
    return ceil(number * _BILLION) * (-1 if sign == "-" else 1)


def quantity_text(amount: int) -> str:
    """Returns billionths as a quantity, in binary units if it is a multiple of them."""
    whole, rest = divmod(amount, _BILLION)
    if rest:
        return f"{amount}n"
    units = (unit for unit, size in reversed(_BINARY.items()) if whole and whole % size == 0)
    unit = next(units, "")
    return f"{whole // _BINARY.get(unit, 1)}{unit}"


_NUMBER: Final = r"(0|[1-9]\d{0,19})"
_WORDS: Final = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_VERSION: Final = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_WORDS}))?(?:\+{_WORDS})?\Z", re.ASCII)

#: Major, minor, patch, and the identifiers of the pre-release. A release is later than its pre-releases.
Version = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]


def version(text: str) -> tuple[str, Version]:
    """Returns a semantic version without its build, and its order. Raises ValueError if the text is none."""
    found = _VERSION.match(text)
    if found is None:
        raise ValueError(f"invalid semantic version {text[:64]!r}")
    major, minor, patch, before = found.groups()
    words = before.split(".") if before else []
    if any(len(word) > 1 and word.isdigit() and word.startswith("0") for word in words):
        raise ValueError(f"invalid semantic version {text[:64]!r}")
    canonical = f"{major}.{minor}.{patch}" + (f"-{before}" if before else "")
    order = tuple((not word.isdigit(), int(word) if word.isdigit() else 0, word) for word in words)
    return canonical, (int(major), int(minor), int(patch), not words, order)


def normalized(text: str) -> str:
    """Removes the prefix v and leading zeros, and adds minor and patch, as `semver(text, true)` does."""
    text = text.removeprefix("v")
    core, mark, rest = text, "", ""
    for at, character in enumerate(text):
        if character in "-+":
            core, mark, rest = text[:at], character, text[at + 1 :]
            break
    parts = [part.lstrip("0") or "0" if part else part for part in core.split(".")]
    return ".".join([*parts, *["0"] * (3 - len(parts))]) + mark + rest
