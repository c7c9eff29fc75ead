"""Selects the kind of cluster: ``MUSTER_CLUSTER`` is ``local``, ``current`` or ``kind``; see ``choose`` if unset."""

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


def wanted() -> Flavour | None:
    """Return the value of ``MUSTER_CLUSTER``, None if unset. Raises FlavourUnavailable for an unknown value."""
    value = os.environ.get(VARIABLE, "").strip().lower()
    if not value:
        return None
    try:
        return Flavour(value)
    except ValueError:
        valid = ", ".join(Flavour)
        raise FlavourUnavailable(f"{VARIABLE}={value} is unknown; it is one of {valid}") from None


async def choose() -> Flavour:
    """Return the user's choice, else kind if it is installed and Docker answers, else the local control plane."""
    requested = wanted()
    if requested is not None:
        return requested
    can_kind = shutil.which("kind") is not None and await docker_answers()
    return Flavour.KIND if can_kind else Flavour.LOCAL


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
