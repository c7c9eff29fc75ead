"""All parts reach an API server behind a proxy, with a certificate for another name, and act as another user.

The API server is an HTTPS server that reports the headers it received; the proxy is a CONNECT proxy with a password.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from aiohttp import web

from muster.clients import kubernetes, port_forward
from muster.clients.http import Http
from muster.errors import Unreachable
from muster_core.rest.auth import Reviewer, Ruling
from muster_operator.handlers import kopf_operator
from muster_operator.handlers.kopf_operator import HandlerMemo
from muster_operator.kube.session import KubeSession, Request
from muster_si.kubeconfig import Credentials
from tests.unit.operator.kube.cluster import CONFIG_MAPS, DISCOVERY

IMPERSONATED = [
    ("Impersonate-User", "ann"),
    ("Impersonate-Group", "team-a"),
    ("Impersonate-Group", "team-b"),
]
PREFIX = "/k8s/clusters/c-1"
"""Path of the server's URL, as of a gateway in front of several API servers."""
POD = {
    "metadata": {"namespace": "muster", "name": "m-0"},
    "spec": {"containers": [{"args": ["--rest-tls-cert=x"], "ports": [{"name": "rest", "containerPort": 9080}]}]},
}


@dataclass
class Proxy:
    """A CONNECT proxy. `tunnels`: destination and Proxy-Authorization of each."""

    url: str = ""
    tunnels: list[tuple[str, str]] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, target, _ = head[0].split(" ")
        assert method == "CONNECT"
        sent = dict(line.split(": ", 1) for line in head[1:] if line)
        self.tunnels.append((target, sent.get("Proxy-Authorization", "")))
        host, _, port = target.rpartition(":")
        server_reader, server_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        async with asyncio.TaskGroup() as pumps:
            pumps.create_task(_pump(reader, server_writer))
            pumps.create_task(_pump(server_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(2**16):
            writer.write(data)
    except OSError:
        pass
    writer.close()


@dataclass
class ApiServer:
    """Records paths and impersonation headers of requests. `core_port`: of the pod behind the port-forwards."""

    core_port: int
    seen: list[tuple[str, list[tuple[str, str]]]] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    forwards: int = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        headers = [(name.title(), value) for name, value in request.headers.items()]
        path = request.path.removeprefix(PREFIX)
        assert path != request.path, "the path of the server's URL is missing"
        self.seen.append((path, [item for item in headers if item[0].startswith("Impersonate-")]))
        if path.endswith("/portforward"):
            return await self.forward(request)
        if "watch" in request.query:
            watch = web.StreamResponse()
            await watch.prepare(request)
            await self.closed.wait()
            return watch
        if path in DISCOVERY:
            return web.json_response(DISCOVERY[path])
        status = {"authenticated": True, "allowed": True, "user": {"username": "ann"}}
        body = {
            "items": [{"metadata": {"name": "muster-configs", "namespace": "muster", "uid": "u"}}],
            "metadata": {"resourceVersion": "1"},
        }
        return web.json_response({"status": status, "groups": [], **body})

    async def forward(self, request: web.Request) -> web.StreamResponse:
        """Connects to the port, as a kubelet does, with a ping and an empty message before each other one."""
        self.forwards += 1
        socket = web.WebSocketResponse(protocols=["v4.channel.k8s.io"])
        await socket.prepare(request)
        for channel in (b"\0", b"\1"):
            await socket.send_bytes(channel + (9080).to_bytes(2, "little"))
        reader, writer = await asyncio.open_connection("127.0.0.1", self.core_port)

        async def answer() -> None:
            while data := await reader.read(1000):
                await socket.ping(b"?")
                await socket.send_bytes(b"")
                await socket.send_bytes(b"\0" + data)
            await socket.close()

        answering = asyncio.create_task(answer())
        async for message in socket:
            assert message.data[:1] == b"\0"
            writer.write(message.data[1:])
        writer.close()
        await answering
        return socket


async def respond(request: web.Request) -> web.Response:
    """REST of a core. It may close its connection after the response, or without one."""
    if request.path == "/gone" and request.transport is not None:
        request.transport.close()
    found = web.Response(body=b"x" * 70_000)
    if request.path == "/last":
        found.force_close()
    return found


@dataclass
class Home:
    """API server, proxy, and the kubeconfig that names both."""

    api_server: ApiServer
    proxy: Proxy
    address: str
    kubeconfig: Path


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Home]:
    authority = trustme.CA()
    contexts = [ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) for _ in range(2)]
    for context in contexts:
        authority.issue_cert("api.example").configure_cert(context)  # not the address that is connected to
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    core_app = web.Application()
    core_app.router.add_route("*", "/{tail:.*}", respond)
    core = web.AppRunner(core_app, access_log=None, shutdown_timeout=0.1)
    await core.setup()
    await web.TCPSite(core, "127.0.0.1", 0, ssl_context=contexts[1]).start()
    api_server, proxy = ApiServer(core.addresses[0][1]), Proxy()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", api_server.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=contexts[0]).start()
    listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    address = f"127.0.0.1:{runner.addresses[0][1]}"
    proxy.url = f"http://me:secret@127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    cluster = {
        "server": f"HTTPS://{address}{PREFIX}/",  # all parts use the same normalized URL
        "certificate-authority": "ca.pem",
        "tls-server-name": "api.example",
        "proxy-url": proxy.url,
    }
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "t", "as": "ann", "as-groups": ["team-a", "team-b"]}}],
    }
    (folder / "config").write_text(yaml.safe_dump(config))
    try:
        yield Home(api_server, proxy, address, folder / "config")
    finally:
        listening.close()
        api_server.closed.set()
        await runner.cleanup()
        await core.cleanup()
        await asyncio.wait(proxy.tasks)


@pytest.fixture
async def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Home]:
    async with serving(tmp_path) as home:
        monkeypatch.setenv("KUBECONFIG", str(home.kubeconfig))
        yield home
        assert home.proxy.tunnels
        assert {*home.proxy.tunnels} == {(home.address, "Basic bWU6c2VjcmV0")}
        assert {path: headers for path, headers in home.api_server.seen if headers != IMPERSONATED} == {}


async def test_reads_writes_and_watches_of_the_operator(home: Home) -> None:
    session = KubeSession(Credentials())
    await session.get("/api/v1/pods")
    assert (await session.send(Request("POST", "/api/v1/pods", b"{}", needs_leadership=False))).ok
    stream = (await session.send(Request("GET", "/api/v1/pods?watch=true", is_stream=True))).stream
    assert stream is not None
    stream.close()
    await session.close()
    assert len(home.api_server.seen) == 3


async def test_the_config_maps_that_kopf_reads(home: Home) -> None:
    session, changed = KubeSession(Credentials()), asyncio.Queue[str]()
    task = asyncio.create_task(kopf_operator.run(HandlerMemo(session, "muster", changed.put)))
    try:
        async with asyncio.timeout(20):
            assert await changed.get() == "muster-configs"
    finally:
        task.cancel()
        await asyncio.wait({task})
        await session.close()
    assert CONFIG_MAPS in dict(home.api_server.seen)


async def test_reviews_of_tokens_by_the_core(home: Home) -> None:
    reviewer = Reviewer(Credentials())
    assert await reviewer.review("t", "/ws/v1/fullstatedump", "get") is Ruling.ALLOWED
    await reviewer.close()
    assert [path for path, _ in home.api_server.seen] == [
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    ]


async def test_requests_and_port_forwards_of_commands(home: Home) -> None:
    """The core closes the connection of the fourth response after it, and that of the sixth request without one."""

    def used() -> tuple[str, Any, list[int]]:
        with kubernetes.connect(str(home.kubeconfig), "") as cluster:
            core: Http = port_forward.http(cluster, POD, {})
            found = cluster.get("/api/v1/pods")
            sizes = [len(core.send("GET", path).body) for path in ("/", "/", "/", "/last", "/")]
            with pytest.raises(Unreachable, match="the core in pod"):
                core.send("GET", "/gone")
            sizes.append(len(core.send("GET", "/").body))
            core.close()
            return cluster.http.where, found["items"], sizes

    where, items, sizes = await asyncio.to_thread(used)
    assert where.endswith(f"{home.address}{PREFIX} through the proxy {home.proxy.url.partition('@')[2]}")
    assert len(items) == 1
    assert sizes == [70_000] * 6
    assert home.api_server.forwards == 4, "a request on a closed connection is repeated once"
