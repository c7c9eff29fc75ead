"""The options that all commands share which ask a core, and how their errors end: one line and a code.

`asks` puts them on a command that takes a Target first, so that each command lists only what is its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Concatenate, Final, ParamSpec

import typer

from muster.clients.target import Target
from muster.errors import PROBLEM, CommandError

P = ParamSpec("P")

PANEL: Final = "Connection"


def _target(  # noqa: PLR0913 # long: the command line is its options
    *,
    server: Annotated[
        str,
        typer.Option(
            "--server",
            "-s",
            envvar="MUSTER_SERVER",
            help="URL of the core's REST interface (default: port-forward to the leader)",
            rich_help_panel=PANEL,
        ),
    ] = "",
    token_file: Annotated[
        Path | None,
        typer.Option(
            envvar="MUSTER_TOKEN_FILE", help="File with a bearer token for the REST interface", rich_help_panel=PANEL
        ),
    ] = None,
    certificate_authority: Annotated[
        Path | None, typer.Option(help="PEM file with the authority of --server's certificate", rich_help_panel=PANEL)
    ] = None,
    insecure_skip_tls_verify: Annotated[
        bool, typer.Option("--insecure-skip-tls-verify", help="Skip TLS verification (insecure)", rich_help_panel=PANEL)
    ] = False,
    kubeconfig: Annotated[str, typer.Option(help="Path to the kubeconfig", rich_help_panel=PANEL)] = "",
    context: Annotated[str, typer.Option(help="Kubeconfig context (default: current)", rich_help_panel=PANEL)] = "",
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            envvar="MUSTER_NAMESPACE",
            help="Namespace of Muster (default: search all namespaces)",
            rich_help_panel=PANEL,
        ),
    ] = "",
) -> Target:
    return Target(server, token_file, certificate_authority, insecure_skip_tls_verify, kubeconfig, context, namespace)


def asks(command: Callable[Concatenate[Target, P], None]) -> Callable[..., None]:
    """The command with the shared options in front of its own."""
    shared = inspect.signature(_target, eval_str=True).parameters
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

    @wraps(command)
    def asking(**given: Any) -> None:
        target = _target(**{key: given.pop(key) for key in shared})
        try:
            with_one_line(lambda: command(target, **given))  # type: ignore[call-arg]  # typer calls by the names of `own`
        finally:
            target.close()

    both = [*own, *(option for option in shared.values())]
    asking.__annotations__ = {option.name: option.annotation for option in both}
    vars(asking)["__signature__"] = inspect.Signature(both)
    return asking


class Steps:
    """Independent steps: a failure is reported in one line and stops no other step. The command then exits with 1."""

    def __init__(self) -> None:
        self.failed = 0

    def done(self, step: Callable[[], bool]) -> bool:
        """The result of the step; False = it failed."""
        try:
            return step()
        except CommandError as error:
            typer.echo(f"muster: {error}", err=True)
            self.failed += 1
            return False

    def end(self) -> None:
        """Raise Exit(1) if a step failed."""
        if self.failed:
            raise typer.Exit(PROBLEM)


def with_one_line(action: Callable[[], None]) -> None:
    """Run the action. An error is printed as one line and sets the exit code."""
    try:
        action()
    except CommandError as error:
        typer.echo(f"muster: {error}", err=True)
        raise typer.Exit(error.code) from error
