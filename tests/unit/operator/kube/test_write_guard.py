"""The leadership guard stops unsent writes and cancels those in flight; reads and exempt requests pass."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from muster_operator.kube.session import KubeSession, LeadershipGuard, Request, running_s
from muster_operator.model.errors import NotLeading, Unreachable
from tests.unit.operator.kube.apiserver import ApiServer, FixedCredentials, serving

WRITE = Request("POST", "/api/v1/namespaces/ns/pods/p/binding", b'{"target":{"name":"n"}}')


@asynccontextmanager
async def behind(guard: LeadershipGuard, server: ApiServer, request_s: float = 5.0) -> AsyncIterator[KubeSession]:
    async with serving(server):
        session = KubeSession(FixedCredentials(server.url, ["t"]), guard, request_s=request_s)
        try:
            yield session
        finally:
            await session.close()


async def test_a_closed_leadership_guard_rejects_and_counts_writes() -> None:
    refused: list[None] = []
    server = ApiServer()
    async with behind(LeadershipGuard(refused=lambda: refused.append(None)), server) as session:
        with pytest.raises(NotLeading):
            await session.send(WRITE)
    assert server.seen == []
    assert len(refused) == 1


async def test_reads_and_exempt_writes_pass_a_closed_leadership_guard() -> None:
    server = ApiServer(pods={"p": {}})
    async with behind(LeadershipGuard(), server) as session:
        assert (await session.send(Request("GET", "/api/v1/namespaces/ns/pods/p"))).ok
        assert (await session.send(Request("PUT", "/lease", b"{}", needs_leadership=False))).ok


async def test_a_write_in_flight_is_cancelled_when_the_guard_closes() -> None:
    guard, server = LeadershipGuard(), ApiServer()
    server.plan(f"POST {WRITE.path}", 30.0)
    async with behind(guard, server, request_s=60.0) as session:
        guard.open_until(running_s() + 60)
        writing = asyncio.create_task(session.send(WRITE))
        async with asyncio.timeout(20):
            while not server.seen:  # noqa: ASYNC110 - the peer tells nobody when it has read a request
                await asyncio.sleep(0.01)
            guard.close()
            await guard.emptied()
        with pytest.raises(NotLeading):
            await writing


async def test_a_write_in_flight_continues_while_the_lease_is_renewed() -> None:
    guard, server = LeadershipGuard(), ApiServer(delay_s=2.5)
    async with behind(guard, server, request_s=10.0) as session:
        guard.open_until(running_s() + 2.0)
        writing = asyncio.create_task(session.send(WRITE))
        while not server.seen:  # noqa: ASYNC110 - the server has no signal
            await asyncio.sleep(0.001)
        guard.open_until(running_s() + 60)
        assert (await writing).ok


async def test_a_request_timeout_is_not_reported_as_lost_leadership() -> None:
    guard, server = LeadershipGuard(), ApiServer(delay_s=30.0)
    guard.open_until(float("inf"))
    async with behind(guard, server, request_s=0.1) as session:
        with pytest.raises(Unreachable, match=r"no answer in 0\.1 s") as raised:
            await session.send(WRITE)
    assert not isinstance(raised.value, NotLeading)


def test_the_guard_closes_when_its_time_expires() -> None:
    now = [0.0]
    guard = LeadershipGuard(lambda: now[0])
    guard._until = 7.0
    assert guard.left_s == 7
    now[0] = 7.0
    assert guard.left_s == 0
