"""Creates the parts of the operator and connects them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial

from muster_operator.config.settings import Configuration
from muster_operator.controller import trust
from muster_operator.controller.state import Ledger
from muster_operator.handlers.registry import HandlerMemo
from muster_operator.kube.commands import Attempts, Kube, Placeholders
from muster_operator.kube.leadership import Candidacy
from muster_operator.kube.secrets import SigningSecret
from muster_operator.kube.session import KubeSession
from muster_operator.kube.write_queue import Pool
from muster_operator.model.cluster_events import KeysSeen
from muster_operator.model.errors import StartupRefused
from muster_operator.model.pods import PlaceholderSpec, Pod
from muster_operator.runtime.conflicts import NameLeases, leases_of
from muster_operator.runtime.inputs import EventReceived
from muster_operator.runtime.loop import Inbox, Loop
from muster_operator.runtime.metrics import Metrics
from muster_operator.runtime.reconfigure import ChangeReceivers, Reconfigurer
from muster_operator.runtime.session import PAUSE_S
from muster_operator.runtime.tracing import ApplicationTracer
from muster_operator.serving import Parts
from muster_operator.si.codec import Encoder
from muster_operator.si.session import CoreLink
from muster_operator.translate.gangs import placeholder_body
from muster_operator.translate.pods import read_pod
from muster_operator.translate.values import Raw
from muster_operator.webhook.service import Admission, WebhookOptions
from muster_si.api import AdministrationAPI, SchedulerAPI


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the operator. `namespace`: namespace of the ConfigMaps. `health_port`: 0 = any free port.

    `candidacy`: None = no leader election, writes are allowed from the start. `compare_s`: seconds between comparisons
    of two parts of the core's state. `pod`: name of the operator's pod, empty = it does not run in a pod.
    `is_fast`: whether pods, nodes and volumes are watched without kopf. `is_tracing`: whether traces are exported.
    """

    namespace: str = "default"
    health_port: int = 8081
    candidacy: Candidacy | None = None
    webhook: WebhookOptions = field(default_factory=WebhookOptions)
    compare_s: float = PAUSE_S
    pod: str = ""
    is_fast: bool = True
    is_tracing: bool = False


@dataclass(frozen=True, slots=True)
class Ways:
    """Clients of the core: for the Scheduler Interface and for administration."""

    scheduler: SchedulerAPI
    administration: AdministrationAPI


def assembled(
    configuration: Configuration,
    session: KubeSession,
    metrics: Metrics,
    ways: Ways,
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
        cancellation=kube.cancellation,
        may_decide=fresh if names is None else lambda: fresh() and names.are_all_held,
    )
    if names is not None:
        names.on_held = pool.wake
    metrics.held.set_function(lambda: not fresh() or (names is not None and names.are_lost))
    loop = Loop(ledger, inbox, pool.submit, metrics, options.compare_s, pool)
    loop.use_clock(lambda: session.clock.ahead_s)
    encoder = Encoder(configuration.cluster_id, settings.partition)
    core = CoreLink(ways.scheduler, encoder, configuration, inbox, metrics.sessions.inc)
    receivers = ChangeReceivers(pool.submit, lambda fact: inbox.put(EventReceived(fact)))
    reconfigurer = Reconfigurer(session, options.namespace, core, ways.administration, receivers)
    metrics.watch("", lambda: {"inbox": len(inbox), **pool.depths()})
    metrics.watch("outbox_", core.depths)
    signing = SigningSecret(session, options.namespace, lambda keys: inbox.put(EventReceived(KeysSeen(keys))))
    metrics.signing_keys.set_function(lambda: signing.count)
    metrics.unverified.set_function(lambda: len(ledger.unverified))
    memo = HandlerMemo(inbox, session, reconfigurer.changed)
    end_tracing = _begin_tracing(ledger, loop, metrics) if options.is_tracing else None
    return Parts(loop, pool, core, memo, names=names, signing=signing, end_tracing=end_tracing)


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
    admission.attach(parts.memo.inbox)
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
    )
