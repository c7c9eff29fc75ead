"""Amounts, parts of a whole, and times in words. REST's units: vcore in millicores, memory in bytes, nanoseconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

CPU: Final = "vcore"
MEMORY: Final = "memory"
PODS: Final = "pods"
NONE: Final = "-"

_MILLI: Final = 1000
_KIBI: Final = 1024
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_SECOND: Final = 1_000_000_000
_SPANS: Final = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_BYTES: Final = (MEMORY, "ephemeral-storage")


def amount(resource: str, value: int) -> str:
    """As a Kubernetes quantity: `2`, `1500m`, `4Gi`."""
    if resource == CPU:
        return f"{value}m" if value % _MILLI else str(value // _MILLI)
    if resource not in _BYTES and not resource.startswith("hugepages-"):
        return str(value)
    size, step = float(value), 0
    while abs(size) >= _KIBI and step < len(_BINARY) - 1:
        size, step = size / _KIBI, step + 1
    return f"{round(size, 1):g}{_BINARY[step]}"


def amounts(found: Mapping[str, int] | None) -> str:
    """All of them in one cell: `cpu 1500m, memory 4Gi`."""
    known = found or {}
    return ", ".join(f"{label(name)} {amount(name, known[name])}" for name in in_order(known)) or NONE


def size(found: Mapping[str, int] | None) -> str:
    """Of one pod: that it is one pod goes without saying."""
    return amounts({name: value for name, value in (found or {}).items() if (name, value) != (PODS, 1)})


def in_order(names: Iterable[str]) -> list[str]:
    """CPU and memory first."""
    return sorted(names, key=lambda name: (name != CPU, name != MEMORY, name))


def label(resource: str) -> str:
    """As manifests call it."""
    return "cpu" if resource == CPU else resource


def part(resource: str, used: Mapping[str, int], whole: Mapping[str, int]) -> str:
    """`3/6`; without a bound `3`."""
    taken = amount(resource, used.get(resource, 0))
    return f"{taken}/{amount(resource, whole[resource])}" if resource in whole else taken


def percent(resource: str, used: Mapping[str, int], whole: Mapping[str, int]) -> str:
    """How much of it is used; nothing of nothing is no part."""
    return f"{100 * used.get(resource, 0) // whole[resource]}%" if whole.get(resource) else NONE


def age(at_ns: int, now_ns: int) -> str:
    """How long ago, in the two largest units: `3m20s`."""
    return span((now_ns - at_ns) // _SECOND) if at_ns else NONE


def span(seconds: int) -> str:
    """In the two largest units."""
    left, told = max(0, int(seconds)), list[str]()
    for unit, letter in _SPANS:
        if left >= unit and len(told) < 2:
            told.append(f"{left // unit}{letter}")
        elif told:
            break
        left %= unit
    return "".join(told) or "0s"


def count(number: int, thing: str) -> str:
    """`1 node`, `3 nodes`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
