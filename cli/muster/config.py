"""`muster validate` and `muster config`: rules and effective settings of queue configurations and ConfigMaps.

`validate` applies the rules of the core, without a core or a cluster. A ConfigMap is a manifest as
`kubectl get -o yaml` writes it: its settings are checked too, and compressed entries are unpacked.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from muster.clients import kubeconfig as kubeconfig_files
from muster.clients.kubernetes import Cluster, connect
from muster.command_line import FastCommand, FastGroup
from muster.errors import PROBLEM, BadUsage, NotThere
from muster.options import Context, Kubeconfig, exit_on_error
from muster.output import Format, Output, console, emit, print_page, table
from muster.text import print_line
from muster_core.config import document
from muster_core.config.load import ValidationResult, load
from muster_core.config.load import validate as validate_queues
from muster_core.model.config import Configuration
from muster_core.model.errors import ConfigurationError
from muster_operator.config.catalog import CATALOGUE, LEVELS, QUEUES, SETTINGS, setting_warnings
from muster_operator.config.settings import PAIRS, merged, parse, source
from muster_operator.model.errors import BadSetting
from muster_operator.translate.values import Raw, mapping, text

EXAMPLES: Final = {
    "validate": (
        "muster validate queues.yaml",
        "kubectl get configmap muster-configs -n muster -o yaml | muster validate -",
    ),
    "config": (
        "muster config show -n muster",
        "muster config show --defaults -o yaml",
        "muster config show -f configmap.yaml",
    ),
}

STDIN: Final = "-"
DEFAULT: Final = "default"
_MAPS: Final = ("data", "binaryData")


# --- validate --------------------------------------------------------------------------------------------------------


def validate(
    file: Annotated[str, typer.Argument(help="queues.yaml or the manifest of a ConfigMap; - = standard input.")],
) -> None:
    """Validate a queue configuration, and print one line for each error or warning.

    Exits with 1 if the core would reject the configuration, and with 2 if the file cannot be read.
    """
    exit_on_error(lambda: _validate(file))


def _validate(file: str) -> None:
    shown = shown_name(file)
    try:
        result = _check(read_file(file), shown)
    except (BadSetting, ConfigurationError) as error:
        print_line(f"{shown}: {error}")
        raise typer.Exit(PROBLEM) from error
    for line in result.findings:
        print_line(line)
    for line in result.warnings:
        print_line(f"warning: {line}", err=True)
    if result.checksum_match is False:
        print_line(f"warning: checksum: does not match the text: its checksum is {result.checksum}", err=True)
    if not result.allowed:
        raise typer.Exit(PROBLEM)
    print_line(f"{shown}: valid, checksum {result.checksum}")


def _check(written: str, file: str) -> ValidationResult:
    """Raises BadSetting, and ConfigurationError for an empty file and an invalid manifest."""
    config_map = read_manifest(written)
    if config_map is None:
        if _is_empty(written):
            fix = "add partitions; without queues.yaml, Muster uses one queue for each namespace"
            raise ConfigurationError(document.TOP, None, "is empty", fix)
        return validate_queues(written, file=file)
    entries = merged([config_map])
    found = parse(entries)
    result = validate_queues(found.queues, found.extra, f"{file}: {found.policy_group}.yaml")
    return replace(result, warnings=(*result.warnings, *(finding.line for finding in setting_warnings(entries))))


def _is_empty(written: str) -> bool:
    try:
        return document.read(written) is None
    except ConfigurationError:
        return False


# --- files -----------------------------------------------------------------------------------------------------------


def shown_name(file: str) -> str:
    """The name of a file in messages."""
    return "standard input" if file == STDIN else file


def read_file(file: str, most_bytes: int = -1) -> str:
    """The text of a file. Raises BadUsage if it cannot be read, or has more than `most_bytes` (-1 = any number)."""
    wanted = most_bytes + 1 if most_bytes >= 0 else -1
    try:
        if file == STDIN:
            raw = sys.stdin.buffer.read(wanted)
        else:
            with Path(file).open("rb") as opened:
                raw = opened.read(wanted)
    except OSError as error:
        raise BadUsage(f"{file} cannot be read: {error.strerror}") from error
    if 0 <= most_bytes < len(raw):
        raise BadUsage(f"{shown_name(file)} has more than {most_bytes} bytes")
    # Bytes that are not UTF-8 are kept; the parser rejects them with their position.
    return raw.decode(errors="surrogateescape")


def parse_configuration(
    written: str, file: str, present: Mapping[str, str] | None = None
) -> tuple[Configuration, bool]:
    """The configuration of a queues.yaml, or of a ConfigMap with its settings; and whether it is a ConfigMap.

    `present`: settings that apply unless the ConfigMap has them. Raises BadUsage if the core would reject it.
    """
    settings = dict(present or {})
    try:
        config_map = read_manifest(written)
        if config_map is None:
            return load(written, settings, file).configuration, False
        found = parse(merged([config_map]))
        extra = {**settings, **found.extra}
        return load(found.queues, extra, f"{file}: {found.policy_group}.yaml").configuration, True
    except (BadSetting, ConfigurationError) as error:
        raise BadUsage(f"{file}: {error}") from error


def read_manifest(written: str) -> Raw | None:
    """The ConfigMap of a manifest (as `kubectl get -o yaml` writes it), None for any other text.

    Raises:
        ConfigurationError: entries of the ConfigMap are not text.
    """
    try:
        data = document.read(written)
    except ConfigurationError:
        return None  # the caller parses the text and reports the error
    if not isinstance(data, dict) or data.get("kind") != "ConfigMap":
        return None
    metadata = {"name": text(mapping(data.get("metadata")).get("name"))}
    return {"metadata": metadata, **{key: _entries(data, key) for key in _MAPS}}


def _entries(data: dict[str, document.Data], key: str) -> dict[str, str]:
    found = data.get(key) or {}
    if not isinstance(found, dict):
        raise ConfigurationError(key, None, "is not a mapping", "write one entry per line")
    for name, value in found.items():
        if not isinstance(value, str | None):
            raise ConfigurationError(f"{key}.{name}", None, "is not text", "write it after |, indented")
    return {name: value for name, value in found.items() if isinstance(value, str)}


# --- config show -----------------------------------------------------------------------------------------------------

app = typer.Typer(
    cls=FastGroup,
    help="Show effective settings and defaults.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def group() -> None:
    """Show effective settings and defaults."""


@app.command(cls=FastCommand)
def show(
    *,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Show every setting with its default, without a cluster.")
    ] = False,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file", "-f", help="Manifest of a ConfigMap to use instead of the cluster's; later files take precedence."
        ),
    ] = None,
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            envvar="NAMESPACE",
            help="Namespace of the ConfigMaps (default: the namespace of the context).",
        ),
    ] = "",
    output: Format = Output.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Show every setting with its value and its origin.

    Warnings and errors are written to standard error. Exits with 1 if a value is invalid, with 2 if a file cannot be
    read, and with 3 if the cluster is unreachable.
    """
    if defaults:
        _print_defaults(output)
        return

    def read_and_print() -> None:
        if file:
            _print_config_maps([_from_file(name) for name in file], output)
            return
        chosen = namespace or kubeconfig_files.namespace(kubeconfig, context)
        _print_config_maps(_from_cluster(connect(kubeconfig, context), chosen), output)

    exit_on_error(read_and_print)


def _print_config_maps(config_maps: Sequence[Raw], output: Output) -> None:
    """Print the effective settings. Raises Exit(1) if a value is invalid."""
    try:
        entries = merged(config_maps)
        _print_values(config_maps, entries, output)
        for finding in setting_warnings(entries):
            print_line(f"warning: {finding.line}", err=True)
        parse(entries)
    except BadSetting as error:
        print_line(f"muster: {error}", err=True)
        raise typer.Exit(PROBLEM) from error


def _from_cluster(cluster: Cluster, namespace: str) -> Sequence[Raw]:
    """The ConfigMaps in use, as the operator chooses them. Raises Unreachable."""
    try:
        for pair in PAIRS:
            if found := [config_map for name in pair if (config_map := _config_map(cluster, namespace, name))]:
                return found
        return ()
    finally:
        cluster.http.close()


def _config_map(cluster: Cluster, namespace: str, name: str) -> Raw | None:
    try:
        return cluster.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    except NotThere:
        return None


def _from_file(file: str) -> Raw:
    """Raises BadUsage if the file is not the manifest of a ConfigMap."""
    try:
        config_map = read_manifest(read_file(file))
    except ConfigurationError as error:
        print_line(f"muster: {shown_name(file)}: {error}", err=True)
        raise typer.Exit(PROBLEM) from error
    if config_map is None:
        raise BadUsage(f"{shown_name(file)} is not the manifest of a ConfigMap")
    return config_map


def _print_defaults(output: Output) -> None:
    if output.is_data:
        emit({setting.key: setting.default for setting in SETTINGS.values() if setting.key != LEVELS}, output)
        return
    page = table(
        *("SETTING", "DEFAULT", "TAKES EFFECT", "MEANING"), optional=("TAKES EFFECT",), sentences=("DEFAULT", "MEANING")
    )
    for heading, settings in CATALOGUE.items():
        page.add_row(heading, style="bold")
        for setting in settings:
            page.add_row(setting.key, setting.default, setting.takes, setting.meaning)
    print_page(console(is_unbounded=output is Output.WIDE), page)


def _print_values(config_maps: Sequence[Raw], entries: Mapping[str, str], output: Output) -> None:
    values = {setting.key: setting.value(entries) for setting in SETTINGS.values() if setting.key != LEVELS} | {
        key: value for key, value in sorted(entries.items()) if key not in SETTINGS
    }
    if output.is_data:
        emit(values, output)
        return
    is_wide = output is Output.WIDE
    page = table(
        *("SETTING", "VALUE", "FROM", "TAKES EFFECT", *(("DEFAULT", "MEANING") if is_wide else ())),
        optional=("TAKES EFFECT", "FROM"),
        sentences=("VALUE", "TAKES EFFECT", "MEANING"),
    )
    for key, value in values.items():
        shown = f"{len(value.splitlines())} lines" if key.endswith(QUEUES) else value
        setting = SETTINGS.get(key)
        takes, default, meaning = (setting.takes, setting.default, setting.meaning) if setting else ("", "", "")
        more = (default, meaning) if is_wide else ()
        page.add_row(key, shown, _origin(config_maps, entries, key), takes, *more)
    print_page(console(is_unbounded=is_wide), page)


def _origin(config_maps: Sequence[Raw], entries: Mapping[str, str], key: str) -> str:
    is_set = SETTINGS[key].is_set(entries) if key in SETTINGS else bool(entries[key].strip())
    where = source(config_maps, key) if is_set else None
    return where.name if where else DEFAULT
