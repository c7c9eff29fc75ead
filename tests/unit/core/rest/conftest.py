"""A core behind a real HTTP server on loopback, and a state built from events without a resource manager."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from muster_core.model.config import QuotaLimit
from muster_core.model.resources import Limit
from muster_core.rest.auth import AccessSettings
from muster_core.rest.server import RestServer, RestSettings
from tests.unit.builders import a_configuration, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.conftest import Bench
from tests.unit.core.scheduling.scenario import Scenario

#: Requests from this machine may read the state dump.
TRUSTING = AccessSettings(trusts_loopback=True)

Ask = Callable[[str], Awaitable[Any]]
Serve = Callable[[RestSettings], Awaitable[aiohttp.ClientSession]]


@asynccontextmanager
async def served(bench: Bench, settings: RestSettings) -> AsyncIterator[aiohttp.ClientSession]:
    server = RestServer(bench.core, settings)
    port = await server.start()
    scheme = "https" if settings.tls else "http"
    async with aiohttp.ClientSession(f"{scheme}://127.0.0.1:{port}") as session:
        yield session
    await server.stop()


@pytest.fixture
async def serve(bench: Bench) -> AsyncIterator[Serve]:
    async with AsyncExitStack() as stack:

        async def start(settings: RestSettings) -> aiohttp.ClientSession:
            return await stack.enter_async_context(served(bench, settings))

        yield start


@pytest.fixture
async def http(bench: Bench) -> AsyncIterator[aiohttp.ClientSession]:
    async with served(bench, RestSettings(port=0, access=TRUSTING)) as session:
        yield session


@pytest.fixture
def ask(http: aiohttp.ClientSession) -> Ask:
    """Return a function that gets the JSON of a path below /ws/v1/partition/default/, with status 200."""

    async def asked(path: str) -> Any:
        async with http.get(f"/ws/v1/partition/default/{path}") as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    return asked


@pytest.fixture
def scenario(bench: Bench) -> Scenario:
    """A state with objects of every kind, behind the same server."""
    made = a_scenario()
    bench.core.loop.scheduler_state = made.scheduler_state
    return made


def a_scenario() -> Scenario:
    """Return two leaves and two nodes with a running gang, a pending application, and a rejected one."""
    limits = (QuotaLimit(users=("kim",), max=Limit({"vcore": 9000}), max_applications=5), QuotaLimit(groups=("staff",)))
    leaf = replace(a_queue("a", vcore=6000, guaranteed=1000), limits=limits)
    scenario = Scenario(a_configuration(leaf, a_queue("b")), nodes=2)
    scenario.add_node("n2", an_allocation("other", "n2", app="", vcore=500, foreign=True))
    scenario.gang(replace(an_application("gang", gang=2), groups=("staff",)), 2)
    scenario.ask(an_ask("real", app="gang", group="workers"), an_ask("more", app="gang"))
    scenario.submit(an_application("waits", queue="root.b", user="lee@example.org"))
    scenario.ask(an_ask("too-big", app="waits", vcore=9000, priority=7))
    scenario.submit(replace(an_application("lost", queue="root.nowhere"), tags={}))
    return scenario
