"""Output formats: tables for people, JSON and YAML for programs; printed once or with `--watch`.

As in kubectl, JSON and YAML contain one object, or a `List` of objects. A table that is wider than the terminal loses
its least important columns; `-o wide` and a pipe show all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar

import orjson
import typer
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from muster.errors import BadUsage
from muster.text import print_line, printable

T = TypeVar("T")

#: Columns of the output if it is not a terminal.
WIDE: Final = 200
UNBOUNDED: Final = 1000
EVERY_S: Final = 2.0


class Output(StrEnum):
    """Value of `--output`: table and wide for people, yaml and json for programs."""

    TABLE = "table"
    WIDE = "wide"
    YAML = "yaml"
    JSON = "json"

    @property
    def is_data(self) -> bool:
        """Whether programs read it."""
        return self in (Output.YAML, Output.JSON)


Format = Annotated[Output, typer.Option("--output", "-o", help="Output format.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Refresh every two seconds until interrupted.")]

#: Renders data: the data, whether to add the columns of `-o wide`, and the current time in nanoseconds.
View = Callable[[T, bool, int], RenderableType]


def as_data(found: Any) -> Any:
    """The object, or a `List` of the objects."""
    return {"apiVersion": "v1", "kind": "List", "items": found} if isinstance(found, list) else found


def show(
    fetch: Callable[[], T],
    view: View[T],
    output: Output,
    *,
    watch: bool = False,
    data: Callable[[T], Any] = as_data,
    empty: str = "",
) -> T:
    """Print what `fetch` returns, and return it.

    `data`: what JSON and YAML contain. `empty`: what is printed, on standard error, instead of an empty table.

    Raises:
        BadUsage: --watch with JSON or YAML.
    """
    if output.is_data:
        if watch:
            raise BadUsage("--watch cannot be used with -o json or yaml")
        found = fetch()
        emit(data(found), output)
        return found
    found = fetch()

    def rendered() -> RenderableType:
        return view(found, output is Output.WIDE, time.time_ns())

    page = console(UNBOUNDED, is_unbounded=output is Output.WIDE)
    if not watch:
        if found == [] and empty:
            print_line(empty, err=True)
        else:
            print_page(page, rendered())
        return found
    with _screen(page) as draw:
        while True:  # until Ctrl-C
            draw(rendered())
            time.sleep(EVERY_S)
            found = fetch()


@contextmanager
def _screen(page: Console) -> Iterator[Callable[[RenderableType], None]]:
    """Redraws a terminal in place; prints to a pipe or file when the text changed."""
    if page.is_terminal:
        with Live(console=page, auto_refresh=False) as live:
            yield lambda picture: live.update(picture, refresh=True)
        return
    last = ""

    def draw(picture: RenderableType) -> None:
        nonlocal last
        with page.capture() as captured:
            print_page(page, picture)
        if captured.get() != last:
            last = captured.get()
            typer.echo(last)

    yield draw


def emit(found: Any, output: Output) -> None:
    """Print data as JSON or YAML."""
    if output is Output.JSON:
        print_line(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return
    import yaml  # noqa: PLC0415  # other formats do not wait for it

    text = yaml.safe_dump(found, sort_keys=False, allow_unicode=True)
    if printable(text) != text:
        text = yaml.safe_dump(found, sort_keys=False)  # escapes what is not ASCII
    typer.echo(text, nl=False)


#: Width of a column of sentences, unless they are shorter. Other columns are as wide as their widest cell.
_SENTENCE: Final = 24

#: Colours of states on a terminal. Other cells have none.
_STYLES: Final = {
    "ok": "green",
    "warning": "yellow",
    "problem": "bold red",
    "Running": "green",
    "Failing": "red",
    "Failed": "red",
    "Rejected": "red",
    "pending": "yellow",
    "bound": "green",
}


class FittingTable:
    """A table with one line below its header. No cell is broken within a word."""

    def __init__(self, columns: Collection[str], optional: Collection[str], sentences: Collection[str]) -> None:
        self._columns = tuple(columns)
        self._optional = tuple(optional)
        self._sentences = frozenset(sentences)
        self._rows: list[tuple[tuple[str, ...], str]] = []

    def add_row(self, *cells: str, style: str = "") -> None:
        """Add a row; missing cells at its end are empty."""
        self._rows.append((tuple(map(printable, cells)), style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The widest table that fits; if none does, the narrowest one, whose lines the terminal wraps."""
        hidden: list[str] = []
        made = self._without(hidden)
        widths = _widths(console, made)
        if getattr(console, "is_unbounded", False):
            made.width = widths.maximum
            yield made
            return
        for column in self._optional:
            if widths.minimum <= options.max_width:
                break
            hidden.append(column)
            made = self._without(hidden)
            widths = _widths(console, made)
        made.width = max(widths.minimum, min(widths.maximum, options.max_width))
        yield made
        if hidden:
            shown = ", ".join(column for column in self._columns if column in hidden)
            yield Text(f"not shown: {shown} (-o wide)", style="dim")

    def _without(self, hidden: Collection[str]) -> Table:
        made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        shown = [at for at, column in enumerate(self._columns) if column not in hidden]
        for at in shown:
            name = self._columns[at]
            longest = max(len(name), *(len(cells[at]) for cells, _ in self._rows if at < len(cells)), 0)
            is_sentence = name in self._sentences
            width = min(_SENTENCE, longest) if is_sentence else longest
            made.add_column(name, overflow="fold", no_wrap=not is_sentence, min_width=width)
        for cells, style in self._rows:
            present = (cells[at] if at < len(cells) else "" for at in shown)
            made.add_row(*(Text(cell, _STYLES.get(cell, "")) for cell in present), style=style)
        return made


def _widths(console: Console, made: Table) -> Measurement:
    """The width without a break within a word, and the width without any break."""
    return Measurement.get(console, console.options.update(max_width=UNBOUNDED), made)


def table(*columns: str, optional: Collection[str] = (), sentences: Collection[str] = ()) -> FittingTable:
    """A table. `optional`: columns that a narrow terminal does not show, the first one is hidden first.

    `sentences`: columns whose cells may continue on the next line.
    """
    return FittingTable(columns, optional, sentences)


class _Console(Console):
    """Prints text without control characters; rich renders each text with `render_str`."""

    #: Whether tables keep all columns, also beyond the width of the terminal.
    is_unbounded = False

    def render_str(self, text: str, **options: Any) -> Text:
        """The text as rich prints it."""
        return super().render_str(printable(text), **options)


def console(width: int = WIDE, *, is_unbounded: bool = False, err: bool = False) -> Console:
    """A console with the width of the terminal; of `width` if there is no terminal. `err`: for standard error."""
    found = _Console(highlight=False, markup=False, stderr=err)
    found = found if found.is_terminal else _Console(highlight=False, markup=False, stderr=err, width=width)
    found.is_unbounded = is_unbounded
    return found


def print_page(page: Console, content: RenderableType) -> None:
    """Print tables and text. The terminal wraps lines that are longer than its width."""
    page.print(content, crop=False)
