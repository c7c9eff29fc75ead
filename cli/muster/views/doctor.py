"""Findings as a table, the most severe ones last."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Group, RenderableType

from muster.output import table
from muster.views.amounts import count

Json = dict[str, Any]

_ORDER: Final = ("fine", "unknown", "warning", "problem")


def view(found: list[Json], wide: bool, now_ns: int) -> RenderableType:  # noqa: FBT001  # the signature of a View
    """One row per finding, and the remedies below."""
    made = table("CHECK", "RESULT", "MESSAGE")
    in_order = sorted(found, key=lambda finding: _ORDER.index(finding["level"]))
    for finding in in_order:
        made.add_row(finding["check"], finding["level"], finding["message"])
    remedies = [f"{finding['check']}: {finding['remedy']}" for finding in in_order if finding["remedy"]]
    parts: list[RenderableType] = [made, "", _summary(found)]
    return Group(*parts, *(f"  {remedy}" for remedy in dict.fromkeys(remedies)))


def _summary(found: list[Json]) -> str:
    numbers = {level: sum(finding["level"] == level for finding in found) for level in reversed(_ORDER)}
    told = [count(number, level) for level, number in numbers.items() if number and level in ("problem", "warning")]
    if numbers["unknown"]:
        told.append(f"{numbers['unknown']} skipped")
    return ", ".join(told) or "no problems found"
