"""A watch of one resource, read as it comes: pieces of bytes, cut into events.

The request is kopf's, with its session, its patience and its errors. What kopf does behind it, three generators one in
the other and a timer for each event, cost as much as decoding the event: here they are run through once for each piece
that the socket brings. What a cut leaves of a line is dropped; the stream is taken up before it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import kopf
from kopf._cogs.clients import api

log = logging.getLogger("muster.watch")

#: An end like any other: the stream is taken up where it was.
_CUT: Final = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError)


@dataclass(frozen=True, slots=True)
class From:
    """Where a watch begins: after `version`; or, `is_list`, with all objects of a state that is not older than it.

    Such a list ends with a bookmark that says so (Kubernetes, API concepts: streaming lists). `silent_s`: without a
    byte for so long, the stream ends.
    """

    version: str
    silent_s: float
    is_list: bool = False

    @property
    def parameters(self) -> dict[str, str]:
        """As the API server reads them."""
        found = {"watch": "true", "allowWatchBookmarks": "true"}
        if self.version:
            found["resourceVersion"] = self.version
        if self.is_list:
            found |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        return found


async def lines(
    resource: Any, namespace: Any, since: From, settings: kopf.OperatorSettings
) -> AsyncGenerator[list[bytes], None]:
    """What the stream brings, an event a line, until it ends or is silent for too long. A piece may hold none.

    Raises:
        APIError: the API server does not serve it.
    """
    networking, watching = settings.networking, settings.watching
    timeout = aiohttp.ClientTimeout(
        total=watching.client_timeout, sock_connect=networking.connect_timeout or networking.request_timeout
    )
    try:
        async with asyncio.timeout(since.silent_s):
            response = await api.request(
                method="get",
                url=resource.get_url(namespace=namespace, params=since.parameters),
                settings=settings,
                timeout=timeout,
                logger=log,
            )
        async with response:
            rest = b""
            while not response.content.at_eof():
                async with asyncio.timeout(since.silent_s):
                    piece = await response.content.readany()
                *some, rest = (rest + piece if rest else piece).split(b"\n")
                yield some
    except _CUT as error:
        log.debug("a watch of %s was cut: %r", resource.plural, error)
