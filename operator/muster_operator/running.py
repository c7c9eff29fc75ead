"""Starts the operator: reads the configuration, creates and connects the parts, and runs them until it is stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

import structlog

from muster_operator.config.settings import (
    SCHEDULER_NAMES,
    Configuration,
    is_yunikorns,
    merged,
    name_for_pods,
    parse,
    read_config_maps,
)
from muster_operator.controller import trust
from muster_operator.controller.state import Ledger
from muster_operator.handlers.kopf_operator import HandlerMemo
from muster_operator.kube.commands import Attempts, Kube, Placeholders
from muster_operator.kube.http import PASSING
from muster_operator.kube.leadership import Candidacy, LeaderElection, LeaderLabel, Leadership, NoElection
from muster_operator.kube.provisioning import served_class
from muster_operator.kube.secrets import SigningSecret
from muster_operator.kube.session import KubeSession, LeadershipGuard
from muster_operator.kube.write_queue import Pool, named_command
from muster_operator.model.cluster_events import KeysSeen
from muster_operator.model.commands import Command
from muster_operator.model.errors import ApiRefused, ConfigurationRejected, StartupRefused, Uncertain, Unreachable
from muster_operator.model.pods import PlaceholderSpec, Pod
from muster_operator.runtime import logs
from muster_operator.runtime.conflicts import ConflictDetector, NameLeases, allowed_names, leases_of
from muster_operator.runtime.health import health_server
from muster_operator.runtime.inputs import EventReceived
from muster_operator.runtime.loop import Inbox, Loop
from muster_operator.runtime.metrics import Metrics
from muster_operator.runtime.reconfigure import ChangeReceivers, Reconfigurer, report_end
from muster_operator.runtime.session import PAUSE_S
from muster_operator.runtime.tracing import ApplicationTracer
from muster_operator.serving import Parts, serve, stop_on_signals
from muster_operator.si.codec import Encoder
from muster_operator.si.session import CoreLink
from muster_operator.translate.placeholders import placeholder_body
from muster_operator.translate.pods import read_pod
from muster_operator.translate.values import Raw
from muster_operator.webhook.service import Admission, WebhookOptions
from muster_si.api import AdministrationAPI, SchedulerAPI
from muster_si.kubeconfig import Credentials


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the operator. `namespace`: namespace of the ConfigMaps. `health_port`: 0 = any free port.

    `candidacy`: None = no leader election, writes are allowed from the start. `compare_s`: seconds between comparisons
    of two parts of the core's state. `pod`: name of the operator's pod, empty = it does not run in a pod.
    `is_tracing`: whether traces are exported.
    """

    namespace: str = "default"
    health_port: int = 8081
    candidacy: Candidacy | None = None
    webhook: WebhookOptions = field(default_factory=WebhookOptions)
    compare_s: float = PAUSE_S
    pod: str = ""
    is_tracing: bool = False


@dataclass(frozen=True, slots=True)
class CoreClients:
    """Clients of the core: for the Scheduler Interface and for administration."""

    scheduler: SchedulerAPI
    administration: AdministrationAPI


def assembled(
    configuration: Configuration,
    session: KubeSession,
    metrics: Metrics,
    clients: CoreClients,
    options: Options,
) -> Parts:
    """Creates all parts. None of them runs yet."""
    settings = configuration.settings
    ledger = Ledger(settings)
    inbox = Inbox(metrics, partial(getattr, ledger, "settings"))
    kube = Kube(session, _placeholders(ledger), inbox, _attempts(metrics))
    fresh, names = inbox.freshness.may_decide, None
    if options.candidacy is not None:
        names = NameLeases(leases_of(session, settings.scheduler_names, options.candidacy.place))
    pool = Pool(
        kube.execute,
        configuration.limits,
        on_drop=metrics.dropped_events.inc,
        throttle=kube.throttle,
        cancel_attempts=kube.cancellation.now,
        may_decide=fresh if names is None else lambda: fresh() and names.are_all_held,
    )

    def repaired(command: Command) -> None:
        log.error("a write without a result is repeated", **named_command(command))
        metrics.sweep_repairs.labels(type(command).__name__).inc()
        inbox.suspect("pods")

    pool.on_repair = repaired
    if names is not None:
        names.on_held = pool.wake
    metrics.held.set_function(lambda: not fresh() or (names is not None and names.are_lost))
    loop = Loop(ledger, inbox, pool.submit, metrics, options.compare_s, pool)
    loop.use_clock(lambda: session.clock.ahead_s)
    encoder = Encoder(configuration.cluster_id, settings.partition)
    core = CoreLink(clients.scheduler, encoder, configuration, inbox, metrics.sessions.inc)
    receivers = ChangeReceivers(pool.submit, lambda fact: inbox.put(EventReceived(fact)))
    reconfigurer = Reconfigurer(session, options.namespace, core, clients.administration, receivers)
    metrics.watch("", lambda: {"inbox": len(inbox), **pool.depths()})
    metrics.watch("outbox_", core.depths)
    signing = SigningSecret(session, options.namespace, lambda keys: inbox.put(EventReceived(KeysSeen(keys))))
    metrics.signing_keys.set_function(lambda: signing.count)
    metrics.unverified.set_function(lambda: len(ledger.unverified))
    memo = HandlerMemo(session, options.namespace, reconfigurer.changed)
    end_tracing = _begin_tracing(ledger, loop, metrics) if options.is_tracing else None
    parts = Parts(loop, inbox, pool, core, memo, reconfigurer, names=names, signing=signing, end_tracing=end_tracing)
    return replace(parts, has_devices=settings.device_claims)


def _begin_tracing(ledger: Ledger, loop: Loop, metrics: Metrics) -> Callable[[], Awaitable[None]]:
    """Lets the loop follow applications. Returns the function that sends the last spans.

    Raises:
        StartupRefused: the packages of the extra are not installed, or an `OTEL_*` variable is invalid.
    """
    try:
        from muster_operator.runtime.span_export import SpanExport  # noqa: PLC0415 - takes a second to load
    except ModuleNotFoundError as error:
        raise StartupRefused(f"--tracing: {error}; install the extra: muster-scheduler[tracing]") from error
    export = SpanExport(metrics)
    tracer = loop.tracer = ApplicationTracer(ledger, export.emit, export.is_sampled)

    async def end() -> None:
        tracer.close()
        await export.close()

    return end


def with_admission(
    parts: Parts, options: Options, session: KubeSession, core: AdministrationAPI, metrics: Metrics
) -> Parts:
    """Adds admission, which receives watched objects from the inbox."""
    admission = Admission(options.webhook, options.namespace, session, lambda: parts.core.configuration, core, metrics)
    admission.attach(parts.inbox)
    return replace(parts, admission=admission)


def _placeholders(ledger: Ledger) -> Placeholders:
    settings = ledger.settings

    def is_ours(raw: Raw, spec: PlaceholderSpec) -> bool:
        """Whether an existing pod is this placeholder: signed, for this originator, and not terminating."""
        pod = read_pod(raw, settings)
        if not isinstance(pod, Pod) or pod.terminating:
            return False
        member = trust.settled(ledger, pod).membership
        return member.placeholder and member.owner == spec.owner.uid

    return Placeholders(manifest=lambda spec: placeholder_body(spec, settings), is_ours=is_ours)


def _attempts(metrics: Metrics) -> Attempts:
    return Attempts(
        retried=lambda kind, status: metrics.retries.labels(kind, str(status)).inc(),
        ended=metrics.ended,
        throttled=lambda kind: metrics.throttle.labels(kind).inc(),
        failed=lambda kind: metrics.failures.labels(kind).inc(),
    )


log = structlog.get_logger("muster")


@dataclass(frozen=True, slots=True)
class LeaderReadiness:
    """The readiness of an operator whose parts run. It is computed for each request."""

    leading: LeaderElection
    loop: Loop
    names: NameLeases | None = None

    @property
    def missing(self) -> str:
        """Why the operator is not ready; empty = it is. A standby is ready when it could take over immediately."""
        if self.leading.problem:
            return f"the Lease cannot be read or renewed: {self.leading.problem}"
        if not self.leading.begun.is_set():
            return self.loop.unlisted
        if self.names is not None and not self.names.held.is_set():
            return f"the Leases of scheduler names are not held yet: {self.names.missing}"
        return self.loop.missing

    @property
    def role(self) -> str:
        """The leader if it is another replica, else the reason why decisions wait; empty = they do not.

        Waiting decisions do not make the process unready: its webhook and the core's REST API still respond.
        """
        if self.leading.begun.is_set():
            if self.names is not None and self.names.are_lost:
                return f"not binding, the Leases of scheduler names are not held: {self.names.missing}"
            return self.loop.held
        return f"standing by, {self.leading.holder or 'no replica'} leads"


T = TypeVar("T")
Connect = Callable[[], SchedulerAPI]
Administer = Callable[[], AdministrationAPI]

#: Seconds to wait for an API server that does not answer at start. Then the operator exits with the reason.
API_SERVER_S: Final = 60.0

#: Status codes that a starting API server returns for any request: overloaded, or its authorization is not ready.
MAY_PASS: Final = PASSING | {401, 403}


class Readiness:
    """The readiness for probes. `leader_readiness` is set when the parts run."""

    def __init__(self) -> None:
        self.leader_readiness: LeaderReadiness | None = None

    def missing(self) -> str:
        """Returns why the operator is not ready; empty = it is."""
        return "starting" if self.leader_readiness is None else self.leader_readiness.missing

    def role(self) -> str:
        """Returns the role of this replica as a text; empty = it leads and decides."""
        return "" if self.leader_readiness is None else self.leader_readiness.role


async def run(options: Options, connect: Connect, administer: Administer) -> None:
    """Runs the operator until SIGTERM or SIGINT, then drains and returns.

    Raises:
        LinkError: the configuration does not allow it to run, or a part has ended. The message is one line.
    """
    options.webhook.check()
    stop, readiness, metrics = asyncio.Event(), Readiness(), Metrics()
    stop_on_signals(stop)
    guard = LeadershipGuard(refused=metrics.blocked.inc)
    instance = options.candidacy.identity if options.candidacy else ""
    credentials = Credentials(warn=partial(log.warning, "credentials could not be read again, using the old ones"))
    session = KubeSession(credentials, guard, instance=instance, measure=metrics.requested)
    metrics.leader.set_function(lambda: guard.left_s > 0)
    try:
        async with health_server(options.health_port, readiness.missing, metrics, readiness.role):
            configuration = await _unless(stop, configured(session, options.namespace))
            if configuration is None:
                return
            clients = CoreClients(connect(), administer())
            parts = assembled(configuration, session, metrics, clients, options)
            if options.webhook.is_on:
                parts = with_admission(parts, options, session, clients.administration, metrics)
            leading: LeaderElection = NoElection(guard)
            if options.candidacy is not None:
                candidacy = replace(options.candidacy, serves=configuration.settings.scheduler_names)
                if parts.names is not None and await _unless(stop, _done(parts.names.until_free())) is None:
                    return
                conflict_detector = ConflictDetector(session, candidacy.serves, configuration.withheld)
                parts, leading = (
                    replace(parts, conflict_detector=conflict_detector),
                    Leadership(session, candidacy, guard),
                )
            if options.pod:
                parts = replace(parts, mark=LeaderLabel(session, options.namespace, options.pod, parts.loop.recovered))
            metrics.transitions.set_function(lambda: leading.transitions)
            readiness.leader_readiness = LeaderReadiness(leading, parts.loop, parts.names)
            await serve(parts, leading, stop)
    except ConfigurationRejected as refused:
        await report_end(session, options.namespace, refused)
        raise
    finally:
        await session.close()


async def configured(session: KubeSession, namespace: str) -> Configuration:
    """Reads the configuration. Waits for the API server.

    Raises:
        LinkError: the ConfigMaps are invalid or cannot be read, YuniKorn also runs, or the API server does not answer.
    """
    deadline, wait_s = time.monotonic() + API_SERVER_S, 0.2
    while True:
        try:
            config_maps = await read_config_maps(session, namespace)
            entries = merged(config_maps)
            configuration = parse(entries)
            wanted = configuration.settings.scheduler_names
            names = await allowed_names(session, wanted, are_chosen=SCHEDULER_NAMES in entries)
            provisioning_class = await served_class(session, configuration.settings.provisioning_class)
        except (Unreachable, ApiRefused, Uncertain) as error:
            late = time.monotonic() > deadline
            if isinstance(error, ApiRefused) and (late or error.status not in MAY_PASS):
                raise StartupRefused(f"the configuration cannot be read: {error} (see deploy/rbac.yaml)") from error
            if late and isinstance(error, Uncertain):
                raise StartupRefused(f"cannot determine whether YuniKorn runs: {error}") from error
            if late:
                raise StartupRefused(f"the API server does not answer: {error}") from error
            log.warning("the API server is unavailable, retrying", reason=str(error), in_seconds=wait_s)
            await asyncio.sleep(wait_s)
            wait_s = min(5.0, wait_s * 2)
        else:
            logs.follow(configuration.log_levels)
            name = name_for_pods(entries, names, is_yunikorns=is_yunikorns(config_maps))
            settings = replace(
                configuration.settings,
                scheduler_names=names,
                scheduler_name=name,
                provisioning_class=provisioning_class,
                system_namespaces=configuration.settings.system_namespaces | {namespace},
            )
            return replace(configuration, settings=settings, withheld=wanted - names)


async def _done(work: Coroutine[None, None, None]) -> bool:
    """Awaits the work and returns True."""
    await work
    return True


async def _unless(stop: asyncio.Event, work: Coroutine[None, None, T]) -> T | None:
    """Returns the result of the work, or None if the operator is stopped before."""
    working, stopped = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if working.done():
        return working.result()
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working
    return None
