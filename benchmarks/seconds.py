"""The table of CPU seconds per process during the cluster benchmarks, for benchmarks/RESULTS.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from benchmarks import report
from benchmarks.figures import NAMES

#: Prefix of the CPU seconds of a process in the additional values of a figure.
_OF_ONE: Final = " CPU, s"


class _Row(NamedTuple):
    """A row of the table. ``used``: seconds by process, the median of all runs."""

    name: str
    used: Mapping[str, float]
    took: float


def lines(figures: Sequence[Mapping[str, Any]], cores: int) -> Iterator[str]:
    """Yield one row per figure with CPU seconds, and one per peer. Values are medians of the runs, in seconds.

    Workloads that share the runs of a peer share its row, after the last of them.
    """
    rows: dict[str, _Row] = {}
    for row in (row for figure in figures for row in _rows(figure)):
        rows.pop(str(row.used), None)
        rows[str(row.used)] = row
    who = _in_order({name for row in rows.values() for name in row.used})
    if not who:
        return
    yield f"| | {' | '.join(who)} | total | minimum on {cores} cores | time |"
    yield "|---" * (len(who) + 4) + "|"
    for row in rows.values():
        together = sum(row.used.values())
        shown = [report.short(row.used[name]) if name in row.used else "" for name in who]
        shown += [report.short(each) for each in (together, together / cores, row.took)]
        yield f"| {row.name} | {' | '.join(shown)} |"


def _rows(figure: Mapping[str, Any]) -> Iterator[_Row]:
    if used := _used(figure, ""):
        yield _Row(f"`{figure['name']}`", used, figure["median"])
    for peer in NAMES:
        if used := _used(figure, f"{peer}: "):
            yield _Row(f"{peer}, same session", used, figure["ratios"][peer]["peer"])


def _used(figure: Mapping[str, Any], prefix: str) -> dict[str, float]:
    additional: Mapping[str, Sequence[float]] = figure.get("additional") or {}
    found = {name.removeprefix(prefix): values for name, values in additional.items() if _is(name, prefix)}
    return {name.removesuffix(_OF_ONE): statistics.median(values) for name, values in found.items()}


def _is(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and name.endswith(_OF_ONE) and ": " not in name.removeprefix(prefix)


def _in_order(names: set[str]) -> list[str]:
    """Sort process names: schedulers, then the other processes by name, then unknown ones."""
    first = ["operator", "core", *NAMES]
    return sorted(names, key=lambda name: (name == "others", first.index(name) if name in first else len(first), name))
