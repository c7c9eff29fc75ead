"""Why something waits, in sentences and small tables."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table

from muster.output import table
from muster.views.amounts import age, amounts, count

Json = dict[str, Any]

#: Of those ahead, on a page that is not wide.
_SHOWN: Final = 5
_EVERY: Final = -1


def view(found: Json, wide: bool, now_ns: int) -> RenderableType:  # noqa: FBT001  # the signature of a View
    """The status first, then its reasons."""
    parts: list[RenderableType] = [_head(found)]
    for because in found["because"]:
        parts += ["", *_because(because)]
    if found["attempts"]:
        parts += ["", "Preemption: " + "; ".join(found["attempts"])]
    if found["ahead"]:
        parts += ["", *_ahead(found, now_ns, wide=wide)]
    return Group(*parts)


def _head(found: Json) -> Table:
    made = Table.grid(padding=(0, 2))
    if found["pod"]:
        made.add_row("pod", found["pod"])
    made.add_row("application", f"{found['application']} ({found['state']})")
    room = found["room"]
    left = f", {amounts(room['headroom'])} available" if room else ", which no longer exists"
    made.add_row("queue", found["queue"] + left)
    made.add_row("bound", str(found["bound"]))
    made.add_row("pending", str(found["pending"]))
    made.add_row("status", found["status"])
    return made


def _because(because: Json) -> list[RenderableType]:
    parts: list[RenderableType] = [f"{_who(because)}: {because['message']}"]
    if because["reasons"]:
        counts = table("NODES", "REASON")
        for reason, number in sorted(because["reasons"].items(), key=lambda entry: (-entry[1], entry[0])):
            counts.add_row("all" if number == _EVERY else str(number), reason)
        parts.append(counts)
    if because["suggestion"]:
        parts.append(f"Suggestion: {because['suggestion']}")
    return parts


def _who(because: Json) -> str:
    """`2 pods (a, b)`, `4 placeholders of workers`: names of placeholders are generated."""
    who = count(because["count"], because["kind"])
    if because["kind"] == "placeholder" and because["groups"]:
        return f"{who} of {', '.join(sorted(because['groups']))}"
    more = because["count"] - len(because["pods"])
    return f"{who} ({', '.join(because['pods'])}{f' and {more} more' if more > 0 else ''})"


def _ahead(found: Json, now_ns: int, *, wide: bool) -> list[RenderableType]:
    ahead = found["ahead"]
    shown = ahead if wide else ahead[:_SHOWN]
    made = table("APPLICATION", "STATE", "PRIORITY", "REQUESTS", "AGE", "")
    for item in shown:
        made.add_row(
            item["applicationID"],
            item["applicationState"],
            str(item["priority"]),
            amounts(item["pendingResource"]),
            age(item["submissionTime"], now_ns),
            "blocks the queue" if item["blocksOthers"] else "",
        )
    rest = len(ahead) - len(shown)
    parts: list[RenderableType] = [f"Ahead in queue {found['queue']}: {count(len(ahead), 'application')}", made]
    return [*parts, f"and {rest} more (-o wide)"] if rest else parts
