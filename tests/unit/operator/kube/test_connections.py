"""One connection pool: shared, kept, and recreated only when certificates change."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import aiohttp
import pytest
import trustme
from aiohttp import web

from muster_operator.kube.http import OPENINGS, HttpConnectionPool, HttpResponse, NoResponse, named
from muster_operator.kube.session import KubeSession, Request
from muster_operator.model.errors import Unreachable
from muster_si import kubeconfig
from muster_si.kubeconfig import Access, Credentials, Tls
from tests.unit.operator.kube.apiserver import FixedCredentials


@dataclass
class Peer:
    """An HTTP peer that records its connections; `authority`: the signer of its certificate, None = plain HTTP."""

    authority: trustme.CA | None = None
    url: str = ""
    ports: list[int] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    context: ssl.SSLContext | None = None

    async def handle(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        self.ports.append(request.transport.get_extra_info("peername")[1])
        self.tokens.append(request.headers.get("Authorization", ""))
        self.agents.add(request.headers["User-Agent"])
        return web.json_response({"items": []}, status=401 if self.tokens[-1] in self.refused else 200)

    def present(self, authority: trustme.CA) -> None:
        """From the next handshake on, show a certificate of this authority."""
        assert self.context is not None
        authority.issue_cert("127.0.0.1").configure_cert(self.context)


@asynccontextmanager
async def serving(peer: Peer) -> AsyncIterator[Peer]:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", peer.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    if peer.authority is not None:
        peer.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        peer.present(peer.authority)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=peer.context).start()
    peer.url = f"http{'s' if peer.context else ''}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield peer
    finally:
        await runner.cleanup()


def filed(url: str, authority: Path) -> Credentials:
    """Credentials with the certificate authority in a file."""
    header = ("Authorization", "Bearer t")
    return Credentials(lambda: Access(url, Tls(str(authority)), (header,), files=(str(authority),)))


@dataclass
class Renewable:
    """A peer, a session that looks at its file of the authority each time, and another authority for both."""

    peer: Peer
    session: KubeSession
    file: Path
    other: trustme.CA = field(default_factory=trustme.CA)

    def renew_peer(self) -> None:
        self.peer.present(self.other)

    def renew_file(self) -> None:
        self.other.cert_pem.write_to_path(self.file)

    def another_session(self) -> KubeSession:
        return KubeSession(filed(self.peer.url, self.file))


@pytest.fixture
async def renewable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Renewable]:
    monkeypatch.setattr(kubeconfig, "CHECK_INTERVAL_S", -1.0)
    file, authority = tmp_path / "ca.crt", trustme.CA()
    authority.cert_pem.write_to_path(file)
    async with serving(Peer(authority)) as peer:
        session = KubeSession(filed(peer.url, file))
        yield Renewable(peer, session, file)
        await session.close()


async def a_stream(session: KubeSession) -> aiohttp.ClientResponse:
    """The response to a watch."""
    stream = (await session.send(Request("GET", "/api/v1/pods?watch=true", is_stream=True))).stream
    assert stream is not None
    return stream


async def test_requests_and_streams_share_one_connection() -> None:
    async with serving(Peer()) as peer:
        session = KubeSession(FixedCredentials(peer.url, ["t"]))
        await session.get("/api/v1/pods")
        async with await a_stream(session) as stream:
            await stream.read()
        await session.get("/api/v1/pods")
        await session.close()
    assert len(peer.ports) == 3
    assert len(set(peer.ports)) == 1
    assert peer.agents == {f"muster-operator/{version('muster-scheduler')}"}


async def test_a_new_token_is_sent_on_the_existing_connection() -> None:
    async with serving(Peer(refused={"Bearer old"})) as peer:
        session = KubeSession(FixedCredentials(peer.url, ["old", "new"]))
        await session.get("/api/v1/pods")
        await session.close()
    assert peer.tokens == ["Bearer old", "Bearer new"]
    assert len(set(peer.ports)) == 1


async def test_a_changed_certificate_authority_file_opens_new_connections(renewable: Renewable) -> None:
    session = renewable.session
    await session.get("/api/v1/pods")
    await session.get("/api/v1/pods")
    renewable.renew_peer()
    renewable.renew_file()
    await session.get("/api/v1/pods")
    first, second, third = renewable.peer.ports
    assert first == second != third


async def test_requests_in_flight_on_old_connections_finish(renewable: Renewable) -> None:
    session, path = renewable.session, renewable.file
    async with await a_stream(session) as response:
        path.write_bytes(path.read_bytes() + b"\n")
        await session.get("/api/v1/pods")
        assert await response.json() == {"items": []}


async def test_each_request_is_measured_by_verb_resource_and_status() -> None:
    measured: list[tuple[str, str, int]] = []
    async with serving(Peer()) as peer:
        credentials = FixedCredentials(peer.url, ["t"])
        session = KubeSession(credentials, measure=lambda verb, what, code, _: measured.append((verb, what, code)))
        await session.send(Request("POST", "/api/v1/namespaces/ns/pods/p/binding"))
        async with await a_stream(session):
            pass
        await session.close()
    assert measured == [("POST", "pods/binding", 200), ("WATCH", "pods", 200)]


@pytest.mark.parametrize(
    "method,path,expected",
    [
        ("GET", "/api/v1/pods?limit=500", ("LIST", "pods")),
        ("GET", "/api/v1/pods?watch=true&resourceVersion=7", ("WATCH", "pods")),
        ("GET", "/api/v1/namespaces", ("LIST", "namespaces")),
        ("GET", "/api/v1/namespaces/dev", ("GET", "namespaces")),
        ("GET", "/api/v1/namespaces/dev/pods/p", ("GET", "pods")),
        ("PATCH", "/api/v1/namespaces/dev/pods/p/status?fieldManager=muster", ("PATCH", "pods/status")),
        ("POST", "/apis/events.k8s.io/v1/namespaces/dev/events", ("POST", "events")),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/muster/leases/muster", ("PUT", "leases")),
        ("GET", "/api", ("GET", "discovery")),
        ("GET", "/apis/apps/v1", ("GET", "discovery")),
    ],
)
def test_the_metric_label_of_a_request_contains_no_object_name(
    method: str, path: str, expected: tuple[str, str]
) -> None:
    assert named(method, path) == expected


async def test_writes_keep_one_connection_and_use_a_new_token() -> None:
    async with serving(Peer(refused={"Bearer old"})) as peer:
        session = KubeSession(FixedCredentials(peer.url, ["old", "new"]))
        for _ in range(2):
            assert (await session.send(a_write())).status == 200
        await session.close()
    assert peer.tokens == ["Bearer old", "Bearer new", "Bearer new"]
    assert len(set(peer.ports)) == 1
    assert peer.agents == {f"muster-operator/{version('muster-scheduler')}"}


async def test_writes_use_new_connections_after_the_certificate_authority_changed(renewable: Renewable) -> None:
    session, late = renewable.session, renewable.another_session()
    await session.send(a_write())
    await session.send(a_write())
    renewable.renew_peer()
    with pytest.raises(Unreachable):
        await late.send(a_write())  # it trusts the old one
    await late.close()
    renewable.renew_file()
    assert (await session.send(a_write())).json() == {"items": []}
    first, second, third = renewable.peer.ports
    assert first == second != third


def a_write() -> Request:
    return Request("POST", "/api/v1/namespaces/ns/pods/p/binding", b"{}")


async def test_a_certificate_authority_that_cannot_be_loaded_is_no_answer_until_it_can(renewable: Renewable) -> None:
    """The file is read while it is written: OpenSSL raises an error that is neither a timeout nor of the connection."""
    session, complete = renewable.session, renewable.file.read_bytes()
    await session.send(Request("POST", "/api/v1/pods"))
    renewable.file.write_bytes(b"-----BEGIN CERTIFICATE-----\n!")
    with pytest.raises(Unreachable, match="SSLError"):
        await session.send(Request("POST", "/api/v1/pods"))
    renewable.file.write_bytes(complete)
    assert (await session.send(Request("POST", "/api/v1/pods"))).ok


# -- How a connection handles a response, and when it is reused.

OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
LATER = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\nContent-Length: 0\r\n\r\n"
LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nz"
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
CUT = b""


@dataclass
class Server:
    """Sends these responses in order for any request; CUT closes the connection instead."""

    answers: list[bytes]
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    pause: Callable[[], float] = lambda: 0.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        with suppress(ConnectionError):
            while head := await reader.read(4096):
                self.requests.append(head)
                answer = self.answers.pop(0)
                for piece in (answer[:20], answer[20:]):
                    writer.write(piece)
                    await asyncio.sleep(self.pause())
                if answer in {CUT, HALF}:
                    break
        writer.close()


@asynccontextmanager
async def pool_to(server: Server, keepalive_s: float = 60.0, prefix: str = "") -> AsyncIterator[HttpConnectionPool]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    pool = HttpConnectionPool(f"http://127.0.0.1:{port}{prefix}", None, keepalive_s, lambda made: None)
    try:
        yield pool
    finally:
        pool.retire()
        listening.close()
        await listening.wait_closed()
        for writer in server.writers:
            writer.close()
        await asyncio.sleep(0.01)  # they close with the loop's next turns


async def ask(
    pool: HttpConnectionPool, method: str = "POST", path: str = "/x", body: bytes = b"{}", *, may_wait: bool = True
) -> HttpResponse:
    async with asyncio.timeout(20):
        return await pool.exchange(method, path, pool.head([("Accept", "application/json")]), body, may_wait=may_wait)


async def test_a_response_has_its_status_body_and_retry_after() -> None:
    async with pool_to(Server([OK, CHUNKED, LATER])) as pool:
        assert await ask(pool) == HttpResponse(201, b"ok")
        assert await ask(pool) == HttpResponse(200, b"abcde")
        assert await ask(pool) == HttpResponse(429, b"", "7")


async def test_sequential_requests_share_one_connection() -> None:
    server = Server([OK, OK, OK])
    async with pool_to(server) as pool:
        for _ in range(3):
            await ask(pool)
    assert server.connections == 1


async def test_concurrent_requests_use_one_connection_each() -> None:
    server = Server([OK, OK, OK])
    async with pool_to(server) as pool:
        await asyncio.gather(*(ask(pool) for _ in range(3)))
    assert server.connections == 3


async def test_a_burst_of_requests_opens_few_connections_at_a_time() -> None:
    """Waiting requests reuse connections that become idle."""
    server = Server([OK] * 200)
    async with pool_to(server) as pool:
        responses = await asyncio.gather(*(ask(pool) for _ in range(200)))
    assert [response.status for response in responses] == [201] * 200
    assert server.connections < 100


async def test_a_refused_connection_fails_every_waiting_request() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    pool = HttpConnectionPool(f"http://127.0.0.1:{port}", None, 60.0, lambda made: None)
    failures = await asyncio.gather(*(ask(pool) for _ in range(3 * OPENINGS)), return_exceptions=True)
    assert {type(failure) for failure in failures} == {ConnectionRefusedError}


@dataclass
class HangingServer:
    """Accepts connections without a TLS handshake. `accepted` has an entry for each; `closed` for each that ended."""

    accepted: asyncio.Queue[None] = field(default_factory=asyncio.Queue)
    closed: asyncio.Queue[None] = field(default_factory=asyncio.Queue)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.accepted.put(None)
        with suppress(ConnectionError):
            await reader.read(-1)
        writer.close()
        await self.closed.put(None)


async def cancelled(*requests: asyncio.Task[HttpResponse]) -> None:
    for request in requests:
        request.cancel()
    await asyncio.gather(*requests, return_exceptions=True)


@pytest.mark.parametrize("is_first_cancelled", [True, False])
async def test_openings_that_hang_delay_neither_urgent_requests_nor_those_after_a_timeout(
    is_first_cancelled: bool,  # noqa: FBT001
) -> None:
    """A timed-out request ends an opening. A request that may not wait opens a connection itself."""
    server = HangingServer()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    address = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    pool = HttpConnectionPool(address, ssl.create_default_context(), 60.0, lambda made: None)
    async with listening, asyncio.timeout(20):
        requests = [asyncio.create_task(ask(pool)) for _ in range(OPENINGS)]
        for _ in requests:
            await server.accepted.get()
        if is_first_cancelled:
            await cancelled(requests[0])
        later = asyncio.create_task(ask(pool, may_wait=is_first_cancelled))
        await server.accepted.get()
        await cancelled(later, *requests)
        for _ in range(OPENINGS + 1):
            await server.closed.get()


async def test_a_request_has_its_host_and_content_length() -> None:
    server = Server([OK])
    async with pool_to(server, prefix="/clusters/c1") as pool:
        await ask(pool, path="/api/v1/pods/p?fieldManager=muster", body=b"12345")
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    start, host, *others = head.decode().split("\r\n")
    assert start == "POST /clusters/c1/api/v1/pods/p?fieldManager=muster HTTP/1.1"
    assert host.startswith("Host: 127.0.0.1:")
    assert others == ["Accept: application/json", "Content-Length: 5"]
    assert body == b"12345"


async def test_line_breaks_in_a_path_are_escaped() -> None:
    server = Server([OK])
    async with pool_to(server) as pool:
        await ask(pool, path="/p\r\nX: y z")
    assert server.requests[0].startswith(b"POST /p%0D%0AX:%20y%20z HTTP/1.1\r\n")


@pytest.mark.parametrize("method", ["DELETE", "PUT"])
async def test_only_idempotent_requests_are_retried_on_a_closed_idle_connection(
    method: str,
) -> None:
    server = Server([OK, CUT, OK, CUT])
    async with pool_to(server) as pool:
        await ask(pool)
        assert await ask(pool, method) == HttpResponse(201, b"ok")
        with pytest.raises(NoResponse):
            await ask(pool, "POST")
    assert server.connections == 2


async def test_an_incomplete_response_is_no_response() -> None:
    async with pool_to(Server([HALF])) as pool:
        with pytest.raises(NoResponse):
            await ask(pool)


async def test_a_reply_that_is_not_http_is_no_response() -> None:
    async with pool_to(Server([b"SSH-2.0-OpenSSH_9.6 and more of this\r\n"])) as pool:
        with pytest.raises(NoResponse):
            await ask(pool)


async def test_a_connection_closed_by_the_server_is_not_reused() -> None:
    server = Server([LAST, OK])
    async with pool_to(server) as pool:
        await ask(pool)
        assert await ask(pool) == HttpResponse(201, b"ok")
    assert server.connections == 2


async def test_the_late_response_to_a_timed_out_request_is_discarded() -> None:
    pauses = iter([1.0, 1.0])
    server = Server([OK, LATER], pause=lambda: next(pauses, 0.0))
    async with pool_to(server) as pool:
        asking = asyncio.create_task(ask(pool))
        while not server.requests:  # noqa: ASYNC110 - the server has no signal
            await asyncio.sleep(0.001)
        asking.cancel()  # as a timeout does
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await ask(pool)).status == 429
    assert server.connections == 2


async def test_a_connection_idle_for_too_long_is_not_reused() -> None:
    server = Server([OK, OK])
    async with pool_to(server, keepalive_s=0.0) as pool:
        await ask(pool)
        await ask(pool)
    assert server.connections == 2


async def test_a_retired_connection_closes_after_its_response() -> None:
    server = Server([OK, OK], pause=lambda: 0.02)
    async with pool_to(server) as pool:
        under_way = asyncio.create_task(ask(pool))
        await asyncio.sleep(0.01)
        pool.retire()
        assert await under_way == HttpResponse(201, b"ok")
        await ask(pool)
    assert server.connections == 2
