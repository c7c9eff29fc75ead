"""`muster validate`: whether a queues.yaml, or a ConfigMap that holds one, would be put in force.

Judged by the rules of the core, without a core or a cluster. A ConfigMap is a
manifest as `kubectl get -o yaml` writes it: its settings are judged too, by
operator and core, and compressed entries are unpacked.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from muster_core.edge.config import document
from muster_core.edge.config.verdict import Verdict, validate
from muster_core.model.errors import ConfigurationError
from muster_operator.link.config.configmaps import merged
from muster_operator.link.config.settings import parse
from muster_operator.link.errors import BadSetting

_STDIN: Final = "-"
_MAPS: Final = ("data", "binaryData")


def command(
    file: Annotated[str, typer.Argument(help="queues.yaml or the manifest of a ConfigMap; - = standard input")],
) -> None:
    """One line for each finding; ends with 1 if the configuration would be refused, with 2 if it cannot be read."""
    shown = "standard input" if file == _STDIN else file
    try:
        verdict = _judge(_read(file), shown)
    except (BadSetting, ConfigurationError) as error:
        typer.echo(f"{shown}: {error}")
        raise typer.Exit(1) from error
    for line in verdict.findings:
        typer.echo(line)
    for line in verdict.warnings:
        typer.echo(f"warning: {line}", err=True)
    if verdict.checksum_match is False:
        typer.echo(f"warning: checksum: is not that of the text, {verdict.checksum}", err=True)
    if not verdict.allowed:
        raise typer.Exit(1)
    typer.echo(f"{shown}: allowed, checksum {verdict.checksum}")


def _read(file: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if file == _STDIN else Path(file).read_bytes()
    except OSError as error:
        typer.echo(f"{file}: {error.strerror}; name a file that can be read", err=True)
        raise typer.Exit(2) from error
    # What is not UTF-8 is kept, and refused with its place.
    return raw.decode(errors="surrogateescape")


def _judge(text: str, file: str) -> Verdict:
    """Raises BadSetting, and ConfigurationError for a manifest that is none."""
    config_map = _config_map(text)
    if config_map is None:
        return validate(text, file=file)
    found = parse(merged([{key: _entries(config_map, key) for key in _MAPS}]))
    return validate(found.queues, found.extra, f"{file}: {found.policy_group}.yaml")


def _config_map(text: str) -> dict[str, document.Data] | None:
    """The manifest, None if the text is none."""
    try:
        data = document.read(text)
    except ConfigurationError:
        return None  # `validate` says it
    return data if isinstance(data, dict) and data.get("kind") == "ConfigMap" else None


def _entries(config_map: dict[str, document.Data], key: str) -> dict[str, str]:
    found = config_map.get(key) or {}
    if not isinstance(found, dict):
        raise ConfigurationError(key, "what stands there", "is not a mapping", "write one entry per line")
    for name, value in found.items():
        if not isinstance(value, str | None):
            raise ConfigurationError(f"{key}.{name}", "what stands there", "is not text", "write it after |, indented")
    return {name: value for name, value in found.items() if isinstance(value, str)}
