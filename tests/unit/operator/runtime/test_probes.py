"""Health probes and metrics next to the loop, and the detection of a running YuniKorn."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import aiohttp
import pytest

from muster_operator.kube.session import KubeSession
from muster_operator.model.errors import StartupRefused
from muster_operator.runtime.health import LIMITS, health_server
from muster_operator.runtime.metrics import Metrics
from tests.unit.operator.kube.apiserver import ApiServer, FixedCredentials, serving


@asynccontextmanager
async def a_session(server: ApiServer) -> AsyncIterator[KubeSession]:
    async with serving(server):
        session = KubeSession(FixedCredentials(server.url, ["t"]))
        try:
            yield session
        finally:
            await session.close()


async def fetched(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        return answer.status, await answer.text()


async def test_readiness_depends_on_missing_prerequisites_and_liveness_does_not() -> None:
    missing = ["no session with the core"]
    async with health_server(0, lambda: missing[0], Metrics()) as port:
        base = f"http://127.0.0.1:{port}"
        assert await fetched(f"{base}/readyz") == (503, "no session with the core\n")
        assert (await fetched(f"{base}/livez"))[0] == 200
        missing[0] = ""
        assert await fetched(f"{base}/readyz") == (200, "ok\n")


async def test_a_standby_is_ready_and_names_the_leader() -> None:
    async with health_server(0, lambda: "", Metrics(), lambda: "standing by, muster-1 leads") as port:
        assert await fetched(f"http://127.0.0.1:{port}/readyz") == (200, "ok, standing by, muster-1 leads\n")


async def test_metrics_show_counts_and_queue_depths() -> None:
    metrics = Metrics()
    metrics.ended("BindPod", 200)
    metrics.watch("", lambda: {"inbox": 3})
    async with health_server(0, lambda: "", metrics) as port:
        _, text = await fetched(f"http://127.0.0.1:{port}/metrics")
    assert 'muster_operator_commands_total{kind="BindPod",status="200"} 1.0' in text
    assert 'muster_operator_queue_depth{queue="inbox"} 3.0' in text
    assert "muster_operator_ready 1.0" in text


async def test_connections_of_one_address_keep_no_probe_out() -> None:
    """The oldest of them are closed."""
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(health_server(0, lambda: "", Metrics()))
        loop, opened = (
            asyncio.get_running_loop(),
            [stack.enter_context(socket.socket()) for _ in range(LIMITS.total + 10)],
        )
        for each in opened:
            each.setblocking(False)
            each.bind(("127.0.0.2", 0))
            await loop.sock_connect(each, ("127.0.0.1", port))
        assert (await fetched(f"http://127.0.0.1:{port}/livez"))[0] == 200
        for each in opened[:10]:
            with suppress(ConnectionError):
                assert await loop.sock_recv(each, 1) == b""


async def test_a_health_port_in_use_is_reported_as_a_startup_error() -> None:
    async with health_server(0, lambda: "", Metrics()) as port:
        with pytest.raises(StartupRefused, match=f"--health-port {port} cannot be used"):
            async with health_server(port, lambda: "", Metrics()):
                raise AssertionError
