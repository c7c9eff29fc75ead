"""Writes the tables and examples of ``docs/reference/cli.md`` from the commands themselves.

The parts between the markers are generated, the rest is written by hand. Called by ``make diagrams``; a test fails if
the page is stale.
"""

import inspect
from pathlib import Path
from typing import Any

from muster.main import COMMANDS, DIAGNOSE, INSPECT, Entry
from muster.options import PANEL

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"
BEGIN, END = "<!-- made by tools/commands.py -->\n", "<!-- end -->"


def overview() -> str:
    """Return one row per command, in the order of ``muster --help``."""
    rows = "".join(f"| `muster {entry.name}` | {entry.about} |\n" for entry in COMMANDS)
    return f"| Command | Purpose |\n|---|---|\n{rows}"


def details() -> str:
    """Return help text, options and examples of each command that inspects or checks."""
    return "\n".join(_section(entry) for entry in COMMANDS if entry.panel in (INSPECT, DIAGNOSE))


def shared() -> str:
    """Return the options that all commands with a connection to the core share."""
    options = [option for option in _options(_entry("queues").command) if _is_shared(option)]
    return "| Option | Environment | Meaning |\n|---|---|---|\n" + "".join(
        f"| {_names(option)} | {f'`{option.envvar}`' if option.envvar else ''} | {option.help} |\n"
        for option in options
    )


def written(page: str) -> str:
    """Return the page with current generated parts. Raises LookupError if markers are missing."""
    for made in (overview(), shared(), details()):
        before, mark, rest = page.partition(BEGIN)
        if not mark or END not in rest:
            raise LookupError(f"{PAGE.name} has no pair of markers")
        _, _, after = rest.partition(END)
        page = before + "\0BEGIN" + made + "\0END" + after
    return page.replace("\0BEGIN", BEGIN).replace("\0END", END)


def _section(entry: Entry) -> str:
    single = {f"muster {entry.name}": entry.command}
    commands = {f"muster {entry.name} {name}": one for name, one in getattr(entry.command, "commands", {}).items()}
    parts = [_described(name, command) for name, command in (commands or single).items()]
    return "\n".join(parts) + "".join(f"    {line}\n" for line in entry.examples)


def _described(name: str, command: Any) -> str:
    help_text = " ".join(inspect.cleandoc((command.help or "").partition("\b")[0]).split())
    options = _options(command)
    if any(option.name == "server" for option in options):
        options = [option for option in options if not _is_shared(option)]
    rows = "".join(f"| {_names(option)} | {option.help} |\n" for option in options)
    table = f"| | |\n|---|---|\n{rows}\n" if rows else ""
    return f"### {name}\n\n{help_text}\n\n{table}"


def _options(command: Any) -> list[Any]:
    return [param for param in command.params if param.name != "help" and getattr(param, "help", None)]


def _entry(name: str) -> Entry:
    return next(entry for entry in COMMANDS if entry.name == name)


def _is_shared(option: Any) -> bool:
    return bool(option.rich_help_panel == PANEL)


def _names(option: Any) -> str:
    if option.param_type_name == "argument":
        name: str = option.metavar or option.name.upper()
        return f"`{name}`".replace("|", r"\|")
    return ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))


def main() -> None:
    """Write the page."""
    PAGE.write_text(written(PAGE.read_text()))


if __name__ == "__main__":
    main()
