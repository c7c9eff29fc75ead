"""``python -m benchmarks``: runs the benchmarks of the named families, or those whose names contain a word."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import chart as charts
from benchmarks import compare as comparison
from benchmarks import families, record, report
from benchmarks.figures import QUICK, Figure, Options
from benchmarks.session import Session
from devcluster.errors import DevclusterError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(  # noqa: PLR0913 # the parameters are the command line
    words: Annotated[
        list[str] | None, typer.Argument(help="families or parts of names: core, cluster/gang, 1000; default: all")
    ] = None,
    *,
    runs: Annotated[int, typer.Option(min=1, help="runs of each benchmark; the median is reported")] = 3,
    quick: Annotated[bool, typer.Option(help="one small run of each, as a smoke test")] = False,
    peers: Annotated[bool, typer.Option(help="also run kube-scheduler with the same loads")] = True,
    json: Annotated[Path | None, typer.Option(help="write all figures and details to this file")] = None,
    chart: Annotated[Path | None, typer.Option(help="draw the chart into this PNG file")] = None,
    save: Annotated[bool, typer.Option(help="store the results of a partial run among those of the last run")] = False,
    compare: Annotated[
        tuple[str, str] | None, typer.Option(help="two commits, alternating: how many times better the second is")
    ] = None,
    names: Annotated[bool, typer.Option("--list", help="print the names without measuring")] = False,
) -> None:
    """Measure Muster and show its results next to those of other schedulers.

    A run of all benchmarks is stored in benchmarks/results/latest.json, chart.png and the table of
    benchmarks/RESULTS.md.
    """
    chosen = families.chosen(words)
    if names:
        print("\n".join(name for some in chosen.values() for name in some))
        return
    console = Console(width=None if sys.stdout.isatty() else 140)  # the default of a pipe, 80, is too narrow
    is_whole = peers and not (words or quick)
    written = [file for file in (json, chart) if file is not None] + ([*record.FILES] if save or is_whole else [])
    if compare is not None:
        _refuse(
            ["--compare writes no files; remove --json, --chart and --save"] if json or chart or save else [], console
        )
        _compared(compare, words or [], Options(runs, quick), console)
        return
    _refuse([*_mistakes(words or [], chart, is_quick_kept=quick and save), *report.problems(written)], console)
    session = Session(known={} if quick else _known(console))
    options = Options(1 if quick else runs, quick, peers, session)
    figures = _measured(chosen, options, console)
    document = report.document(figures, session, quick=quick)
    if json is not None:
        report.write(json, document)
    if chart is not None:
        charts.draw(chart, report.plain(document))
    if save:
        record.keep(record.merged(report.plain(document), record.last()))
    elif is_whole and not session.failures:
        record.keep(document)
    if session.failures:
        untouched = "" if save or not is_whole else "; the stored run is unchanged (--save stores successful figures)"
        console.print(f"{len(session.failures)} failed (see above){untouched}", style="red", highlight=False)
        raise typer.Exit(1)


def _refuse(mistakes: Sequence[str], console: Console) -> None:
    """Print the errors and exit, if there are any."""
    if mistakes:
        console.print("\n".join(mistakes), style="red", markup=False, highlight=False)
        raise typer.Exit(2)


def _mistakes(words: Sequence[str], chart: Path | None, *, is_quick_kept: bool) -> Iterator[str]:
    """Yield the errors of the command line."""
    unknown = families.unknown(words)
    if unknown:
        yield f"no benchmark matches {' or '.join(unknown)}; --list prints the names"
    if is_quick_kept:
        yield "--save stores figures of complete loads, and --quick measures small ones"
    if chart is not None and not charts.can_draw():
        yield "the chart needs matplotlib, which `make bench` installs"


def _known(console: Console) -> dict[str, float]:
    """Return the seconds of each step of the last run. Exits if the file is unreadable and cannot be merged."""
    try:
        return report.durations(record.LATEST)
    except (ValueError, KeyError):
        _refuse([f"{record.LATEST} is not a valid results file; restore or delete it"], console)
        raise


def _compared(commits: tuple[str, str], words: Sequence[str], options: Options, console: Console) -> None:
    session = options.session
    try:
        with session.shown(console):
            rows = comparison.compare(commits, words, session, runs=options.runs, quick=options.quick)
    except DevclusterError as error:
        console.print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(1) from error
    console.print(rows)


def _measured(chosen: Mapping[str, Sequence[str]], options: Options, console: Console) -> list[Figure]:
    """Measure and show all figures. The session records failed families; the others continue."""
    figures: list[Figure] = []
    options.session.plan(families.planned(chosen, options))
    with options.session.shown(console):
        for key, some in chosen.items():
            try:
                figures += families.measured(key, some, options)
            except KeyboardInterrupt:
                options.session.fail(f"{key}: interrupted")
                break
            except DevclusterError as error:
                options.session.fail(f"{key}: {error}")
            except Exception:  # noqa: BLE001 # no error may lose the other figures
                options.session.fail(f"{key}: {traceback.format_exc()}")
    if options.quick:  # smaller loads than the names: goals and known results do not apply
        figures = [replace(figure, name=f"{figure.name}{QUICK}", goal=None, ahead={}) for figure in figures]
    for figure in figures:
        if figure.additional:
            console.print(report.additional(figure))
    console.print(report.table(figures))
    console.print(report.footnote(options.session), highlight=False)
    return figures


if __name__ == "__main__":
    app()
