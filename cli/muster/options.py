"""Options that commands share: the connection to core and cluster, and namespaces. Errors become one line and a code.

`connected` adds the connection options to a command, which gets a `Target` as its first argument.
"""

from __future__ import annotations

import inspect
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Annotated, Any, Concatenate, Final, ParamSpec

import typer

from muster.clients import kubeconfig as kubeconfig_files
from muster.clients import kubernetes, port_forward
from muster.clients.http import client
from muster.clients.rest import Rest
from muster.command_line import CONNECTION
from muster.errors import PROBLEM, BadUsage, CommandError
from muster.text import print_line
from muster_si.kubeconfig import proxy_of

P = ParamSpec("P")

PANEL: Final = CONNECTION

Kubeconfig = Annotated[str, typer.Option(help="Path to the kubeconfig.", rich_help_panel=PANEL)]
Context = Annotated[str, typer.Option(help="Kubeconfig context (default: the current one).", rich_help_panel=PANEL)]
MusterNamespace = Annotated[
    str,
    typer.Option(
        envvar="MUSTER_NAMESPACE",
        help="Namespace in which Muster runs (default: from the Leases of scheduler names, else muster).",
        rich_help_panel=PANEL,
    ),
]
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", help="Namespace of the application (default: the namespace of the context).")
]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces; --namespace is ignored.")]


@dataclass(frozen=True)
class Target:
    """The core and the cluster of a command. Empty `server`: the core is found in the cluster."""

    server: str = ""
    token_file: Path | None = None
    authority: Path | None = None
    skips_verification: bool = False
    kubeconfig: str = ""
    context: str = ""
    muster_namespace: str = ""
    #: `server` is that of the variable, which error messages name.
    is_from_environment: bool = False
    #: The help of the command.
    help: Callable[[], str] = str

    @cached_property
    def rest(self) -> Rest:
        """The core. Raises BadUsage, Unreachable."""
        headers = {"Accept": "application/json", **self._authorization()}
        if not self.server:
            return port_forward.core(self.cluster, self.muster_namespace, headers)
        with kubeconfig_files.command_errors():
            proxy = proxy_of(self.server)
        where = f"the core at {self.server}{' (MUSTER_SERVER)' if self.is_from_environment else ''}"
        return Rest(client(where, self.server, self._tls, headers.items(), proxy))

    @cached_property
    def cluster(self) -> kubernetes.Cluster:
        """The cluster that kubectl would use. Raises BadUsage, Unreachable."""
        return kubernetes.connect(self.kubeconfig, self.context)

    def namespace(self, namespace: str, *, all_namespaces: bool) -> str:
        """The namespace of `--namespace`, `--all-namespaces` or the context; empty = all. Raises BadUsage.

        `--server` needs no kubeconfig: without a usable one, all namespaces are selected.
        """
        if all_namespaces:
            return ""
        if namespace or not self.server:
            return namespace or kubeconfig_files.namespace(self.kubeconfig, self.context)
        try:
            found = kubeconfig_files.read(self.kubeconfig, self.context)
        except BadUsage:
            if self.kubeconfig or self.context:
                raise
            return ""
        return (found.namespace or kubeconfig_files.DEFAULT_NAMESPACE) if found and found.name else ""

    def close(self) -> None:
        """Close all open connections."""
        used = vars(self)
        if "rest" in used:
            self.rest.close()
        if "cluster" in used:
            self.cluster.http.close()

    def _authorization(self) -> dict[str, str]:
        if self.token_file is None:
            return {}
        try:
            return {"Authorization": f"Bearer {self.token_file.read_text().strip()}"}
        except OSError as error:
            raise BadUsage(f"--token-file {self.token_file} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise BadUsage(f"--token-file {self.token_file} cannot be read: it is not UTF-8") from error

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.authority)
        except OSError as error:  # ssl.SSLError is one
            raise BadUsage(f"--certificate-authority {self.authority} cannot be used: {error}") from error
        if self.skips_verification:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def _target(  # noqa: PLR0913 # long: the command line is its options
    *,
    ctx: typer.Context,
    server: Annotated[
        str,
        typer.Option(
            "--server",
            "-s",
            envvar="MUSTER_SERVER",
            help="URL of the core's REST interface (default: port-forward to the leader). A written --context or "
            "--kubeconfig precedes the variable.",
            rich_help_panel=PANEL,
        ),
    ] = "",
    token_file: Annotated[
        Path | None,
        typer.Option(
            envvar="MUSTER_TOKEN_FILE", help="File with a bearer token for the REST interface.", rich_help_panel=PANEL
        ),
    ] = None,
    certificate_authority: Annotated[
        Path | None,
        typer.Option(help="PEM file with the certificate authority of --server.", rich_help_panel=PANEL),
    ] = None,
    insecure_skip_tls_verify: Annotated[
        bool,
        typer.Option(
            "--insecure-skip-tls-verify",
            help="Do not verify the certificate of --server (insecure).",
            rich_help_panel=PANEL,
        ),
    ] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    muster_namespace: MusterNamespace = "",
) -> Target:
    # The environment has the usual core; a context that is written in the command means another one.
    is_from_environment = (source := ctx.get_parameter_source("server")) is not None and source.name == "ENVIRONMENT"
    return Target(
        server="" if is_from_environment and (kubeconfig or context) else server,
        token_file=token_file,
        authority=certificate_authority,
        skips_verification=insecure_skip_tls_verify,
        kubeconfig=kubeconfig,
        context=context,
        muster_namespace=muster_namespace,
        is_from_environment=is_from_environment,
        help=ctx.get_help,
    )


def connected(command: Callable[Concatenate[Target, P], None]) -> Callable[..., None]:
    """The command with the connection options after its own options."""
    shared = inspect.signature(_target, eval_str=True).parameters
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

    @wraps(command)
    def run(**given: Any) -> None:
        target = _target(**{key: given.pop(key) for key in shared})
        try:
            exit_on_error(lambda: command(target, **given))  # type: ignore[call-arg]  # typer calls by the names of `own`
        finally:
            target.close()

    options = [*own, *shared.values()]
    run.__annotations__ = {option.name: option.annotation for option in options}
    vars(run)["__signature__"] = inspect.Signature(options)
    return run


class Steps:
    """Independent steps: a failure is reported in one line and stops no other step. The command then exits with 1."""

    def __init__(self) -> None:
        self.failed = 0

    def run(self, step: Callable[[], bool]) -> bool:
        """The result of the step; False = it failed."""
        try:
            return step()
        except CommandError as error:
            print_line(f"muster: {error}", err=True)
            self.failed += 1
            return False

    def end(self) -> None:
        """Raise Exit(1) if a step failed."""
        if self.failed:
            raise typer.Exit(PROBLEM)


def exit_on_error(action: Callable[[], None]) -> None:
    """Run the action. An error is printed, one line for each message, and sets the exit code."""
    try:
        action()
    except CommandError as error:
        for message in error.messages:
            print_line(f"muster: {message}", err=True)
        raise typer.Exit(error.code) from error


@connected
def command(target: Target) -> None:  # only its options matter
    """List the options of the connection to core and cluster, which most commands have."""
    print_line(target.help())
