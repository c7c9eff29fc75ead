"""Decides who may ask what; every doubt is a no.

Differs: YuniKorn lets everybody read and dump. Here reads are open unless
they are closed by a setting; what dumps or changes the state wants a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from aiohttp import hdrs, web

from muster_core.edge.rest.access.kubernetes import Reviewer, Ruling, Unreachable
from muster_core.edge.rest.access.loopback import is_local
from muster_core.edge.rest.access.tokens import TokenFile
from muster_core.edge.rest.failures import RestFailure

_BEARER: Final = "bearer "
#: Longer ones are no tokens.
_LONGEST: Final = 16_384
_ASK_FOR_TOKEN: Final[Mapping[str, str]] = {hdrs.WWW_AUTHENTICATE: 'Bearer realm="muster"'}


class Door(Enum):
    """How well a route is guarded."""

    OPEN = "open"  # probes: to everybody, always
    READ = "read"  # to everybody, unless reads are closed
    GUARDED = "guarded"  # what changes the state, or dumps it


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """Who is let in.

    token_file: a file with a token of our own; None = there is none.
    kubernetes: ask the cluster about its tokens, by a role with the path as nonResourceURL.
    closed: reads want a token too.
    trusts_loopback: who asks from this machine needs none. Not behind a proxy that
        speaks to loopback for others (a service mesh's sidecar does).
    """

    token_file: Path | None = None
    kubernetes: bool = False
    closed: bool = False
    trusts_loopback: bool = False


#: Anybody may read, nobody may dump or change.
OPEN_READS: Final = AccessSettings()


class Guard:
    """Asked before every answer."""

    def __init__(self, settings: AccessSettings, reviewer: Reviewer | None = None) -> None:
        self._settings = settings
        self._token = TokenFile(settings.token_file) if settings.token_file else None
        self._reviewer = reviewer

    @property
    def wants_tokens(self) -> bool:
        """Whether anybody's token is accepted."""
        return self._token is not None or self._reviewer is not None

    async def admit(self, request: web.Request, door: Door) -> None:
        """Let the request pass. Raises RestFailure: 401 who are you, 403 not you, 503 cannot be found out."""
        if door is Door.OPEN or (door is Door.READ and not self._settings.closed):
            return
        token = _token_of(request)
        if not token:
            if self._settings.trusts_loopback and is_local(request):
                return
            if not self.wants_tokens:
                raise RestFailure(403, "no token is accepted here: the scheduler was started without authentication")
            raise RestFailure(401, "a bearer token is needed", _ASK_FOR_TOKEN)
        if self._token is not None and self._token.holds(token):
            return
        await self._review(request, token)

    async def _review(self, request: web.Request, token: str) -> None:
        if self._reviewer is None:
            raise RestFailure(401, "the token is not accepted", _ASK_FOR_TOKEN)
        try:
            ruling = await self._reviewer.review(token, request.path, request.method.lower())
        except Unreachable as error:
            raise RestFailure(503, "the cluster cannot be asked about the token") from error
        if ruling is Ruling.UNKNOWN:
            raise RestFailure(401, "the token is not accepted", _ASK_FOR_TOKEN)
        if ruling is Ruling.DENIED:
            raise RestFailure(403, f"the token's owner may not {request.method.lower()} {request.path}")


def _token_of(request: web.Request) -> str:
    header = request.headers.get(hdrs.AUTHORIZATION, "")
    if len(header) > _LONGEST or header[: len(_BEARER)].lower() != _BEARER:
        return ""
    token = header[len(_BEARER) :].strip()
    return token if token.isprintable() else ""  # bytes that are no text are no token
