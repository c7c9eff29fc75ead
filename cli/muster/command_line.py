"""How a command line is read and how help looks: commands that start without pydantic, and plain text of 80 columns."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from muster.text import program
from muster_si.near_names import nearest

#: Options of the connection to core and cluster, which most commands have. Their help is a command: `muster options`.
CONNECTION: Final = "Connection"
CONNECTION_HELP: Final = "options"
_COLUMN: Final = 28


class _FastConversion:
    """Converts the usual option types. Other types are left to typer, which loads pydantic."""

    def __init__(self, parameter: Any) -> None:
        self._annotation = parameter.type_descriptor.annotation

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value for the command; typer calls it once per option. Raises BadParameter."""
        kind = self._annotation
        if value is None or value == ():
            return () if param.multiple or param.nargs == -1 else None
        if type(value) is kind:
            return value
        if (choices := _choices(param)) and isinstance(value, str):
            if value in choices:
                return kind(value)
            raise typer.BadParameter(_no_choice(value, choices), ctx=ctx, param=param)
        param._runtime_param = None  # noqa: SLF001  # typer's own conversion, with its error messages
        try:
            return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
        except typer.BadParameter as error:
            error.message = error.message.replace("Input should be", f"{value!r} is not")
            raise


def _choices(parameter: Any) -> list[str]:
    """The values of an option that has a fixed set of them."""
    kind = parameter.type_descriptor.annotation
    is_enum = isinstance(kind, type) and issubclass(kind, Enum)
    return [str(member.value) for member in kind] if is_enum else []


def _no_choice(value: str, choices: list[str]) -> str:
    closest = nearest(value, choices)
    advice = f"; did you mean {closest}?" if closest else ""
    return f"{value!r} is not one of {', '.join(choices)}{advice}"


def _without_pydantic(parameters: list[Any]) -> list[Any]:
    """The parameters, with conversions that do not load pydantic, which takes as long as the rest of the start."""
    for parameter in parameters:
        parameter._runtime_param = _FastConversion(parameter)  # noqa: SLF001
    return parameters


class FastCommand(TyperCommand):
    """A command that starts without pydantic."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes | {"rich_markup_mode": None})

    def get_params(self, ctx: Any) -> list[Any]:
        """All options and arguments, with `--help`."""
        return _without_pydantic(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`[OPTIONS]`, and the arguments by the names that the list of arguments has."""
        arguments = [one for one in self.get_params(ctx) if one.param_type_name == "argument"]
        return [self.options_metavar or "", *map(_usage, arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, options, and where the options of the connection are described."""
        _write_options(self.get_params(ctx), ctx, formatter)


class FastGroup(TyperGroup):
    """A group of commands that starts without pydantic."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes | {"rich_markup_mode": None})

    def get_params(self, ctx: Any) -> list[Any]:
        """All options, with `--help`."""
        return _without_pydantic(super().get_params(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The commands under their headings, then the options."""
        headings: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            heading = getattr(command, "rich_help_panel", None) or "Commands"
            headings.setdefault(str(heading), []).append((name, (command.help or "").partition("\n")[0]))
        width = max(len(name) for rows in headings.values() for name, _ in rows)
        for heading, rows in headings.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])
        _write_options(self.get_params(ctx), ctx, formatter)


def _write_options(parameters: Iterable[Any], ctx: Any, formatter: Any) -> None:
    shown = [parameter for parameter in parameters if not getattr(parameter, "hidden", False)]
    arguments = [one for one in shown if one.param_type_name == "argument"]
    connection = [one for one in shown if getattr(one, "rich_help_panel", None) == CONNECTION]
    own = [one for one in shown if one not in arguments and one not in connection]
    is_about_connection = ctx.info_name == CONNECTION_HELP
    sections = {"Arguments": arguments, "Options": own, CONNECTION: connection if is_about_connection else []}
    for title, members in sections.items():
        if members:
            with formatter.section(title):
                formatter.write_dl([(_names(one), _meaning(one)) for one in members], col_max=_COLUMN)
    if connection and not is_about_connection:
        formatter.write_paragraph()
        formatter.write_text(f"'{program()} {CONNECTION_HELP}' lists the options of the connection, such as --context.")


def _usage(argument: Any) -> str:
    """An optional argument is in brackets; a metavar has its own."""
    name = _names(argument)
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    names = ", ".join(sorted((*parameter.opts, *parameter.secondary_opts), key=len))
    return names if parameter.is_flag else f"{names} {parameter.metavar or parameter.opts[0].strip('-').upper()}"


def _meaning(parameter: Any) -> str:
    facts = []
    if choices := _choices(parameter):
        facts.append(f"one of {', '.join(choices)}")
    default = parameter.default
    if default not in (None, "", (), []) and not isinstance(default, bool) and not callable(default):
        facts.append(f"default: {default.value if isinstance(default, Enum) else default}")
    if parameter.envvar:
        facts.append(f"env: {parameter.envvar}")
    if parameter.required and parameter.param_type_name == "option":
        facts.append("required")
    notes = f" [{'; '.join(facts)}]" if facts else ""
    return f"{parameter.help or ''}{notes}".strip()
