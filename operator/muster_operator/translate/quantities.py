"""Kubernetes quantities as exact integers.

A quantity is kept in nano units, the finest that Kubernetes knows, so that sums are exact and only the end result is
rounded, up, as Kubernetes does. Source: the quantity grammar in the Kubernetes API documentation.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from muster_operator.model.errors import BadInputError
from muster_operator.model.resources import MAX_AMOUNT
from muster_si import keys

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
