"""Selects the kind of cluster: ``MUSTER_CLUSTER`` is ``local``, ``current`` or ``kind``."""

from __future__ import annotations

import asyncio
import os
import shutil
from enum import StrEnum

from devcluster.errors import FlavourUnavailable

VARIABLE = "MUSTER_CLUSTER"
DOCKER_ANSWERS_S = 5.0


class Flavour(StrEnum):
    """Where the cluster comes from."""

    LOCAL = "local"
    """A local etcd, API server, controllers and KWOK. Needs only Go, which it downloads if missing."""
    CURRENT = "current"
    """The current context of KUBECONFIG. Only objects that devcluster created are deleted."""
    KIND = "kind"
    """kind; needs Docker. An existing cluster is used and not deleted."""


def choose() -> Flavour:
    """Return the value of ``MUSTER_CLUSTER``; unset = local. Raises FlavourUnavailable for an unknown value."""
    value = os.environ.get(VARIABLE, "").strip().lower() or Flavour.LOCAL
    try:
        return Flavour(value)
    except ValueError:
        valid = ", ".join(Flavour)
        raise FlavourUnavailable(f"{VARIABLE}={value} is unknown; it is one of {valid}") from None


async def docker_answers() -> bool:
    """Whether a Docker daemon answers."""
    if shutil.which("docker") is None:
        return False
    devnull = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec("docker", "info", stdin=devnull, stdout=devnull, stderr=devnull)
    try:
        return await asyncio.wait_for(process.wait(), DOCKER_ANSWERS_S) == 0
    except TimeoutError:
        process.kill()
        await process.wait()
        return False
