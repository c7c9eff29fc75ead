"""Nodes as a table: how full, and whether something may go there."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from muster.output import table
from muster.views.amounts import CPU, MEMORY, NONE, amounts, part, percent

Json = dict[str, Any]


def view(nodes: list[Json], wide: bool, now_ns: int) -> Table:  # noqa: FBT001  # the signature of a View
    """What applications have of what each node has; `OTHERS`: what other schedulers run there."""
    more = ("PODS", "OTHERS USE", "FREE", "RESERVED FOR") if wide else ()
    made = table("NODE", "STATE", "CPU", "", "MEMORY", "", "ALLOCATIONS", "OTHERS", *more)
    for node in sorted(nodes, key=lambda node: str(node["nodeID"])):
        used, whole = node["allocated"], node["capacity"]
        made.add_row(
            node["nodeID"],
            node["state"],
            part(CPU, used, whole),
            percent(CPU, used, whole),
            part(MEMORY, used, whole),
            percent(MEMORY, used, whole),
            str(len(node["allocations"])),
            str(len(node["foreignAllocations"])),
            *(_more(node) if wide else ()),
        )
    return made


def _more(node: Json) -> tuple[str, ...]:
    return (
        part("pods", node["allocated"], node["capacity"]),
        amounts(node["occupied"]),
        amounts(node["available"]),
        ", ".join(node["reservations"]) or NONE,
    )
