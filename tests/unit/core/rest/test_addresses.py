"""The addresses on which REST listens."""

import socket

import aiohttp
import pytest

from muster_core.rest.server import RestServer, RestSettings
from muster_core.runtime.service import Scheduler
from tests.unit.core.rest.conftest import TRUSTING


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
