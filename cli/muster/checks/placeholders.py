"""Placeholders without a signature, of YuniKorn or of an older Muster. They count as ordinary pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from muster.checks.finding import Finding, fine, warning

Json = dict[str, Any]

CHECK: Final = "placeholders"
MARKS: Final = ("internal.yunikorn.apache.org/placeholder", "yunikorn.apache.org/placeholder")
SIGNATURE: Final = "internal.yunikorn.apache.org/placeholder-signature"
_SHOWN: Final = 3


def unsigned(pods: Iterable[Json], names: frozenset[str]) -> list[Json]:
    """The pods of these scheduler names that are marked as placeholders and carry no signature."""
    return [pod for pod in pods if (pod.get("spec") or {}).get("schedulerName") in names and _is_unsigned(pod)]


def judged(pods: Iterable[Json], names: frozenset[str]) -> Iterator[Finding]:
    """`pods`: those that have not ended; `names`: the scheduler names that Muster serves."""
    found = unsigned(pods, names)
    if not found:
        yield fine(CHECK, "all are signed")
        return
    shown = ", ".join(place(pod) for pod in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    yield warning(
        CHECK,
        f"{shown}{more} have no signature: they count as ordinary pods and keep their resources",
        "delete them with muster placeholders --delete, once no YuniKorn uses them",
    )


def place(pod: Json) -> str:
    """Namespace and name."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _is_unsigned(pod: Json) -> bool:
    annotations = pod["metadata"].get("annotations") or {}
    return any(annotations.get(mark) == "true" for mark in MARKS) and not annotations.get(SIGNATURE)
