"""An HTTP server with the API paths that the operator uses, which fails on request. It is not a Kubernetes."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from aiohttp import web

from muster_operator.kube.commands import Attempts, Kube, Placeholders
from muster_operator.kube.http import Policies, Retry
from muster_operator.kube.session import KubeSession
from muster_operator.model.commands import Result
from muster_operator.translate.values import Raw
from muster_si.kubeconfig import Access, Credentials

CREATE_SOON = replace(Policies().create, first_s=0.01)


@dataclass(frozen=True)
class ReceivedRequest:
    """One received request."""

    method: str
    path: str
    query: str
    body: dict[str, Any]
    authorization: str = ""


@dataclass
class ApiServer:
    """Sends the planned responses of "METHOD /path" in order, then those of the default handler."""

    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    seen: list[ReceivedRequest] = field(default_factory=list)
    planned: dict[str, list[Callable[[], web.Response] | float]] = field(default_factory=lambda: defaultdict(list))
    url: str = ""
    in_flight: int = 0
    most_in_flight: int = 0
    delay_s: float = 0.0

    def plan(self, what: str, *answers: Callable[[], web.Response] | float) -> None:
        """Plan the next responses. A number means no response for that many seconds."""
        self.planned[what].extend(answers)

    def requests(self, method: str) -> list[ReceivedRequest]:
        """Return the received requests with this method."""
        return [request for request in self.seen if request.method == method]

    async def handle(self, request: web.Request) -> web.Response:
        """Record the request and respond."""
        raw = await request.read()
        body = orjson.loads(raw) if raw else {}
        authorization = request.headers.get("Authorization", "")
        self.seen.append(ReceivedRequest(request.method, request.path, request.query_string, body, authorization))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._answer(request, body)
        finally:
            self.in_flight -= 1

    async def _answer(self, request: web.Request, body: dict[str, Any]) -> web.Response:
        planned = self.planned[f"{request.method} {request.path}"]
        if planned:
            answer = planned.pop(0)
            if callable(answer):
                return answer()
            await asyncio.sleep(answer)
        await asyncio.sleep(self.delay_s)
        return self._default(request, body)

    def _default(self, request: web.Request, body: dict[str, Any]) -> web.Response:
        name = request.path.split("/pods/")[-1].split("/")[0]
        if request.method == "GET" and "/pods/" in request.path:
            return reply(200, self.pods[name]) if name in self.pods else status(404, "NotFound")
        if request.method == "DELETE":
            return reply(200, {}) if self.pods.pop(name, None) else status(404, "NotFound")
        if request.path.endswith("/binding"):
            self.pods.setdefault(name, {}).setdefault("spec", {})["nodeName"] = body["target"]["name"]
            return status(201, "Created")
        return reply(201 if request.method == "POST" else 200, body)


def reply(code: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> web.Response:
    """Return a JSON response."""
    return web.Response(status=code, body=orjson.dumps(body), content_type="application/json", headers=headers)


def status(code: int, reason: str, message: str = "", headers: dict[str, str] | None = None) -> web.Response:
    """Return a response with a Kubernetes Status object."""
    return reply(code, {"kind": "Status", "reason": reason, "message": message or reason, "code": code}, headers)


class FixedCredentials(Credentials):
    """Credentials of a test. Each reload returns the next token."""

    def __init__(self, url: str, tokens: list[str]) -> None:
        super().__init__(self._next)
        self.url, self.tokens = url, tokens

    def _next(self) -> Access:
        token = self.tokens.pop(0) if len(self.tokens) > 1 else self.tokens[0]
        return Access(self.url, headers=(("Authorization", f"Bearer {token}"),))


@dataclass
class CommandRecorder:
    """Records what Kube reports."""

    results: list[Result] = field(default_factory=list)
    read: list[Raw] = field(default_factory=list)
    retried: list[tuple[str, int]] = field(default_factory=list)
    throttled: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def result(self, result: Result) -> None:
        self.results.append(result)

    def object_read(self, plural: str, raw: Raw) -> None:
        self.read.append(raw)


@asynccontextmanager
async def serving(server: ApiServer) -> AsyncIterator[ApiServer]:
    """Run the server on a free port of this machine."""
    app = web.Application(client_max_size=2**22)
    app.router.add_route("*", "/{tail:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def a_kube(
    server: ApiServer, recorder: CommandRecorder, tokens: list[str] | None = None, request_s: float = 5.0
) -> AsyncIterator[Kube]:
    """Run a Kube client of the server with short timeouts."""
    session = KubeSession(FixedCredentials(server.url, tokens or ["t"]), request_s=request_s)
    policies = Policies(bind=Retry(attempts=3, first_s=0.01), read=Retry(attempts=2, first_s=0.01), create=CREATE_SOON)
    placeholders = Placeholders(
        manifest=lambda spec: {"metadata": {"name": spec.name}, "spec": {}},
        is_ours=lambda raw, spec: raw["metadata"].get("uid", "").startswith("ours"),
    )
    attempts = Attempts(
        retried=lambda kind, code: recorder.retried.append((kind, code)),
        ended=lambda kind, code: None,
        throttled=recorder.throttled.append,
        failed=recorder.failed.append,
    )
    try:
        yield Kube(session, placeholders, recorder, attempts, policies)
    finally:
        await session.close()
