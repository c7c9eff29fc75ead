"""Where the API server is and who we are there, as the official client finds it out.

In a cluster the service account's files, else the kubeconfig.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass


class NoApiServer(Exception):
    """There is neither a service account nor a usable kubeconfig."""


@dataclass(frozen=True, slots=True)
class ApiServer:
    """`headers` is asked each time, for a service account's token changes."""

    url: str
    ssl: ssl.SSLContext | bool
    headers: Callable[[], Mapping[str, str]]


def found() -> ApiServer:
    """The API server of this process. Raises NoApiServer."""
    # Here and not above: the official client is tens of megabytes, and most cores never ask.
    from kubernetes import client, config  # noqa: PLC0415

    settings = client.Configuration()
    in_cluster: Callable[..., None] = config.load_incluster_config
    by_file: Callable[..., None] = config.load_kube_config
    try:
        try:
            in_cluster(client_configuration=settings)
        except config.ConfigException:
            by_file(client_configuration=settings)
    except (config.ConfigException, OSError, ValueError, TypeError, KeyError) as error:
        raise NoApiServer(str(error)) from error

    def headers() -> Mapping[str, str]:
        # The client says under which key it is, and reads a service account's file again when it is old.
        token = settings.auth_settings().get("BearerToken", {}).get("value")
        return {"Authorization": token} if token else {}

    return ApiServer(settings.host, _context(settings), headers)


def _context(settings: object) -> ssl.SSLContext | bool:
    context = ssl.create_default_context(cafile=getattr(settings, "ssl_ca_cert", None))
    if not getattr(settings, "verify_ssl", True):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate = getattr(settings, "cert_file", None)
    if certificate:
        context.load_cert_chain(certificate, getattr(settings, "key_file", None))
    return context
