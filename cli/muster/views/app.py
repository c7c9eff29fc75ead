"""One application: what it is, the states it went through, its gang, its pods."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from muster.output import table
from muster.views import pods
from muster.views.amounts import NONE, age, amounts, size, span

Json = dict[str, Any]


def view(app: Json, wide: bool, now_ns: int) -> RenderableType:  # noqa: FBT001  # the signature of a View
    """Everything that fits on a page, in tables one below the other."""
    parts: list[RenderableType] = [facts(app, now_ns), "", phases(app, now_ns)]
    if app["placeholderData"]:
        parts += ["", groups(app)]
    if app["allocations"] or app["requests"]:
        parts += ["", members(app, now_ns, wide=wide)]
    return Group(*parts)


def facts(app: Json, now_ns: int) -> Table:
    """What it is and has."""
    made = Table.grid(padding=(0, 2))
    rows = {
        "application": app["applicationID"],
        "namespace": app.get("namespace") or "",
        "queue": app["queueName"],
        "state": app["applicationState"],
        "user": app["user"] + (f" ({', '.join(app['groups'])})" if app["groups"] else ""),
        "age": age(app["submissionTime"], now_ns),
        "rejected": app["rejectedMessage"],
        "gang": app.get("gangSchedulingStyle") or "",
        "gang size": amounts(app["placeholderAsk"]) if app["placeholderAsk"] else "",
        "quota reservation": amounts(app["reservedQuota"]) if app["reservedQuota"] else "",
        "allocated": amounts(app["usedResource"]),
        "pending": amounts(app["pendingResource"]) if any(app["pendingResource"].values()) else "",
        "reserved nodes": ", ".join(dict.fromkeys(entry.partition("|")[0] for entry in app["reservations"])),
    }
    for label, told in rows.items():
        if told:
            made.add_row(label, told)
    return made


def phases(app: Json, now_ns: int) -> Table:
    """When it came into each state, and how long it stayed there."""
    made = table("STATE", "SINCE", "FOR")
    log = app["stateLog"]
    ends = [*(entry["time"] for entry in log[1:]), app.get("finishedTime") or now_ns]
    for entry, end in zip(log, ends, strict=True):
        made.add_row(entry["applicationState"], age(entry["time"], now_ns), span((end - entry["time"]) // 10**9))
    return made


def groups(app: Json) -> Table:
    """What became of the gang's places, by task group."""
    made = table(
        "TASK GROUP", "EACH", "PLACEHOLDERS", "RUNNING", "REPLACED", "TIMED OUT", "MEMBERS BOUND", "MEMBERS PENDING"
    )
    for group in sorted(app["placeholderData"], key=lambda group: str(group["taskGroupName"])):
        name = group["taskGroupName"]
        placed = [item for item in app["allocations"] if item["taskGroupName"] == name]
        waiting = [item for item in app["requests"] if item["taskGroupName"] == name and not item["placeholder"]]
        held = sum(bool(item["placeholder"]) for item in placed)
        counts = (group["count"], held, group["replaced"], group["timedout"], len(placed) - held, len(waiting))
        made.add_row(name, size(group["minResource"]), *map(str, counts))
    return made


def members(app: Json, now_ns: int, *, wide: bool) -> Table:
    """Pods and placeholders, those that have a place first."""
    more = ("PRIORITY", "REQUESTS", "KEY") if wide else ()
    made = table("POD", "TASK GROUP", "KIND", "NODE", "STATE", "AGE", *more, "REASON")
    for item in [*_by_name(app["allocations"]), *_by_name(app["requests"])]:
        extra = (item["priority"], size(item["resource"]), item["allocationKey"]) if wide else ()
        made.add_row(
            pods.full_name(item),
            item["taskGroupName"] or NONE,
            "placeholder" if item["placeholder"] else "pod",
            pods.node(item) or NONE,
            pods.state(item),
            age(item["requestTime"], now_ns),
            *extra,
            _why(app, item),
        )
    return made


def _by_name(items: list[Json]) -> list[Json]:
    return sorted(items, key=lambda item: (bool(item["placeholder"]), pods.full_name(item)))


def _why(app: Json, item: Json) -> str:
    if "nodeId" in item or item.get("replaces"):
        return ""
    return pods.why(item) or waits_for_its_gang(app, item)


def waits_for_its_gang(app: Json, item: Json) -> str:
    """Why an ask waits that was not even tried: its gang has not got its places yet."""
    places = [other for other in app["requests"] if other["placeholder"]]
    if item["placeholder"] or not (places and app.get("gangSchedulingStyle")):
        return ""
    return "its gang is not complete"
