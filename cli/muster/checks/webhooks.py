"""Checks the registered webhook: it has an endpoint, and its certificates are valid."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography import x509

from muster.checks.finding import Finding, fine, problem, warning

Json = dict[str, Any]

CHECK: Final = "webhook"
#: The end of the names of our hooks.
DOMAIN: Final = ".admission.muster"
SOON: Final = timedelta(days=7)


@dataclass(slots=True)
class WebhookEndpoint:
    """The target of some webhooks: a service (namespace, name) or a URL, with the trusted authorities."""

    service: tuple[str, str] | None
    url: str
    bundle: bytes
    configurations: set[str] = field(default_factory=set)
    #: What is ours is refused while nobody answers.
    is_closed: bool = False


def called(configurations: Iterable[Json]) -> list[WebhookEndpoint]:
    """The different ones of all our hooks."""
    found: dict[tuple[object, ...], WebhookEndpoint] = {}
    for configuration in configurations:
        for hook in configuration.get("webhooks") or []:
            if not str(hook.get("name", "")).endswith(DOMAIN):
                continue
            webhook = _webhook(hook.get("clientConfig") or {})
            webhook = found.setdefault((webhook.service, webhook.url, webhook.bundle), webhook)
            webhook.configurations.add(str(configuration["metadata"]["name"]))
            webhook.is_closed = webhook.is_closed or hook.get("failurePolicy") == "Fail"
    return list(found.values())


def judged(
    found: Iterable[WebhookEndpoint], endpoints: Mapping[tuple[str, str], Iterable[Json] | None], now: datetime
) -> Iterator[Finding]:
    """`endpoints`: the EndpointSlices of each service, None = there is no such service."""
    all_of_them = list(found)
    for webhook in all_of_them:
        troubles = [*_listening(webhook, endpoints), *_trusted(webhook, now)]
        names = ", ".join(sorted(webhook.configurations))
        where = webhook.url or "service {}/{}".format(*(webhook.service or ("", "")))
        yield from troubles or [fine(CHECK, f"{names}: {where} is ready, its certificate authority is valid")]
    if not all_of_them:
        yield fine(CHECK, "not registered")


def _listening(
    webhook: WebhookEndpoint, endpoints: Mapping[tuple[str, str], Iterable[Json] | None]
) -> Iterator[Finding]:
    if webhook.service is None:
        return
    slices = endpoints.get(webhook.service)
    where = "service {}/{}".format(*webhook.service)
    meanwhile = "; until then pods that name Muster are rejected" if webhook.is_closed else ""
    if slices is None:
        yield problem(CHECK, f"{where} does not exist", f"create it (deploy/webhooks.yaml){meanwhile}")
        return
    ready = [
        endpoint
        for part in slices
        for endpoint in part.get("endpoints") or []
        if (endpoint.get("conditions") or {}).get("ready", True)
    ]
    if not ready:
        yield problem(CHECK, f"{where} has no ready endpoint", f"check the operator's pods{meanwhile}")


def _trusted(webhook: WebhookEndpoint, now: datetime) -> Iterator[Finding]:
    if not webhook.bundle:
        if webhook.service is not None:
            yield problem(CHECK, "the configuration has no caBundle", "the operator's log has the reason")
        return
    try:
        ends = [certificate.not_valid_after_utc for certificate in x509.load_pem_x509_certificates(webhook.bundle)]
    except ValueError as error:
        yield problem(
            CHECK, f"the caBundle is invalid: {error}", "delete the configuration; the operator creates it again"
        )
        return
    last = max(ends)
    if last <= now:
        yield problem(
            CHECK, f"the certificate authority expired on {last:%Y-%m-%d %H:%M}", "the operator's log has the reason"
        )
    elif last - now < SOON:
        yield warning(
            CHECK,
            f"the certificate authority expires on {last:%Y-%m-%d %H:%M}",
            "check that an operator runs; it renews the authority",
        )


def _webhook(client: Json) -> WebhookEndpoint:
    service, at = client.get("service"), urlsplit(str(client.get("url") or ""))
    url = f"{at.scheme}://{at.netloc}" if at.netloc else ""
    try:
        bundle = base64.b64decode(client.get("caBundle") or "", validate=True)
    except binascii.Error:
        bundle = b"?"
    return WebhookEndpoint((service["namespace"], service["name"]) if service else None, url, bundle)
