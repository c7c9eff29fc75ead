"""One HTTP request to the API server: connection, credentials, time-out, and an answer in bytes.

`KubeSession` is how all writes and reads of the operator go out, over the same connections as kopf's streams.
It knows nothing of pods: what an answer means and whether to ask again is for `link.api.kube` and `link.api.retry`.
Writes pass the fence: who does not lead does not write (semantics 27), whatever part of the operator asks for it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import aiohttp
import kopf
import orjson
from msgspec import Struct

from muster_operator.link.api.clock import ServerClock
from muster_operator.link.api.connections import JSON, Connections
from muster_operator.link.api.credentials import Credentials
from muster_operator.link.api.measuring import Measure, named, unmeasured
from muster_operator.link.api.retry import told_pause_s
from muster_operator.link.errors import ApiRefused, Unreachable
from muster_operator.link.leading.fence import Fence

#: Seconds one request may take, connecting included. The API server's own limit is 60.
REQUEST_S: Final = 15.0
#: Seconds the reading of one object or of a few may take: a start waits for it, and asks again.
READ_S: Final = 5.0
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"


class Request(Struct, frozen=True, gc=False):
    """What to send. `path` starts with a slash and carries its query; `body` is JSON.

    `is_fenced`: a write that only the leader may do, as nearly all are. `within_s`: less time than others get.
    `resource`: what is written, as metrics call it; empty = the path says so.
    """

    method: str
    path: str
    body: bytes = b""
    content_type: str = JSON
    is_fenced: bool = True
    within_s: float | None = None
    resource: str = ""

    @property
    def name(self) -> str:
        """For people: what was sent where."""
        return f"{self.method} {self.path}"


class Reply(Struct, frozen=True, gc=False):
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
    """The operator to the API server. `instance`: which of several operators, for the audit log."""

    def __init__(
        self,
        credentials: Credentials,
        fence: Fence | None = None,
        *,
        instance: str = "",
        measure: Measure = unmeasured,
        request_s: float = REQUEST_S,
    ) -> None:
        self._credentials, self._fence, self._measure = credentials, fence, measure
        self._request_s = request_s
        self.clock = ServerClock()
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}
        self._connections = Connections(credentials, measure, instance)

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
        reply = await self.send(Request("GET", path, within_s=READ_S))
        if not reply.ok:
            raise ApiRefused(f"GET {path}", reply.status, reply.message())
        return reply.json()

    async def close(self) -> None:
        """Close all connections, kopf's too."""
        await self._connections.close()

    async def for_streams(self) -> kopf.AiohttpSession:
        """The same connections for kopf's discovery and streams.

        Raises:
            NoCredentials: there are none.
        """
        return await self._connections.for_streams()

    def watched_bytes(self) -> dict[str, int]:
        """How many bytes the watches of kopf have brought, by resource."""
        return self._connections.watched_bytes()

    async def _send(self, request: Request) -> Reply:
        session = await self._connections.session()
        within_s = min(self._request_s, request.within_s or self._request_s)
        began, status = time.perf_counter(), 0
        try:
            if self._fence is None or not request.is_fenced or request.method == "GET":
                async with asyncio.timeout(within_s):
                    reply = await self._exchange(session, request, within_s)
            else:
                with self._fence.passed(request, within_s):
                    reply = await self._exchange(session, request, within_s)
            status = reply.status
            return reply
        except TimeoutError as error:
            raise Unreachable(request.name, f"no answer in {within_s:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(request.name, f"{type(error).__name__}: {error}") from error
        finally:
            resource = request.resource
            verb, resource = (request.method, resource) if resource else named(request.method, request.path)
            self._measure(verb, resource, status, time.perf_counter() - began)

    async def _exchange(self, session: aiohttp.ClientSession, request: Request, within_s: float) -> Reply:
        """By a line of our own: nearly all that the operator asks for."""
        lines = self._connections.lines
        if lines is None or request.method == "GET":
            return await self._ask(session, request, within_s)
        head = self._connections.head(lines, request.content_type)
        answer = await lines.exchange(request.method, request.path, head, request.body)
        return Reply(answer.status, answer.body, told_pause_s(answer.retry_after, time.time()))

    async def _ask(self, session: aiohttp.ClientSession, request: Request, within_s: float) -> Reply:
        """By aiohttp: what is read, and all where there is a proxy."""
        async with session.request(
            request.method,
            self._connections.url(request.path),
            data=request.body or None,
            headers=self._connections.headers(request.content_type),
            timeout=self._timeout(within_s),
        ) as response:
            body = await response.read()
            self.clock.note(response.headers.get("Date"), time.time())
            return Reply(response.status, body, told_pause_s(response.headers.get("Retry-After"), time.time()))

    def _timeout(self, within_s: float) -> aiohttp.ClientTimeout:
        """One value for all requests that may take as long: to make it takes 2 us."""
        found = self._timeouts.get(within_s)
        if found is None:
            found = self._timeouts[within_s] = aiohttp.ClientTimeout(total=within_s)
        return found
