"""Uses an existing kind cluster, or creates one and deletes it afterwards."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import AsyncExitStack
from pathlib import Path

from devcluster.errors import FlavourUnavailable
from devcluster.flavour import docker_answers

NAME = "muster-devcluster"
READY = "180s"


def cluster_name() -> str:
    """Return ``KIND_CLUSTER_NAME`` (kind's own variable), else ``muster-devcluster``."""
    return os.environ.get("KIND_CLUSTER_NAME") or NAME


async def ensure(kubeconfig: Path, stack: AsyncExitStack) -> None:
    """Create the cluster if it does not exist, and write its kubeconfig.

    Raises FlavourUnavailable with kind's error output.
    """
    if shutil.which("kind") is None or not await docker_answers():
        raise FlavourUnavailable("MUSTER_CLUSTER=kind needs `kind` on PATH and a Docker daemon that answers")
    name = cluster_name()
    if name in (await _kind("get", "clusters")).split():
        await _kind("export", "kubeconfig", "--name", name, "--kubeconfig", str(kubeconfig))
        return
    image = os.environ.get("KIND_NODE_IMAGE")
    stack.push_async_callback(_kind, "delete", "cluster", "--name", name, "--kubeconfig", str(kubeconfig))
    image_flags = ["--image", image] if image else []
    await _kind("create", "cluster", "--name", name, "--kubeconfig", str(kubeconfig), "--wait", READY, *image_flags)


async def _kind(*arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        "kind",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error_output = await process.communicate()
    if process.returncode != 0:
        raise FlavourUnavailable(f"kind {' '.join(arguments)}: {error_output.decode(errors='replace')[-2000:]}")
    return out.decode()
