"""``python -m benchmarks``: runs the benchmarks of the named families or with one of the words in their names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import cluster, in_process, report, rest_answers, through_both
from benchmarks.figures import Figure, Options
from devcluster.errors import DevclusterError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True)
class Family:
    """Benchmarks that are measured together."""

    names: Sequence[str]
    measure: Callable[[Sequence[str], Options], list[Figure]]


FAMILIES: Mapping[str, Family] = {
    "core": Family(in_process.CORE, in_process.core),
    "shapes": Family(in_process.SHAPES, in_process.shapes),
    "cycle-after-event": Family(in_process.CYCLE, in_process.cycles),
    "both": Family(through_both.NAMES, through_both.measure),
    "si": Family(in_process.SI, in_process.si),
    "operator-io": Family(in_process.OPERATOR_IO, in_process.operator_io),
    "operator": Family(in_process.OPERATOR, in_process.operator),
    "rest": Family(tuple(rest_answers.PATHS), rest_answers.measure),
    "cluster": Family(tuple(cluster.BENCHES), cluster.measure),
}


@app.command()
def main(
    words: Annotated[
        list[str] | None, typer.Argument(help="families or parts of names: core, cluster/gang, 1000; none = all")
    ] = None,
    *,
    runs: Annotated[int, typer.Option(min=1, help="runs of each; the median counts")] = 3,
    quick: Annotated[bool, typer.Option(help="one small run of each, to see that everything works")] = False,
    json: Annotated[Path | None, typer.Option(help="write all figures and details to this file")] = None,
    names: Annotated[bool, typer.Option("--list", help="print the names and measure nothing")] = False,
) -> None:
    """Measure Muster, and show the peers' numbers beside ours."""
    chosen = {key: [name for name in family.names if _is_wanted(key, name, words)] for key, family in FAMILIES.items()}
    if names:
        print("\n".join(name for some in chosen.values() for name in some))
        return
    console = Console(width=None if sys.stdout.isatty() else 120)  # a pipe would get 80, too few for the table
    figures: list[Figure] = []
    options = Options(1 if quick else runs, quick)
    for key, some in chosen.items():
        if not some:
            continue
        try:
            figures += FAMILIES[key].measure(some, options)
        except DevclusterError as error:
            console.print(f"{key}: {error}", style="red", markup=False, highlight=False)
            raise typer.Exit(1) from error
    if not figures:
        console.print("no benchmark has such a name; --list prints them")
        raise typer.Exit(2)
    if quick:  # less work than the name says: neither goals nor peers compare
        figures = [replace(figure, name=f"{figure.name} (quick)", goal=None) for figure in figures]
    for figure in figures:
        if figure.beside:
            console.print(report.beside(figure))
    console.print(report.table(figures))
    if json is not None:
        report.write(json, figures, quick=quick)


def _is_wanted(family: str, name: str, words: Sequence[str] | None) -> bool:
    """A word that names a family means all of it and nothing else; any other is looked for in the names."""
    return not words or any(family == word if word in FAMILIES else word in name for word in words)


if __name__ == "__main__":
    app()
