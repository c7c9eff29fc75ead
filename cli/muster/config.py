"""`muster validate` and `muster config`: rules and effective settings of queue configurations and ConfigMaps.

`validate` applies the rules of the core, without a core or a cluster. A ConfigMap is a manifest as
`kubectl get -o yaml` writes it: its settings are checked too, and compressed entries are unpacked.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final

import typer

from muster.clients import installations
from muster.clients.kubernetes import Cluster, connect
from muster.command_line import FastCommand, FastGroup
from muster.errors import PROBLEM, BadUsage, NotThere
from muster.options import Context, Kubeconfig, exit_on_error
from muster.output import Format, Output, console, emit, print_page, table
from muster.text import print_line
from muster_core.config import document
from muster_core.config.load import Parsed
from muster_core.config.load import examine as examine_queues
from muster_core.model.config import Configuration
from muster_core.model.errors import ConfigurationError
from muster_operator.config.catalog import CATALOGUE, LEVELS, QUEUES, SETTINGS, setting_warnings
from muster_operator.config.settings import PAIRS, merge, parse, source
from muster_operator.config.settings import Configuration as OperatorConfiguration
from muster_operator.model.errors import BadSetting
from muster_operator.model.settings import Settings
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
DEFAULTS: Final = "Defaults"
NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
_MAPS: Final = ("data", "binaryData")


# --- validate --------------------------------------------------------------------------------------------------------


def validate(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="queues.yaml or the manifest of a ConfigMap; - = standard input.")
    ],
) -> None:
    """Validate a queue configuration, and print one line for each error or warning.

    Exits with 1 if the core would reject the configuration, and with 2 if the file cannot be read.
    """
    exit_on_error(lambda: _validate(file))


def _validate(file: str) -> None:
    shown = shown_name(file)
    try:
        found = examined(read_file(file), shown)
    except ConfigurationError as error:
        print_line(f"{shown}: {error}")
        raise typer.Exit(PROBLEM) from error
    for line in found.errors:
        print_line(line)
    found.print_warnings()
    if found.checksum_match is False:
        print_line(f"warning: checksum: does not match the text: its checksum is {found.checksum}", err=True)
    if found.errors:
        raise typer.Exit(PROBLEM)
    print_line(f"{shown}: valid, checksum {found.checksum}")


@dataclass(frozen=True, slots=True)
class Examined:
    """All errors and warnings of queues and settings, one line each. `configuration`: without what is invalid.

    `checksum_match`: whether the checksum in the text is correct; None = the text has none.
    """

    configuration: Configuration
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    checksum: str
    checksum_match: bool | None

    def print_warnings(self) -> None:
        """Print the warnings on standard error."""
        for line in self.warnings:
            print_line(f"warning: {line}", err=True)


def examined(written: str, file: str, present: Mapping[str, str] = NO_SETTINGS) -> Examined:
    """Examine a queues.yaml or the manifest of a ConfigMap. Raises ConfigurationError if it is neither.

    `present`: settings that apply unless the ConfigMap has them.
    """
    lines: dict[str, int] = {}
    try:
        data = document.read(written, lines)
    except ConfigurationError:
        return _examined(written, present, file)  # reports it with the other errors
    if (config_map := _config_map_in(data)) is not None:
        return examined_entries([config_map], f"{file}: ", present)
    _check_kind(data)
    return _examined(written, present, file, parsed=(data, lines))


def examined_entries(config_maps: Sequence[Raw], where: str = "", present: Mapping[str, str] = NO_SETTINGS) -> Examined:
    """Examine ConfigMaps as the operator and the core do. `where`: begins each error."""
    entries, wrong = merge(config_maps)
    found, invalid = _parsed(entries)
    result = _examined(found.queues, {**present, **found.extra}, f"{where}{found.policy_group}{QUEUES}", where)
    return replace(
        result,
        errors=(*(f"{where}{error}" for error in (*wrong, *invalid)), *result.errors),
        warnings=(*result.warnings, *(finding.line for finding in setting_warnings(entries))),
    )


def _examined(
    queues: str, extra: Mapping[str, str], file: str, where: str = "", parsed: Parsed | None = None
) -> Examined:
    found = examine_queues(queues, extra, file, parsed)
    return Examined(
        found.built.configuration,
        tuple(str(error) if error.file else f"{where}{error}" for error in found.errors),
        found.built.warnings,
        found.checksum,
        found.checksum_match,
    )


def operator_settings(config_maps: Sequence[Raw]) -> Settings:
    """The settings of the operator by the ConfigMaps, without those that are invalid."""
    return _parsed(merge(config_maps)[0])[0].settings


def _parsed(entries: Mapping[str, str]) -> tuple[OperatorConfiguration, list[BadSetting]]:
    """The configuration without the settings that are invalid, and why each of them is."""
    valid, invalid = dict(entries), list[BadSetting]()
    while True:
        try:
            return parse(valid), invalid
        except BadSetting as error:
            invalid.append(error)
            del valid[error.key]


def _check_kind(data: document.Data) -> None:
    """Raises ConfigurationError for an empty file and for the manifest of another object."""
    if data is None:
        fix = "add partitions; without queues.yaml, Muster uses one queue for each namespace"
        raise ConfigurationError(document.TOP, None, "is empty", fix)
    if isinstance(data, dict) and "kind" in data and "partitions" not in data:
        rule = f"is a {text(data['kind']) or 'manifest'}, not a ConfigMap"
        raise ConfigurationError(document.TOP, None, rule, "write queues.yaml or the manifest of its ConfigMap")


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


def read_configuration(written: str, file: str, present: Mapping[str, str] = NO_SETTINGS) -> Examined:
    """Like `examined`. Raises BadUsage with all errors if the core would reject it."""
    try:
        found = examined(written, file, present)
    except ConfigurationError as error:
        raise BadUsage(f"{file}: {error}") from error
    if found.errors:
        raise BadUsage(*found.errors)
    return found


def read_manifest(written: str) -> Raw | None:
    """The ConfigMap of a manifest (as `kubectl get -o yaml` writes it), None for any other text.

    Raises:
        ConfigurationError: entries of the ConfigMap are not text.
    """
    try:
        data = document.read(written)
    except ConfigurationError:
        return None  # the caller parses the text and reports the error
    return _config_map_in(data)


def _config_map_in(data: document.Data) -> Raw | None:
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
            help="Namespace of the ConfigMaps (default: that of Muster, from the Leases of scheduler names).",
        ),
    ] = "",
    output: Format = Output.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Show every setting with its value and its origin.

    Warnings and errors, also those of the queues, are written to standard error. Exits with 1 if a value is invalid,
    with 2 if a file cannot be read, and with 3 if the cluster is unreachable.
    """
    if defaults:
        _print_defaults(output)
        return

    def read_and_print() -> None:
        if file:
            _print_config_maps([_from_file(name) for name in file], output)
            return
        with connect(kubeconfig, context) as cluster:
            home = namespace or installations.namespace(cluster, "-n")
            found = in_use(cluster, home)
        if not found:
            names = ", ".join(name for pair in PAIRS for name in pair)
            print_line(f"no ConfigMap of Muster ({names}) in namespace {home}: the defaults apply", err=True)
        _print_config_maps(found, output)

    exit_on_error(read_and_print)


def _print_config_maps(config_maps: Sequence[Raw], output: Output) -> None:
    """Print the effective settings. Raises Exit(1) if a value is invalid."""
    _print_values(config_maps, merge(config_maps)[0], output)
    found = examined_entries(config_maps)
    found.print_warnings()
    for line in found.errors:
        print_line(f"muster: {line}", err=True)
    if found.errors:
        raise typer.Exit(PROBLEM)


def in_use(cluster: Cluster, namespace: str) -> Sequence[Raw]:
    """The ConfigMaps in use, as the operator chooses them. Raises Unreachable."""
    for pair in PAIRS:
        if found := [config_map for name in pair if (config_map := _config_map(cluster, namespace, name))]:
            return found
    return ()


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
        raise BadUsage(
            f"{shown_name(file)} is not the manifest of a ConfigMap; for queues.yaml alone, use muster validate"
        )
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
        *("SETTING", "VALUE", "TAKES EFFECT", *(("DEFAULT", "MEANING") if is_wide else ())),
        optional=("TAKES EFFECT",),
        sentences=("VALUE", "TAKES EFFECT", "MEANING"),
    )
    rows: dict[str, list[tuple[str, ...]]] = {}
    for key, value in values.items():
        shown = f"{len(value.splitlines())} lines" if key.endswith(QUEUES) else value
        setting = SETTINGS.get(key)
        takes, default, meaning = (setting.takes, setting.default, setting.meaning) if setting else ("", "", "")
        row = (key, shown, takes, *((default, meaning) if is_wide else ()))
        rows.setdefault(_origin(config_maps, entries, key), []).append(row)
    for origin, settings in sorted(rows.items(), key=lambda one: one[0] == DEFAULTS):
        page.add_row(origin, style="bold")
        for row in settings:
            page.add_row(*row)
    print_page(console(is_unbounded=is_wide), page)


def _origin(config_maps: Sequence[Raw], entries: Mapping[str, str], key: str) -> str:
    is_set = SETTINGS[key].is_set(entries) if key in SETTINGS else bool(entries[key].strip())
    where = source(config_maps, key) if is_set else None
    return f"ConfigMap {where.name}" if where else DEFAULTS
