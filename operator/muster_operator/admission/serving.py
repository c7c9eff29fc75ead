"""Admission put together: the server, what it knows, its certificates and its registration, for as long as we run.

Every replica serves, whether it leads or not; only the one that leads writes the Secret and the registration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import structlog

from muster_operator.admission.answering import aside, cluster
from muster_operator.admission.answering.cluster import ClusterView
from muster_operator.admission.answering.configuration import ConfigurationCheck
from muster_operator.admission.answering.server import AdmissionServer, Endpoint, ReviewMetrics, TlsContexts
from muster_operator.admission.certifying.secret import AuthoritySecret
from muster_operator.admission.deciding.decide import decide
from muster_operator.admission.keeping import GivenSource, Keeper, OwnSource, Source
from muster_operator.admission.registering import webhooks
from muster_operator.admission.registering.conditions import Ours
from muster_operator.admission.registering.introduction import introduced
from muster_operator.admission.registering.registration import Registrar, Registration
from muster_operator.admission.registering.webhooks import Door
from muster_operator.admission.review import Answer, Review
from muster_operator.link.api.session import KubeSession
from muster_operator.link.config.admission import parse
from muster_operator.link.config.settings import Configuration
from muster_operator.link.errors import StartupRefused
from muster_operator.link.inbox import Inbox
from muster_operator.link.metrics import Metrics
from muster_operator.model.admission import AdmissionSettings
from muster_operator.translate.raw import mapping, text
from muster_si.api import AdministrationAPI

log = structlog.get_logger("muster.admission")

#: Seconds before the API server stops waiting in which an answer is on its way.
MARGIN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """How admission is served; off while neither `service` nor `url` says where the API server finds us.

    `certificate`, `key`, `authority`: files that somebody else keeps, else we make our own. `by_manifest`: the user
    applied deploy/webhooks.yaml, and only the authorities in it are ours to keep.
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
        """Whether there is admission at all."""
        return bool(self.service or self.url)

    def check(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            StartupRefused: options contradict each other.
        """
        if self.service and self.url:
            raise StartupRefused("--webhook-service and --webhook-url exclude each other")
        if self.url and (urlsplit(self.url).scheme != "https" or not urlsplit(self.url).hostname):
            raise StartupRefused(f"--webhook-url {self.url} is wrong: write https://host:port")
        if (self.certificate is None) != (self.key is None):
            raise StartupRefused("--webhook-cert and --webhook-key go together")
        if self.authority is not None and self.certificate is None:
            raise StartupRefused("--webhook-ca says who signed --webhook-cert, which is missing")
        if not self.is_on and (self.by_manifest or self.certificate is not None):
            raise StartupRefused("say --webhook-service or --webhook-url: where the API server finds the webhook")


class Admission:
    """One per operator. Made before the watch begins, so that it sees all of it."""

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
        self._names = present().settings.scheduler_names
        self._view = ClusterView(session, namespace, self._names)
        self._check = ConfigurationCheck(session, namespace, core, present)
        self._read_from: Mapping[str, str] | None = None
        self._settings = AdmissionSettings()
        self._keeper: Keeper | None = None

    def attach(self, inbox: Inbox) -> None:
        """See what the operator's watch shows."""
        inbox.show_also(self._view, cluster.NAMESPACES, cluster.PRIORITY_CLASSES)

    @property
    def missing(self) -> str:
        """What keeps admission from answering as it should; empty = nothing."""
        if self._view.missing:
            return f"not listed yet: {self._view.missing}"
        return "starting" if self._keeper is None else self._keeper.missing

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            StartupRefused: the port cannot be used, or the API server is too old to be asked to ask us.
        """
        self._view.account = await introduced(self._session)
        tls, home = TlsContexts(), asyncio.get_running_loop()
        server = AdmissionServer(self._endpoints(home), lambda: self.missing, self._metrics)
        async with aside.second_loop() as loop:
            port = await aside.on(loop, server.start(self._options.port, tls))
            try:
                log.info("admission listens", port=port, account=self._view.account)
                self._keeper = Keeper(self._source(), self._registrar(), tls.serve)
                await self._keeper.run()
            finally:
                await aside.on(loop, server.stop())

    def _endpoints(self, home: asyncio.AbstractEventLoop) -> dict[str, Endpoint]:
        """They run in the server's loop; what talks to the API server or the core runs in the operator's, `home`."""
        within_s, others_within_s = webhooks.TIMEOUT_S - MARGIN_S, webhooks.OTHERS_TIMEOUT_S - MARGIN_S

        async def mutate(review: Review) -> Answer:
            is_pod = review.kind == "Pod"
            priority_class = text(mapping(review.object.get("spec")).get("priorityClassName")) if is_pod else ""
            if self._view.lacks(review.namespace, priority_class):
                await aside.on(home, self._view.look_up(review.namespace, priority_class))
            return decide(review, self._view.known, self._present_settings())

        async def validate(review: Review) -> Answer:
            return await aside.on(home, self._check.answer(review))

        return {
            webhooks.MUTATE: Endpoint(mutate, within_s, is_closed=True),
            webhooks.MUTATE_OTHERS: Endpoint(mutate, others_within_s, is_closed=False),
            webhooks.VALIDATE: Endpoint(validate, within_s, is_closed=False),
        }

    def _present_settings(self) -> AdmissionSettings:
        """Those in force, read again only when they were replaced."""
        entries = self._present().extra
        if entries is not self._read_from:
            self._settings, warnings = parse(entries, self._names)
            self._read_from = entries
            for warning in warnings:
                log.warning("a setting of admission is not used", reason=warning)
        return self._settings

    def _source(self) -> Source:
        options = self._options
        if options.certificate is not None and options.key is not None:
            return GivenSource(options.certificate, options.key, options.authority)
        name = f"{options.service}.{self._namespace}"
        url_host = urlsplit(options.url).hostname
        names = [url_host] if url_host else [f"{name}.svc", name, f"{name}.svc.cluster.local"]
        return OwnSource(AuthoritySecret(self._session, self._namespace), names)

    def _registrar(self) -> Registrar:
        options = self._options
        door = Door(self._namespace, service=options.service, url=options.url)
        ours = Ours(self._names, self._view.account, self._namespace)
        return Registrar(self._session, Registration(door, ours, options.by_manifest))
