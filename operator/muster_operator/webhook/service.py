"""The webhook as a part of the operator.

It runs the server in its own thread and reconciles certificates and registration every few seconds. Every replica
serves; only the leader writes the Secret and the webhook configurations. A failed round changes nothing and is
retried.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

import structlog

from muster_operator.config.catalog import parse
from muster_operator.config.settings import Configuration
from muster_operator.kube.session import KubeSession
from muster_operator.model.errors import ApiRefused, LinkError, NotLeading, StartupRefused
from muster_operator.model.settings import AdmissionSettings
from muster_operator.runtime.loop import Inbox
from muster_operator.runtime.metrics import Metrics
from muster_operator.translate.values import mapping, text
from muster_operator.webhook import cluster, registration
from muster_operator.webhook import server as webhook_server
from muster_operator.webhook.certificates import (
    AuthoritySecret,
    BadCertificate,
    CertificateRotation,
    Leaf,
    Pair,
    given,
    issue,
    kept_or_made,
)
from muster_operator.webhook.cluster import ClusterView, ConfigurationCheck
from muster_operator.webhook.context import AdmissionAnswer, MusterIdentity, Review
from muster_operator.webhook.decisions import decide
from muster_operator.webhook.registration import Registrar, Registration, WebhookClientConfig, discover_api
from muster_operator.webhook.server import AdmissionServer, Endpoint, ReviewMetrics, TlsContexts
from muster_si.api import AdministrationAPI

log = structlog.get_logger("muster.admission")

#: Seconds between rounds, after which a changed configuration is corrected.
EVERY_S: Final = 3.0

#: Name in the certificate of a standby before the leader has created the authorities.
PROVISIONAL_NAME: Final = "muster-webhook"


class CertificateSource(Protocol):
    """Source of the serving certificate."""

    async def leaf(self, now: datetime) -> Leaf | None:
        """Returns the certificate to serve, or None if there is none yet.

        Raises:
            BadCertificate: it cannot be used.
            LinkError: it cannot be read.
        """


class OwnSource:
    """Issues certificates for these names and addresses with the authorities of the Secret."""

    def __init__(self, secret: AuthoritySecret, names: list[str]) -> None:
        self._secret, self._names = secret, names
        self._leaf: Leaf | None = None

    async def leaf(self, now: datetime) -> Leaf | None:
        """Returns the same certificate until it is due or an authority is replaced."""
        pair: Pair | None = await self._secret.pair(now)
        if pair is None:
            return None
        authorities = tuple(one.pem for one in pair)
        if self._leaf is None or self._leaf.authorities != authorities or self._leaf.is_due(now):
            self._leaf = issue(pair, self._names, now)
        return self._leaf


class GivenSource:
    """Reads the certificate from files of another tool, such as cert-manager, which can change at any time."""

    def __init__(self, certificate: Path, key: Path, authority: Path | None) -> None:
        self._paths = (certificate, key, authority)
        self._read: tuple[bytes, ...] = ()
        self._leaf: Leaf | None = None

    async def leaf(self, now: datetime) -> Leaf | None:
        """Returns the certificate in the files."""
        try:
            read = tuple(path.read_bytes() if path is not None else b"" for path in self._paths)
        except OSError as error:
            raise BadCertificate(f"{error.filename}: {error.strerror}") from error
        if self._leaf is None or read != self._read:
            self._leaf, self._read = given(*read), read
        return self._leaf


class WebhookReconciler:
    """Reconciles certificate and registration. `serve` is called with a new certificate.

    A standby is ready while no authority is registered, because no API server can call the webhook yet. Otherwise a
    rolling update that enables the webhook would never complete: the leader is a replica without the webhook, and it
    leads until a new replica is ready.
    """

    def __init__(self, source: CertificateSource, registrar: Registrar, serve: Callable[[Leaf], None]) -> None:
        self._source, self._registrar, self._serve = source, registrar, serve
        self._rotation = CertificateRotation()
        self._problem = ""
        self._is_registered = False
        self._is_unused = False
        self._is_standby = False
        self._provisional: Leaf | None = None

    @property
    def missing(self) -> str:
        """Why the webhook is not ready; empty if it is."""
        if self._is_unused and self._is_standby:
            return ""
        if self._rotation.serving is None:
            return self._problem or "there is no certificate yet"
        return "" if self._is_registered else self._problem or "not registered yet"

    async def run(self) -> None:
        """Runs rounds until cancelled."""
        while True:
            await self.attempt(datetime.now(UTC))
            await asyncio.sleep(EVERY_S)

    async def attempt(self, now: datetime) -> None:
        """Runs one round. A problem is logged when it begins or changes."""
        self._is_standby = False
        try:
            await self._round(now)
        except NotLeading:
            self._is_standby = True
            self._report("")  # the leader corrects it
        except ApiRefused as error:
            rights = " (deploy/rbac.yaml has the permissions for the webhook)" if error.status == 403 else ""
            self._report(f"{error}{rights}")
        except (LinkError, BadCertificate, ssl.SSLError) as error:
            self._report(str(error))
        else:
            self._report("")

    async def _round(self, now: datetime) -> None:
        leaf = await self._source.leaf(now)
        if leaf is not None:
            self._rotation.want(leaf)
        read = await self._registrar.read()
        registered = read.authorities
        self._is_unused = not any(registered)
        self._rotation.record_registered(registered, now)
        if (new := self._rotation.to_serve(now)) is not None:
            self._serve(new)
            log.info("serving with a new certificate", until=new.not_after.isoformat())
        if self._rotation.serving is None:
            self._is_standby = leaf is None
            if self._is_unused and self._provisional is None:
                self._serve_provisional(now)
            return
        wanted = self._rotation.authorities_to_register(registered, now)
        self._is_registered = all(set(self._rotation.serving.authorities) <= set(bundle) for bundle in registered)
        await self._registrar.keep(read, wanted)
        self._rotation.record_registered([wanted for _ in registered], now)
        self._is_registered = True

    def _serve_provisional(self, now: datetime) -> None:
        """Serves a certificate that no client trusts, so that kubelets can read the readiness of a standby."""
        self._provisional = issue(kept_or_made((None, None), now), [PROVISIONAL_NAME], now)
        self._serve(self._provisional)

    def _report(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning("webhook reconciliation failed", reason=problem)
        self._problem = problem


#: Seconds between the timeout of the server and that of the API server, for the transfer of the answer.
MARGIN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """Options of the webhook. It is disabled if neither `service` nor `url` is set.

    `certificate`, `key`, `authority`: files of another tool; without them Muster issues its own. `by_manifest`: a user
    applied deploy/webhooks.yaml, and Muster maintains only its authorities.
    """

    service: str = ""
    url: str = ""
    port: int = 9089
    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None
    by_manifest: bool = False

    @property
    def is_on(self) -> bool:
        """Whether the webhook is enabled."""
        return bool(self.service or self.url)

    def check(self) -> None:
        """Checks the options.

        Raises:
            StartupRefused: options contradict each other.
        """
        if self.service and self.url:
            raise StartupRefused("--webhook-service and --webhook-url cannot be combined")
        if self.url and (urlsplit(self.url).scheme != "https" or not urlsplit(self.url).hostname):
            raise StartupRefused(f"--webhook-url {self.url} is invalid: use https://host:port")
        if (self.certificate is None) != (self.key is None):
            raise StartupRefused("--webhook-cert and --webhook-key must be set together")
        if self.authority is not None and self.certificate is None:
            raise StartupRefused("--webhook-ca needs --webhook-cert")
        if not self.is_on and (self.by_manifest or self.certificate is not None):
            raise StartupRefused("--webhook-cert and --webhook-manifest need --webhook-service or --webhook-url")


class Admission:
    """The webhook of one operator. Create it before the watches start, so that it receives all objects."""

    def __init__(
        self,
        options: WebhookOptions,
        namespace: str,
        session: KubeSession,
        present: Callable[[], Configuration],
        core: AdministrationAPI,
        metrics: Metrics,
    ) -> None:
        self._options, self._namespace, self._session, self._present = options, namespace, session, present
        self._metrics = ReviewMetrics(metrics)
        self._names, self._name = present().settings.scheduler_names, present().settings.scheduler_name
        self._view = ClusterView(session, namespace, self._names)
        self._check = ConfigurationCheck(session, namespace, core, present)
        self._read_from: Mapping[str, str] | None = None
        self._settings = AdmissionSettings()
        self._reconciler: WebhookReconciler | None = None

    def attach(self, inbox: Inbox) -> None:
        """Subscribes to the operator's watches."""
        inbox.show_also(self._view, cluster.NAMESPACES, cluster.PRIORITY_CLASSES)

    @property
    def missing(self) -> str:
        """Why the webhook is not ready; empty if it is."""
        if self._view.missing:
            return f"not listed yet: {self._view.missing}"
        return "starting" if self._reconciler is None else self._reconciler.missing

    async def run(self) -> None:
        """Serves until cancelled.

        Raises:
            StartupRefused: the port cannot be used, or the API server is too old.
        """
        self._view.account = await discover_api(self._session)
        tls, main_loop = TlsContexts(), asyncio.get_running_loop()
        server = AdmissionServer(self._endpoints(main_loop), lambda: self.missing, self._metrics)
        async with webhook_server.webhook_thread() as loop:
            port = await webhook_server.run_in_thread(loop, server.start(self._options.port, tls))
            try:
                log.info("admission webhook listening", port=port, account=self._view.account)
                self._reconciler = WebhookReconciler(self._source(), self._registrar(), tls.serve)
                await self._reconciler.run()
            finally:
                await webhook_server.run_in_thread(loop, server.stop())

    def _endpoints(self, main_loop: asyncio.AbstractEventLoop) -> dict[str, Endpoint]:
        """The endpoints run in the server's loop. Requests to the API server and the core run in `main_loop`."""
        within_s, others_within_s = registration.TIMEOUT_S - MARGIN_S, registration.OTHERS_TIMEOUT_S - MARGIN_S

        async def mutate(review: Review) -> AdmissionAnswer:
            is_pod = review.kind == "Pod"
            priority_class = text(mapping(review.object.get("spec")).get("priorityClassName")) if is_pod else ""
            if self._view.is_missing(review.namespace, priority_class):
                await webhook_server.run_in_thread(main_loop, self._view.look_up(review.namespace, priority_class))
            return decide(review, self._view.known, self._present_settings())

        async def validate(review: Review) -> AdmissionAnswer:
            return await webhook_server.run_in_thread(main_loop, self._check.answer(review))

        return {
            registration.MUTATE: Endpoint(mutate, within_s, is_closed=True),
            registration.MUTATE_OTHERS: Endpoint(mutate, others_within_s, is_closed=False),
            registration.VALIDATE: Endpoint(validate, within_s, is_closed=False),
        }

    def _present_settings(self) -> AdmissionSettings:
        """The present settings, parsed again after a change."""
        entries = self._present().extra
        if entries is not self._read_from:
            self._settings, warnings = parse(entries, self._name)
            self._read_from = entries
            for warning in warnings:
                log.warning("admission setting ignored", reason=warning)
        return self._settings

    def _source(self) -> CertificateSource:
        options = self._options
        if options.certificate is not None and options.key is not None:
            return GivenSource(options.certificate, options.key, options.authority)
        name = f"{options.service}.{self._namespace}"
        url_host = urlsplit(options.url).hostname
        names = [url_host] if url_host else [f"{name}.svc", name, f"{name}.svc.cluster.local"]
        return OwnSource(AuthoritySecret(self._session, self._namespace), names)

    def _registrar(self) -> Registrar:
        options = self._options
        client_config = WebhookClientConfig(self._namespace, service=options.service, url=options.url)
        identity = MusterIdentity(self._names, self._view.account, self._namespace)
        return Registrar(self._session, Registration(client_config, identity, options.by_manifest))
