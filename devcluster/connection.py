"""Reads server and credentials from a user's kubeconfig, as Muster does."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from devcluster.api import Access
from devcluster.errors import FlavourUnavailable
from muster_si import kubeconfig as files


def trusting(authority: Path) -> ssl.SSLContext:
    """A client-side TLS context that trusts only this authority."""
    return ssl.create_default_context(cafile=str(authority))


async def load(kubeconfig: Path | None, context: str | None = None) -> Access:
    """Return access with the current (or the named) context of a kubeconfig.

    ``kubeconfig``: None uses KUBECONFIG or ~/.kube/config. Raises FlavourUnavailable if file or context do not exist.
    """
    found = await asyncio.to_thread(_read, kubeconfig, context)
    authorization = dict(found.headers).get("Authorization")
    return Access(found.server, found.tls.context(), authorization.removeprefix("Bearer ") if authorization else None)


def authority_of(kubeconfig: Path | None, context: str | None = None) -> bytes:
    """Return the certificate authority of a context. Raises FlavourUnavailable if it has none."""
    authority = _read(kubeconfig, context).tls.authority
    if not authority:
        raise FlavourUnavailable("the kubeconfig names no certificate authority")
    return authority if isinstance(authority, bytes) else Path(authority).read_bytes()


def _read(kubeconfig: Path | None, context: str | None) -> files.Access:
    try:
        found = files.read(str(kubeconfig or ""), context or "")
        if found is None:
            raise FlavourUnavailable("no kubeconfig")
        return found.access()
    except files.NoAccess as error:
        raise FlavourUnavailable(f"no usable kubeconfig: {error}") from error
