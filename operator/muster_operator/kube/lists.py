"""Lists that are read in pages, and the retries of reads."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from muster_operator.kube.http import Policies
from muster_operator.kube.session import KubeSession, Reply, Request
from muster_operator.model.errors import ApiRefused

#: Objects per page, as in client-go.
PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list: its objects as JSON, and the version of the complete list."""

    items: tuple[memoryview, ...]
    version: str


class _ListMetadata(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion", default="")
    continue_: str | None = msgspec.field(name="continue", default=None)


class _List(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


_DECODER: Final = msgspec.json.Decoder(_List)


async def pages(session: KubeSession, path: str, not_older_than: str = "") -> AsyncGenerator[Page, None]:
    """Yields the pages of a list. A page that fails with a temporary error is requested again.

    Raises:
        Unreachable: no response.
        ApiRefused: the API server answered with an error; 410 = the list took too long and has to start again.
    """
    token = ""
    while True:
        query = f"limit={PAGE}"
        if token:  # the token contains the version of the list
            query += f"&continue={quote(token)}"
        elif not_older_than:
            query += f"&resourceVersion={quote(not_older_than)}&resourceVersionMatch=NotOlderThan"
        found = _DECODER.decode((await answer(session, Request("GET", f"{path}?{query}"))).body)
        yield Page(tuple(memoryview(item) for item in found.items or ()), found.metadata.version)
        token = found.metadata.continue_ or ""
        if not token:
            return


async def answer(session: KubeSession, request: Request) -> Reply:
    """Sends a read and returns its successful response. Temporary errors are retried.

    Raises:
        Unreachable: no response.
        ApiRefused: the API server answered with an error.
    """
    policy, attempt = Policies().read, 1
    while not (reply := await session.send(request)).ok:
        pause_s = policy.pause_s(attempt, reply.status, reply.retry_after_s, random.random())  # noqa: S311 - jitter
        if pause_s is None:
            raise ApiRefused(request.name, reply.status, reply.message())
        attempt += 1
        await asyncio.sleep(pause_s)
    return reply
