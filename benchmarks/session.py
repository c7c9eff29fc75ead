"""The progress of a benchmark session: running step, expected time, remaining steps, and failures.

The expected time of a step is that of the last run in the results file. Without a terminal, each step is printed as a
line.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

UNKNOWN_S = 15.0
"""Expected time of a step without an earlier run."""


@dataclass(slots=True)
class Session:
    """The steps of a session by name; a step may repeat. Prints nothing except while ``shown``."""

    known: Mapping[str, float] = field(default_factory=dict)
    """Seconds of earlier runs by step."""
    failures: list[str] = field(default_factory=list)
    took: dict[str, list[float]] = field(default_factory=dict)
    load_before: float = field(default_factory=lambda: os.getloadavg()[0])
    _left: Counter[str] = field(default_factory=Counter)
    _done: int = 0
    _planned: int = 0
    _now: tuple[str, float] | None = None
    _console: Console | None = None
    _bar: Progress | None = None

    def plan(self, steps: Iterable[str]) -> None:
        """Add steps that will follow, in any order."""
        self._left.update(steps)
        self._planned = self._done + self._left.total()

    @contextmanager
    def shown(self, console: Console) -> Iterator[None]:
        """Show the progress on this console during the block."""
        self._console = console
        if not console.is_terminal:
            yield
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), _Left(self))
        with Progress(*columns, console=console, transient=True, refresh_per_second=2) as self._bar:
            self._bar.add_task("", total=None)
            yield
        self._bar = None

    @contextmanager
    def step(self, name: str, words: str = "") -> Iterator[None]:
        """Run one step during the block. ``words`` describes it."""
        began = time.monotonic()
        self._now = (name, began)
        self._show(f"{name} {words}".strip())
        try:
            yield
        finally:
            self.took.setdefault(name, []).append(time.monotonic() - began)
            self._left[name] -= 1
            self._left += Counter()  # drops completed steps
            self._done += 1
            self._now = None

    def print_line(self, words: str) -> None:
        """Print a line above the progress."""
        if self._console is not None:
            self._console.print(words, style="dim", markup=False, highlight=False)

    def fail(self, words: str) -> None:
        """Record a failed step. The other steps continue."""
        self.failures.append(words)
        if self._console is not None:
            self._console.print(words, style="red", markup=False, highlight=False)

    def left_s(self) -> float:
        """Expected seconds until all planned steps are done."""
        seconds = sum(self._expected(name) * count for name, count in self._left.items())
        if self._now is not None:
            name, began = self._now
            seconds -= min(time.monotonic() - began, self._expected(name))
        return seconds

    def medians(self) -> dict[str, float]:
        """Return the median seconds by step, from this and earlier runs, for the next run."""
        return {**self.known, **{name: round(statistics.median(values), 1) for name, values in self.took.items()}}

    def _expected(self, name: str) -> float:
        seen: Sequence[float] = self.took.get(name, ())
        return statistics.median(seen) if seen else self.known.get(name, UNKNOWN_S)

    def _show(self, words: str) -> None:
        title = f"[{min(self._done + 1, self._planned)}/{self._planned}] {words}"
        if self._bar is not None:
            total = self.left_s() + sum(sum(values) for values in self.took.values())
            self._bar.update(self._bar.task_ids[0], description=title, total=total, completed=total - self.left_s())
        elif self._console is not None:
            about = self._expected(self._now[0]) if self._now else 0.0
            self._console.print(
                f"{title}: about {about:.0f} s; {minutes(self.left_s())}", markup=False, highlight=False
            )


class _Left(ProgressColumn):
    """The expected remaining time."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def render(self, task: Task) -> Text:
        return Text(minutes(self._session.left_s()), style="cyan")


def minutes(seconds: float) -> str:
    """Format seconds for people."""
    return f"{seconds:.0f} s left" if seconds < 90 else f"{seconds / 60:.0f} min left"
