"""Answers KubeRay as the dashboard of a Ray head. The head pods are simulated, and no Ray runs in them.

KubeRay connects to a head through its Service. The process of KubeRay gets this server as its HTTP proxy, so that all
these requests arrive here; requests to the API server do not, because Go uses no proxy for 127.0.0.1.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
from aiohttp import web

from devcluster import ports


class RayHead:
    """The jobs and Serve applications of all Ray clusters: status of each job by its ID."""

    def __init__(self) -> None:
        [port] = ports.free(1)
        self.url = f"http://127.0.0.1:{port}"
        self.port = port
        self.jobs: dict[str, str] = {}
        self.applications: list[str] = []

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Answer one request of KubeRay."""
        match request.method, request.path.strip("/").split("/"):
            case "GET", ["api", "jobs", job] if job in self.jobs:
                return web.json_response({"submission_id": job, "status": self.jobs[job]})
            case "PUT", ["api", "serve", "applications"]:
                self.applications = [one["name"] for one in orjson.loads(await request.read())["applications"]]
                return web.json_response({})
            case "GET", ["api", "serve", "applications"]:
                running = {name: {"name": name, "status": "RUNNING", "deployments": {}} for name in self.applications}
                return web.json_response({"applications": running})
            case "GET", ["-", "healthz"]:
                return web.Response(text="success")
            case _:
                return web.Response(status=404)


@asynccontextmanager
async def ray_head() -> AsyncIterator[RayHead]:
    """Runs the server."""
    head = RayHead()
    server = web.Server(head.answer)
    runner = web.ServerRunner(server)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", head.port).start()
    try:
        yield head
    finally:
        await runner.cleanup()
