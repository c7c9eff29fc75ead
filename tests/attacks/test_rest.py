"""Attacks on the REST port: pauses of the scheduler, memory, other readers, and data that needs a token.

No cluster: the core runs in a process of its own with thousands of waiting applications and a full event ring, so that
the process and its memory are those of the core. A gang starts during each attack.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import cycle
from typing import cast

import pytest
import pytest_asyncio

from devcluster.waiting import until
from muster_core.config.document import MOST_CHARACTERS
from muster_core.rest.auth import AccessLevel
from muster_core.rest.http import MOST_BEGUN
from muster_core.rest.routes import ROUTES
from muster_core.rest.web_ui import files
from muster_si.client_connections import ConnectionLimits
from tests.attacks.attack import limit_bytes, sized
from tests.attacks.core_process import SECRET
from tests.attacks.measured import MIB, Measured, many_open_files, running

_PART = re.compile(r"{(\w+)}")
TOKEN = "correct-horse-battery"
P = "/ws/v1/partition/default"
DATA = (
    f"{P}/waiting",
    f"{P}/applications/active/summary",
    f"{P}/nodes/summary",
    f"{P}/application/{SECRET}-0/events",
)
STATIC = [f"/ui/{'' if name == 'index.html' else name}" for name in files()]
#: Beginnings of files outside the folder of the UI, and of what a path could lead to.
FOREIGN = (b"root:", b"from __future__", b"[project]", b"# Libraries")
HOSTILE = (
    "../auth.py",
    "../../../../../../../../../etc/passwd",
    "..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/auth.py",
    "%252e%252e%252fauth.py",
    "..%5c..%5cauth.py",
    "..%c0%af..%c0%afauth.py",
    "//etc/passwd",
    "%2fetc%2fpasswd",
    "vendor/%2e%2e/%2e%2e/auth.py",
    "vendor/README.md",
    "vendor/",
    "main.js%00.html",
    "main.js/../../auth.py",
    "main.js?file=../auth.py",
    ";/../auth.py",
    "a" * 7_500,
    "a" * 60_000,
    "../" * 2_000,
    "%2e%2e%2f" * 800,
)
HEADERS = (
    "",
    f"Range: bytes={','.join(f'{number}-' for number in range(1_400))}\r\n",
    "Range: bytes=0-99999999999999999999999999999\r\n",
    "If-None-Match: " + ",".join(f'"{number:032x}"' for number in range(220)) + "\r\n",
    "If-None-Match: " + '"' * 8_000 + "\r\n",
    f"If-None-Match: {'W/' * 4_000}\r\n",
    "If-None-Match: *\r\n",
    f"If-None-Match: {'a' * 60_000}\r\n",
    f"Accept-Encoding: {'gzip,' * 1_600}\r\n",
    "".join(f"X-{number}: {'a' * 4_000}\r\n" for number in range(100)),
    "".join(f"X-{number}: a\r\n" for number in range(5_000)),
)
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND")
#: Values of a query parameter, or of a part of a path.
VALUES = (
    "",
    "-1",
    "9" * 18,
    "9" * 4_000,
    "1e9",
    "%00",
    "%ff%fe",
    "%F0%9F%92%A9" * 300,
    "%25" * 2_000,
    "(a%2B)%2B" * 400,
    "..%2f" * 800,
    "a" * 7_000,
    "%3Cscript%3E",
)
PARAMETERS = ("namespace", "count", "offset", "limit", "status", "start", "subtree", "rmId", "invariants", "seconds")


class Opened:
    """Connections of an attack, which stay open at the client."""

    def __init__(self, victim: Victim) -> None:
        self._victim = victim
        self.all: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def __call__(self, source: int, sent: bytes, *, reads: bool = True) -> None:
        """Open one of an address and send this. Read an answer to a whole request."""
        with suppress(ConnectionError):
            reader, writer = await self._victim.connect(f"127.0.0.{2 + source}")
            self.all.append((reader, writer))
            writer.write(sent)
            if not reads:
                cast(asyncio.Transport, writer.transport).pause_reading()
            elif sent.endswith(b"\r\n\r\n"):
                await reader.readline()


class Victim(Measured):
    """The process with the core. ``idle_sockets``: its sockets without connections."""

    idle_sockets: int = 0

    async def is_left(self) -> None:
        """Wait until the connections of an attack are closed."""

        async def are_closed() -> bool:
            return self.open_sockets() <= self.idle_sockets

        await until("the connections of the attack are closed", are_closed, 90)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Opened]:
        """Connections until the end of the block."""
        found = Opened(self)
        yield found
        for _, writer in found.all:
            writer.transport.abort()

    async def send(
        self, method: str, path: str, header: str = "", body: bytes = b"", source: str = "127.0.0.1"
    ) -> tuple[int, bytes]:
        """Send a request as it is, because clients change paths. Returns status and body; 0 = it was not answered."""
        with suppress(ConnectionError):
            reader, writer = await self.connect(source)
            try:
                request = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}\r\n"
                writer.write(request.encode() + body)
                await writer.drain()
                head, _, answer = (await reader.read()).partition(b"\r\n\r\n")
                return (int(head.split(b" ", 2)[1]), answer) if head else (0, b"")
            finally:
                writer.close()
        return 0, b""

    async def connect(self, source: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection from an address."""
        return await asyncio.open_connection("127.0.0.1", self.port, local_addr=(source, 0))

    async def serves(self, *paths: str, header: str = "") -> None:
        """Check that another address gets these paths, and probes."""
        for path in ("/livez", "/readyz", *paths):
            status, body = await self.send("GET", path, header, source="127.0.0.9")
            assert status == 200, f"{path}: {status} {body[:200]!r}"

    async def stalled(self, path: str, header: str = "") -> Callable[[], Awaitable[None]]:
        """Send requests whose answers are never read, more than the kernel keeps. Returns what closes it."""
        own = socket.socket()
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        own.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(own, ("127.0.0.1", self.port))
        await loop.sock_sendall(own, f"GET {path} HTTP/1.1\r\nHost: x\r\n{header}\r\n".encode() * 8)

        async def close() -> None:
            own.close()

        return close

    async def withstands(self, what: str, attack: Callable[[], Awaitable[None]]) -> None:
        """Like `Measured`. Repeats ``attack`` until a gang has started meanwhile, and checks the limit of the chart."""

        async def until_a_gang_runs() -> None:
            gang = asyncio.create_task(self.ask("gang"))
            await attack()
            while not gang.done():
                await attack()

        await super().withstands(what, until_a_gang_runs)
        assert self.memory("VmHWM") < limit_bytes("core")


@asynccontextmanager
async def core(*arguments: str) -> AsyncIterator[Victim]:
    """The process after each file and each view was read once."""
    async with running(Victim, "tests.attacks.core_process", str(sized(2_000, 10_000)), *arguments) as found:
        for path in (*DATA, *STATIC):
            await found.send("GET", path)
        await found.ask("gang")
        found.idle_bytes, found.idle_sockets = found.memory("VmRSS"), found.open_sockets()
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def open_core() -> AsyncIterator[Victim]:
    """A core with open reads."""
    with many_open_files():
        async with core() as found:
            yield found


@pytest_asyncio.fixture(loop_scope="session")
async def victim(open_core: Victim) -> AsyncIterator[Victim]:
    """The core with open reads, without connections of an earlier attack."""
    yield open_core
    await open_core.is_left()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def closed_core(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Victim]:
    """A core whose reads need the token."""
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text(TOKEN)
    with many_open_files():
        async with core(str(token)) as found:
            yield found


async def test_hundreds_of_concurrent_reads_delay_no_gang(victim: Victim) -> None:
    """Each on a connection of its own, of views about all applications, nodes and events, compressed or not."""
    requests = cycle((path, f"Accept-Encoding: {coding}\r\n") for coding in ("identity", "gzip") for path in DATA)
    count = sized(100, 400)

    async def read() -> None:
        answers = await asyncio.gather(*(victim.send("GET", *next(requests)) for _ in range(count)))
        assert Counter(status for status, _ in answers) == {200: count}

    await victim.withstands(f"{count} reads at once", read)


async def test_no_request_for_a_file_gets_another_one(victim: Victim) -> None:
    """Every hostile path, header and method. No file outside the folder is served, and no request fails with 5xx."""
    requests = [
        *((method, f"/ui/{path}", "") for method in METHODS[:5] for path in HOSTILE),
        *(("GET", path, header) for path in (*DATA, "/ui/main.js") for header in HEADERS),
        *(
            (method, path, header)
            for method in METHODS
            for path in ("/ui/vendor/uplot.js", *DATA)
            for header in HEADERS[:2]
        ),
    ]
    bodies = {body for file in files().values() for body in file.bodies.values()}

    async def all_of(part: Iterable[tuple[str, str, str]]) -> None:
        for method, path, header in part:
            status, body = await victim.send(method, path, header)
            told = f"{method} {path[:80]} {header[:80]}: {status} {body[:80]!r}"
            assert status in {0, 200, 304} or 400 <= status < 500, told
            if path.startswith("/ui/"):
                assert status != 200 or body in bodies or method in {"HEAD", "OPTIONS"}, told
                assert not any(text in body for text in FOREIGN) or body in bodies, told

    async def hostile() -> None:
        workers = sized(40, 300)
        await asyncio.gather(*(all_of(requests[start::workers]) for start in range(min(workers, len(requests)))))

    await victim.withstands("hostile requests", hostile)


async def test_slow_readers_block_no_other_reader(victim: Victim) -> None:
    """Readers that accept nothing, from the address of the others. Views, metrics and readiness are still served.

    When they are, all readers are gone but those that have a place: their sockets, too.
    """
    count = sized(MOST_BEGUN + 36, 1000)

    async def slow() -> None:
        async with AsyncExitStack() as stack:
            for _ in range(count):
                stack.push_async_callback(await victim.stalled(f"{P}/applications/active"))
            for path in ("/readyz", "/ws/v1/metrics", *DATA):
                assert (await victim.send("GET", path))[0] == 200
            assert victim.open_sockets() - victim.idle_sockets < MOST_BEGUN + 10
        await victim.is_left()

    await victim.withstands(f"{count} slow readers", slow)


async def test_bodies_are_bounded(victim: Victim) -> None:
    """Configurations of the largest accepted size, nested ones, and bodies that never arrive.

    The attacker's connections may be closed without an answer (0), because the bytes of all bodies that are being read
    are bounded. The validation of another address is answered meanwhile.
    """
    count = sized(60, 400)
    largest = b"#" * (MOST_CHARACTERS - 1) + b"\xff"
    nested = (b"[" * 100_000, b"a: " * 100_000, b"a: &a [" + b"*a," * 100_000, b"{" * 4 * MIB)

    async def post(body: bytes, length: int = 0, source: str = "127.0.0.1") -> int:
        header = f"Content-Length: {length or len(body)}\r\n"
        return (await victim.send("POST", "/ws/v1/validate-conf", header, body, source))[0]

    async def bodies() -> None:
        sent = (*(post(largest) for _ in range(count)), *map(post, nested), post(b"a", 2**40))
        posts = [asyncio.create_task(one) for one in sent]
        await asyncio.wait(posts, return_when=asyncio.FIRST_COMPLETED)
        assert await post(b"partitions: []", source="127.0.0.9") == 200
        assert set(await asyncio.gather(*posts)) <= {0, 200, 408, 413}

    await victim.withstands(f"{count} bodies of {MOST_CHARACTERS // MIB} MiB", bodies)


async def test_validations_of_one_address_delay_no_other_one(victim: Victim) -> None:
    """Valid configurations with many queues. The configuration that another address reads waits for one of them."""
    count = sized(20, 100)
    leaves = "".join(f"          - name: leaf-{number}\n" for number in range(1_500))
    text = f"partitions:\n  - name: default\n    queues:\n      - name: root\n        queues:\n{leaves}".encode()

    async def validate() -> None:
        header = f"Content-Length: {len(text)}\r\n"
        posts = [
            asyncio.create_task(victim.send("POST", "/ws/v1/validate-conf", header, text, "127.0.0.2"))
            for _ in range(count)
        ]
        await asyncio.wait(posts, return_when=asyncio.FIRST_COMPLETED)
        await victim.serves("/ws/v1/config")
        assert sum(post.done() for post in posts) < count / 2
        await victim.serves(DATA[1])
        for status, body in await asyncio.gather(*posts):
            assert (status, b'"allowed":true' in body) == (200, True), body[:200]

    await victim.withstands(f"{count} validations", validate)


@pytest.mark.timeout(sized(300, 1800))
async def test_hostile_values_are_answered(victim: Victim) -> None:
    """Each value for each parameter and part of a path. No request fails with 5xx, or changes what is served."""
    paths = sorted(
        {route.path for route in ROUTES if route.method == "GET" and route.access is not AccessLevel.GUARDED}
    )
    paths = [path for path in paths if not path.endswith(("/stream", "/fullstatedump"))]
    requests = [
        *(f"{path}?{parameter}={value}" for path in map(filled, paths) for parameter in PARAMETERS for value in VALUES),
        *(_PART.sub(value, path) for path in paths for value in VALUES if "{" in path),
        *(f"{path}?{'count=1&' * 900}" for path in map(filled, paths)),
    ]
    part = requests[:: sized(7, 1)]

    async def values() -> None:
        async def all_of(own: Sequence[str]) -> None:
            for path in own:
                status, body = await victim.send("GET", path)
                assert status in {200, 501} or 400 <= status < 500, f"{path[:200]}: {status} {body[:200]!r}"

        await asyncio.gather(*(all_of(part[start::40]) for start in range(40)))

    await victim.withstands(f"{len(part)} hostile values", values)


def filled(path: str, **values: str) -> str:
    """A path of the table with values for its parts."""
    return _PART.sub(lambda part: {"partition": "default", "state": "active", **values}.get(part[1], "x"), path)


async def test_nothing_is_told_without_a_token(closed_core: Victim) -> None:
    """Reads are closed. No path, method, value or header tells the name of an application, compressed or not."""
    paths = [filled(route.path, application=f"{SECRET}-0") for route in ROUTES]
    headers = (
        "",
        "Authorization: Bearer wrong-horse-battery\r\n",
        "X-Forwarded-For: 127.0.0.1\r\n",
        "Host: localhost\r\n",
    )
    for path in (
        *paths,
        "/openapi.json",
        "//ws/v1/partitions",
        f"{P}/nodes/../nodes",
        "/ui/%2e%2e/ws/v1/partitions",
    ):
        for method in METHODS:
            for header in headers:
                status, body = await closed_core.send(method, path, header)
                told = f"{method} {path} {header}: {status} {body[:200]!r}"
                is_probe = path in {"/livez", "/readyz"} or method == "OPTIONS"
                assert is_probe or status == 0 or 400 <= status < 500, told
                assert SECRET.encode() not in body.replace(path.encode(), b""), told
    granted = await closed_core.send("GET", DATA[1], f"Authorization: Bearer {TOKEN}\r\n")
    assert granted[0] == 200
    assert SECRET.encode() in granted[1]


LIVE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("sources", [1, 5])
@pytest.mark.parametrize("first, then", [(b"", b""), (LIVE[:5], LIVE[5:8]), (LIVE, b"")], ids=["idle", "slow", "kept"])
async def test_connections_that_send_little_keep_nobody_out(
    victim: Victim, first: bytes, then: bytes, sources: int
) -> None:
    """10,000 that send nothing, a byte now and then, or one request and then nothing.

    Meanwhile another address gets probes and views, and so does an address of the attack. No more stay open than the
    limit, whatever they have sent.
    """
    count, total = sized(1_500, 10_000), ConnectionLimits(1.0).total

    async def many() -> None:
        async with victim.opened() as opened:
            for number in range(count):
                await opened(number % sources, first)
                if number % 500 == 0:
                    await victim.serves()
            for byte in then:
                for _, writer in opened.all:
                    if not writer.is_closing():
                        writer.write(bytes((byte,)))
                await victim.serves()
            assert victim.open_sockets() - victim.idle_sockets < total + 10  # some are being closed
            await victim.serves(*DATA)
            assert (await victim.send("GET", "/readyz", source="127.0.0.2"))[0] == 200

    await victim.withstands(f"{count} connections of {sources} that sent {len(first + then)} bytes", many)


@pytest.mark.parametrize("sources", [1, 5])
async def test_requests_that_wait_keep_nobody_out(victim: Victim, sources: int) -> None:
    """More than the limit, each with a request whose answer is not read."""
    count = sized(1_200, 3_000)
    waiting = f"GET {P}/applications/active HTTP/1.1\r\nHost: x\r\n\r\n".encode()

    async def wait() -> None:
        async with victim.opened() as opened:
            for number in range(count):
                await opened(number % sources, waiting, reads=False)
            await victim.serves(DATA[1])

    await victim.withstands(f"{count} waiting requests of {sources}", wait)


async def test_headers_that_never_end_take_little_memory(victim: Victim) -> None:
    """As many and as long ones as the server reads."""
    head = b"GET /livez HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"a" * 8_000) for n in range(100))

    async def headers() -> None:
        async with victim.opened() as opened:
            for number in range(sized(150, 1_000)):
                await opened(number % 5, head)
            await victim.serves(DATA[1])

    await victim.withstands("headers that never end", headers)


async def test_hundreds_of_state_dumps_are_one_at_a_time(closed_core: Victim) -> None:
    """A client with the token asks for many state dumps and reads none. Probes, views and a dump are still served."""
    header = f"Authorization: Bearer {TOKEN}\r\n"

    async def dumps() -> None:
        async with AsyncExitStack() as stack:
            for _ in range(sized(100, 300)):
                stack.push_async_callback(await closed_core.stalled("/debug/fullstatedump", header))
            await closed_core.serves("/ws/v1/metrics", DATA[1], "/debug/fullstatedump", header=header)

    await closed_core.withstands("state dumps", dumps)
