"""The server as HTTP has it: methods, moved places, packing, headers, answers in slices."""

import asyncio
from collections.abc import Iterator

import aiohttp
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from muster_core.edge.rest.answers import write
from muster_core.edge.rest.routes import MOVED, ROUTES
from muster_core.model.events import NodeAdded
from tests.unit.builders import a_node
from tests.unit.core.edge.conftest import Bench
from tests.unit.core.edge.rest.conftest import Ask
from tests.unit.core.engine.scene import Scene


async def test_an_unknown_path_has_the_body_of_an_error(http: aiohttp.ClientSession) -> None:
    async with http.get("/ws/v1/nothing") as answer:
        assert answer.status == 404
        assert await answer.json() == {"status_code": 404, "message": "Not Found", "description": "Not Found"}


async def test_another_method_is_refused_and_those_that_are_allowed_are_named(http: aiohttp.ClientSession) -> None:
    async with http.post("/ws/v1/partitions") as answer:
        assert answer.status == 405
        assert set(answer.headers["Allow"].split(",")) == {"GET", "HEAD", "OPTIONS"}
        assert (await answer.json())["status_code"] == 405


async def test_a_head_has_the_headers_and_no_body(http: aiohttp.ClientSession) -> None:
    async with http.head("/ws/v1/partitions") as answer:
        assert (answer.status, await answer.read()) == (200, b"")
        assert answer.headers["Content-Length"] == "2"


@pytest.mark.parametrize(
    "path, methods", [("/ws/v1/clusters", "GET, OPTIONS"), ("/ws/v1/validate-conf", "OPTIONS, POST")]
)
async def test_a_page_may_ask_which_methods_it_may_use(http: aiohttp.ClientSession, path: str, methods: str) -> None:
    async with http.options(path) as answer:
        assert answer.status == 200
        assert answer.headers["Access-Control-Allow-Methods"] == methods
        assert answer.headers["Allow"] == methods


@pytest.mark.parametrize("path", MOVED)
async def test_what_moved_says_where_it_is(http: aiohttp.ClientSession, path: str) -> None:
    async with http.get(f"{path}?a=b", allow_redirects=False) as answer:
        assert answer.status == 301
        assert answer.headers["Location"] == f"{MOVED[path]}?a=b"


def test_each_method_of_a_path_is_in_the_table_once_and_every_row_of_the_contract_is_there() -> None:
    places = [(route.method, route.path) for route in ROUTES]
    assert len(places) == len(set(places))
    assert {route.row for route in ROUTES} == {*range(29)}  # 29, what moved, is in MOVED


async def test_a_large_answer_is_packed_where_that_is_accepted(
    http: aiohttp.ClientSession, scene: Scene, ask: Ask
) -> None:
    scene.tell(*(NodeAdded(a_node(f"many-{index}")) for index in range(60)))
    path = "/ws/v1/partition/default/nodes"
    async with http.get(path, headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        packed = await answer.json()
    async with http.get(path, headers={"Accept-Encoding": "identity"}) as answer:
        assert "Content-Encoding" not in answer.headers
        assert await answer.json() == packed


async def test_a_big_answer_lets_others_run_while_it_is_written() -> None:
    """A step of the world between two pieces is only possible where the writer let go."""
    turns: list[int] = []

    def pieces() -> Iterator[bytes]:
        yield b"["
        while not turns:  # until somebody else ran
            yield b"0,"
        yield b"0]"

    async def handle(request: web.Request) -> web.StreamResponse:
        asyncio.get_running_loop().call_soon(turns.append, 1)
        return await write(request, pieces())

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


async def test_metrics_have_the_names_that_dashboards_know(http: aiohttp.ClientSession, bench: Bench) -> None:
    bench.core.metrics.unheard("a test")
    async with http.get("/ws/v1/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        lines = (await answer.text()).splitlines()
    assert 'muster_core_unheard_total{what="a test"} 1.0' in lines
    assert any(line.startswith("yunikorn_scheduler_scheduling_cycle_milliseconds_bucket") for line in lines)
