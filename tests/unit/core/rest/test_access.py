"""Who may ask what: probes are open, reads unless closed, dumps and changes want a token; every doubt is a no."""

import asyncio
import json
from itertools import count
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, make_mocked_request
from structlog.testing import capture_logs

from muster_core.rest.auth import (
    KEPT_S,
    AccessLevel,
    AccessSettings,
    Authorizer,
    CompatibilityMode,
    Reviewer,
    Ruling,
    TokenFile,
    Unreachable,
    is_loopback,
)
from muster_core.rest.http import RestFailure
from muster_core.rest.routes import ROUTES
from muster_core.rest.server import RestServer, RestSettings, StartFailure, _reviewer
from muster_si.kubeconfig import Access, Credentials
from tests.unit.core.conftest import Bench
from tests.unit.core.rest.conftest import Serve

TOKEN = "a-token-of-our-own-1"
READ, DUMP, PROBE = "/ws/v1/partitions", "/debug/stack", "/livez"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def statuses(http: aiohttp.ClientSession, headers: dict[str, str]) -> list[int]:
    """Of a probe, a read and a dump."""
    found = []
    for path in (PROBE, READ, DUMP):
        async with http.get(path, headers=headers) as answer:
            found.append(answer.status)
    return found


def test_debug_and_write_routes_are_guarded_and_only_probes_are_always_open() -> None:
    guarded = {route.path for route in ROUTES if route.access in (AccessLevel.GUARDED, AccessLevel.COMPATIBLE)}
    assert {route.path for route in ROUTES if route.path.startswith("/debug")} <= guarded
    changing = {route.path for route in ROUTES if route.method not in {"GET", "POST"}}
    assert changing == {"/ws/v1/scheduler/log-level"}
    assert changing <= guarded
    assert {route.path for route in ROUTES if route.access is AccessLevel.OPEN} == {"/livez", "/readyz"}


@pytest.mark.parametrize(
    "closed, trusts, headers, expected",
    [
        (False, False, {}, [200, 200, 401]),
        (False, False, bearer(TOKEN), [200, 200, 200]),
        (False, False, bearer(TOKEN[:-1]), [200, 200, 401]),
        (False, False, {"Authorization": f"Basic {TOKEN}"}, [200, 200, 401]),
        (False, False, {"Authorization": f"bearer  {TOKEN}"}, [200, 200, 200]),
        (True, False, {}, [200, 401, 401]),
        (True, False, bearer(TOKEN), [200, 200, 200]),
        (False, True, {}, [200, 200, 200]),
        (False, True, bearer("wrong"), [200, 200, 401]),
    ],
)
async def test_a_token_grants_access_to_guarded_routes(
    serve: Serve, token_file: Path, *, closed: bool, trusts: bool, headers: dict[str, str], expected: list[int]
) -> None:
    access = AccessSettings(token_file, closed=closed, trusts_loopback=trusts)
    http = await serve(RestSettings(port=0, access=access))
    assert await statuses(http, headers) == expected


async def test_a_token_of_undecodable_bytes_is_rejected(serve: Serve, token_file: Path) -> None:
    http = await serve(RestSettings(port=0, access=AccessSettings(token_file)))
    where = http._base_url  # a client that sends such bytes has to be written by hand
    assert where is not None
    reader, writer = await asyncio.open_connection(where.host, where.port)
    writer.write(
        f"GET {DUMP} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ".encode() + b"\xff" * 20 + b"\r\n\r\n"
    )
    status = await reader.readline()
    writer.close()
    await writer.wait_closed()
    assert status.split()[1] == b"401"


async def test_dumps_are_forbidden_without_configured_authentication(serve: Serve) -> None:
    http = await serve(RestSettings(port=0))
    assert await statuses(http, {}) == [200, 200, 403]
    assert await statuses(http, bearer(TOKEN)) == [200, 200, 401]


STATE, LEVEL = "/debug/fullstatedump", "/ws/v1/scheduler/log-level"


async def compatible(http: aiohttp.ClientSession, headers: dict[str, str] | None = None) -> list[int]:
    """Statuses of dump and log level (501: admitted, but this process does not set it), and of what stays guarded."""
    found = []
    for method, path in (("GET", STATE), ("PUT", LEVEL), ("GET", DUMP), ("GET", "/debug/pprof/")):
        async with http.request(method, path, headers=headers, data=b'{"level": "debug"}') as answer:
            found.append(answer.status)
    return found


def test_only_the_state_dump_and_the_log_level_are_compatible_without_a_token() -> None:
    found = {(route.method, route.path) for route in ROUTES if route.access is AccessLevel.COMPATIBLE}
    assert found == {("GET", STATE), ("PUT", LEVEL)}


async def test_compatible_routes_need_no_token_on_loopback(serve: Serve) -> None:
    http = await serve(RestSettings(port=0))
    assert await compatible(http) == [200, 501, 403, 403]
    passed_on = ({"X-Forwarded-For": "10.0.0.1"}, {"X-Forwarded-Proto": "https"}, {"X-Real-IP": "10.0.0.1"})
    for headers in ({"Origin": "https://elsewhere.example"}, *passed_on, {"Host": "muster"}):
        assert await compatible(http, headers) == [403, 403, 403, 403]


async def test_a_server_on_all_addresses_does_not_trust_loopback_clients(serve: Serve) -> None:
    http = await serve(RestSettings(address="0.0.0.0", port=0))  # noqa: S104 # the default of the chart
    assert await compatible(http) == [403, 403, 403, 403]


@pytest.mark.parametrize("closed", [True, False])
async def test_configured_tokens_are_required_on_loopback_too(serve: Serve, token_file: Path, *, closed: bool) -> None:
    http = await serve(RestSettings(port=0, access=AccessSettings(token_file, closed=closed)))
    assert await compatible(http) == [401, 401, 401, 401]


async def test_closed_reads_apply_to_loopback_too(serve: Serve) -> None:
    http = await serve(RestSettings(port=0, access=AccessSettings(closed=True)))
    assert await compatible(http) == [403, 403, 403, 403]


async def test_the_open_mode_rejects_only_cross_origin_requests(serve: Serve, token_file: Path) -> None:
    access = AccessSettings(token_file, mode=CompatibilityMode.OPEN)
    http = await serve(RestSettings(address="0.0.0.0", port=0, access=access))  # noqa: S104
    assert await compatible(http) == [200, 501, 401, 401]
    assert await compatible(http, {"Host": "muster", "X-Forwarded-For": "10.0.0.1"}) == [200, 501, 401, 401]
    for mark in ({"Origin": "https://a.example"}, {"Referer": "https://a.example/"}, {"Sec-Fetch-Site": "cross-site"}):
        assert await compatible(http, mark) == [401, 401, 401, 401]
    async with http.get(STATE) as answer:
        assert "Access-Control-Allow-Origin" not in answer.headers


async def at_another_address(http: aiohttp.ClientSession, path: str, host: str | None, *, is_go: bool) -> list[int]:
    """Statuses of a request to 127.0.0.2 and of those that follow its redirects, like a client in Python or in Go."""
    assert http._base_url is not None
    found, url = [], http._base_url.with_host("127.0.0.2").with_path(path)
    headers = {"Host": f"{host}:{url.port}"} if host else {}
    connector = aiohttp.TCPConnector(local_addr=("127.0.0.3", 0))
    async with aiohttp.ClientSession(connector=connector) as session:
        while True:
            async with session.get(url, headers=headers, allow_redirects=False) as answer:
                found.append(answer.status)
                if answer.status != 301:
                    return found
                if is_go:  # net/http: refererForURL
                    headers = {**headers, "Referer": str(url.with_host(host or "127.0.0.2"))}
                url = url.with_path(answer.headers["Location"])


@pytest.mark.parametrize("is_go", [False, True])
@pytest.mark.parametrize("host", [None, "127.0.0.2", "muster.example"])
async def test_the_open_mode_dumps_the_state_to_clients_on_other_addresses(
    serve: Serve, host: str | None, *, is_go: bool
) -> None:
    access = AccessSettings(mode=CompatibilityMode.OPEN)
    http = await serve(RestSettings(address="0.0.0.0", port=0, access=access))  # noqa: S104
    assert await at_another_address(http, STATE, host, is_go=is_go) == [200]
    assert await at_another_address(http, "/ws/v1/fullstatedump", host, is_go=is_go) == [301, 200]


async def test_a_program_on_this_machine_may_follow_the_redirect_of_the_state_dump(serve: Serve) -> None:
    http = await serve(RestSettings(port=0))
    assert http._base_url is not None
    async with http.get(STATE, headers={"Referer": str(http._base_url.with_path("/ws/v1/fullstatedump"))}) as answer:
        assert answer.status == 200


def test_closed_reads_and_the_open_mode_exclude_each_other(bench: Bench) -> None:
    with pytest.raises(StartFailure, match="use only one of them"):
        RestServer(bench.core, RestSettings(access=AccessSettings(closed=True, mode=CompatibilityMode.OPEN)))


async def test_a_request_without_a_token_is_asked_for_a_bearer_token(serve: Serve, token_file: Path) -> None:
    http = await serve(RestSettings(port=0, access=AccessSettings(token_file)))
    async with http.get(DUMP) as answer:
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="muster"'
        assert (await answer.json())["message"] == "a bearer token is required"
        assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://elsewhere.example"},
        {"Referer": "http://127.0.0.1/"},
        {"X-Forwarded-For": "10.0.0.1"},
        {"Forwarded": "for=10.0.0.1"},
        {"Via": "1.1 proxy"},
        {"Host": "elsewhere.example"},
    ],
)
async def test_loopback_is_not_trusted_for_proxied_or_cross_site_requests(
    serve: Serve, headers: dict[str, str]
) -> None:
    http = await serve(RestSettings(port=0, access=AccessSettings(trusts_loopback=True)))
    assert await statuses(http, {}) == [200, 200, 200]
    assert await statuses(http, headers) == [200, 200, 403]


@pytest.mark.parametrize(
    "host, expected",
    [("127.0.0.1", True), ("::1", True), ("::ffff:127.0.0.1", True), ("10.0.0.1", False), ("x", False)],
)
def test_only_loopback_addresses_count_as_loopback(host: str, *, expected: bool) -> None:
    assert is_loopback(host) is expected


async def test_a_replaced_token_is_rejected(serve: Serve, token_file: Path) -> None:
    other = bearer("another-token-of-ours")
    http = await serve(RestSettings(port=0, access=AccessSettings(token_file)))
    await asyncio.to_thread(token_file.write_text, "another-token-of-ours")
    assert await statuses(http, bearer(TOKEN)) == [200, 200, 401]
    assert await statuses(http, other) == [200, 200, 200]
    await asyncio.to_thread(token_file.unlink)
    assert await statuses(http, other) == [200, 200, 401]
    assert await statuses(http, bearer("")) == [200, 200, 401]


@pytest.mark.parametrize(
    "content, problem", [(None, "No such file"), (b"short", "at least 16"), (b"\xff" * 20, "is not text")]
)
def test_an_unusable_token_file_fails_the_start(
    bench: Bench, tmp_path: Path, content: bytes | None, problem: str
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    assert problem in TokenFile(path).problem()
    with pytest.raises(StartFailure, match=problem):
        RestServer(bench.core, RestSettings(access=AccessSettings(path)))


def api_server(url: str) -> Credentials:
    return Credentials(lambda: Access(url))


async def test_an_unusable_review_response_is_an_error() -> None:
    effects = [(200, "certainly"), (200, '{"status": 1}'), (200, "[]"), (500, '{"status": {"authenticated": true}}')]
    waiting = iter(effects)

    async def handle(request: web.Request) -> web.StreamResponse:
        status, text = next(waiting)
        return web.Response(status=status, text=text)

    app = web.Application()
    app.router.add_post("/{tail:.*}", handle)
    async with TestServer(app) as server:
        reviewer = Reviewer(api_server(str(server.make_url("")).rstrip("/")))
        for _ in effects:
            with pytest.raises(Unreachable):
                await reviewer.review("t", DUMP, "get")
        await reviewer.close()


async def test_a_review_reads_rejected_credentials_again() -> None:
    sent: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        sent.append(request.headers["Authorization"])
        if sent[-1] == "expired":
            return web.json_response({"kind": "Status"}, status=401)
        return web.json_response({"status": {"authenticated": False}}, status=201)

    app, tokens = web.Application(), iter(["expired", "new"])
    app.router.add_post("/{tail:.*}", handle)
    async with TestServer(app) as server:
        url = str(server.make_url("")).rstrip("/")
        reviewer = Reviewer(Credentials(lambda: Access(url, headers=(("Authorization", next(tokens)),))))
        assert await reviewer.review("t", DUMP, "get") is Ruling.UNKNOWN
        await reviewer.close()
    assert sent == ["expired", "new"]


async def test_many_rejected_reviews_read_credentials_once() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status"}, status=401)

    app, reads = web.Application(), count()
    app.router.add_post("/{tail:.*}", handle)
    async with TestServer(app) as server:
        url = str(server.make_url("")).rstrip("/")
        reviewer = Reviewer(Credentials(lambda: Access(url, context=str(next(reads)))))
        reviews = [reviewer.review(f"t{number}", DUMP, "get") for number in range(20)]
        results = await asyncio.gather(*reviews, return_exceptions=True)
        assert {type(result) for result in results} == {Unreachable}
        await reviewer.close()
    assert next(reads) == 2  # at the start, and after the first rejection


async def test_a_failed_reading_of_credentials_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example"}}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    reviewer = _reviewer(RestSettings(access=AccessSettings(kubernetes=True)))
    assert reviewer is not None
    path.write_text("{")
    with capture_logs() as logs:
        reviewer._credentials.reread()
    assert [line["event"] for line in logs] == ["credentials could not be read again, using the old ones"]


async def test_a_review_is_cached_for_some_seconds_per_token_path_and_verb() -> None:
    requested: list[str] = []
    allowed = [True]

    async def handle(request: web.Request) -> web.StreamResponse:
        kind, spec = (await request.json())["kind"], (await request.json())["spec"]
        if kind == "TokenReview":
            is_known = spec["token"] == "known"
            return web.json_response({"status": {"authenticated": is_known, "user": {"username": "ann"}}}, status=201)
        requested.append(
            f"{spec['user']} {spec['nonResourceAttributes']['verb']} {spec['nonResourceAttributes']['path']}"
        )
        return web.json_response({"status": {"allowed": allowed[0]}}, status=201)

    app, now = web.Application(), [0.0]
    app.router.add_post("/{tail:.*}", handle)
    async with TestServer(app) as server:
        reviewer = Reviewer(api_server(str(server.make_url("")).rstrip("/")), lambda: now[0])
        assert await reviewer.review("known", DUMP, "get") is Ruling.ALLOWED
        allowed[0] = False
        assert await reviewer.review("known", DUMP, "get") is Ruling.ALLOWED
        assert await reviewer.review("known", DUMP, "put") is Ruling.DENIED
        assert await reviewer.review("unknown", DUMP, "get") is Ruling.UNKNOWN
        now[0] = KEPT_S
        assert await reviewer.review("known", DUMP, "get") is Ruling.DENIED
        await reviewer.close()
    assert requested == [f"ann get {DUMP}", f"ann put {DUMP}", f"ann get {DUMP}"]


async def test_guarded_routes_are_unavailable_without_the_api_server() -> None:
    reviewer = Reviewer(api_server("http://127.0.0.1:9"))  # the discard port, on which no server listens
    guard = Authorizer(AccessSettings(kubernetes=True), reviewer)
    request = make_mocked_request("GET", DUMP, headers=bearer("a-token"))
    with pytest.raises(RestFailure, match="503: the API server did not respond"):
        await guard.admit(request, AccessLevel.GUARDED)
    await guard.admit(request, AccessLevel.READ)
    await reviewer.close()
