"""Shows figures: a table with the peers beside ours, and a JSON file."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path

import orjson
import psutil
from rich.table import Table

from benchmarks.figures import NAMES, PEERS, Figure


def beside(figure: Figure) -> Table:
    """What explains one figure: medians of the same runs."""
    rows = Table(figure.name, "median", "lowest to highest")
    for name, values in figure.beside.items():
        rows.add_row(name, _short(statistics.median(values)), f"{_short(min(values))} to {_short(max(values))}")
    return rows


def table(figures: Sequence[Figure]) -> Table:
    """One row a figure; ``x`` is how many times better than the peer we are."""
    rows = Table("figure", "median", "lowest to highest", "goal", *(f"{name} (x)" for name in NAMES))
    for figure in figures:
        rows.add_row(
            figure.name,
            f"{_short(figure.median)} {figure.unit}",
            f"{_short(min(figure.values))} to {_short(max(figure.values))}",
            _goal(figure),
            *(_peer(figure, name) for name in NAMES),
        )
    return rows


def write(path: Path, figures: Sequence[Figure], *, quick: bool) -> None:
    """The same and more as JSON, with what is needed to judge it: the machine and how busy it is."""
    document = {
        "machine": {
            "cores": os.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
            "load_1_5_15": os.getloadavg(),
            "python": platform.python_version(),
            "system": platform.system(),
        },
        "quick": quick,
        "figures": [figure.as_json() for figure in figures],
    }
    path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS))


def _goal(figure: Figure) -> str:
    if figure.goal is None:
        return ""
    sign = "≤" if figure.less_is_better else "≥"
    return f"{sign} {_short(figure.goal)}: {'met' if figure.is_met else 'missed'}"


def _peer(figure: Figure, name: str) -> str:
    value = PEERS.get(figure.name, {}).get(name)
    return "" if value is None else f"{_short(value)} ({figure.ratios()[name]:.2g}x)"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
