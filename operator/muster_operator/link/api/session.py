"""One HTTP request to the API server: connection, credentials, time-out, and an answer in bytes.

`KubeSession` holds the one aiohttp session of all writes and reads of the operator (kopf's streams have their own).
It knows nothing of pods: what an answer means and whether to ask again is for `link.api.kube` and `link.api.retry`.
Writes pass the fence: who does not lead does not write (semantics 27), whatever part of the operator asks for it.
"""

from __future__ import annotations

import ssl
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import kopf
import orjson

from muster_operator.link.api.credentials import Credentials
from muster_operator.link.errors import ApiRefused, Unreachable
from muster_operator.link.leading.fence import Fence

#: Seconds one request may take, connecting included. The API server's own limit is 60.
REQUEST_S: Final = 15.0
#: Seconds an idle connection is kept; load balancers in front of API servers usually cut after 60 or more.
KEEPALIVE_S: Final = 50.0
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
USER_AGENT: Final = "muster-operator"


@dataclass(frozen=True, slots=True)
class Request:
    """What to send. `path` starts with a slash and carries its query; `body` is JSON.

    `is_fenced`: a write that only the leader may do, as nearly all are. `within_s`: less time than others get.
    """

    method: str
    path: str
    body: bytes = b""
    content_type: str = JSON
    is_fenced: bool = True
    within_s: float | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: `retry_after_s` is None where the server does not say."""

    status: int
    body: bytes
    retry_after_s: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the server did what was asked."""
        return 200 <= self.status < 300

    def json(self) -> dict[str, Any]:
        """The body as an object; empty where there is none."""
        try:
            value = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return {}
        return value if isinstance(value, dict) else {}

    def message(self) -> str:
        """The server's reason, from its Status object or as text."""
        return str(self.json().get("message") or self.body[:200].decode(errors="replace") or self.status)

    @property
    def is_access_denied(self) -> bool:
        """Whether our rights are in question, not the request: an API server that starts says so until it has them."""
        return self.status == 401 or (self.status == 403 and "User " in (said := self.message()) and " cannot " in said)

    def reason(self) -> str:
        """The Status object's machine readable reason ("AlreadyExists", "Conflict"), else empty."""
        return str(self.json().get("reason") or "")


class KubeSession:
    """The operator's connections to the API server. `instance`: which of several operators, for the audit log."""

    def __init__(
        self,
        credentials: Credentials,
        fence: Fence | None = None,
        *,
        instance: str = "",
        connections: int = 100,
        request_s: float = REQUEST_S,
    ) -> None:
        self._credentials, self._fence = credentials, fence
        self._agent = f"{USER_AGENT} ({instance})" if instance else USER_AGENT
        self._timeout = aiohttp.ClientTimeout(total=request_s)
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        self._info: kopf.ConnectionInfo | None = None
        self._headers: dict[str, dict[str, str]] = {}
        self._server = ""

    async def send(self, request: Request) -> Reply:
        """Send one request and read the whole answer. A 401 is tried once more with credentials read anew.

        Raises:
            Unreachable: no answer came (connection refused or cut, time-out); NotLeading: because we may not write.
        """
        reply = await self._send(request)
        if reply.status == 401:
            self._credentials.reread()
            reply = await self._send(request)
        return reply

    async def get(self, path: str) -> dict[str, Any]:
        """Read one object or list.

        Raises:
            Unreachable: no answer came.
            ApiRefused: the server answered with an error.
        """
        reply = await self.send(Request("GET", path))
        if not reply.ok:
            raise ApiRefused(f"GET {path}", reply.status, reply.message())
        return reply.json()

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _send(self, request: Request) -> Reply:
        session = await self._open()
        what = f"{request.method} {request.path}"
        timeout = self._timeout if request.within_s is None else aiohttp.ClientTimeout(total=request.within_s)
        try:
            async with (
                self._passage(request, what),
                session.request(
                    request.method,
                    self._server + request.path,
                    data=request.body or None,
                    headers=self._headers[request.content_type],
                    timeout=timeout,
                ) as response,
            ):
                return Reply(response.status, await response.read(), _retry_after(response))
        except TimeoutError as error:
            raise Unreachable(what, f"no answer in {timeout.total:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(what, f"{type(error).__name__}: {error}") from error

    def _passage(self, request: Request, what: str) -> AbstractAsyncContextManager[None]:
        """Through the fence, for a write of the leader."""
        if self._fence is None or not request.is_fenced or request.method == "GET":
            return nullcontext()
        return self._fence.passed(what)

    async def _open(self) -> aiohttp.ClientSession:
        """The session for the present credentials; a new token needs new headers, a new certificate a new session."""
        info = self._credentials.current()
        if self._session is not None and info is self._info:
            return self._session
        if self._session is None or _tls(info) != _tls(self._info):
            await self.close()
            connector = aiohttp.TCPConnector(
                limit=self._connections, ssl=_ssl_context(info), keepalive_timeout=KEEPALIVE_S
            )
            self._session = aiohttp.ClientSession(
                connector=connector, auto_decompress=True, read_bufsize=2**18, proxy=info.proxy_url
            )
        headers = {"User-Agent": self._agent, "Accept": JSON, **info.as_http_headers()}
        self._headers = {kind: {**headers, "Content-Type": kind} for kind in (JSON, MERGE_PATCH, STRATEGIC_PATCH)}
        self._server, self._info = info.server.rstrip("/"), info
        return self._session


def _tls(info: kopf.ConnectionInfo | None) -> tuple[object, ...]:
    """What of the credentials is bound to the connections: everything but the token."""
    if info is None:
        return ()
    certificate = (info.certificate_path, info.certificate_data, info.private_key_path, info.private_key_data)
    return (info.server, info.ca_path, info.ca_data, info.insecure, *certificate, info.proxy_url)


def _ssl_context(info: kopf.ConnectionInfo) -> ssl.SSLContext | bool:
    return info.as_ssl_context() if info.server.startswith("https") else True


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    """Seconds of the Retry-After header; a date or nonsense counts as absent."""
    try:
        return max(0.0, float(response.headers["Retry-After"]))
    except (KeyError, ValueError):
        return None
