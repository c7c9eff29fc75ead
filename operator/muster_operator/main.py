"""Puts the operator together and runs it until it is told to stop.

`run` is all of it but the way to the core, which the caller brings: `python -m muster_operator` a gRPC client, `muster
run --embedded` the in-process transport. `app` is the command line of the former. An operator that cannot serve as it
is configured says why in one line and exits with 1; in a cluster that is a crash loop whose log names the fix.
"""

from __future__ import annotations

import asyncio
import socket
import time
import uuid
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Final, TypeVar

import structlog
import typer
import uvloop

from muster_operator.admission.serving import Admission, WebhookOptions
from muster_operator.agent.ledger import Ledger
from muster_operator.handlers.memo import Memo
from muster_operator.link import logs
from muster_operator.link.api.credentials import Credentials
from muster_operator.link.api.kube import Attempts, Kube, Placeholders
from muster_operator.link.api.pool import Pool
from muster_operator.link.api.retry import PASSING
from muster_operator.link.api.session import KubeSession
from muster_operator.link.beside.lookout import Lookout, allowed_names
from muster_operator.link.config.configmaps import merged, read_config_maps
from muster_operator.link.config.notices import tell_end
from muster_operator.link.config.reconfigure import Reconfigurer
from muster_operator.link.config.settings import SCHEDULER_NAMES, Configuration, parse
from muster_operator.link.errors import (
    ApiRefused,
    ConfigurationRefused,
    LinkError,
    StartupRefused,
    Unreachable,
)
from muster_operator.link.health import health_server
from muster_operator.link.inbox import Inbox
from muster_operator.link.leading.fence import Fence
from muster_operator.link.leading.leadership import DURATION_S, Candidacy, Leadership, Leading, Unopposed
from muster_operator.link.leading.standing import Standing
from muster_operator.link.logs import LogFormat, LogLevel
from muster_operator.link.loop import Loop
from muster_operator.link.metrics import Metrics
from muster_operator.link.si.comparing import PAUSE_S
from muster_operator.link.si.core import CoreLink
from muster_operator.link.si.encode import Encoder
from muster_operator.model.groups import PlaceholderSpec
from muster_operator.model.pods import Pod
from muster_operator.model.settings import Settings
from muster_operator.serving import Parts, serve, stop_on_signals
from muster_operator.translate.placeholders import placeholder_body
from muster_operator.translate.pods import read_pod
from muster_operator.translate.raw import Raw
from muster_si.api import AdministrationAPI, SchedulerAPI
from muster_si.errors import AddressError
from muster_si.transport.administration import AdministrationClient
from muster_si.transport.credentials import TlsFiles
from muster_si.transport.grpc_client import GrpcClient

log = structlog.get_logger("muster")

T = TypeVar("T")
Connect = Callable[[], SchedulerAPI]
Administer = Callable[[], AdministrationAPI]

#: Seconds an API server that does not answer, or not yet, is waited for at the start before we say so and exit.
API_SERVER_S: Final = 60.0
#: Answers that an API server which begins gives to everybody: busy, or not yet sure who may do what.
MAY_PASS: Final = PASSING | {401, 403}
LEASE_NAME: Final = "muster"

LeaderElect = Annotated[
    bool, typer.Option(envvar="MUSTER_LEADER_ELECT", help="write only while holding the lease; off: for ever alone")
]
LeaseName = Annotated[str, typer.Option(envvar="MUSTER_LEASE_NAME", help="the Lease in our namespace")]
LeaseDuration = Annotated[
    int, typer.Option(min=2, envvar="MUSTER_LEASE_DURATION", help="seconds for which a silent holder keeps it")
]
Identity = Annotated[
    str,
    typer.Option(
        envvar="MUSTER_IDENTITY",
        help="who we are in it: the same after a restart of this container, never elsewhere (pod name and UID); "
        "empty: new with every start",
    ),
]
CompareEvery = Annotated[
    float,
    typer.Option(
        min=0.05, envvar="MUSTER_COMPARE_EVERY", help="seconds between two parts of the core's ledger that we look at"
    ),
]
WEBHOOK_PORT: Final = 9089

WebhookService = Annotated[
    str,
    typer.Option(envvar="MUSTER_WEBHOOK_SERVICE", help="the Service of our namespace before it; turns admission on"),
]
WebhookUrl = Annotated[
    str,
    typer.Option(envvar="MUSTER_WEBHOOK_URL", help="https://host:port instead, for an operator outside of the cluster"),
]
WebhookPort = Annotated[int, typer.Option(envvar="MUSTER_WEBHOOK_PORT", help="where the webhook listens")]
WebhookCert = Annotated[
    Path | None, typer.Option(envvar="MUSTER_WEBHOOK_CERT", help="its certificate, PEM; else we make our own")
]
WebhookKey = Annotated[Path | None, typer.Option(envvar="MUSTER_WEBHOOK_KEY", help="that one's key, PEM")]
WebhookCa = Annotated[
    Path | None, typer.Option(envvar="MUSTER_WEBHOOK_CA", help="who signed it, PEM; else the registration says it")
]
WebhookManifest = Annotated[
    bool,
    typer.Option(envvar="MUSTER_WEBHOOK_MANIFEST", help="deploy/webhooks.yaml is applied: keep only its authorities"),
]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True)
class Options:
    """How to run the operator. `namespace`: where our ConfigMaps are. `health_port`: 0 = any free one.

    `candidacy`: None = no election, we write from the start. `compare_s`: seconds between two parts of the core's
    ledger that are compared with ours.
    """

    namespace: str = "default"
    health_port: int = 8081
    candidacy: Candidacy | None = None
    webhook: WebhookOptions = field(default_factory=WebhookOptions)
    compare_s: float = PAUSE_S


@dataclass(frozen=True, slots=True)
class Ways:
    """Both ways to the core: as its resource manager, and as one of its administrators."""

    scheduler: SchedulerAPI
    administration: AdministrationAPI


class Readiness:
    """What keeps the operator from being ready, and what else probes are told; `standing` once there is one."""

    def __init__(self) -> None:
        self.standing: Standing | None = None

    def missing(self) -> str:
        """Empty = ready."""
        return "starting" if self.standing is None else self.standing.missing

    def role(self) -> str:
        """Empty = we lead."""
        return "" if self.standing is None else self.standing.role


async def run(options: Options, connect: Connect, administer: Administer) -> None:
    """Serve until SIGTERM or SIGINT, then drain and return.

    Raises:
        LinkError: it cannot serve as it is configured, or a part that has to run for ever ended; one line.
    """
    options.webhook.check()
    stop, readiness, metrics = asyncio.Event(), Readiness(), Metrics()
    stop_on_signals(stop)
    fence = Fence(refused=metrics.fenced.inc)
    instance = options.candidacy.identity if options.candidacy else ""
    session = KubeSession(Credentials(), fence, instance=instance, measure=metrics.requested)
    metrics.leader.set_function(lambda: fence.left_s > 0)
    try:
        async with health_server(options.health_port, readiness.missing, metrics, readiness.role):
            configuration = await _unless(stop, configured(session, options.namespace))
            if configuration is None:
                return
            ways = Ways(connect(), administer())
            parts = assembled(configuration, session, metrics, ways, options)
            if options.webhook.is_on:
                parts = with_admission(parts, options, session, ways.administration, metrics)
            leading: Leading = Unopposed(fence)
            if options.candidacy is not None:
                candidacy = replace(options.candidacy, serves=configuration.settings.scheduler_names)
                lookout = Lookout(session, candidacy.place, candidacy.serves)
                await lookout.look()
                parts, leading = replace(parts, lookout=lookout), Leadership(session, candidacy, fence)
            metrics.transitions.set_function(lambda: leading.transitions)
            readiness.standing = Standing(leading, parts.loop)
            await serve(parts, leading, session, options.namespace, stop)
    except ConfigurationRefused as refused:
        await tell_end(session, options.namespace, refused)
        raise
    finally:
        await session.close()


async def configured(session: KubeSession, namespace: str) -> Configuration:
    """The configuration in force, once the API server answers.

    Raises:
        LinkError: the ConfigMaps are wrong or unreadable, YuniKorn runs beside us, or there is no API server.
    """
    deadline, wait_s = time.monotonic() + API_SERVER_S, 0.2
    while True:
        try:
            entries = merged(await read_config_maps(session, namespace))
            configuration = parse(entries)
            wanted = configuration.settings.scheduler_names
            names = await allowed_names(session, wanted, are_chosen=SCHEDULER_NAMES in entries)
        except (Unreachable, ApiRefused) as error:
            late = time.monotonic() > deadline
            if isinstance(error, ApiRefused) and (late or error.status not in MAY_PASS):
                raise StartupRefused(f"the configuration cannot be read: {error} (see deploy/rbac.yaml)") from error
            if late:
                raise StartupRefused(f"the API server does not answer: {error}") from error
            log.warning("the API server does not answer, trying again", reason=str(error), in_seconds=wait_s)
            await asyncio.sleep(wait_s)
            wait_s = min(5.0, wait_s * 2)
        else:
            logs.follow(configuration.log_levels)
            return replace(configuration, settings=replace(configuration.settings, scheduler_names=names))


def assembled(
    configuration: Configuration,
    session: KubeSession,
    metrics: Metrics,
    ways: Ways,
    options: Options,
) -> Parts:
    """All parts, wired; nothing runs yet."""
    settings = configuration.settings
    ledger = Ledger(settings)
    inbox = Inbox(metrics, lambda: ledger.settings)
    kube = Kube(session, _placeholders(settings), inbox, _attempts(metrics))
    pool = Pool(kube.execute, configuration.limits, on_drop=metrics.dropped_events.inc, brakes=kube.brakes)
    loop = Loop(ledger, inbox, pool.submit, metrics, options.compare_s)
    encoder = Encoder(configuration.cluster_id, settings.partition)
    core = CoreLink(ways.scheduler, encoder, configuration, inbox, metrics.sessions.inc)
    reconfigurer = Reconfigurer(session, options.namespace, core, ways.administration, pool.submit)
    metrics.watch("", lambda: {"inbox": len(inbox), **pool.depths()})
    metrics.watch("outbox_", core.depths)
    return Parts(loop, pool, core, Memo(inbox, session, reconfigurer.changed))


def with_admission(
    parts: Parts, options: Options, session: KubeSession, core: AdministrationAPI, metrics: Metrics
) -> Parts:
    """The same parts with admission, which sees what the watch shows."""
    admission = Admission(options.webhook, options.namespace, session, lambda: parts.core.configuration, core, metrics)
    admission.attach(parts.memo.inbox)
    return replace(parts, admission=admission)


async def _unless(stop: asyncio.Event, work: Coroutine[None, None, T]) -> T | None:
    """The result of the work, None if we are told to stop before it is done."""
    working, stopped = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if working.done():
        return working.result()
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working
    return None


def _placeholders(settings: Settings) -> Placeholders:
    def is_ours(raw: Raw, spec: PlaceholderSpec) -> bool:
        """Ours, of this application's originator, and not on its way out (semantics 18)."""
        pod = read_pod(raw, settings)
        return (
            isinstance(pod, Pod)
            and pod.membership.placeholder
            and pod.membership.owner == spec.owner.uid
            and not pod.terminating
        )

    return Placeholders(manifest=lambda spec: placeholder_body(spec, settings), is_ours=is_ours)


def _attempts(metrics: Metrics) -> Attempts:
    return Attempts(
        retried=lambda kind, status: metrics.retries.labels(kind, str(status)).inc(),
        ended=lambda kind, status: metrics.commands.labels(kind, str(status)).inc(),
        braked=lambda kind: metrics.brakes.labels(kind).inc(),
    )


def tls_files(certificate: Path | None, key: Path | None, authority: Path | None) -> TlsFiles | None:
    """The three files of mutual TLS, or none of them.

    Raises:
        StartupRefused: only some are given, or one is not there.
    """
    if certificate is None and key is None and authority is None:
        return None
    if certificate is None or key is None or authority is None:
        raise StartupRefused("--tls-cert, --tls-key and --tls-ca go together")
    for path in (certificate, key, authority):
        if not path.is_file():
            raise StartupRefused(f"TLS: {path} does not exist")
    return TlsFiles(certificate, key, authority)


def own_identity() -> str:
    """A name for this process that no other will ever have: a successor waits until the lease runs out."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@app.command()
def main(  # noqa: PLR0913 # long: the command line is its options
    *,
    core: Annotated[
        str, typer.Option(envvar="MUSTER_CORE", help="where the core listens: unix:///path or host:port")
    ] = "unix:///run/muster/core.sock",
    tls_cert: Annotated[Path | None, typer.Option(envvar="MUSTER_TLS_CERT", help="our certificate, PEM")] = None,
    tls_key: Annotated[Path | None, typer.Option(envvar="MUSTER_TLS_KEY", help="its key, PEM")] = None,
    tls_ca: Annotated[Path | None, typer.Option(envvar="MUSTER_TLS_CA", help="who signs the core, PEM")] = None,
    allow_plaintext: Annotated[
        bool, typer.Option(envvar="MUSTER_ALLOW_PLAINTEXT", help="TCP beyond loopback without TLS")
    ] = False,
    health_port: Annotated[
        int, typer.Option(envvar="MUSTER_HEALTH_PORT", help="probes and metrics; 0 = any free port")
    ] = 8081,
    namespace: Annotated[str, typer.Option(envvar="NAMESPACE", help="where the ConfigMaps are")] = "default",
    leader_elect: LeaderElect = True,
    lease_name: LeaseName = LEASE_NAME,
    lease_duration: LeaseDuration = DURATION_S,
    identity: Identity = "",
    webhook_service: WebhookService = "",
    webhook_url: WebhookUrl = "",
    webhook_port: WebhookPort = WEBHOOK_PORT,
    webhook_cert: WebhookCert = None,
    webhook_key: WebhookKey = None,
    webhook_ca: WebhookCa = None,
    webhook_manifest: WebhookManifest = False,
    compare_every: CompareEvery = PAUSE_S,
    log_level: Annotated[
        LogLevel, typer.Option(envvar="MUSTER_LOG_LEVEL", help="the ConfigMap's log.level wins")
    ] = LogLevel.INFO,
    log_format: Annotated[LogFormat, typer.Option(envvar="MUSTER_LOG_FORMAT")] = LogFormat.JSON,
) -> None:
    """Run the operator: watch the cluster, tell the core, do what it decides."""
    try:
        logs.configure(log_level, log_format)
        tls = tls_files(tls_cert, tls_key, tls_ca)
        client = GrpcClient(core, tls=tls, allow_plaintext=allow_plaintext)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            candidacy = Candidacy(namespace, lease_name, identity or own_identity(), lease_duration)
            webhook = WebhookOptions(
                webhook_service, webhook_url, webhook_port, webhook_cert, webhook_key, webhook_ca, webhook_manifest
            )
            options = Options(namespace, health_port, candidacy if leader_elect else None, webhook, compare_every)
            runner.run(
                run(
                    options,
                    lambda: client,
                    lambda: AdministrationClient(core, tls=tls, allow_plaintext=allow_plaintext),
                )
            )
    except (LinkError, AddressError) as error:
        typer.echo(f"muster operator cannot serve: {error}", err=True)
        raise typer.Exit(1) from error
