"""The operator reacts to a stop and a lost lease at any time, also while the API server is unreachable at startup."""

import asyncio
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from muster_operator import serving
from muster_operator.config.settings import parse
from muster_operator.kube.leadership import NoElection
from muster_operator.kube.session import KubeSession, LeadershipGuard
from muster_operator.model.errors import LeadershipLost, PartEnded
from muster_operator.running import CoreClients, Options, assembled
from muster_operator.runtime.metrics import Metrics
from muster_operator.serving import restarted, serve
from muster_si.transport.administration import AdministrationClient
from tests.unit.operator.kube.apiserver import FixedCredentials
from tests.unit.operator.si.scheduler import Peer

#: No server listens there.
NOWHERE = "http://127.0.0.1:9"


class LosingElection(NoElection):
    """A leader that loses the lease immediately."""

    async def run(self) -> None:
        raise LeadershipLost("muster", "somebody else")


class StubbornElection(NoElection):
    """A part that ignores its cancellation until `may_end`."""

    def __init__(self, guard: LeadershipGuard) -> None:
        super().__init__(guard)
        self.may_end, self.is_released = asyncio.Event(), False

    async def run(self) -> None:
        while not self.may_end.is_set():
            with suppress(asyncio.CancelledError):
                await self.may_end.wait()

    async def release(self) -> None:
        self.is_released = True
        await super().release()


class FailingElection(NoElection):
    """A part that fails while the operator stops."""

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            raise ZeroDivisionError


async def served(stop: asyncio.Event, leading: NoElection) -> None:
    """The operator without an API server, until it ends."""
    session = KubeSession(FixedCredentials(NOWHERE, ["t"]))
    clients = CoreClients(Peer(), AdministrationClient("unix:///nowhere.sock"))
    parts = assembled(parse({}), session, Metrics(), clients, Options())
    try:
        async with asyncio.timeout(5):
            await serve(parts, leading, stop)
    finally:
        await session.close()


async def test_the_operator_stops_on_request_while_the_api_server_is_unreachable_at_startup() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(0.3, stop.set)
    await served(stop, NoElection(LeadershipGuard()))


async def test_a_lost_lease_stops_the_operator_while_the_api_server_is_unreachable_at_startup() -> None:
    with pytest.raises(LeadershipLost):
        await served(asyncio.Event(), LosingElection(LeadershipGuard()))


async def test_the_lease_is_released_although_a_part_ignores_its_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "END_S", 0.5)
    stop, leading = asyncio.Event(), StubbornElection(LeadershipGuard())
    stop.set()
    try:
        with capture_logs() as logged:
            await served(stop, leading)
    finally:
        leading.may_end.set()
    assert leading.is_released
    assert "leadership" in [line["parts"] for line in logged if "parts" in line][-1]


async def test_the_error_of_a_part_that_fails_while_the_operator_stops_is_logged() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(0.1, stop.set)
    with capture_logs() as logged:
        await served(stop, FailingElection(LeadershipGuard()))
    assert [line["part"] for line in logged if line["log_level"] == "error"] == ["leadership"]


async def test_a_part_that_scheduling_continues_without_starts_again_after_an_exception() -> None:
    ends: list[Exception] = [ZeroDivisionError(), KeyError(), PartEnded("names", "restart")]

    async def part() -> None:
        raise ends.pop(0)

    with pytest.raises(PartEnded):
        await restarted("a part", part, 0.0)
    assert ends == []
