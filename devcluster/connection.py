"""Reads server and credentials from a user's kubeconfig.

The official client reads the file, because it supports exec plugins, OIDC and inline certificates.
"""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from kubernetes import client, config

from devcluster.api import Access
from devcluster.errors import FlavourUnavailable


def trusting(authority: Path) -> ssl.SSLContext:
    """A client-side TLS context that trusts only this authority."""
    return ssl.create_default_context(cafile=str(authority))


async def load(kubeconfig: Path | None, context: str | None = None) -> Access:
    """Return access with the current (or the named) context of a kubeconfig.

    ``kubeconfig``: None uses KUBECONFIG or ~/.kube/config. Raises FlavourUnavailable if file or context do not exist.
    """
    settings = await asyncio.to_thread(_read, kubeconfig, context)
    tls = ssl.create_default_context(cafile=settings.ssl_ca_cert or None)
    if not settings.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    if settings.cert_file:
        tls.load_cert_chain(settings.cert_file, settings.key_file)
    bearer = settings.auth_settings().get("BearerToken", {}).get("value")  # the client defines the key
    return Access(settings.host, tls, bearer.removeprefix("Bearer ") if bearer else None)


def authority_of(kubeconfig: Path | None, context: str | None = None) -> str:
    """Return the path of the certificate authority of a context. Raises FlavourUnavailable if it has none."""
    settings = _read(kubeconfig, context)
    if not settings.ssl_ca_cert:
        raise FlavourUnavailable("the kubeconfig names no certificate authority")
    return str(settings.ssl_ca_cert)


def _read(kubeconfig: Path | None, context: str | None) -> client.Configuration:
    settings = client.Configuration()
    file = str(kubeconfig) if kubeconfig else None
    try:
        config.load_kube_config(config_file=file, context=context, client_configuration=settings)  # type: ignore[no-untyped-call]  # the client ships no types
    except config.ConfigException as error:
        raise FlavourUnavailable(f"no usable kubeconfig: {error}") from error
    return settings
