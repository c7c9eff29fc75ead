"""Which kinds of storage the cluster has: of those that it does not, nothing is listed, and nothing waited for."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from muster_operator.handlers.stream import BACKOFF_S
from muster_operator.link.api.session import KubeSession
from muster_operator.link.errors import ApiRefused, Unreachable
from muster_operator.link.inbox import Inbox

log = structlog.get_logger("muster.served")

GROUP: Final = "/apis/storage.k8s.io/v1"
#: The last one to come did so in Kubernetes 1.24.
KINDS: Final = frozenset({"storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"})

_NOT_FOUND: Final = 404


async def tell_unserved(session: KubeSession, inbox: Inbox) -> None:
    """Ask the API server, for as long as it takes, and count the lists of what it does not have as made."""
    failures = 0
    while True:
        try:
            served = await _served(session)
        except (ApiRefused, Unreachable) as error:
            delay = BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]
            failures += 1
            log.warning("cannot tell which kinds of storage there are", reason=str(error), in_seconds=delay)
            await asyncio.sleep(delay)
            continue
        for plural in sorted(KINDS - served):
            log.warning("the cluster does not have this kind of storage", resource=plural)
            inbox.not_served(plural)
        return


async def _served(session: KubeSession) -> set[str]:
    try:
        found = await session.get(GROUP)
    except ApiRefused as refused:
        if refused.status == _NOT_FOUND:
            return set()
        raise
    return {resource["name"] for resource in found.get("resources", ())}
