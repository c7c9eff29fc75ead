"""Creates the parts of the core and runs them: the scheduler task, the REST server and the gRPC server.

`running` starts the core inside another process, as in embedded mode and in tests. `serve` starts it as a process with
a gRPC server and signal handlers. `app` is the command line; each option is also an environment variable. A core that
cannot start prints the reason in one line and exits with status 1.
"""

from __future__ import annotations

import asyncio
import signal
import ssl
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import structlog
import typer
import uvloop

from muster_core.config.settings import CoreSettings
from muster_core.extensions import nodes, placement_constraints, predicate_callbacks
from muster_core.placement.plugins.hooks import HOOKS
from muster_core.rest.answers import LEAST_MIB, MOST_MIB
from muster_core.rest.auth import OPEN_READS, AccessSettings, CompatibilityMode, ServerTls
from muster_core.rest.server import RestServer, RestSettings, StartFailure
from muster_core.runtime.journal import Journal
from muster_core.runtime.log_level import LevelControl, LogLevel, SubsystemLogger, Threshold
from muster_core.runtime.loop import LoopSettings
from muster_core.runtime.service import Administration, Scheduler
from muster_core.runtime.user_groups import SECRET, Groups, LdapDirectory, directories
from muster_si import log_lines
from muster_si.errors import AddressError
from muster_si.log_lines import LogFormat
from muster_si.transport.credentials import TlsFiles
from muster_si.transport.grpc_server import GrpcServer

_log = structlog.get_logger(__name__)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the core. `rest_port`: None = no REST server, 0 = any free port. `journal`: None = no journal.
    `ldap_secret`: directory with the settings of the LDAP group resolver.
    """

    listen: str = "unix:///run/muster/core.sock"
    tls: TlsFiles | None = None
    allow_plaintext: bool = False
    rest_address: str = "127.0.0.1"
    rest_port: int | None = 9080
    rest_tls: ServerTls | None = None
    rest_access: AccessSettings = OPEN_READS
    rest_ui: bool = True
    simulation_mib: int = MOST_MIB
    levels: LevelControl | None = None
    #: Called with the settings when they take effect.
    follow: Callable[[CoreSettings], None] | None = None
    journal: Path | None = None
    ldap_secret: Path = SECRET
    loop: LoopSettings = field(default_factory=LoopSettings)


class StartError(Exception):
    """The core cannot start. The message is printed as one line."""


def install_extensions() -> None:
    """Sets the hook of each optional feature."""
    HOOKS.placement_constraints = placement_constraints
    HOOKS.predicate_callbacks = predicate_callbacks
    HOOKS.utilization = nodes
    HOOKS.recommendations = nodes


@asynccontextmanager
async def running(options: Options) -> AsyncIterator[Scheduler]:
    """Runs a core in this event loop until the block ends. `listen` and `tls` are not used.

    Raises StartError if the REST port is in use or the journal cannot be written.
    """
    install_extensions()
    journal = None if options.journal is None else _open_journal(options.journal)
    instance = str(uuid.uuid4())
    groups = Groups(directories(LdapDirectory(options.ldap_secret)))
    scheduler = Scheduler(options.loop, journal=Journal(journal) if journal else None, instance=instance, groups=groups)
    if options.follow is not None:
        scheduler.dispatcher.followers.append(options.follow)
    rest = await _start_rest(scheduler, options, journal)
    task = asyncio.create_task(scheduler.run(), name="muster-core-loop")
    try:
        yield scheduler
    finally:
        scheduler.close()
        await task
        if rest is not None:
            await rest.stop()
        if journal is not None:
            journal.close()


async def serve(options: Options) -> None:
    """Runs the core with its gRPC server until SIGTERM or SIGINT. Raises StartError."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(options) as scheduler:
        server = _server(scheduler, options)
        try:
            address = await server.start()
        except AddressError as error:
            raise StartError(str(error)) from error
        _log.info("the core listens", address=address, rest=options.rest_address, rest_port=options.rest_port)
        # Without the scheduler task the core does nothing. It exits, and its state is recovered after the restart.
        scheduler.loop.on_end = stop.set
        try:
            await stop.wait()
        finally:
            _log.info("the core stops", loop="runs" if scheduler.loop.is_running else "has ended")
            await server.aclose()


def _server(scheduler: Scheduler, options: Options) -> GrpcServer:
    if options.tls is not None:
        _check_tls(options.tls)
    try:
        return GrpcServer(
            scheduler,
            options.listen,
            tls=options.tls,
            allow_plaintext=options.allow_plaintext,
            administration=Administration(scheduler),
        )
    except AddressError as error:
        raise StartError(str(error)) from error


async def _start_rest(scheduler: Scheduler, options: Options, journal: BinaryIO | None) -> RestServer | None:
    if options.rest_port is None:
        return None
    place = f"{options.rest_address}:{options.rest_port}"
    settings = RestSettings(
        options.rest_address,
        options.rest_port,
        options.rest_tls,
        options.rest_access,
        options.levels,
        has_ui=options.rest_ui,
        journal=journal,
        simulation_mib=options.simulation_mib,
    )
    try:
        rest = RestServer(scheduler, settings)
    except StartFailure as error:
        raise StartError(f"REST on {place}: {error}") from error
    try:
        port = await rest.start()
    except OSError as error:
        await rest.stop()
        raise StartError(f"REST on {place}: {error.strerror or error}; choose another with --rest-port") from error
    _log.info("REST listens", address=options.rest_address, port=port, tls=options.rest_tls is not None)
    return rest


def _open_journal(path: Path) -> BinaryIO:
    try:
        return path.open("wb")
    except OSError as error:
        raise StartError(f"journal {path}: {error.strerror}") from error


def _check_tls(files: TlsFiles) -> None:
    """Checks the files with the ssl module, because the errors of gRPC do not name the problem."""
    for path in (files.certificate, files.key, files.authority):
        if not path.is_file():
            raise StartError(f"TLS: {path} does not exist")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(files.certificate, files.key)
    except ssl.SSLError as error:
        problem = f"{files.certificate} and {files.key} are not a certificate and its key"
        raise StartError(f"TLS: {problem}: {error.reason}") from error
    try:
        context.load_verify_locations(files.authority)
    except ssl.SSLError as error:
        raise StartError(f"TLS: {files.authority} is not a CA certificate: {error.reason}") from error


def tls_files(certificate: Path | None, key: Path | None, authority: Path | None) -> TlsFiles | None:
    """Returns the three files, or None if none is given. Raises StartError if only some are given."""
    if certificate is None and key is None and authority is None:
        return None
    if certificate is None or key is None or authority is None:
        raise StartError("TLS: --tls-cert, --tls-key and --tls-ca must be set together")
    return TlsFiles(certificate, key, authority)


def rest_tls(certificate: Path | None, key: Path | None) -> ServerTls | None:
    """Returns both files, or None if none is given. Raises StartError if only one is given."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise StartError("TLS of REST: --rest-tls-cert and --rest-tls-key must be set together")
    return ServerTls(certificate, key)


def configure_logs(level: LogLevel, form: LogFormat) -> Threshold:
    """Configures structured logs on standard error. Returns the threshold, which can be changed later."""
    threshold = Threshold(level)
    log_lines.configure(form, [threshold], lambda *names: SubsystemLogger(sys.stderr, names[0] if names else ""))
    threshold.set(level)
    return threshold


def option(variable: str, about: str, *names: str, **bounds: Any) -> Any:
    """Returns an option of the core, which is also the environment variable MUSTER_CORE_ + `variable`."""
    return typer.Option(*names, envvar=f"MUSTER_CORE_{variable}", help=about, **bounds)


RestTlsCert = Annotated[Path | None, option("REST_TLS_CERT", "Certificate of REST, PEM; reloaded on change.")]
RestTlsKey = Annotated[Path | None, option("REST_TLS_KEY", "Key of the certificate, PEM.")]
RestTokenFile = Annotated[Path | None, option("REST_TOKEN_FILE", "File with the bearer token for dumps and changes.")]
RestKubernetesAuth = Annotated[
    bool,
    option(
        "REST_KUBERNETES_AUTH",
        "Authorize bearer tokens with TokenReview and SubjectAccessReview (nonResourceURLs).",
        "--rest-kubernetes-auth",
    ),
]
RestClosed = Annotated[bool, option("REST_CLOSED", "Require a token for reads too.", "--rest-closed")]
RestTrustLoopback = Annotated[
    bool,
    option(
        "REST_TRUST_LOOPBACK",
        "Require no token from loopback addresses; do not use it behind a proxy on this machine.",
        "--rest-trust-loopback",
    ),
]
RestCompatibilityMode = Annotated[
    CompatibilityMode,
    option(
        "REST_COMPATIBILITY_MODE",
        "open: every client may dump the state and change the log level without a token, as in YuniKorn.",
        "--rest-compatibility-mode",
    ),
]
RestUi = Annotated[bool, option("REST_UI", "Serve the web UI at /ui/.", "--rest-ui/--no-rest-ui")]
RestSimulationMib = Annotated[
    int,
    option(
        "REST_SIMULATION_MIB",
        f"MiB for the process that answers what would happen; 0 = off, else at least {LEAST_MIB}.",
        min=0,
    ),
]


@app.command()
def main(  # noqa: PLR0913 # long: the command line is its options
    *,
    listen: Annotated[
        str, option("LISTEN", "Listen address: unix:///path or host:port.")
    ] = "unix:///run/muster/core.sock",
    tls_cert: Annotated[Path | None, option("TLS_CERT", "Server certificate, PEM.")] = None,
    tls_key: Annotated[Path | None, option("TLS_KEY", "Key of the certificate, PEM.")] = None,
    tls_ca: Annotated[Path | None, option("TLS_CA", "CA certificate that verifies clients, PEM.")] = None,
    allow_plaintext: Annotated[bool, option("ALLOW_PLAINTEXT", "Allow TCP without TLS beyond loopback.")] = False,
    rest_address: Annotated[
        str, option("REST_ADDRESS", "Listen address of REST and metrics; empty = all, IPv4 and IPv6.")
    ] = "127.0.0.1",
    rest_port: Annotated[int, option("REST_PORT", "Port of REST and metrics; 0 = any free port.")] = 9080,
    rest_tls_cert: RestTlsCert = None,
    rest_tls_key: RestTlsKey = None,
    rest_token_file: RestTokenFile = None,
    rest_kubernetes_auth: RestKubernetesAuth = False,
    rest_closed: RestClosed = False,
    rest_trust_loopback: RestTrustLoopback = False,
    rest_compatibility_mode: RestCompatibilityMode = CompatibilityMode.CLOSED,
    rest_ui: RestUi = True,
    rest_simulation_mib: RestSimulationMib = MOST_MIB,
    log_level: Annotated[LogLevel, option("LOG_LEVEL", "Log level.")] = LogLevel.INFO,
    log_format: Annotated[LogFormat, option("LOG_FORMAT", "Log format.")] = LogFormat.JSON,
    journal: Annotated[Path | None, option("JOURNAL", "File to which all inputs are recorded for a replay.")] = None,
    ldap_secret: Annotated[
        Path, option("LDAP_SECRET", "Directory with the settings of the LDAP group resolver.")
    ] = SECRET,
    check: Annotated[bool, option("CHECK", "Verify all sums after each loop iteration (slow).")] = False,
) -> None:
    """Run the scheduler core."""
    levels = configure_logs(log_level, log_format)
    log_lines.log_uncaught_exceptions()
    try:
        options = Options(
            listen=listen,
            tls=tls_files(tls_cert, tls_key, tls_ca),
            allow_plaintext=allow_plaintext,
            rest_address=rest_address,
            rest_port=rest_port,
            rest_tls=rest_tls(rest_tls_cert, rest_tls_key),
            rest_access=AccessSettings(
                rest_token_file, rest_kubernetes_auth, rest_closed, rest_trust_loopback, rest_compatibility_mode
            ),
            rest_ui=rest_ui,
            simulation_mib=rest_simulation_mib,
            levels=levels,
            follow=levels.follow,
            journal=journal,
            ldap_secret=ldap_secret,
            loop=LoopSettings(checks=check, freeze=True),
        )
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(options))
    except StartError as error:
        typer.echo(f"muster core cannot start: {error}", err=True)
        raise typer.Exit(1) from error
