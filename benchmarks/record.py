"""Stores the last complete run: its JSON document, its chart, and its table in benchmarks/RESULTS.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from benchmarks import chart, report
from benchmarks.families import FAMILIES
from benchmarks.figures import NAMES, times

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
LATEST, CHART = RESULTS / "latest.json", RESULTS / "chart.png"
PAGE = ROOT / "benchmarks" / "RESULTS.md"
FILES = (LATEST, CHART, PAGE)
BEGIN, END = "<!-- the last run: written by `make bench` -->\n", "<!-- end of the last run -->\n"


def keep(document: Mapping[str, object]) -> None:
    """Write all three files. The chart needs matplotlib."""
    report.write(LATEST, document)
    read_back = report.plain(document)
    if chart.can_draw():
        chart.draw(CHART, read_back)
    PAGE.write_text(placed(PAGE.read_text(), read_back))


def last() -> dict[str, Any] | None:
    """Return the stored document."""
    try:
        found: dict[str, Any] = orjson.loads(LATEST.read_bytes())
    except FileNotFoundError:
        return None
    return found


def merged(document: Mapping[str, Any], old: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the document plus the figures that only the old one has. Each figure has its date."""
    figures = {figure["name"]: figure for figure in ([] if old is None else old["figures"])}
    figures |= {figure["name"]: figure for figure in document["figures"]}
    return {**document, "figures": sorted(figures.values(), key=_place)}


def _place(figure: Mapping[str, Any]) -> int:
    """Return the position of its family. Figures of one family keep their order."""
    family = figure["name"].partition("/")[0]
    return list(FAMILIES).index(family) if family in FAMILIES else len(FAMILIES)


def placed(page: str, document: Mapping[str, Any]) -> str:
    """Return the page with this run's table between the two markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n".join(_lines(document)) + "\n" + END + after


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield "![how many times better than each peer](results/chart.png)"
    yield ""
    machine, busy = document["machine"], document["machine"]["load_1_5_15"][0]
    figures = sorted(document["figures"], key=lambda figure: not _is_comparison(figure))
    earlier = sorted({figure["when"] for figure in figures} - {document["when"]})
    marks = {when: f" ({number})" for number, when in enumerate(earlier, 1)}
    sentences = [f"Figures marked{mark} are of an earlier session: {_minute(when)}." for when, mark in marks.items()]
    sentences.insert(
        0,
        f"{document['when'][:10]}: {machine['cores']} cores shared by all processes, {machine['memory_gib']:g} GiB, "
        f"Python {machine['python']}; load average {machine['load_before']:.1f} before and {busy:.1f} after.",
    )
    yield " ".join(sentences)
    yield ""
    yield from _table(figures, marks)


def _minute(when: str) -> str:
    return when.replace("T", " ")[:16]


def _is_comparison(figure: Mapping[str, Any]) -> bool:
    return any(ratio["here"] for ratio in figure["ratios"].values())


def _table(figures: Sequence[Mapping[str, Any]], marks: Mapping[str, str]) -> Iterator[str]:
    """Yield a row per figure. A single run has no range."""
    yield f"| figure | Muster | range of the runs | goal | {' | '.join(NAMES)} |"
    yield "|---" * (4 + len(NAMES)) + "|"
    for figure in figures:
        runs = figure["values"]
        spread = f"{report.short(min(runs))} to {report.short(max(runs))} ({len(runs)})" if len(runs) > 1 else ""
        peers = [_peer(figure["ratios"].get(name)) for name in NAMES]
        cells = [
            f"`{figure['name']}`{marks.get(figure['when'], '')}",
            f"{report.short(figure['median'])} {figure['unit']}",
        ]
        yield f"| {' | '.join([*cells, spread, _goal(figure), *peers])} |"


def _goal(figure: Mapping[str, Any]) -> str:
    goals = (
        [] if figure["goal"] is None else [f"{'≤' if figure['less_is_better'] else '≥'} {report.short(figure['goal'])}"]
    )
    goals += [f"≥ {least:.3g}x {peer}" for peer, least in figure["ahead"].items()]
    outcome = {True: "met", False: "**missed**", None: "not compared"}[figure["met"]]
    return f"{', '.join(goals)}: {outcome}" if goals else ""


def _peer(ratio: Mapping[str, Any] | None) -> str:
    if ratio is None:
        return ""
    theirs, better = report.short(ratio["peer"]), times(ratio["times"])
    if not ratio["here"]:
        return f"{theirs} ({better}) \\*"
    lowest, highest = times(ratio["lowest"]), times(ratio["highest"])
    return f"{theirs} (**{better}**{'' if lowest == highest else f', {lowest} to {highest}'})"
