"""What a command prints: a table for people, data for programs; once, or again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar

import orjson
import typer
import yaml
from rich import box
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table

from muster.errors import BadUsage

T = TypeVar("T")

#: Columns of a page that nobody looks at on a screen.
WIDE: Final = 200
UNBOUNDED: Final = 1000
EVERY_S: Final = 2.0


class Output(StrEnum):
    """table and wide for people, yaml and json for programs."""

    TABLE = "table"
    WIDE = "wide"
    YAML = "yaml"
    JSON = "json"

    @property
    def is_data(self) -> bool:
        """Whether programs read it."""
        return self in (Output.YAML, Output.JSON)


Format = Annotated[Output, typer.Option("--output", "-o", help="Output format")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Refresh every two seconds until interrupted")]

#: What makes a picture of data: the data, whether there is room for more, and the time in nanoseconds.
View = Callable[[T, bool, int], RenderableType]


def show(fetch: Callable[[], T], view: View[T], output: Output, *, watch: bool = False) -> T:
    """Print what is fetched; returns it, the last one where it was watched.

    Raises:
        BadUsage: data is not watched; a program asks again by itself.
    """
    if output.is_data:
        if watch:
            raise BadUsage("--watch cannot be used with -o json or yaml")
        found = fetch()
        emit(found, output)
        return found
    found = fetch()

    def rendered() -> RenderableType:
        return view(found, output is Output.WIDE, time.time_ns())

    page = console(UNBOUNDED)
    if not watch:
        page.print(rendered())
        return found
    try:
        with _screen(page) as draw:
            while True:
                draw(rendered())
                time.sleep(EVERY_S)
                found = fetch()
    except KeyboardInterrupt:
        return found


@contextmanager
def _screen(page: Console) -> Iterator[Callable[[RenderableType], None]]:
    """Draws over what was there on a terminal, else prints what has changed."""
    if page.is_terminal:
        with Live(console=page, auto_refresh=False) as live:
            yield lambda picture: live.update(picture, refresh=True)
        return
    last = ""

    def draw(picture: RenderableType) -> None:
        nonlocal last
        with page.capture() as captured:
            page.print(picture)
        if captured.get() != last:
            last = captured.get()
            typer.echo(last)

    yield draw


def emit(found: Any, output: Output) -> None:
    """Data, as json or yaml."""
    if output is Output.JSON:
        typer.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
    else:
        typer.echo(yaml.safe_dump(found, sort_keys=False, allow_unicode=True), nl=False)


def table(*columns: str) -> Table:
    """Without lines but the one below its head, as kubectl's."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def console(width: int = WIDE) -> Console:
    """Of the terminal; where there is none, of that width."""
    found = Console(highlight=False, markup=False)
    return found if found.is_terminal else Console(highlight=False, markup=False, width=width)
