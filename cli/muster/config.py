"""`muster config`: the settings of the ConfigMaps, those in force and those there are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final, NoReturn

import orjson
import typer
import yaml
from rich import box
from rich.console import Console
from rich.table import Table

from muster import manifest
from muster_core.model.errors import ConfigurationError
from muster_operator.link.api.credentials import Credentials
from muster_operator.link.api.session import KubeSession
from muster_operator.link.config.catalogue import CATALOGUE, LEVELS, QUEUES, SETTINGS, doubts
from muster_operator.link.config.configmaps import merged, read_config_maps, source
from muster_operator.link.config.settings import parse
from muster_operator.link.errors import BadSetting, LinkError
from muster_operator.translate.raw import Raw

app = typer.Typer(help="Settings: what is in force, and what there is.", no_args_is_help=True)

DEFAULT: Final = "default"
#: Columns of a page that nobody looks at on a screen.
WIDE: Final = 200


class Output(StrEnum):
    """table for people, yaml and json for programs."""

    TABLE = "table"
    YAML = "yaml"
    JSON = "json"


@app.callback()
def group() -> None:
    """Settings: what is in force, and what there is."""


@app.command()
def show(
    *,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="every setting with its default; asks no cluster")
    ] = False,
    file: Annotated[
        list[str] | None,
        typer.Option("--file", "-f", help="the manifest of a ConfigMap instead of the cluster's; a later one wins"),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", envvar="NAMESPACE", help="where the ConfigMaps are")
    ] = "default",
    output: Annotated[Output, typer.Option("--output", "-o")] = Output.TABLE,
) -> None:
    """Show every setting: its value, and which ConfigMap has it.

    What is odd about a ConfigMap is told on standard error. Ends with 1 if it holds a value that would be refused,
    with 2 if it cannot be read.

    Examples: muster config show -n muster; muster config show --defaults -o yaml
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
    for finding in doubts(entries):
        typer.echo(f"warning: {finding.line}", err=True)
    try:
        parse(entries)
    except BadSetting as error:
        _end(str(error), 1)


def _from_cluster(namespace: str) -> Sequence[Raw]:
    """The ConfigMaps in force; ends the command with 2 where they cannot be read."""

    async def read() -> Sequence[Raw]:
        session = KubeSession(Credentials())
        try:
            return await read_config_maps(session, namespace)
        finally:
            await session.close()

    try:
        return asyncio.run(read())
    except LinkError as error:
        _end(f"the ConfigMaps cannot be read: {error}", 2)


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
    if output is not Output.TABLE:
        _print_data({setting.key: setting.default for setting in SETTINGS.values() if setting.key != LEVELS}, output)
        return
    table = _table("SETTING", "DEFAULT", "TAKES EFFECT", "MEANING")
    for heading, settings in CATALOGUE.items():
        table.add_row(heading, style="bold")
        for setting in settings:
            table.add_row(setting.key, setting.default, setting.takes, setting.meaning)
    _console().print(table)


def _print_values(config_maps: Sequence[Raw], entries: Mapping[str, str], output: Output) -> None:
    values = {setting.key: setting.value(entries) for setting in SETTINGS.values() if setting.key != LEVELS} | {
        key: value for key, value in sorted(entries.items()) if key not in SETTINGS
    }
    if output is not Output.TABLE:
        _print_data(values, output)
        return
    table = _table("SETTING", "VALUE", "FROM", "TAKES EFFECT")
    for key, value in values.items():
        said = f"{len(value.splitlines())} lines" if key.endswith(QUEUES) else value
        takes = SETTINGS[key].takes if key in SETTINGS else ""
        table.add_row(key, said, _origin(config_maps, entries, key), takes)
    _console().print(table)


def _origin(config_maps: Sequence[Raw], entries: Mapping[str, str], key: str) -> str:
    is_set = SETTINGS[key].is_set(entries) if key in SETTINGS else bool(entries[key].strip())
    where = source(config_maps, key) if is_set else None
    return where.name if where else DEFAULT


def _print_data(values: Mapping[str, str], output: Output) -> None:
    if output is Output.JSON:
        typer.echo(orjson.dumps(values, option=orjson.OPT_INDENT_2).decode())
    else:
        typer.echo(yaml.safe_dump(dict(values), sort_keys=False), nl=False)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _console() -> Console:
    console = Console(highlight=False, markup=False)
    return console if console.is_terminal else Console(highlight=False, markup=False, width=WIDE)
