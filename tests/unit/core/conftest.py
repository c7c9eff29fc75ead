"""A core with a fake clock, and a resource manager that records responses."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from muster_core.main import install_extensions
from muster_core.runtime.loop import LoopSettings
from muster_core.runtime.service import Scheduler
from muster_si import muster_pb2, si_pb2
from tests.unit.core import messages
from tests.unit.core.messages import RM

install_extensions()


@dataclass(slots=True)
class FakeClock:
    """Nanoseconds since the epoch, which only the test advances."""

    now: int = 1_700_000_000_000_000_000

    def __call__(self) -> int:
        return self.now


@dataclass(slots=True)
class Notebook:
    """A ResourceManagerCallback that records responses. `broken`: the error that it raises for applications."""

    received: list[object] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    broken: Exception | None = None
    requests: asyncio.Event = field(default_factory=asyncio.Event)

    def update_allocation(self, response: si_pb2.AllocationResponse) -> None:
        self._note(response)

    def update_application(self, response: si_pb2.ApplicationResponse) -> None:
        if self.broken is not None:
            raise self.broken
        self._note(response)

    def update_node(self, response: si_pb2.NodeResponse) -> None:
        self._note(response)

    def call_back(self, callback: muster_pb2.Callback) -> None:
        self._note(callback)

    def session_lost(self, reason: str) -> None:
        self.ends.append(reason)
        self.requests.set()

    def _note(self, item: object) -> None:
        self.received.append(item)
        self.requests.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self.requests.clear()
            await self.requests.wait()


@dataclass(slots=True)
class Bench:
    """A running core and one connected resource manager."""

    core: Scheduler
    clock: FakeClock
    rm: Notebook

    async def register(self, **extra: str) -> None:
        request = si_pb2.RegisterResourceManagerRequest(rmID=RM, version="1.0.0", extraConfig=extra)
        await self.core.register_resource_manager(request, self.rm)

    async def wait_until_idle(self) -> None:
        """Wait until the core has handled all messages and run its cycles."""
        await self.wait_until_handled()
        while self.core.loop._unfinished:  # noqa: ASYNC110 - nothing signals this state
            await asyncio.sleep(0)

    async def wait_until_handled(self) -> None:
        """Wait until the core has handled all messages."""
        await self.core.barrier(muster_pb2.BarrierRequest(rmID=RM))

    def metric(self, name: str, **labels: str) -> float:
        value = self.core.metrics.registry.get_sample_value(name, labels)
        return 0.0 if value is None else value


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    clock = FakeClock()
    core = Scheduler(LoopSettings(event_queue_length=4), clock)
    task = asyncio.create_task(core.run())
    yield Bench(core, clock, Notebook())
    core.close()
    await task


@asynccontextmanager
async def open_for_asks(settings: LoopSettings) -> AsyncIterator[Bench]:
    """Run a core with a node that is large enough for all asks, and an application."""
    bench = Bench(Scheduler(settings), FakeClock(), Notebook())
    running = asyncio.create_task(bench.core.run())
    await bench.register()
    room = messages.a_resource(vcore=1_000_000, memory=1 << 40, pods=1000)
    await bench.core.update_node(messages.nodes(messages.a_node(schedulableResource=room)))
    await bench.core.update_application(messages.applications(messages.an_application()))
    await bench.wait_until_idle()
    yield bench
    bench.core.close()
    await running
