"""The output of the demo: a live table on a terminal, else one line per change, and a summary at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from devcluster.api import Json
from devcluster.gang import GangView

COLUMNS = {
    "asked": "asked",
    "created": "placeholders created",
    "reserved": "bound",
    "released": "released",
    "replaced": "replaced",
    "bound": "real pods bound",
    "finished": "done",
}
"""Field of GroupCounts to column title, in the order of a gang's life cycle."""


def table(view: GangView) -> Table:
    """One row per task group."""
    result = Table(title="the gang, by task group")
    result.add_column("task group")
    for title in COLUMNS.values():
        result.add_column(title, justify="right")
    for name, counts in sorted(view.groups.items()):
        values = [getattr(counts, key) for key in COLUMNS]
        result.add_row(name, *(str(value if isinstance(value, int) else len(value)) for value in values))
    return result


def line(view: GangView) -> str:
    """Return the totals of all groups as one line."""
    return ", ".join(f"{title} {view.total(key)}" for key, title in COLUMNS.items())


class Progress:
    """Shows changes of the view: ``with Progress(console, view) as progress``."""

    def __init__(self, console: Console, view: GangView) -> None:
        self._console = console
        self._view = view
        self._last = ""
        self._live = Live(table(view), console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.show()
        if self._live is not None:
            self._live.stop()

    def show(self) -> None:
        """Update the output if the view has changed."""
        text = line(self._view)
        if text == self._last or not self._view.groups:
            return
        self._last = text
        if self._live is not None:
            self._live.update(table(self._view), refresh=True)
        else:
            self._console.print(text, soft_wrap=True)


def summary(view: GangView, applied_at: float, writes: Mapping[str, int] | None) -> Table:
    """Return milestones in seconds after ``kubectl apply``, counts, and the operator's writes if they are known."""
    result = Table(title="what happened", show_header=False)
    result.add_column("what")
    result.add_column("how much", justify="right")
    for milestone, at in view.milestones.items():
        result.add_row(milestone, f"{at - applied_at:6.2f} s")
    result.add_section()
    for key, title in COLUMNS.items():
        result.add_row(title, str(view.total(key)))
    if writes:
        result.add_section()
        for what, count in sorted(writes.items()):
            result.add_row(f"operator: {what}", str(count))
        members = view.total("asked") or 1
        result.add_row("operator: writes per gang member", f"{sum(writes.values()) / members:.1f}")
    return result


def recording(view: GangView, applied_at: float, writes: Mapping[str, int] | None) -> Json:
    """Return the observed events as JSON. Times are seconds after ``kubectl apply``."""

    def after(at: float | None) -> float | None:
        return None if at is None else round(at - applied_at, 3)

    return {
        "asked": {name: counts.asked for name, counts in sorted(view.groups.items())},
        "milestones": {milestone: after(at) for milestone, at in view.milestones.items()},
        "writes": dict(writes or {}),
        "pods": {
            name: asdict(life) | {moment: after(getattr(life, moment)) for moment in ("seen", "bound", "ended")}
            for name, life in sorted(view.lives.items())
        },
    }
