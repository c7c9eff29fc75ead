"""Measures asks and allocations per second of the gRPC transport: a unix socket, one stream, two processes.

    .venv/bin/python -m benchmarks.si_throughput --asks 100000

Asks are sent one per message, as by an operator that receives pods one by one, and 100 per message. The transport
merges queued messages. The scheduler's process only counts, so the result is the cost of the transport with encoding
and decoding. The goal is 60,000 per second in each direction.
"""

import asyncio
import multiprocessing
import statistics
import tempfile
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from muster_si import muster_pb2, si_pb2
from muster_si.api import ResourceManagerCallback
from muster_si.transport.grpc_client import GrpcClient
from muster_si.transport.grpc_server import GrpcServer
from muster_si.transport.settings import TransportSettings

RM = "benchmark"
TARGET = 60_000
TAGS = {f"kubernetes.io/label/app.kubernetes.io/label-{number}": f"value-{number}" for number in range(8)}
#: Allocations sent at a time, so that sending does not block the loop.
BURST = 1000


def an_ask(number: int) -> si_pb2.AllocationAsk:
    """Return an ask like the operator's: a UID of 36 characters, three resources, some labels."""
    amounts = {"vcore": 500, "memory": 1 << 30, "pods": 1}
    return si_pb2.AllocationAsk(
        allocationKey=f"{number:036d}",
        applicationID="spark-000000000001",
        partitionName="default",
        resourceAsk=si_pb2.Resource(resources={name: si_pb2.Quantity(value=amounts[name]) for name in amounts}),
        maxAllocations=1,
        tags=TAGS,
        taskGroupName="executors",
    )


def an_allocation(number: int) -> si_pb2.Allocation:
    """Return an allocation like the core's."""
    return si_pb2.Allocation(
        allocationKey=f"{number:036d}",
        allocationID=f"{number:036d}-0",
        applicationID="spark-000000000001",
        partitionName="default",
        nodeID=f"node-{number % 1000}",
        taskGroupName="executors",
    )


class CountingScheduler:  # long: one method per call of the interface
    """A SchedulerAPI that counts asks, and sends allocations on request."""

    def __init__(self) -> None:
        self._callback: ResourceManagerCallback | None = None
        self._messages = 0
        self._counted = asyncio.Condition()

    async def register_resource_manager(
        self, request: si_pb2.RegisterResourceManagerRequest, callback: ResourceManagerCallback
    ) -> si_pb2.RegisterResourceManagerResponse:
        """Reset the count."""
        self._callback, self._messages = callback, 0
        return si_pb2.RegisterResourceManagerResponse()

    async def update_allocation(self, request: si_pb2.AllocationRequest) -> None:
        """Count the items."""
        async with self._counted:
            self._messages += 1
            self._counted.notify_all()

    async def barrier(self, request: muster_pb2.BarrierRequest) -> None:
        """Wait for the count."""
        async with self._counted:
            await self._counted.wait_for(lambda: self._messages >= request.allocationRequests)

    async def update_configuration(self, request: si_pb2.UpdateConfigurationRequest) -> None:
        """Send as many allocations as the configuration has characters, one per response."""
        callback = self._callback
        assert callback is not None
        for number in range(int(request.config)):
            callback.update_allocation(si_pb2.AllocationResponse(new=[an_allocation(number)]))
            if number % BURST == 0:
                await asyncio.sleep(0)

    async def update_application(self, request: si_pb2.ApplicationRequest) -> None:
        """Not measured."""

    async def update_node(self, request: si_pb2.NodeRequest) -> None:
        """Not measured."""

    async def update_utilization(self, request: muster_pb2.UtilizationRequest) -> muster_pb2.UtilizationResponse:
        """Not measured."""
        return muster_pb2.UtilizationResponse()

    async def update_facts(self, request: muster_pb2.FactsRequest) -> muster_pb2.FactsResponse:
        """Not measured."""
        return muster_pb2.FactsResponse()

    async def answer(self, rm_id: str, answer: muster_pb2.Answer) -> None:
        """Not measured."""

    async def take_inventory(self, request: muster_pb2.InventoryRequest) -> muster_pb2.Inventory:
        """Not measured."""
        return muster_pb2.Inventory()

    async def unregister(self, request: muster_pb2.UnregisterRequest) -> None:
        """Keeps no state."""

    async def connection_lost(self, rm_id: str, callback: ResourceManagerCallback) -> None:
        """Keeps no state."""


class CountingCallback:
    """A ResourceManagerCallback that counts allocations."""

    def __init__(self) -> None:
        self.allocations = 0
        self.requested_quota = 0
        self.done = asyncio.Event()

    def update_allocation(self, response: si_pb2.AllocationResponse) -> None:
        """Count the items."""
        self.allocations += len(response.new)
        if self.allocations >= self.requested_quota:
            self.done.set()

    def update_application(self, response: si_pb2.ApplicationResponse) -> None:
        """Not measured."""

    def update_node(self, response: si_pb2.NodeResponse) -> None:
        """Not measured."""

    def call_back(self, callback: muster_pb2.Callback) -> None:
        """Not measured."""

    def session_lost(self, reason: str) -> None:
        """Invalidate the measurement."""
        raise SystemExit(f"the session was lost: {reason}")


def serve(address: str, is_listening: Event, shall_stop: Event) -> None:
    """Run the scheduler's process."""

    async def run() -> None:
        settings = TransportSettings(server_outbox_bytes=1 << 30)
        server = GrpcServer(CountingScheduler(), address, settings=settings)
        await server.start()
        is_listening.set()
        await asyncio.to_thread(shall_stop.wait)
        await server.aclose()

    uvloop.run(run())


def requests_for(asks: int, per_message: int) -> list[si_pb2.AllocationRequest]:
    """Return requests with this number of asks."""
    return [
        si_pb2.AllocationRequest(
            rmID=RM, asks=[an_ask(number) for number in range(first, min(first + per_message, asks))]
        )
        for first in range(0, asks, per_message)
    ]


async def asks_per_second(address: str, asks: int, per_message: int) -> float:
    """Return the rate from the first ask sent to the barrier after the last. Excludes building an ask (13 us)."""
    client, requests = GrpcClient(address), requests_for(asks, per_message)
    registration = si_pb2.RegisterResourceManagerRequest(rmID=RM, version="1.0.0")
    await client.register_resource_manager(registration, CountingCallback())
    start = time.perf_counter()
    for request in requests:
        await client.update_allocation(request)
    await client.barrier(muster_pb2.BarrierRequest(rmID=RM, allocationRequests=len(requests)))
    elapsed = time.perf_counter() - start
    await client.unregister(muster_pb2.UnregisterRequest(rmID=RM))
    await client.aclose()
    return asks / elapsed


async def allocations_per_second(address: str, allocations: int) -> float:
    """Return the rate from the request to the last allocation received."""
    client, callback = GrpcClient(address), CountingCallback()
    callback.requested_quota = allocations
    registration = si_pb2.RegisterResourceManagerRequest(rmID=RM, version="1.0.0")
    await client.register_resource_manager(registration, callback)
    start = time.perf_counter()
    await client.update_configuration(si_pb2.UpdateConfigurationRequest(rmID=RM, config=str(allocations)))
    await callback.done.wait()
    elapsed = time.perf_counter() - start
    await client.unregister(muster_pb2.UnregisterRequest(rmID=RM))
    await client.aclose()
    return allocations / elapsed


async def measure(address: str, asks: int, runs: int) -> dict[str, list[float]]:
    """Measure every figure ``runs`` times."""
    results: dict[str, list[float]] = {}
    for _ in range(runs):
        for name, rate in (
            ("asks, 1 per message", await asks_per_second(address, asks, 1)),
            ("asks, 100 per message", await asks_per_second(address, asks, 100)),
            ("allocations, 1 per response", await allocations_per_second(address, asks)),
        ):
            results.setdefault(name, []).append(rate)
    return results


def main(
    asks: Annotated[int, typer.Option(help="Asks, and allocations, of one run.")] = 60_000,
    runs: Annotated[int, typer.Option(help="Runs; the median is shown.")] = 3,
) -> None:
    """Measure the gRPC transport over a unix socket."""
    results = measured(asks, runs)
    table = Table("a second", "median", "lowest", "highest", f"target {TARGET:,}")
    for name, rates in results.items():
        median = statistics.median(rates)
        outcome = "met" if median >= TARGET else "missed"
        table.add_row(name, f"{median:,.0f}", f"{min(rates):,.0f}", f"{max(rates):,.0f}", outcome)
    Console().print(table)


def measured(asks: int, runs: int) -> dict[str, list[float]]:
    """Measure every figure with the scheduler in its own process."""
    context = multiprocessing.get_context("spawn")
    is_listening, shall_stop = context.Event(), context.Event()
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix://{Path(folder) / 'si.sock'}"
        scheduler = context.Process(target=serve, args=(address, is_listening, shall_stop))
        scheduler.start()
        try:
            is_listening.wait()
            return uvloop.run(measure(address, asks, runs))
        finally:
            shall_stop.set()
            scheduler.join()


if __name__ == "__main__":
    typer.run(main)
