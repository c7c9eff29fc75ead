"""Muster on one page: is it well, how full is the cluster, what waits."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from muster.views.amounts import age, amounts, count, in_order, label, part, percent

Json = dict[str, Any]


def is_well(status: Json) -> bool:
    """Whether the core schedules and its checks found nothing."""
    health = status["health"]
    return bool(status["ready"]["ready"] and status["partitions"] and (health is None or health["Healthy"]))


def view(status: Json, wide: bool, now_ns: int) -> Table:  # noqa: FBT001  # the signature of a View
    """A line for each question, those of health first."""
    made = Table.grid(padding=(0, 2))
    ready = status["ready"]
    made.add_row("core", "schedules" if ready["ready"] else f"does not schedule: {ready['message']}")
    for cluster in status["clusters"]:
        made.add_row("version", f"{cluster['coreVersion']}, up for {age(cluster['startTime'], now_ns)}")
    _add_health(made, status["health"])
    if not status["partitions"]:
        made.add_row("cluster", "no operator has registered")
    for partition in status["partitions"]:
        _add_partition(made, partition, wide=wide)
    missing = sum(item["count"] for item in status["outstanding"])
    if missing:
        # An application may want places of several sizes: only of one size its count can be told.
        made.add_row("resources missing", count(missing, "pod"))
        for item in status["outstanding"] if wide else ():
            made.add_row(
                "", f"{item['count']} x {amounts(item['resource'])} for {count(item['applications'], 'application')}"
            )
    return made


def _add_health(made: Table, health: Json | None) -> None:
    if health is None:
        made.add_row("health", "not checked yet")
        return
    broken = [check for check in health["HealthChecks"] if not check["Succeeded"]]
    made.add_row("health", f"{count(len(broken), 'check')} failed" if broken else "all checks passed")
    for check in broken:
        made.add_row("", f"{check['Name']}: {check['DiagnosisMessage']}")


def _add_partition(made: Table, partition: Json, *, wide: bool) -> None:
    whole, used = partition["capacity"]["capacity"], partition["capacity"]["usedCapacity"]
    made.add_row("nodes", f"{partition['totalNodes']}, {partition['nodeSortingPolicy']['type']} order")
    shown = [name for name in in_order(whole) if wide or name in used]
    parts = (f"{label(name)} {part(name, used, whole)} ({percent(name, used, whole)})" for name in shown)
    made.add_row("used", ", ".join(parts) or "nothing")
    states = {state: number for state, number in partition["applications"].items() if state != "total"}
    made.add_row("applications", ", ".join(f"{number} {state}" for state, number in sorted(states.items())) or "none")
    made.add_row("allocations", str(partition["totalContainers"]))
