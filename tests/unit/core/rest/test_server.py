"""HTTP behavior of the server: methods, redirects, compression, headers, chunked responses."""

import asyncio
import math
import os
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import orjson
import pytest
import trustme
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from muster_core.model.events import NodeAdded
from muster_core.rest.auth import ServerContext, ServerTls
from muster_core.rest.http import RestContext, RestFailure, Seats, Writer, body_of
from muster_core.rest.routes import MOVED, ROUTES
from muster_core.rest.server import RestServer, RestSettings, StartFailure
from muster_core.runtime.service import Scheduler
from muster_si.keys import EXTRA_BARRIER
from tests.unit.builders import a_node
from tests.unit.core.conftest import Bench
from tests.unit.core.messages import RM
from tests.unit.core.rest.conftest import TRUSTING, Ask, Serve
from tests.unit.core.scheduling.scenario import Scenario


async def test_an_unknown_path_returns_an_error_body(http: aiohttp.ClientSession) -> None:
    async with http.get("/ws/v1/nothing") as answer:
        assert answer.status == 404
        assert await answer.json() == {"status_code": 404, "message": "Not Found", "description": "Not Found"}


async def test_an_unsupported_method_is_rejected_with_the_allowed_ones(http: aiohttp.ClientSession) -> None:
    async with http.post("/ws/v1/partitions") as answer:
        assert answer.status == 405
        assert set(answer.headers["Allow"].split(",")) == {"GET", "HEAD", "OPTIONS"}
        assert (await answer.json())["status_code"] == 405


async def test_a_head_response_has_headers_and_no_body(http: aiohttp.ClientSession) -> None:
    async with http.head("/ws/v1/partitions") as answer:
        assert (answer.status, await answer.read()) == (200, b"")
        assert answer.headers["Content-Length"] == "2"


@pytest.mark.parametrize(
    "path, methods", [("/ws/v1/clusters", "GET, OPTIONS"), ("/ws/v1/validate-conf", "OPTIONS, POST")]
)
async def test_an_options_request_returns_the_allowed_methods(
    http: aiohttp.ClientSession, path: str, methods: str
) -> None:
    async with http.options(path) as answer:
        assert answer.status == 200
        assert answer.headers["Access-Control-Allow-Methods"] == methods
        assert answer.headers["Allow"] == methods


@pytest.mark.parametrize("path", MOVED)
async def test_a_moved_path_redirects_to_its_new_location(http: aiohttp.ClientSession, path: str) -> None:
    async with http.get(f"{path}?a=b", allow_redirects=False) as answer:
        assert answer.status == 301
        assert answer.headers["Location"] == f"{MOVED[path]}?a=b"


async def test_a_redirect_keeps_the_query_unchanged(http: aiohttp.ClientSession) -> None:
    url = URL("/ws/v1/stack?a=%0d%0aSet-Cookie:b", encoded=True)
    async with http.get(url, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (301, "/debug/stack?a=%0d%0aSet-Cookie:b")


def test_routes_are_unique_and_cover_every_row_of_the_contract() -> None:
    places = [(route.method, route.path) for route in ROUTES]
    assert len(places) == len(set(places))
    assert {route.row for route in ROUTES} == {*range(29)}  # 29, what moved, is in MOVED


async def test_a_large_response_is_compressed_if_the_client_accepts_it(
    http: aiohttp.ClientSession, scenario: Scenario, ask: Ask
) -> None:
    scenario.send(*(NodeAdded(a_node(f"many-{index}")) for index in range(60)))
    path = "/ws/v1/partition/default/nodes"
    async with http.get(path, headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        packed = await answer.json()
    async with http.get(path, headers={"Accept-Encoding": "identity"}) as answer:
        assert "Content-Encoding" not in answer.headers
        assert await answer.json() == packed


async def test_writing_a_large_response_yields_to_other_tasks() -> None:
    """A step of the world between two pieces is only possible where the writer let go."""
    turns: list[int] = []

    def pieces() -> Iterator[bytes]:
        yield b"["
        while not turns:  # until another task ran
            yield b"0,"
        yield b"0]"

    async def handle(request: web.Request) -> web.StreamResponse:
        asyncio.get_running_loop().call_soon(turns.append, 1)
        return await Writer().write(request, pieces())

    app = web.Application()
    app.router.add_get("/", handle)
    async with (
        TestServer(app) as server,
        aiohttp.ClientSession(server.make_url("/")) as session,
        session.get("", headers={"Accept-Encoding": "gzip"}) as answer,
    ):
        assert answer.headers["Transfer-Encoding"] == "chunked"
        assert set(orjson.loads(await answer.read())) == {0}
    assert turns == [1]


async def test_metrics_have_the_names_that_dashboards_use(http: aiohttp.ClientSession, bench: Bench) -> None:
    bench.core.metrics.dropped("a test")
    async with http.get("/ws/v1/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        lines = (await answer.text()).splitlines()
    assert 'muster_core_undelivered_total{what="a test"} 1.0' in lines
    assert any(line.startswith("yunikorn_scheduler_scheduling_cycle_milliseconds_bucket") for line in lines)


async def test_a_stalled_reader_is_disconnected_and_delays_no_other_request() -> None:
    ended: list[str] = []

    def endless() -> Iterator[bytes]:
        while True:
            yield b"0," * 50_000

    async def handle(request: web.Request) -> web.StreamResponse:
        response = await Writer(Seats(1, stalled_s=0.01)).write(request, endless())
        ended.append(request.path)
        return response

    async def other(request: web.Request) -> web.StreamResponse:
        return web.Response(text="at once")

    app = web.Application()
    app.router.add_get("/endless", handle)
    app.router.add_get("/other", other)
    async with TestServer(app) as server, aiohttp.ClientSession(server.make_url("/")) as session:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
        while not ended:
            async with session.get("other") as answer:
                assert await answer.text() == "at once"
        assert server.handler is not None
        while len(server.handler.connections) > 1:  # the socket is gone, although its data were never accepted
            async with session.get("other") as answer:
                assert answer.status == 200
        writer.close()
    assert ended == ["/endless"]


async def test_stalled_readers_keep_few_seats_and_only_until_others_wait_for_them() -> None:
    begun: Counter[str] = Counter()

    def endless() -> Iterator[bytes]:
        begun["all"] += 1
        begun["now"] += 1
        begun["most"] = max(begun["most"], begun["now"])
        while True:
            yield b"0," * 50_000

    writer = Writer(Seats(2, stalled_s=math.inf, hurried_s=0.01))

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path == "/short":
            return await writer.write(request, iter((b"[]",)))
        try:
            return await writer.write(request, endless())
        finally:
            begun["now"] -= 1

    app = web.Application()
    app.router.add_get("/{name}", handle)
    async with TestServer(app) as server, aiohttp.ClientSession(server.make_url("/")) as session:
        readers = [await asyncio.open_connection("127.0.0.1", server.port, limit=1024) for _ in range(5)]
        for _, stalled in readers:
            stalled.write(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
        while begun["all"] < 2:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0)
        async with session.get("short") as answer:
            assert await answer.text() == "[]"
        for _, stalled in readers:
            stalled.close()
    assert begun["most"] == 2


async def test_many_requests_at_once_build_one_slice_between_two_turns_of_other_work() -> None:
    turns: list[int] = [0]
    built: Counter[int] = Counter()

    def pieces() -> Iterator[bytes]:
        for _ in range(4):
            built[turns[0]] += 1
            yield b" " * 300_000  # a slice

    async def other_work() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    writer = Writer()

    async def handle(request: web.Request) -> web.StreamResponse:
        return await writer.write(request, pieces())

    app = web.Application()
    app.router.add_get("/", handle)
    async with TestServer(app) as server, aiohttp.ClientSession(server.make_url("/")) as session:
        other = asyncio.create_task(other_work())

        async def read() -> None:
            async with session.get("") as answer:
                await answer.read()

        await asyncio.gather(*(read() for _ in range(20)))
        other.cancel()
    assert built.total() == 80
    assert max(built.values()) == 1


async def test_a_response_that_takes_long_ends_when_others_wait_for_its_place() -> None:
    """Its reader accepts each part, as slowly as it likes."""
    writer = Writer(Seats(1, stalled_s=math.inf, hurried_s=math.inf, whole_s=0))

    def endless() -> Iterator[bytes]:
        while True:
            yield b"0," * 50_000

    async def handle(request: web.Request) -> web.StreamResponse:
        return await writer.write(request, iter((b"[]",)) if request.path == "/short" else endless())

    app = web.Application()
    app.router.add_get("/{name}", handle)
    async with TestServer(app) as server, aiohttp.ClientSession(server.make_url("/")) as session:
        async with session.get("endless") as slow:
            assert await slow.content.readexactly(1_000_000)
            short = asyncio.create_task(session.get("short"))
            with pytest.raises(aiohttp.ClientPayloadError):
                async for _ in slow.content.iter_any():
                    pass
        assert await (await short).text() == "[]"


async def test_data_are_collected_in_the_seat_and_other_seats_stay_free() -> None:
    """As those of a state dump, whose stalled reader blocks neither the next dump for long nor views at all."""
    collected: list[str] = []
    writer, dumps = Writer(), Seats(1, stalled_s=math.inf, hurried_s=0.01)

    def endless() -> Iterator[bytes]:
        while True:
            yield b"0," * 50_000

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path == "/view":
            return await writer.write(request, iter((b"[]",)))

        async def collect() -> Iterator[bytes]:
            collected.append(request.path)
            return endless() if request.path == "/stalled" else iter((b"{}",))

        return await writer.write(request, collect, seats=dumps)

    app = web.Application()
    app.router.add_get("/{name}", handle)
    async with TestServer(app) as server, aiohttp.ClientSession(server.make_url("/")) as session:
        readers = [await asyncio.open_connection("127.0.0.1", server.port, limit=1024) for _ in range(2)]
        for _, stalled in readers:
            stalled.write(b"GET /stalled HTTP/1.1\r\nHost: a\r\n\r\n")
        while not collected:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0)
        async with session.get("view") as answer:
            assert await answer.text() == "[]"
        async with session.get("dump") as answer:
            assert await answer.text() == "{}"
        for _, stalled in readers:
            stalled.close()
    assert collected == ["/stalled", "/stalled", "/dump"]


SMALL, LARGE = b"a" * 1_000, b"a" * 100_000


@asynccontextmanager
async def reading_bodies(seats: Seats) -> AsyncIterator[aiohttp.ClientSession]:
    """A server that answers with the length of a body, or the status of a failure."""
    rest_context = RestContext(Scheduler(), bodies=seats)

    async def handle(request: web.Request) -> web.Response:
        try:
            async with body_of(rest_context, request) as body:
                return web.Response(text=str(len(body)))
        except RestFailure as failure:
            return web.Response(status=failure.status, text=failure.message)

    app = web.Application()
    app.router.add_post("/", handle)
    async with TestServer(app) as server, aiohttp.ClientSession(server.make_url("/")) as session:
        yield session


@asynccontextmanager
async def silent(session: aiohttp.ClientSession) -> AsyncIterator[asyncio.Task[aiohttp.ClientResponse]]:
    """A request whose body has begun and does not end before the block."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"partitions:"
        begun.set()
        await ended.wait()

    request = asyncio.create_task(session.post("", data=body()))
    await begun.wait()
    yield request
    ended.set()
    (await request).close()


async def test_the_body_of_a_request_has_to_arrive_in_time() -> None:
    async with reading_bodies(Seats(1, stalled_s=0.01)) as session, silent(session) as request:
        assert (await request).status == 408
        assert "did not arrive in time" in await (await request).text()


async def test_a_body_that_does_not_arrive_blocks_no_other_one() -> None:
    """Small ones wait for nothing, and large ones for a short time."""
    for seats, body in (
        (Seats(1, stalled_s=math.inf, hurried_s=math.inf), SMALL),
        (Seats(1, stalled_s=math.inf, hurried_s=0.01), LARGE),
    ):
        async with reading_bodies(seats) as session, silent(session), session.post("", data=body) as answer:
            assert (answer.status, await answer.text()) == (200, str(len(body)))


async def test_a_core_is_ready_after_it_receives_the_existing_objects(
    http: aiohttp.ClientSession, bench: Bench
) -> None:
    await bench.register(**{EXTRA_BARRIER: "true"})
    async with http.get("/livez"):  # lets the scheduler process it
        pass
    async with http.get("/readyz") as answer:
        assert (answer.status, await answer.text()) == (503, f"receiving the existing objects from {RM}")
    await bench.wait_until_idle()
    async with http.get("/readyz") as answer:
        assert answer.status == 200


async def test_the_last_health_check_is_a_metric(http: aiohttp.ClientSession) -> None:
    async with http.get("/ws/v1/metrics") as answer:
        assert "muster_core_healthy 1.0" in (await answer.text()).splitlines()


# -- The addresses on which REST listens.


def hosts() -> list[str]:
    """Loopback addresses of this machine."""
    with socket.socket(socket.AF_INET6) as found:
        try:
            found.bind(("::1", 0))
        except OSError:
            return ["127.0.0.1"]
    return ["127.0.0.1", "[::1]"]


@pytest.mark.parametrize("host", hosts())
async def test_without_an_address_rest_listens_on_ipv4_and_ipv6(host: str) -> None:
    server = RestServer(Scheduler(), RestSettings(address="", port=0, access=TRUSTING))
    port = await server.start()
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}/openapi.json") as reply:
            assert reply.status == 200
    finally:
        await server.stop()


# -- REST over TLS: with the certificate of its files, the new one when they change, the old one when they are
# broken.

AUTHORITY = trustme.CA()


def write(files: ServerTls, authority: trustme.CA, at: int) -> None:
    """A fresh certificate with that time on its files."""
    certificate = authority.issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(str(files.certificate))
    certificate.private_key_pem.write_to_path(str(files.key))
    for path in (files.certificate, files.key):
        os.utime(path, (at, at))


@pytest.fixture
def files(tmp_path: Path) -> ServerTls:
    made = ServerTls(tmp_path / "cert.pem", tmp_path / "key.pem")
    write(made, AUTHORITY, 1)
    return made


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_rest_is_served_over_tls(serve: Serve, files: ServerTls) -> None:
    http = await serve(RestSettings(port=0, tls=files))
    async with http.get("/livez", ssl=trusting(AUTHORITY)) as answer:
        assert answer.status == 200
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await http.get("/livez", ssl=trusting(trustme.CA()))


async def presented(context: ServerContext, authority: trustme.CA) -> bool:
    """Whether a new connection gets a certificate of that authority."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context.context)
    port = server.sockets[0].getsockname()[1]
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(authority))
        writer.close()
    except ssl.SSLCertVerificationError:
        return False
    finally:
        server.close()
    return True


async def test_a_renewed_certificate_is_loaded_and_a_broken_one_is_ignored(files: ServerTls) -> None:
    context, other = ServerContext(files), trustme.CA()
    assert not context.renew()
    write(files, other, 2)
    assert context.renew()
    assert await presented(context, other)
    await asyncio.to_thread(files.key.write_text, "broken")
    assert not context.renew()
    assert await presented(context, other)
    assert not await presented(context, AUTHORITY)


def test_invalid_certificate_files_fail_the_start(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(StartFailure, match="TLS: "):
        RestServer(bench.core, RestSettings(tls=ServerTls(tmp_path / "no", tmp_path / "no")))
