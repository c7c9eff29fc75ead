"""Output formats: tables for people, JSON and YAML for programs; printed once or with `--watch`.

As in kubectl, JSON and YAML contain one object, or a `List` of objects. A table that is wider than the terminal loses
its least important columns; `-o wide` and a pipe show all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar

import orjson
import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.containers import Lines
from rich.live import Live
from rich.text import Text

from muster.errors import BadUsage
from muster.text import print_line, printable, wrapped

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
        typer.echo(printable(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode()))
        return
    import yaml  # noqa: PLC0415  # other formats do not wait for it

    text = yaml.safe_dump(found, sort_keys=False, allow_unicode=True)
    if printable(text) != text:
        text = yaml.safe_dump(found, sort_keys=False)  # escapes what is not ASCII
    typer.echo(text, nl=False)


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


#: Width of a column of sentences, unless they are shorter. Other columns are as wide as their widest cell.
_SENTENCE: Final = 24
_BETWEEN: Final = "   "
#: Indentation of a cell that has no room in the line of its row.
_INDENT: Final = "    "


class FittingTable:
    """A table with one line below its header. No cell is broken within a word."""

    def __init__(self, columns: Collection[str], optional: Collection[str], sentences: Collection[str]) -> None:
        self._columns = tuple(columns)
        self._optional = tuple(optional)
        self._sentences = frozenset(sentences)
        self._rows: list[tuple[tuple[str, ...], str]] = []

    def add_row(self, *cells: str, style: str = "") -> None:
        """Add a row; missing cells at its end are empty."""
        missing = len(self._columns) - len(cells)
        self._rows.append(((*map(printable, cells), *[""] * missing), style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The widest table that fits. If none does, cells without room are below the beginning of their row."""
        is_unbounded = getattr(console, "is_unbounded", False)
        width = UNBOUNDED if is_unbounded else options.max_width
        shown, hidden = list(range(len(self._columns))), list[str]()
        for column in self._optional:
            if self._least(shown) <= width:
                break
            hidden.append(column)
            shown.remove(self._columns.index(column))
        widths = self._widths(shown, width)
        header = [self._columns[at] for at in shown]
        yield from _lines(header, widths, width, "bold")
        yield _line("─" * min(_total(widths), width))
        for cells, style in self._rows:
            yield from _lines([cells[at] for at in shown], widths, width, style)
        if hidden:
            names = ", ".join(column for column in self._columns if column in hidden)
            yield from (_line(text, "dim") for text in wrapped(f"not shown: {names} (-o wide)", width))

    def _longest(self, at: int) -> int:
        return max(cell_len(self._columns[at]), *(cell_len(cells[at]) for cells, _ in self._rows), 0)

    def _narrowest(self, at: int) -> int:
        """The least width of a column: that of its longest cell, or of the longest word of its sentences."""
        longest = self._longest(at)
        if self._columns[at] not in self._sentences:
            return longest
        words = (cell_len(word) for cells, _ in self._rows for word in cells[at].split())
        return min(longest, max(_SENTENCE, *words, 0))

    def _least(self, shown: Sequence[int]) -> int:
        return _total([self._narrowest(at) for at in shown])

    def _widths(self, shown: Sequence[int], width: int) -> list[int]:
        """The widths of the columns. What the narrowest columns leave is divided among those that can use it."""
        widths, longest = [self._narrowest(at) for at in shown], [self._longest(at) for at in shown]
        left = width - _total(widths)
        while left > 0 and (wanting := [at for at, one in enumerate(widths) if one < longest[at]]):
            for at in wanting[:left]:
                widths[at] += 1
            left -= len(wanting)
        return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_BETWEEN) * (len(widths) - 1)


def _lines(cells: Sequence[str], widths: Sequence[int], width: int, style: str) -> Iterator[Text]:
    """The lines of a row."""
    if _total(widths) > width:
        yield from _stacked(cells, widths, width, style)
        return
    columns = [list(wrapped(cell, widths[at])) for at, cell in enumerate(cells)]
    for number in range(max(map(len, columns))):
        line = _line("", style)
        for at, column in enumerate(columns):
            cell = column[number] if number < len(column) else ""
            line.append(cell, _STYLES.get(cells[at], ""))
            if any(number < len(one) and one[number] for one in columns[at + 1 :]):
                line.append(" " * (widths[at] - cell_len(cell)) + _BETWEEN)
        yield line


def _stacked(cells: Sequence[str], widths: Sequence[int], width: int, style: str) -> Iterator[Text]:
    """A row of a table that is too wide: a cell without room is on the next line, with what follows it."""
    line, start, is_broken = "", 0, False
    for at, cell in enumerate(cells):
        placed = line + " " * max(start - cell_len(line), len(_BETWEEN) if line else 0) + cell
        if cell and line and cell_len(placed) > width:
            yield _line(line, style)
            *complete, line = [_INDENT + part for part in wrapped(cell, width - len(_INDENT))]
            yield from (_line(part, style) for part in complete)
            is_broken = True
        elif cell:
            line = placed
        start = 0 if is_broken else start + widths[at] + len(_BETWEEN)  # what follows a broken line is in no column
    yield _line(line, style)


def _line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ignore")


class Facts:
    """Names and values without a header. A value is not broken within a word."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, str]] = []

    def add_row(self, name: str, value: str) -> None:
        """Add a row."""
        self._rows.append((printable(name), printable(value)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One row per fact; a long value continues below its beginning."""
        width = max((cell_len(name) for name, _ in self._rows), default=0) + 2
        for name, value in self._rows:
            for number, part in enumerate(wrapped(value, options.max_width - width)):
                begin = "" if number else name
                yield _line(begin + " " * (width - cell_len(begin)) + part)


def table(*columns: str, optional: Collection[str] = (), sentences: Collection[str] = ()) -> FittingTable:
    """A table. `optional`: columns that a narrow terminal does not show, the first one is hidden first.

    `sentences`: columns whose cells may continue on the next line.
    """
    return FittingTable(columns, optional, sentences)


class _Prose(Text):
    """Running text: its lines end as those of tables do."""

    def wrap(self, console: Console, width: int, **options: Any) -> Lines:
        """The lines of the text."""
        return Lines(_line(line) for line in wrapped(self.plain, width))


class _Console(Console):
    """Prints text without control characters; rich renders each text with `render_str`."""

    #: Whether tables keep all columns, also beyond the width of the terminal.
    is_unbounded = False

    def render_str(self, text: str, **options: Any) -> Text:
        """The text as rich prints it."""
        return _Prose(super().render_str(printable(text), **options).plain)


def console(width: int = WIDE, *, is_unbounded: bool = False, err: bool = False) -> Console:
    """A console with the width of the terminal; of `width` if there is no terminal. `err`: for standard error."""
    found = _Console(highlight=False, markup=False, stderr=err)
    found = found if found.is_terminal else _Console(highlight=False, markup=False, stderr=err, width=width)
    found.is_unbounded = is_unbounded
    return found


def print_page(page: Console, content: RenderableType) -> None:
    """Print tables and text. The terminal wraps lines that are longer than its width."""
    page.print(content, crop=False)
