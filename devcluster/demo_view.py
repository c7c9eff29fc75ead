"""The output of the demo about one gang: a live table on a terminal, else one line per change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from devcluster.api import Json
from devcluster.gang import GangView

COLUMNS = {"asked": "members", "created": "placeholders created", "bound": "members bound"}
"""Field of GroupCounts to column title."""


def table(view: GangView) -> Table:
    """One row per task group."""
    result = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    result.add_column("task group")
    for title in COLUMNS.values():
        result.add_column(title, justify="right")
    for name, counts in sorted(view.groups.items()):
        values = [getattr(counts, key) for key in COLUMNS]
        result.add_row(name, *(str(value if isinstance(value, int) else len(value)) for value in values))
    return result


def line(view: GangView) -> str:
    """Return the totals of all groups as one line."""
    bound, members, created = (view.total(key) for key in ("bound", "asked", "created"))
    return f"{bound} of {members} members are bound" + (f", {created} placeholders were created" if created else "")


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
