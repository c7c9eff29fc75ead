"""Text on the terminal of the person who runs a command. All output of the commands goes through this module.

Users choose names, annotations and messages; control characters in them could rewrite the screen or forge lines.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import typer
from rich.cells import cell_len

_KEPT = "\n"
#: Columns of a terminal without a size.
_USUAL_WIDTH: Final = 80
_HANGING: Final = "  "
#: Spaces at which a line may end: not before a number, unless it begins a new part.
_BREAKS: Final = re.compile(r"(?<=[,;:]) | (?!\d)")


def printable(text: str) -> str:
    """The text with each character that is not printable as the escape sequence of JSON. Line feeds are kept."""
    if text.isprintable():
        return text
    return "".join(char if char in _KEPT or char.isprintable() else _escaped(char) for char in text)


def print_line(text: object, *, err: bool = False) -> None:
    """Print a line, on standard error if `err`. On a terminal, a longer line continues indented on the next one."""
    shown = printable(str(text))
    stream = sys.stderr if err else sys.stdout
    if stream.isatty():
        width = int(os.environ.get("COLUMNS") or os.get_terminal_size(stream.fileno()).columns or _USUAL_WIDTH)
        lines = (wrapped(line, width, _HANGING) if len(line) > width else (line,) for line in shown.split("\n"))
        shown = "\n".join(chain.from_iterable(lines))
    typer.echo(shown, err=err)


def wrapped(text: str, width: int, indent: str = "") -> Iterator[str]:
    """The lines of a text. No word is broken, and a number stays with the word before it (`pods 3`) where it can.

    `indent`: begins each line but the first. Spaces at the beginning of a line of the text are kept.
    """
    for paragraph in text.split("\n"):
        if cell_len(paragraph) <= width:
            yield paragraph
            continue
        words = paragraph.lstrip(" ")
        line, start = "", " " * (len(paragraph) - len(words))
        for chunk in _BREAKS.split(words):
            for part in (chunk,) if cell_len(chunk) <= width else chunk.split(" "):
                if line and cell_len(f"{start}{line} {part}") > width:
                    yield start + line
                    line, start = part, indent
                else:
                    line = f"{line} {part}" if line else part
        yield start + line


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def program() -> str:
    """The command as the user types it: `muster`, or `kubectl muster` for the plugin of kubectl."""
    return "kubectl muster" if Path(sys.argv[0]).name.startswith("kubectl-muster") else "muster"


def kubectl_name(path: str) -> str:
    """The object at a path of the API, as kubectl names it: `secret/muster-signing -n muster`."""
    parts = path.strip("/").split("/")
    plural, name = parts[-2:]
    namespace = f" -n {parts[parts.index('namespaces') + 1]}" if "namespaces" in parts[:-2] else ""
    return f"{plural.removesuffix('s')}/{name}{namespace}"
