"""Shows figures: a table with the results of other schedulers, and a JSON document."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import psutil
from rich.table import Table

from benchmarks.figures import NAMES, Figure, Ratio, times
from benchmarks.session import Session

FACT = "*"
"""Marks a known result, which was not measured in this session."""


def additional(figure: Figure) -> Table:
    """Return additional values of one figure: medians of the same runs."""
    rows = Table(figure.name, "median", "lowest to highest")
    for name, values in figure.additional.items():
        rows.add_row(name, short(statistics.median(values)), _spread(min(values), max(values)))
    return rows


def table(figures: Sequence[Figure]) -> Table:
    """Return a table with one row per figure. ``x`` is how many times better Muster is than the peer."""
    rows = Table("figure", "Muster, median", "lowest to highest", "goal", *(f"{name} (x)" for name in NAMES))
    for figure in figures:
        ratios = figure.ratios()
        rows.add_row(
            figure.name,
            f"{short(figure.median)} {figure.unit}",
            _spread(min(figure.values), max(figure.values)),
            _goal(figure),
            *(_peer(ratios.get(name)) for name in NAMES),
        )
    return rows


def footnote(session: Session) -> str:
    """Return an explanation of the table and the load of the machine."""
    before, after = session.load_before, os.getloadavg()[0]
    return (
        "x: how many times better Muster is than the peer, below 1 = worse. For peers of this session, the median of "
        "the ratios per round.\n"
        f"{FACT} a known result of another machine, not scaled, accurate to one digit.\n"
        f"Load average of one minute: {before:.1f} before, {after:.1f} after, on {os.cpu_count()} cores."
    )


def document(figures: Sequence[Figure], session: Session, *, quick: bool) -> dict[str, object]:
    """Return all figures with the facts about the machine and its load."""
    when = datetime.now(UTC).isoformat(timespec="minutes")
    return {
        "when": when,
        "machine": {
            "cores": os.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
            "load_before": round(session.load_before, 2),
            "load_1_5_15": os.getloadavg(),
            "python": platform.python_version(),
            "system": platform.system(),
        },
        "quick": quick,
        "failures": session.failures,
        "figures": [{"when": when, **figure.as_json()} for figure in figures],
        "seconds": session.medians(),
    }


def plain(document: Mapping[str, object]) -> dict[str, Any]:
    """Return the document as read back from JSON."""
    found: dict[str, Any] = orjson.loads(orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS))
    return found


def write(path: Path, document: Mapping[str, object]) -> None:
    """Write the document as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS) + b"\n")


def problems(files: Iterable[Path]) -> list[str]:
    """Return errors for the files that cannot be written. Missing folders are no error; they are created later."""
    return [why for file in files if (why := _problem(file))]


def _problem(file: Path) -> str:
    if file.is_dir():
        return f"{file} is a folder"
    there = next(place for place in (file, *file.parents) if place.exists())
    if there != file and not there.is_dir():
        return f"{file} cannot be written: {there} is no folder"
    return "" if os.access(there, os.W_OK) else f"{file} cannot be written: no right to change {there}"


def durations(path: Path) -> dict[str, float]:
    """Return the seconds of each step in this file; empty if the file does not exist."""
    try:
        found: dict[str, float] = orjson.loads(path.read_bytes())["seconds"]
    except FileNotFoundError:
        return {}
    return found


def _goal(figure: Figure) -> str:
    goals = [f"≥ {least:.3g}x {peer}" for peer, least in figure.ahead.items()]
    if figure.goal is not None:
        goals.insert(0, f"{'≤' if figure.less_is_better else '≥'} {short(figure.goal)}")
    if not goals:
        return ""
    outcome = {True: "[green]met", False: "[red]missed", None: "not compared"}[figure.is_met]
    return f"{', '.join(goals)}: {outcome}"


def _peer(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    words = f"{short(ratio.peer)} ({times(ratio.times)})"
    if not ratio.here:
        return f"[dim]{words} {FACT}"
    spread = "" if ratio.lowest == ratio.highest else f" {_spread(ratio.lowest, ratio.highest)}"
    return f"{'[red]' if ratio.times < 1 else '[green]'}{words}{spread}"


def _spread(lowest: float, highest: float) -> str:
    return f"{short(lowest)} to {short(highest)}"


def short(value: float) -> str:
    """Format a number with three digits and thousands separators."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
