"""A list of the API server, page by page, its objects not decoded yet.

A page of 500 pods is 4 MB: decoding it whole takes 35 ms and 30 MB, splitting it into its objects 3 ms. Who takes the
objects decodes one at a time, and drops it before the next. Without a resourceVersion in the request the answer is
consistent: not older than anything that was reported before. With one, and `NotOlderThan`, the API server may answer
from its cache (Kubernetes, API concepts).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from muster_operator.link.api.retry import Policies
from muster_operator.link.api.session import KubeSession, Reply, Request
from muster_operator.link.errors import ApiRefused

#: Objects per page, as client-go asks.
PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list: its objects as JSON, and the version of the whole list."""

    items: tuple[memoryview, ...]
    version: str


class _Metadata(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion", default="")
    continue_: str | None = msgspec.field(name="continue", default=None)


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[msgspec.Raw] | None = None


_DECODER: Final = msgspec.json.Decoder(_List)


async def pages(session: KubeSession, path: str, not_older_than: str = "") -> AsyncGenerator[Page, None]:
    """All pages. One that is not served at the moment is asked for again, the others are not.

    Raises:
        Unreachable: no answer came.
        ApiRefused: the server does not serve it; 410 = the list took too long, and has to begin anew.
    """
    token = ""
    while True:
        query = f"limit={PAGE}"
        if token:  # which carries the version of the list
            query += f"&continue={quote(token)}"
        elif not_older_than:
            query += f"&resourceVersion={quote(not_older_than)}&resourceVersionMatch=NotOlderThan"
        found = _DECODER.decode((await _page(session, f"{path}?{query}")).body)
        yield Page(tuple(memoryview(item) for item in found.items or ()), found.metadata.version)
        token = found.metadata.continue_ or ""
        if not token:
            return


async def _page(session: KubeSession, path: str) -> Reply:
    policy, attempt = Policies().read, 1
    while not (reply := await session.send(Request("GET", path))).ok:
        pause_s = policy.pause_s(attempt, reply.status, reply.retry_after_s, random.random())  # noqa: S311 - jitter
        if pause_s is None:
            raise ApiRefused(f"GET {path}", reply.status, reply.message())
        attempt += 1
        await asyncio.sleep(pause_s)
    return reply
