"""Output formats: tables for people, JSON and YAML for programs; printed once or with `--watch`.

As in kubectl, JSON and YAML contain one object, or a `List` of objects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar

import orjson
import typer
from rich import box
from rich.console import Console, RenderableType
from rich.live import Live
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
) -> T:
    """Print what `fetch` returns, and return it. `data`: what JSON and YAML contain.

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
    """Redraws a terminal in place; prints to a pipe or file when the text changed."""
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
    """Print data as JSON or YAML."""
    if output is Output.JSON:
        print_line(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return
    import yaml  # noqa: PLC0415  # other formats do not wait for it

    text = yaml.safe_dump(found, sort_keys=False, allow_unicode=True)
    if printable(text) != text:
        text = yaml.safe_dump(found, sort_keys=False)  # escapes what is not ASCII
    typer.echo(text, nl=False)


def table(*columns: str) -> Table:
    """A table with one line below its header."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


class _Console(Console):
    """Prints text without control characters; rich renders each text of a table with `render_str`."""

    def render_str(self, text: str, **options: Any) -> Text:
        """The text as rich prints it."""
        return super().render_str(printable(text), **options)


def console(width: int = WIDE, *, err: bool = False) -> Console:
    """A console with the width of the terminal; of `width` if there is no terminal. `err`: for standard error."""
    found = _Console(highlight=False, markup=False, stderr=err)
    return found if found.is_terminal else _Console(highlight=False, markup=False, stderr=err, width=width)
