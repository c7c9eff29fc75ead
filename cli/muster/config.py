"""`muster config`: effective settings of the ConfigMaps, and defaults."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, NoReturn

import typer

from muster import manifest
from muster.errors import Unreachable
from muster.output import Format, Output, console, emit, table
from muster_core.model.errors import ConfigurationError
from muster_operator.config.catalog import CATALOGUE, LEVELS, QUEUES, SETTINGS, setting_warnings
from muster_operator.config.configmaps import merged, read_config_maps, source
from muster_operator.config.settings import parse
from muster_operator.kube.session import Credentials, KubeSession
from muster_operator.model.errors import BadSetting, LinkError
from muster_operator.translate.values import Raw

EXAMPLES: Final = (
    "muster config show -n muster",
    "muster config show --defaults -o yaml",
    "muster config show -f configmap.yaml",
)

app = typer.Typer(help="Show effective settings and defaults.", no_args_is_help=True, add_completion=False)

DEFAULT: Final = "default"


@app.callback()
def group() -> None:
    """Show effective settings and defaults."""


@app.command()
def show(
    *,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="show every setting with its default, without a cluster")
    ] = False,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file", "-f", help="manifest of a ConfigMap to use instead of the cluster's; later files take precedence"
        ),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", envvar="NAMESPACE", help="namespace of the ConfigMaps")
    ] = "default",
    output: Format = Output.TABLE,
) -> None:
    """Show every setting with its value and ConfigMap.

    Warnings and errors are written to standard error. Exits with 1 if a value is invalid, with 2 if a file cannot be
    read, and with 3 if the cluster is unreachable.
    """
    if defaults:
        _print_defaults(output)
        return
    config_maps = _from_files(file) if file else _from_cluster(namespace)
    try:
        entries = merged(config_maps)
    except BadSetting as error:
        _end(str(error), 1)
    _print_values(config_maps, entries, output)
    for finding in setting_warnings(entries):
        typer.echo(f"warning: {finding.line}", err=True)
    try:
        parse(entries)
    except BadSetting as error:
        _end(str(error), 1)


def _from_cluster(namespace: str) -> Sequence[Raw]:
    """The ConfigMaps in force; ends the command with 3 where they cannot be read."""

    async def read() -> Sequence[Raw]:
        session = KubeSession(Credentials())
        try:
            return await read_config_maps(session, namespace)
        finally:
            await session.close()

    try:
        return asyncio.run(read())
    except LinkError as error:
        _end(f"cannot read the ConfigMaps: {error}", Unreachable.code)


def _from_files(files: Iterable[str]) -> Sequence[Raw]:
    found = []
    for file in files:
        try:
            config_map = manifest.config_map(manifest.read(file))
        except ConfigurationError as error:
            _end(f"{manifest.shown(file)}: {error}", 1)
        if config_map is None:
            _end(f"{manifest.shown(file)} is not the manifest of a ConfigMap", 2)
        found.append(config_map)
    return found


def _end(line: str, code: int) -> NoReturn:
    typer.echo(line, err=True)
    raise typer.Exit(code)


def _print_defaults(output: Output) -> None:
    if output.is_data:
        emit({setting.key: setting.default for setting in SETTINGS.values() if setting.key != LEVELS}, output)
        return
    page = table("SETTING", "DEFAULT", "TAKES EFFECT", "MEANING")
    for heading, settings in CATALOGUE.items():
        page.add_row(heading, style="bold")
        for setting in settings:
            page.add_row(setting.key, setting.default, setting.takes, setting.meaning)
    console().print(page)


def _print_values(config_maps: Sequence[Raw], entries: Mapping[str, str], output: Output) -> None:
    values = {setting.key: setting.value(entries) for setting in SETTINGS.values() if setting.key != LEVELS} | {
        key: value for key, value in sorted(entries.items()) if key not in SETTINGS
    }
    if output.is_data:
        emit(values, output)
        return
    page = table("SETTING", "VALUE", "FROM", "TAKES EFFECT")
    for key, value in values.items():
        said = f"{len(value.splitlines())} lines" if key.endswith(QUEUES) else value
        takes = SETTINGS[key].takes if key in SETTINGS else ""
        page.add_row(key, said, _origin(config_maps, entries, key), takes)
    console().print(page)


def _origin(config_maps: Sequence[Raw], entries: Mapping[str, str], key: str) -> str:
    is_set = SETTINGS[key].is_set(entries) if key in SETTINGS else bool(entries[key].strip())
    where = source(config_maps, key) if is_set else None
    return where.name if where else DEFAULT
