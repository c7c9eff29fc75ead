"""Text on the terminal of the person who runs a command. All output of the commands goes through this module.

Users choose names, annotations and messages; control characters in them could rewrite the screen or forge lines.
"""

from __future__ import annotations

import typer

_KEPT = "\n"


def printable(text: str) -> str:
    """The text with each character that is not printable as the escape sequence of JSON. Line feeds are kept."""
    if text.isprintable():
        return text
    return "".join(char if char in _KEPT or char.isprintable() else _escaped(char) for char in text)


def print_line(text: object, *, err: bool = False) -> None:
    """Print a line, on standard error if `err`."""
    typer.echo(printable(str(text)), err=err)


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def kubectl_name(path: str) -> str:
    """The object at a path of the API, as kubectl names it: `secret/muster-signing -n muster`."""
    parts = path.strip("/").split("/")
    plural, name = parts[-2:]
    namespace = f" -n {parts[parts.index('namespaces') + 1]}" if "namespaces" in parts[:-2] else ""
    return f"{plural.removesuffix('s')}/{name}{namespace}"
