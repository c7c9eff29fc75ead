"""An HTTP server that stores objects like the API server, with 404, 409 and resource versions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from muster_operator.kube.session import KubeSession
from tests.unit.operator.kube.apiserver import FixedCredentials, reply, status


@dataclass
class Peer:
    """Objects by path. `denied`: methods that are forbidden."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    denied: set[str] = field(default_factory=set)
    rivals: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Objects that another client writes just before our next writes."""
    _version: int = 0

    def put(self, path: str, thing: dict[str, Any]) -> dict[str, Any]:
        """Store an object with the next resource version."""
        self._version += 1
        stored = {**thing, "metadata": {**thing.get("metadata", {}), "resourceVersion": str(self._version)}}
        self.objects[path] = stored
        return stored

    async def handle(self, request: web.Request) -> web.Response:
        """Read, create or replace an object."""
        raw = await request.read()
        if request.method in self.denied:
            return status(403, "Forbidden", f'User "x" cannot {request.method}')
        if request.method == "GET":
            self.reads.append(request.path_qs)
            if (selector := request.query.get("fieldSelector")) is not None:
                found = self.objects.get(f"{request.path}/{selector.removeprefix('metadata.name=')}")
                return reply(200, {"items": [found] if found else []})
            return reply(200, self.objects[request.path]) if request.path in self.objects else status(404, "NotFound")
        if self.rivals:
            self.put(*self.rivals.pop(0))
        body: dict[str, Any] = orjson.loads(raw)
        path = request.path if request.method == "PUT" else f"{request.path}/{body['metadata']['name']}"
        existing = self.objects.get(path)
        if (request.method == "POST") == (existing is not None):
            return status(409, "AlreadyExists") if existing else status(404, "NotFound")
        if existing and body["metadata"]["resourceVersion"] != existing["metadata"]["resourceVersion"]:
            return status(409, "Conflict")
        self.writes.append(f"{request.method} {path}")
        return reply(201, self.put(path, body))


@asynccontextmanager
async def a_session(peer: Peer) -> AsyncIterator[KubeSession]:
    """Open a session with the peer."""
    app = web.Application(client_max_size=2**22)
    app.router.add_route("*", "/{tail:.*}", peer.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    session = KubeSession(FixedCredentials(f"http://{host}:{port}", ["t"]))
    try:
        yield session
    finally:
        await session.close()
        await runner.cleanup()
