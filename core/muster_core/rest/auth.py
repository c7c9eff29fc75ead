"""Authentication and authorization of REST requests, and TLS.

Differs: YuniKorn allows everyone to read and to dump the state. Here reads are open unless a setting closes them;
requests that dump or change the state require a token. The state dump and the log level need none if the server listens
on loopback and accepts no tokens, or in the compatibility mode `open`.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson
import structlog
from aiohttp import hdrs, web

from muster_core.rest.http import RestFailure
from muster_si.kubeconfig import Access, Credentials, NoAccess

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServerTls:
    """Certificate and key files in PEM format."""

    certificate: Path
    key: Path


class ServerContext:
    """TLS context of the server. New connections use the current certificate. Raises OSError, ssl.SSLError."""

    def __init__(self, files: ServerTls) -> None:
        self._files = files
        self._seen = self._stamps()
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.load_cert_chain(files.certificate, files.key)

    def renew(self) -> bool:
        """Loads changed files. If the new files are invalid, logs a warning and keeps the previous certificate."""
        try:
            seen = self._stamps()
            if seen == self._seen:
                return False
            self._seen = seen
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                self._files.certificate, self._files.key
            )
            self.context.load_cert_chain(self._files.certificate, self._files.key)
        except (OSError, ssl.SSLError) as error:
            _log.warning("REST server keeps its previous certificate", reason=str(error))
            return False
        _log.info("REST server loaded a new certificate", certificate=str(self._files.certificate))
        return True

    def _stamps(self) -> tuple[tuple[int, int], ...]:
        stats = [path.stat() for path in (self._files.certificate, self._files.key)]
        return tuple((stat.st_mtime_ns, stat.st_ino) for stat in stats)


#: Shorter tokens are too easy to guess.
LEAST_CHARACTERS: Final = 16


class TokenFile:
    """Reads the token from a file at each use. The token is never logged."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def problem(self) -> str:
        """Returns why the file is not usable; empty = it is."""
        try:
            token = self._read()
        except (OSError, UnicodeDecodeError) as error:
            return f"token file {self._path}: {error.strerror if isinstance(error, OSError) else 'is not text'}"
        if len(token) < LEAST_CHARACTERS:
            return f"token file {self._path}: must contain at least {LEAST_CHARACTERS} characters"
        return ""

    def holds(self, token: str) -> bool:
        """Whether this is the token, compared in constant time. An unusable file matches no token."""
        if self.problem():
            return False
        return hmac.compare_digest(self._read().encode(), token.encode())

    def _read(self) -> str:
        return self._path.read_text(encoding="utf-8").strip()


#: Headers of requests from web pages.
_FROM_PAGES: Final = (hdrs.ORIGIN, "Sec-Fetch-Site")
#: Headers of requests that a proxy sent.
_PASSED_ON: Final = (
    hdrs.FORWARDED,
    hdrs.VIA,
    hdrs.X_FORWARDED_FOR,
    hdrs.X_FORWARDED_HOST,
    hdrs.X_FORWARDED_PROTO,
    "X-Real-IP",
)


_AUTHORITY: Final = re.compile(r"^https?://")


def _is_from_page(request: web.Request) -> bool:
    """Whether a browser sent the request for a web page, as far as the browser says so.

    A referrer on this server is not a page, because it has none: clients in Go add it when they follow a redirect.
    """
    referrer = request.headers.get(hdrs.REFERER)
    is_elsewhere = referrer is not None and _AUTHORITY.sub("", referrer).partition("/")[0] != request.host
    return is_elsewhere or any(header in request.headers for header in _FROM_PAGES)


def is_local(request: web.Request) -> bool:
    """Whether a program on this machine sent the request directly, without a proxy."""
    peer = request.transport.get_extra_info("peername") if request.transport else None
    if not (peer and is_loopback(str(peer[0]))):
        return False
    if _is_from_page(request) or any(header in request.headers for header in _PASSED_ON):
        return False
    host = request.url.host or ""
    return host == "localhost" or is_loopback(host)  # other host names are a DNS rebinding attack by a web page


def is_loopback(host: str) -> bool:
    """Whether the address is a loopback address of this machine."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


#: How long a result is cached. A revoked role stays effective for this long.
KEPT_S: Final = 10.0
_MOST_KEPT: Final = 1_000

#: Timeout of one request.
_DEADLINE_S: Final = 5.0

#: Concurrent requests; further ones wait.
_MOST_ASKED: Final = 4
_WHOSE: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_MAY: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ACCEPTED: Final = frozenset({200, 201})


class Ruling(Enum):
    """Result of a review."""

    ALLOWED = "allowed"
    DENIED = "denied"
    UNKNOWN = "unknown"  # the API server does not accept the token


class Unreachable(Exception):
    """The API server did not respond."""


class Reviewer:
    """Authenticates and authorizes tokens with one API server. Call `close` at the end."""

    def __init__(self, credentials: Credentials, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._credentials = credentials
        self._monotonic_s = monotonic_s
        self._kept: OrderedDict[tuple[str, str, str], tuple[Ruling, float]] = OrderedDict()
        self._slots = asyncio.Semaphore(_MOST_ASKED)
        self._session: aiohttp.ClientSession | None = None
        self._access: Access | None = None
        self._tls: ssl.SSLContext | bool = True

    async def review(self, token: str, path: str, verb: str) -> Ruling:
        """Whether the user of the token may do `verb` to the URL `path`. Raises Unreachable."""
        key = (sha256(token.encode()).hexdigest(), path, verb)
        kept = self._kept.get(key)
        if kept is not None and self._monotonic_s() < kept[1]:
            return kept[0]
        async with self._slots:
            ruling = await self._ask(token, path, verb)
        self._kept[key] = (ruling, self._monotonic_s() + KEPT_S)
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return ruling

    async def close(self) -> None:
        """Closes the connections."""
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
        access = await self._present(kind)
        http_status, found = await self._post(access, path, kind, body)
        if http_status == 401 and (other := await self._present(kind, access)) is not access:
            http_status, found = await self._post(other, path, kind, body)
        status = found.get("status") if isinstance(found, dict) else None
        if http_status not in _ACCEPTED or not isinstance(status, dict):
            raise Unreachable(f"{kind}: the API server returned an error")
        return status

    async def _present(self, kind: str, rejected: Access | None = None) -> Access:
        try:
            async with asyncio.timeout(_DEADLINE_S):  # it can run a credential plugin
                return await (self._credentials.now() if rejected is None else self._credentials.renewed(rejected))
        except (TimeoutError, NoAccess) as error:
            raise Unreachable(f"{kind}: {error!r}") from error

    async def _post(self, access: Access, path: str, kind: str, body: Mapping[str, object]) -> tuple[int, object]:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_DEADLINE_S))
        try:
            if access is not self._access:
                self._tls = access.tls_context() or True
                self._access = access
            request = self._session.post(
                access.server + path,
                data=orjson.dumps(body),
                headers=(("Content-Type", "application/json"), *access.headers),
                ssl=self._tls,
                proxy=access.proxy or None,
            )
            async with request as answer:
                return answer.status, orjson.loads(await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError, orjson.JSONDecodeError) as error:
            raise Unreachable(f"{kind}: {error!r}") from error


_BEARER: Final = "bearer "

#: Longer values are not tokens.
_LONGEST: Final = 16_384
_ASK_FOR_TOKEN: Final[Mapping[str, str]] = {hdrs.WWW_AUTHENTICATE: 'Bearer realm="muster"'}


class AccessLevel(Enum):
    """How a route is protected."""

    OPEN = "open"  # probes: no token, always
    READ = "read"  # no token, unless reads are closed
    GUARDED = "guarded"  # changes or dumps the state: requires a token
    COMPATIBLE = "compatible"  # like GUARDED, but open to clients of YuniKorn on loopback or in open mode


class CompatibilityMode(StrEnum):
    """Whether state dump and log level answer every client without a token, as in YuniKorn."""

    CLOSED = "closed"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """Settings of the authorization.

    token_file: file with a static token; None = no static token.
    kubernetes: accept tokens of the cluster; roles name the path as nonResourceURL.
    closed: reads require a token too.
    trusts_loopback: requests from this machine need no token. Not safe behind a proxy that
        connects through loopback, for example the sidecar of a service mesh.
    mode: OPEN = everyone may dump the state and change the log level. Not together with `closed`.
    """

    token_file: Path | None = None
    kubernetes: bool = False
    closed: bool = False
    trusts_loopback: bool = False
    mode: CompatibilityMode = CompatibilityMode.CLOSED


#: Reads are open; requests that dump or change the state are rejected.
OPEN_READS: Final = AccessSettings()


class Authorizer:
    """Authorizes every request before it is handled. `on_loopback`: the server listens on a loopback address."""

    def __init__(
        self, settings: AccessSettings, reviewer: Reviewer | None = None, *, on_loopback: bool = False
    ) -> None:
        self._settings = settings
        self._on_loopback = on_loopback
        self._token = TokenFile(settings.token_file) if settings.token_file else None
        self._reviewer = reviewer

    @property
    def wants_tokens(self) -> bool:
        """Whether any token can be accepted."""
        return self._token is not None or self._reviewer is not None

    async def admit(self, request: web.Request, access: AccessLevel) -> None:
        """Allows the request. Raises RestFailure: 401 not authenticated, 403 not allowed, 503 the API server did not
        respond.
        """
        if access is AccessLevel.OPEN or (access is AccessLevel.READ and not self._settings.closed):
            return
        is_compatible = access is AccessLevel.COMPATIBLE
        if is_compatible and self._settings.mode is CompatibilityMode.OPEN and not _is_from_page(request):
            return
        token = _token_of(request)
        if not token:
            if self._trusts_machine(is_compatible=is_compatible) and is_local(request):
                return
            if not self.wants_tokens:
                raise RestFailure(
                    403, "no token is accepted: start the scheduler with authentication to use this endpoint"
                )
            raise RestFailure(401, "a bearer token is required", _ASK_FOR_TOKEN)
        if self._token is not None and self._token.holds(token):
            return
        await self._review(request, token)

    def _trusts_machine(self, *, is_compatible: bool) -> bool:
        """Whether a program on this machine needs no token.

        A server that accepts tokens or whose reads are closed is not opened by its address.
        """
        is_plain = self._on_loopback and not (self.wants_tokens or self._settings.closed)
        return self._settings.trusts_loopback or (is_compatible and is_plain)

    async def _review(self, request: web.Request, token: str) -> None:
        if self._reviewer is None:
            raise RestFailure(401, "the token is not accepted", _ASK_FOR_TOKEN)
        try:
            ruling = await self._reviewer.review(token, request.path, request.method.lower())
        except Unreachable as error:
            raise RestFailure(503, "the API server did not respond to the token review") from error
        if ruling is Ruling.UNKNOWN:
            raise RestFailure(401, "the token is not accepted", _ASK_FOR_TOKEN)
        if ruling is Ruling.DENIED:
            raise RestFailure(403, f"the user of the token is not allowed to {request.method.lower()} {request.path}")


def _token_of(request: web.Request) -> str:
    header = request.headers.get(hdrs.AUTHORIZATION, "")
    if len(header) > _LONGEST or header[: len(_BEARER)].lower() != _BEARER:
        return ""
    token = header[len(_BEARER) :].strip()
    return token if token.isprintable() else ""  # a token is printable text
