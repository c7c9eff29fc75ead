"""Connects to a cluster of the user's kubeconfig, or of the kubeconfig that kind wrote for this run."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from devcluster import connection
from devcluster.api import Access

OWN_FILE = "kind.kubeconfig"


def kubeconfig_path(folder: Path) -> Path:
    """Return kind's file for this run, else the first file of KUBECONFIG, else ``~/.kube/config``."""
    own = folder / OWN_FILE
    if own.exists():
        return own
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return Path(named) if named else Path.home() / ".kube" / "config"


async def connect(folder: Path) -> tuple[Access, Path]:
    """Return access as the file's user, and copy the authority's certificate to ``folder``.

    Raises FlavourUnavailable.
    """
    file = kubeconfig_path(folder)
    access = await connection.load(file)
    authority = folder / "ca.crt"
    authority.write_bytes(await asyncio.to_thread(connection.authority_of, file))
    return access, authority
