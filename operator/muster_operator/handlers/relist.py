"""Complete lists where the fast lane is not possible: kopf alone never says that a list is complete, nor what vanished.

Lists by our own session, at the start and every `RELIST_S`. What is listed goes to the inbox only the first time; after
that kopf's stream tells it, and a list, which is not ordered with that stream, only shows what is missing.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Final

import structlog

from muster_operator.handlers.stream import BACKOFF_S, RELIST_S, key_of
from muster_operator.link.api.decoding import decoded_object
from muster_operator.link.api.listing import pages
from muster_operator.link.api.session import KubeSession
from muster_operator.link.errors import ApiRefused, Unreachable
from muster_operator.link.inbox import Inbox
from muster_operator.link.versions import READ

log = structlog.get_logger("muster.relist")

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


async def relist_forever(session: KubeSession, inbox: Inbox) -> None:
    """List everything now and again and again; a list that fails is tried anew, for as long as the process lives."""
    first, failures = True, 0
    while True:
        try:
            for plural, path in PATHS.items():
                await _list(session, inbox, plural, path, first=first)
        except (ApiRefused, Unreachable) as error:
            delay = BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]
            failures += 1
            log.warning("a list failed", reason=str(error), in_seconds=delay)
            await asyncio.sleep(delay)
            continue
        first, failures = False, 0
        await asyncio.sleep(RELIST_S)


async def _list(session: KubeSession, inbox: Inbox, plural: str, path: str, *, first: bool) -> None:
    await inbox.list_begun(plural)
    keys: set[str] = set()
    try:
        async with aclosing(pages(session, path)) as stream:
            async for page in stream:
                for item in page.items:
                    raw = decoded_object(item)
                    keys.add(key_of(plural, raw))
                    if first:
                        await inbox.watched(plural, READ, raw)
    except ApiRefused as refused:
        if refused.status != _NOT_SERVED:
            raise
    await inbox.listed(plural, frozenset(keys))
