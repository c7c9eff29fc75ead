"""Commands that are imported when they are used: `muster COMMAND --help` loads that command and no other.

Operator and core alone take two seconds to load; a command that only looks needs neither.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand


@dataclass(frozen=True)
class Entry:
    """One command. `place`: `module:name` of its function, or of a Typer of several. `panel`: its heading."""

    name: str
    place: str
    about: str
    panel: str

    @property
    def examples(self) -> tuple[str, ...]:
        """Command lines to copy, as its module has them."""
        found: tuple[str, ...] = getattr(self._module, "EXAMPLES", ())
        return found

    @property
    def help(self) -> str:
        """What it does, with examples."""
        said = inspect.getdoc(self._found) if not isinstance(self._found, typer.Typer) else self.about
        lines = "\n".join(f"  {line}" for line in self.examples)
        return f"{said}\n\n\b\nExamples:\n{lines}" if lines else said or self.about

    @cached_property
    def made(self) -> Any:
        """The command itself."""
        if isinstance(self._found, typer.Typer):
            made = typer.main.get_command(self._found)
            made.help = self.help
            return made
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        single.command(self.name, help=self.help)(self._found)
        return typer.main.get_command(single)

    @cached_property
    def _module(self) -> Any:
        return import_module(self.place.partition(":")[0])

    @cached_property
    def _found(self) -> Any:
        return getattr(self._module, self.place.partition(":")[2])


class Later(TyperCommand):
    """What a list of commands shows of one; it becomes the command itself where it is used."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry.name, help=entry.about, rich_help_panel=entry.panel)
        self._entry = entry

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the command itself."""
        return self._entry.made.make_context(info_name, args, parent, **extra)


def listed(entries: Iterable[Entry]) -> dict[str, Later]:
    """Them by name, in order."""
    return {entry.name: Later(entry) for entry in entries}
