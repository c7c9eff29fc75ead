"""`muster validate`: whether the core would accept a queues.yaml, or a ConfigMap that contains one.

Applies the rules of the core, without a core or a cluster. A ConfigMap is a
manifest as `kubectl get -o yaml` writes it: its settings are checked too, by
operator and core, and compressed entries are unpacked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final

import typer

from muster import manifest
from muster_core.config.load import ValidationResult, validate
from muster_core.model.errors import ConfigurationError
from muster_operator.config.catalog import setting_warnings
from muster_operator.config.configmaps import merged
from muster_operator.config.settings import parse
from muster_operator.model.errors import BadSetting

EXAMPLES: Final = (
    "muster validate queues.yaml",
    "kubectl get configmap muster-configs -n muster -o yaml | muster validate -",
)


def command(
    file: Annotated[str, typer.Argument(help="queues.yaml or the manifest of a ConfigMap; - = standard input")],
) -> None:
    """Validate a queue configuration, and print one line for each error or warning.

    Exits with 1 if the core would reject the configuration, and with 2 if the file cannot be read.
    """
    shown = manifest.shown(file)
    try:
        verdict = _check(manifest.read(file), shown)
    except (BadSetting, ConfigurationError) as error:
        typer.echo(f"{shown}: {error}")
        raise typer.Exit(1) from error
    for line in verdict.findings:
        typer.echo(line)
    for line in verdict.warnings:
        typer.echo(f"warning: {line}", err=True)
    if verdict.checksum_match is False:
        typer.echo(f"warning: checksum: does not match the text, whose checksum is {verdict.checksum}", err=True)
    if not verdict.allowed:
        raise typer.Exit(1)
    typer.echo(f"{shown}: valid, checksum {verdict.checksum}")


def _check(text: str, file: str) -> ValidationResult:
    """Raises BadSetting, and ConfigurationError for a manifest that is none."""
    config_map = manifest.config_map(text)
    if config_map is None:
        return validate(text, file=file)
    entries = merged([config_map])
    found = parse(entries)
    verdict = validate(found.queues, found.extra, f"{file}: {found.policy_group}.yaml")
    return replace(verdict, warnings=(*verdict.warnings, *(finding.line for finding in setting_warnings(entries))))
