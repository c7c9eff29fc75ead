"""Files that commands are given: read in full, and understood as the manifest of a ConfigMap if they are one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import typer

from muster_core.config import document
from muster_core.model.errors import ConfigurationError
from muster_operator.translate.values import Raw, mapping, text

STDIN: Final = "-"
_MAPS: Final = ("data", "binaryData")


def shown(file: str) -> str:
    """How messages name it."""
    return "standard input" if file == STDIN else file


def read(file: str) -> str:
    """The text of a file; ends the command with 2 and one line where it cannot be read."""
    try:
        raw = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as error:
        typer.echo(f"{file}: {error.strerror}; name a file that can be read", err=True)
        raise typer.Exit(2) from error
    # What is not UTF-8 is kept, and refused with its place.
    return raw.decode(errors="surrogateescape")


def config_map(written: str) -> Raw | None:
    """The ConfigMap that the text is a manifest of (as `kubectl get -o yaml` writes it), None if it is none.

    Raises:
        ConfigurationError: it is one, and its entries are not text.
    """
    try:
        data = document.read(written)
    except ConfigurationError:
        return None  # who judges the text says it
    if not isinstance(data, dict) or data.get("kind") != "ConfigMap":
        return None
    metadata = {"name": text(mapping(data.get("metadata")).get("name"))}
    return {"metadata": metadata, **{key: _entries(data, key) for key in _MAPS}}


def _entries(data: dict[str, document.Data], key: str) -> dict[str, str]:
    found = data.get(key) or {}
    if not isinstance(found, dict):
        raise ConfigurationError(key, "the value", "is not a mapping", "write one entry per line")
    for name, value in found.items():
        if not isinstance(value, str | None):
            raise ConfigurationError(f"{key}.{name}", "the value", "is not text", "write it after |, indented")
    return {name: value for name, value in found.items() if isinstance(value, str)}
