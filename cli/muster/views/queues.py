"""The tree of queues as a table, parents before children."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from muster.output import table
from muster.views.amounts import CPU, MEMORY, amounts, part

Json = dict[str, Any]


def flat(queue: Json) -> Iterator[Json]:
    """The queue and all below it."""
    yield queue
    for child in queue.get("children") or []:
        yield from flat(child)


def view(root: Json, wide: bool, now_ns: int) -> Table:  # noqa: FBT001  # the signature of a View
    """One row a queue: what runs, what is used of what may be, what waits."""
    more = ("GUARANTEED", "HEADROOM", "RESERVED", "ORDER", "PRIORITY", "PREEMPTION") if wide else ()
    made = table("QUEUE", "STATE", "RUNNING", "CPU", "MEMORY", "PENDING", *more)
    for queue in flat(root):
        used, most = queue["allocatedResource"], queue["maxResource"]
        running = (
            f"{queue['runningApps']}/{queue['maxRunningApps']}" if queue["maxRunningApps"] else queue["runningApps"]
        )
        cells = (
            queue["queuename"],
            queue["status"],
            str(running),
            part(CPU, used, most),
            part(MEMORY, used, most),
            amounts(queue["pendingResource"]),
        )
        made.add_row(*cells, *(_more(queue) if wide else ()))
    return made


def _more(queue: Json) -> tuple[str, ...]:
    return (
        amounts(queue["guaranteedResource"]),
        amounts(queue["headroom"]),
        amounts(queue["reservedQuota"]),
        queue["sortingPolicy"] if queue["isLeaf"] else "fair",
        str(queue["currentPriority"]),
        _preemption(queue),
    )


def _preemption(queue: Json) -> str:
    if not queue["preemptionEnabled"]:
        return "off"
    return "fence" if queue["isPreemptionFence"] else "on"
