"""What has to be known before the API server can be asked to ask us: who we are to it, and that it knows conditions.

An API server before Kubernetes 1.28 drops `matchConditions` without a word, and what fails closed for our own pods
would fail closed for all pods of the cluster.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import orjson
import structlog

from muster_operator.link.api.session import KubeSession, Request
from muster_operator.link.errors import ApiRefused, StartupRefused, Unreachable
from muster_operator.translate.raw import mapping, text

log = structlog.get_logger("muster.admission")

T = TypeVar("T")

#: The first version that keeps `matchConditions`.
OLDEST: Final = (1, 28)
#: Seconds until we ask again.
AGAIN_S: Final = 1.0
_WHO_AM_I: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_DIGITS: Final = re.compile(r"\d+")


async def introduced(session: KubeSession) -> str:
    """Our name to the API server; asked until it answers.

    Raises:
        StartupRefused: it is too old.
    """
    found = await _until_answered(lambda: _version(session))
    if found < OLDEST:
        raise StartupRefused(
            f"the webhook needs Kubernetes {OLDEST[0]}.{OLDEST[1]} and this is {found[0]}.{found[1]}: "
            "leave --webhook-service and --webhook-url out"
        )
    return await _until_answered(lambda: _name(session))


async def _until_answered(ask: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await ask()
        except (ApiRefused, Unreachable) as error:
            log.warning("the API server does not introduce itself, asking again", reason=str(error))
            await asyncio.sleep(AGAIN_S)


async def _version(session: KubeSession) -> tuple[int, int]:
    """Some clouds write "28+"."""
    said = await session.get("/version")
    major, minor = (_DIGITS.match(text(said.get(key))) for key in ("major", "minor"))
    if major is None or minor is None:
        raise ApiRefused("GET /version", 200, "no version in it")
    return int(major[0]), int(minor[0])


async def _name(session: KubeSession) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    reply = await session.send(Request("POST", _WHO_AM_I, orjson.dumps(body), is_fenced=False))
    name = text(mapping(mapping(reply.json().get("status")).get("userInfo")).get("username"))
    if not name:
        raise ApiRefused(f"POST {_WHO_AM_I}", reply.status, reply.message())
    return name
