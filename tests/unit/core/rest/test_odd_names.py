"""A name in a path may be anything: every view answers that it has no such thing, and none fails."""

import re

import aiohttp
import pytest
from yarl import URL

from muster_core.rest.routes import ROUTES
from tests.unit.core.conftest import Bench
from tests.unit.core.rest.conftest import a_scenario

ODD = (
    "%00",
    "%2F",
    "..%2f..",
    "%FF%FE",
    "%F0%9F%A6%86",
    "%25",
    "root..a",
    "a" * 3000,
    "%7B%7D",
    "-1",
    "%0d%0aX:y",
    "null",
)
#: Permitted responses for a name that does not exist.
STATUSES = (200, 301, 400, 404, 414, 431)


@pytest.mark.parametrize("odd", ODD)
async def test_odd_names_in_a_path_return_an_expected_status(
    http: aiohttp.ClientSession, bench: Bench, odd: str
) -> None:
    bench.core.loop.scheduler_state = a_scenario().scheduler_state
    for route in ROUTES:
        parts = re.findall(r"\{\w+\}", route.path)
        if route.method != "GET" or route.path.startswith("/debug"):
            continue
        for part in parts:
            path = route.path.replace(part, odd)
            for other in parts:
                path = path.replace(other, "default" if other == "{partition}" else "root.a")
            async with http.get(URL(path, encoded=True), allow_redirects=False) as answer:
                assert answer.status in STATUSES, path
                await answer.read()
    async with http.get("/ws/v1/partition/default/queue/root.a") as answer:
        assert answer.status == 200
