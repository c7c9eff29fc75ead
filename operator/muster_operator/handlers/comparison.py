"""Complete lists of what kopf watches: it does not report that a list is complete, nor deletions after a watch expired.

Every resource on kopf's own path is listed at the start, which lets the operator begin without waiting for kopf's
queues, and then compared every `COMPARE_S`. The lists run next to kopf's watches; the inbox sorts out what is newer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from typing import Final

import structlog

from muster_operator.handlers.stream import BACKOFF_S, TURN
from muster_operator.link.api.decoding import decoded_object, decoded_pod
from muster_operator.link.api.listing import pages
from muster_operator.link.api.session import KubeSession
from muster_operator.link.errors import ApiRefused, Unreachable
from muster_operator.link.inbox import Inbox

log = structlog.get_logger("muster.comparison")

#: Seconds between comparisons: these resources are small, but for a cluster without the fast path.
COMPARE_S: Final = 300.0
#: Seconds between two looks at how much the watches have brought.
LOOK_S: Final = 10.0
#: Where each resource is listed; what pods are read with comes before pods.
PATHS: Final = {
    "namespaces": "/api/v1/namespaces",
    "priorityclasses": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "storageclasses": "/apis/storage.k8s.io/v1/storageclasses",
    "csidrivers": "/apis/storage.k8s.io/v1/csidrivers",
    "csistoragecapacities": "/apis/storage.k8s.io/v1/csistoragecapacities",
    "csinodes": "/apis/storage.k8s.io/v1/csinodes",
    "persistentvolumes": "/api/v1/persistentvolumes",
    "persistentvolumeclaims": "/api/v1/persistentvolumeclaims",
    "volumeattachments": "/apis/storage.k8s.io/v1/volumeattachments",
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/pods",
}
#: The cluster does not have this kind, so there is nothing of it.
_NOT_SERVED: Final = 404


async def compare_forever(session: KubeSession, inbox: Inbox, plurals: Iterable[str]) -> None:
    """List and compare these resources now and again; a list that fails is tried again."""
    due = [plural for plural in PATHS if plural in set(plurals)]
    failures, waiting = 0, list(due)
    while True:
        try:
            while waiting:
                await _compare(session, inbox, waiting[0])
                del waiting[0]
        except (ApiRefused, Unreachable, ValueError) as error:
            delay = BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]
            failures += 1
            log.warning("a list failed", resource=waiting[0], reason=str(error), in_seconds=delay)
            await asyncio.sleep(delay)
            continue
        failures, waiting = 0, list(due)
        await asyncio.sleep(COMPARE_S)


async def _compare(session: KubeSession, inbox: Inbox, plural: str) -> None:
    inbox.list_begun(plural)
    version, count = "", 0
    decode = decoded_pod if plural == "pods" else decoded_object
    try:
        async with aclosing(pages(session, PATHS[plural])) as stream:
            async for page in stream:
                version = page.version
                for item in page.items:
                    await inbox.watched(plural, None, decode(item))
                    count += 1
                    if not count % TURN:
                        await asyncio.sleep(0)
    except ApiRefused as refused:
        if refused.status != _NOT_SERVED:
            raise
    await inbox.listed(plural, version)


async def note_bytes(session: KubeSession, inbox: Inbox) -> None:
    """Report watches that deliver bytes: kopf keeps bookmarks to itself, and a quiet resource brings nothing else."""
    before: dict[str, int] = {}
    while True:
        for plural, count in session.watched_bytes().items():
            if before.get(plural) != count:
                before[plural] = count
                inbox.heard(plural)
        await asyncio.sleep(LOOK_S)
