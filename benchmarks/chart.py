"""Draws the chart of a results document: ratios to other schedulers, and the growth of Muster's cost.

Bars show how many times better Muster is, on a logarithmic scale. Pale bars use results of another machine. Whiskers
show the lowest and highest ratio of the rounds. Figures whose known results are of other work have no bar. Lines show
figures named ``growth/<dimension>/<size>``, relative to the first point.
"""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import KUBE, OTHER_WORK, QUICK, YUNIKORN, times

COLOURS = {KUBE: "#326ce5", YUNIKORN: "#e08b26"}
AHEAD, BEHIND = "#2a7f3f", "#c0392b"
GROWTH = "growth"
ROW_INCHES = 0.24


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio to a peer of the same session (``here``) or to a known result. ``spread``: range over the rounds."""

    figure: str
    peer: str
    times: float
    here: bool
    spread: tuple[float, float]


def bars(document: Mapping[str, Any]) -> list[Bar]:
    """Return all ratios in the order of the figures, first those with peers of the same session."""
    found = [
        Bar(figure["name"], peer, ratio["times"], ratio["here"], (ratio["lowest"], ratio["highest"]))
        for figure in document["figures"]
        for peer, ratio in figure["ratios"].items()
        if not figure["name"].startswith(OTHER_WORK)
    ]
    return sorted(found, key=lambda bar: not bar.here)


def curves(document: Mapping[str, Any]) -> dict[str, list[tuple[float, float]]]:
    """Return points (size, cost relative to the smallest size) by dimension, in ascending order of size.

    A rate (more is better) is converted to a cost first.
    """
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for figure in document["figures"]:
        family, _, rest = figure["name"].removesuffix(QUICK).partition("/")
        what, _, count = rest.partition("/")
        if family == GROWTH and count.isdigit():
            cost = figure["median"] if figure["less_is_better"] else 1 / figure["median"]
            found[what].append((float(count), cost))
    return {what: _against_first(sorted(points)) for what, points in found.items()}


def _against_first(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    first = points[0][1]
    return [(count, cost / first) for count, cost in points]


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(path: Path, document: Mapping[str, Any]) -> None:
    """Write the chart as PNG."""
    import matplotlib as mpl  # noqa: PLC0415  # only the environment of `make bench` has it

    mpl.use("agg")
    from matplotlib.figure import Figure  # noqa: PLC0415  # after the choice above

    rows, lines = bars(document), curves(document)
    height = max(4.0, 1.6 + ROW_INCHES * len(rows))
    sheet = Figure(figsize=(17 if lines else 11, height), layout="constrained")
    axes = sheet.subplots(1, 2 if lines else 1, squeeze=False, width_ratios=[2, 1] if lines else None)[0]
    _draw_bars(axes[0], rows)
    if lines:
        _draw_curves(axes[1], lines)
    sheet.suptitle(_title(document))
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.savefig(path, dpi=100)


def _draw_bars(axes: Any, rows: Sequence[Bar]) -> None:
    places = list(range(len(rows)))
    for place, bar in zip(places, rows, strict=True):
        axes.barh(
            place,
            bar.times - 1,
            left=1,
            color=COLOURS[bar.peer],
            alpha=1.0 if bar.here else 0.35,
            hatch=None if bar.here else "//",
        )
        axes.hlines(place, *bar.spread, color="black", linewidth=1)
        colour = AHEAD if bar.times >= 1 else BEHIND
        side, shift = ("left", 4) if bar.times >= 1 else ("right", -4)
        axes.annotate(
            times(bar.times), (bar.spread[bar.times >= 1], place), (shift, 0), textcoords="offset points",
            ha=side, va="center", fontsize=8, color=colour,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(places, [f"{bar.figure}  ({bar.peer}{'' if bar.here else ' *'})" for bar in rows], fontsize=8)
    axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes.grid(axis="x", alpha=0.3)
    for peer, colour in COLOURS.items():
        axes.barh([0], [0], color=colour, label=peer)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    axes.set_xlabel(
        "how many times better Muster is (1x = the same, left of it worse); black: lowest to highest of the turns\n"
        "* hatched: against a number of another machine and day, good for one digit"
    )


def _draw_curves(axes: Any, lines: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    for what, points in lines.items():
        axes.plot([count for count, _ in points], [cost for _, cost in points], marker="o", label=what)
    axes.set_xscale("log")
    axes.axhline(2, color="black", linestyle=":", linewidth=1, label="goal of nodes and pending")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    axes.set_title("what one ask costs the core")
    axes.set_xlabel("how many nodes, waiting asks (pending) or queues")
    axes.set_ylabel("processor time of an ask, times that among the fewest")


def _title(document: Mapping[str, Any]) -> str:
    quick = "; quick: small loads, so no figure is compared with a known result" if document["quick"] else ""
    return f"Muster and its peers, {document['when'][:10]}, {document['machine']['cores']} cores for everything{quick}"
