"""Seats that addresses take in turn."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from muster_si.fair_seats import FairSeats, TooManyRequests


class Requests:
    """Requests that keep their seats until the test ends them."""

    def __init__(self, seats: FairSeats) -> None:
        self._seats = seats
        self.seated: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self, *names: str) -> None:
        """Start requests. The address of `a1` is `a`."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._keep(name))
        await self._settled()

    async def end(self, *names: str) -> None:
        """End requests that have seats."""
        for name in names:
            self._ends[name].set()
            await self._settled()

    async def cancel(self, name: str) -> None:
        """Cancel a request, as when its client disconnects."""
        self._tasks[name].cancel()
        await self._settled()

    async def _keep(self, name: str) -> None:
        async with self._seats.taken(name[0]):
            self.seated.append(name)
            await self._ends[name].wait()

    async def _settled(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


async def test_addresses_with_waiting_requests_have_their_turns() -> None:
    """However many wait for one of them."""
    requests = Requests(seats := FairSeats(1, 1, 100))
    await requests.start("a1", "a2", "a3", "a4", "b1", "b2", "c1")
    assert seats.are_wanted
    await requests.end("a1", "a2", "b1", "c1", "a3", "b2", "a4")
    assert requests.seated == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]
    assert not seats.are_wanted


async def test_an_address_leaves_seats_to_others() -> None:
    requests = Requests(FairSeats(3, 2, 100))
    await requests.start("a1", "a2", "a3", "b1")
    assert requests.seated == ["a1", "a2", "b1"]
    await requests.end("b1")
    assert requests.seated == ["a1", "a2", "b1"]
    await requests.end("a1")
    assert requests.seated == ["a1", "a2", "b1", "a3"]


async def test_too_many_waiting_requests_of_an_address_are_refused() -> None:
    requests = Requests(seats := FairSeats(1, 1, 2))
    await requests.start("a1", "a2", "a3")
    with pytest.raises(TooManyRequests):
        async with seats.taken("a"):
            pass
    await requests.start("b1")
    await requests.end("a1", "a2", "b1", "a3")
    assert requests.seated == ["a1", "a2", "b1", "a3"]


async def test_a_request_that_is_cancelled_leaves_its_seat_and_its_turn() -> None:
    requests = Requests(seats := FairSeats(1, 1, 100))
    await requests.start("a1", "a2", "b1", "b2")
    await requests.cancel("a2")
    await requests.cancel("a1")
    assert requests.seated == ["a1", "b1"]
    requests._ends["b1"].set()
    await asyncio.sleep(0)  # b2 has the seat and has not run yet
    await requests.cancel("b2")
    assert not seats.are_wanted
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(seats.taken("c"))
