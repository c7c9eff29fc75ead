"""The interface is what its own description says: asked at random, within it and beyond it."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CheckFunction, not_a_server_error
from schemathesis.openapi import from_dict
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from muster_core.rest.routes import MOVED, ROUTES
from muster_core.rest.server import RestServer, RestSettings, document
from muster_core.runtime.log_level import LogLevel, Threshold
from muster_core.runtime.service import Scheduler
from tests.amounts import amount
from tests.unit.core.rest.conftest import TRUSTING, a_scenario
from tools import openapi

CHECKS: list[CheckFunction] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
#: The first one never ends, the others run for the given time.
_LASTING = r"^/ws/v1/events/stream$|^/debug/pprof/"

RequestCase = schemathesis.Case[Any]

schema = from_dict(document()).exclude(path_regex=_LASTING)


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    """A server in a separate thread, so that a client can wait for the response."""
    ports: list[int] = []
    started, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        core = Scheduler()
        core.loop.scheduler_state = a_scenario().scheduler_state
        server = RestServer(core, RestSettings(port=0, access=TRUSTING, levels=Threshold(LogLevel.INFO)))
        ports.append(await server.start())
        started.set()
        running = asyncio.create_task(core.run())
        await stop.wait()
        core.close()
        await running
        await server.stop()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    started.wait()
    yield f"http://127.0.0.1:{ports[0]}"
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


@schema.parametrize()
@settings(max_examples=amount(2, 4), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_response_matches_the_openapi_description(case: RequestCase, base_url: str) -> None:
    case.call_and_validate(base_url=base_url, checks=CHECKS, allow_redirects=False)


def test_the_openapi_description_lists_every_route() -> None:
    described = {(method.upper(), path) for path, item in document()["paths"].items() for method in item}
    assert described == {(route.method, route.path) for route in ROUTES} | {("GET", path) for path in MOVED}


def test_the_documented_openapi_description_is_up_to_date() -> None:
    assert not openapi.is_stale()
