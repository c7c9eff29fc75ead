"""Applications as a table, a row each."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from muster.output import table
from muster.views import pods
from muster.views.amounts import CPU, MEMORY, NONE, age, amount, amounts

Json = dict[str, Any]


def view(apps: list[Json], wide: bool, now_ns: int) -> Table:  # noqa: FBT001  # the signature of a View
    """What each has and what it waits for."""
    more = ("NAMESPACE", "GANG", "PRIORITY", "REQUESTS", "REASON") if wide else ()
    made = table(
        "APPLICATION", "QUEUE", "STATE", "USER", "PODS", "PLACEHOLDERS", "PENDING", "CPU", "MEMORY", "AGE", *more
    )
    for app in sorted(apps, key=lambda app: (app["queueName"], app["submissionTime"], app["applicationID"])):
        made.add_row(*_cells(app, now_ns), *(_more(app) if wide else ()))
    return made


def _cells(app: Json, now_ns: int) -> tuple[str, ...]:
    real = [item for item in app["allocations"] if not item["placeholder"]]
    used = app["usedResource"]
    return (
        app["applicationID"],
        app["queueName"],
        app["applicationState"],
        app["user"],
        str(len(real)),
        str(len(app["allocations"]) - len(real)),
        str(sum(ask["pendingCount"] for ask in app["requests"])),
        amount(CPU, used.get(CPU, 0)),
        amount(MEMORY, used.get(MEMORY, 0)),
        age(app["submissionTime"], now_ns),
    )


def _more(app: Json) -> tuple[str, ...]:
    reasons = dict.fromkeys(filter(None, (pods.why(ask) for ask in app["requests"])))
    return (
        app.get("namespace") or NONE,
        app.get("gangSchedulingStyle") or NONE,
        str(app["maxRequestPriority"]),
        amounts(app["pendingResource"]),
        app["rejectedMessage"] or next(iter(reasons), NONE),
    )
