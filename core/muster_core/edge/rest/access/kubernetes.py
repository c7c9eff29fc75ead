"""Asks the cluster whose a token is (TokenReview) and what its owner may do (SubjectAccessReview).

An answer is kept for a few seconds, so that a dashboard does not ask the API
server at each of its requests. What cannot be found out is a no.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from enum import Enum
from hashlib import sha256
from typing import Any, Final

import aiohttp
import orjson

from muster_core.edge.rest.access.apiserver import ApiServer, NoApiServer

#: How long an answer holds: a role that was taken away is still good for so long.
KEPT_S: Final = 10.0
_MOST_KEPT: Final = 1_000
#: For one question.
_DEADLINE_S: Final = 5.0
#: At a time; more wait their turn.
_MOST_ASKED: Final = 4
_WHOSE: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_MAY: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ACCEPTED: Final = frozenset({200, 201})


class Ruling(Enum):
    """What the cluster said."""

    ALLOWED = "allowed"
    DENIED = "denied"
    UNKNOWN = "unknown"  # it does not know the token


class Unreachable(Exception):
    """The cluster gave no answer."""


class Reviewer:
    """Asks one API server. `close` when nobody asks any more."""

    def __init__(self, server: ApiServer, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        self._monotonic_s = monotonic_s
        self._kept: OrderedDict[tuple[str, str, str], tuple[Ruling, float]] = OrderedDict()
        self._turns = asyncio.Semaphore(_MOST_ASKED)
        self._session: aiohttp.ClientSession | None = None

    async def review(self, token: str, path: str, verb: str) -> Ruling:
        """Whether the token's owner may do `verb` to the URL `path`. Raises Unreachable."""
        key = (sha256(token.encode()).hexdigest(), path, verb)
        kept = self._kept.get(key)
        if kept is not None and self._monotonic_s() < kept[1]:
            return kept[0]
        async with self._turns:
            ruling = await self._ask(token, path, verb)
        self._kept[key] = (ruling, self._monotonic_s() + KEPT_S)
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return ruling

    async def close(self) -> None:
        """Let go of the connections."""
        if self._session is not None:
            await self._session.close()

    async def _ask(self, token: str, path: str, verb: str) -> Ruling:
        status = await self._create(_WHOSE, "authentication.k8s.io/v1", "TokenReview", {"token": token})
        user = status.get("user")
        if status.get("authenticated") is not True or not isinstance(user, dict):
            return Ruling.UNKNOWN
        spec = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        status = await self._create(_MAY, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        return Ruling.ALLOWED if status.get("allowed") is True and not status.get("denied") else Ruling.DENIED

    async def _create(self, path: str, version: str, kind: str, spec: Mapping[str, object]) -> dict[str, Any]:
        body = {"apiVersion": version, "kind": kind, "metadata": {}, "spec": spec}
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_DEADLINE_S))
        try:
            headers = {"Content-Type": "application/json", **self._server.headers()}
            request = self._session.post(
                self._server.url + path, data=orjson.dumps(body), headers=headers, ssl=self._server.ssl
            )
            async with request as answer:
                found = orjson.loads(await answer.read())
                accepted = answer.status in _ACCEPTED
        except (aiohttp.ClientError, TimeoutError, OSError, orjson.JSONDecodeError, NoApiServer) as error:
            raise Unreachable(f"{kind}: {error!r}") from error
        status = found.get("status") if isinstance(found, dict) else None
        if not accepted or not isinstance(status, dict):
            raise Unreachable(f"{kind}: the API server refused to answer")
        return status
