"""Compares two commits of this repository: each in its own working tree, alternately, on the same machine.

Each tree uses its own benchmarks and environment (``make setup``). Therefore only names that both trees have can be
compared, and results of a benchmark that changed between the commits are meaningless.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from rich.table import Table

from benchmarks.session import Session
from devcluster.errors import DevclusterError

ROOT = Path(__file__).parents[1]
SETUP = "make setup"


class NotComparable(DevclusterError):
    """A commit cannot be set up or measured, or the commits have no common benchmark."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A checked-out commit."""

    commit: str
    folder: Path

    def set_up(self) -> None:
        """Create its environment. Raises NotComparable."""
        self._output("make", "setup")

    def names(self, words: Sequence[str]) -> list[str]:
        """Return the benchmarks of this tree that match the words."""
        return self._output(*self._benchmarks(), "--list", *words).split()

    def measured(self, names: Sequence[str], *, quick: bool) -> list[dict[str, Any]]:
        """Run each benchmark once and return the figures as JSON. Raises NotComparable."""
        file = self.folder / "figures.json"
        alone = "--no-peers" if "--no-peers" in self._output(*self._benchmarks(), "--help") else ""
        flags = filter(None, ("--runs=1", f"--json={file}", "--quick" if quick else "", alone))
        self._output(*self._benchmarks(), *names, *flags)
        found: list[dict[str, Any]] = orjson.loads(file.read_bytes())["figures"]
        return found

    def _benchmarks(self) -> tuple[str, ...]:
        return (str(self.folder / ".venv/bin/python"), "-m", "benchmarks")

    def _output(self, *command: str) -> str:
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            words = (done.stdout + done.stderr)[-2000:]
            raise NotComparable(f"{self.commit}: {' '.join(command)} ended with {done.returncode}\n{words}")
        return done.stdout


@dataclass(slots=True)
class Compared:
    """The values of one figure for both commits, by round."""

    unit: str
    less_is_better: bool
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)

    def times(self) -> list[float]:
        """How many times better the second commit was in each round."""
        pairs = zip(self.before, self.after, strict=True)
        return [old / new if self.less_is_better else new / old for old, new in pairs]


def compare(commits: tuple[str, str], words: Sequence[str], session: Session, *, runs: int, quick: bool) -> Table:
    """Measure both commits alternately and return a table of ratios (second to first). Raises NotComparable."""
    with _trees(commits) as trees:
        session.plan([SETUP] * len(trees))
        for tree in trees:
            with session.step(SETUP, tree.commit):
                tree.set_up()
        families = _common(trees, words)
        session.plan([family for family in families for _ in range(2 * runs)])
        found: dict[str, Compared] = {}
        for number in range(runs):
            for family, names in families.items():
                figures: dict[Path, list[dict[str, Any]]] = {}
                for tree in trees if number % 2 == 0 else trees[::-1]:
                    with session.step(family, tree.commit):
                        figures[tree.folder] = tree.measured(names, quick=quick)
                add(found, figures[trees[0].folder], figures[trees[1].folder])
    return table(commits, found)


def add(found: dict[str, Compared], before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> None:
    """Add the figures of one round."""
    old = {figure["name"]: figure["median"] for figure in before}
    for figure in after:
        name = figure["name"]
        if name in old and old[name] and figure["median"]:
            # Old reports do not contain which direction is better.
            one = found.setdefault(name, Compared(figure["unit"], figure.get("less_is_better", False)))
            one.before.append(old[name])
            one.after.append(figure["median"])


def table(commits: tuple[str, str], found: Mapping[str, Compared]) -> Table:
    """Return a table with one row per figure."""
    rows = Table("figure", "unit", *commits, "times better", "lowest to highest")
    for name, one in found.items():
        times = one.times()
        middle = statistics.median(times)
        # A ratio outside of the variation between rounds is a real change.
        colour = "[green]" if min(times) > 1 else "[red]" if max(times) < 1 else ""
        medians = (f"{statistics.median(side):.4g}" for side in (one.before, one.after))
        rows.add_row(name, one.unit, *medians, f"{colour}{middle:.2f}x", f"{min(times):.2f} to {max(times):.2f}")
    return rows


def _common(trees: Sequence[Tree], words: Sequence[str]) -> dict[str, list[str]]:
    """Return the common names by family, because names of a family share their preparation."""
    before, after = (tree.names(words) for tree in trees)
    found: dict[str, list[str]] = defaultdict(list)
    for name in before:
        if name in set(after):
            found[name.partition("/")[0]].append(name)
    if not found:
        raise NotComparable(f"{trees[0].commit} and {trees[1].commit} have no such benchmark in common")
    return found


@contextmanager
def _trees(commits: Sequence[str]) -> Iterator[list[Tree]]:
    """Check out both commits into temporary folders."""
    with tempfile.TemporaryDirectory(prefix="muster-compare-") as folder:
        trees = [Tree(commit, Path(folder) / f"{number}") for number, commit in enumerate(commits)]
        try:
            for tree in trees:
                _git("worktree", "add", "--detach", str(tree.folder), tree.commit)
            yield trees
        finally:
            for tree in trees:
                if tree.folder.exists():
                    _git("worktree", "remove", "--force", str(tree.folder))


def _git(*words: str) -> None:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotComparable(f"git {' '.join(words)}: {done.stderr.strip()}")
