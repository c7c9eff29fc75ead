"""A cluster that is not ours: the current context of the user's kubeconfig, or of the one kind wrote for us."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

from devcluster import connection
from devcluster.api import Access

OWN_FILE = "kind.kubeconfig"


def kubeconfig_path(folder: Path) -> Path:
    """The file in use: what kind wrote for this run, else the first of KUBECONFIG, else ``~/.kube/config``."""
    own = folder / OWN_FILE
    if own.exists():
        return own
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return Path(named) if named else Path.home() / ".kube" / "config"


async def connect(folder: Path) -> tuple[Access, Path]:
    """Access as the file's user, and a copy of the authority's certificate in ``folder``. Raises FlavourUnavailable."""
    file = kubeconfig_path(folder)
    access = await connection.load(file)
    return access, await asyncio.to_thread(_copy, connection.authority_of(file), folder / "ca.crt")


def _copy(source: str, target: Path) -> Path:
    """The client library's own copy of an inline certificate is a temporary file of its process."""
    return Path(shutil.copyfile(source, target))
