"""Which cluster to use: ``MUSTER_CLUSTER`` says ``local``, ``current`` or ``kind``; unset, the machine decides."""

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
    """Our own etcd, API server, controllers and KWOK; needs nothing but Go, which it gets itself."""
    CURRENT = "current"
    """The current context of KUBECONFIG; nothing in it is deleted but what we made."""
    KIND = "kind"
    """kind, where Docker answers; a cluster that was there before is used and left."""


def wanted() -> Flavour | None:
    """What the user asked for; None if nothing. Raises FlavourUnavailable for an unknown word."""
    word = os.environ.get(VARIABLE, "").strip().lower()
    if not word:
        return None
    try:
        return Flavour(word)
    except ValueError:
        known = ", ".join(Flavour)
        raise FlavourUnavailable(f"{VARIABLE}={word} is unknown; it is one of {known}") from None


async def choose() -> Flavour:
    """What the user asked for, else kind where it can work, else the local control plane."""
    asked = wanted()
    if asked is not None:
        return asked
    can_kind = shutil.which("kind") is not None and await docker_answers()
    return Flavour.KIND if can_kind else Flavour.LOCAL


async def docker_answers() -> bool:
    """Whether a Docker daemon is there to talk to."""
    if shutil.which("docker") is None:
        return False
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec("docker", "info", stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        return await asyncio.wait_for(process.wait(), DOCKER_ANSWERS_S) == 0
    except TimeoutError:
        process.kill()
        await process.wait()
        return False
