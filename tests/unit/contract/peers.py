"""The two ends of the contract tests: a scheduler and a resource manager that record messages.

Both are real implementations of the protocols with responses that the test defines. Tests wait for events, never for
time.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from muster_si import muster_pb2, si_pb2
from muster_si.api import ResourceManagerCallback
from muster_si.errors import RefusalCode, Refused
from muster_si.transport.grpc_client import GrpcClient
from muster_si.transport.inprocess import InProcessClient
from muster_si.transport.settings import TransportSettings

T = TypeVar("T")
Client = InProcessClient | GrpcClient

#: Small limits that tests can reach, and a limited time to close a session.
SETTINGS = TransportSettings(
    max_message_bytes=256 * 1024,
    batch_bytes=64 * 1024,
    client_outbox_bytes=256 * 1024,
    server_outbox_bytes=4 * 1024 * 1024,
    register_timeout_s=5.0,
    farewell_s=5.0,
)


class Log(Generic[T]):
    """Received items in order. A test can wait for them."""

    def __init__(self) -> None:
        self.items: list[T] = []
        self._wake_up = asyncio.Event()

    def add(self, item: T) -> None:
        self.items.append(item)
        self._wake_up.set()

    async def until(self, is_enough: Callable[[list[T]], bool]) -> list[T]:
        while not is_enough(self.items):
            self._wake_up.clear()
            await self._wake_up.wait()
        return self.items

    async def first(self, count: int = 1) -> list[T]:
        """Wait for ``count`` items. Returns all items, so the caller sees additional ones."""
        return await self.until(lambda items: len(items) >= count)


class Scheduler:  # long: one method for each call of the interface
    """A SchedulerAPI that accepts everything except what a test makes it reject."""

    def __init__(self) -> None:
        self.present: dict[str, ResourceManagerCallback] = {}
        self.allocations: Log[si_pb2.AllocationRequest] = Log()
        self.applications: Log[si_pb2.ApplicationRequest] = Log()
        self.nodes: Log[si_pb2.NodeRequest] = Log()
        self.answers: Log[tuple[str, muster_pb2.Answer]] = Log()
        self.configurations: Log[si_pb2.UpdateConfigurationRequest] = Log()
        self.utilization: Log[muster_pb2.UtilizationRequest] = Log()
        self.lost: Log[tuple[str, ResourceManagerCallback]] = Log()
        self.left: Log[str] = Log()
        self.refusal: Refused | None = None
        self.bug: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def register_resource_manager(
        self, request: si_pb2.RegisterResourceManagerRequest, callback: ResourceManagerCallback
    ) -> si_pb2.RegisterResourceManagerResponse:
        if not request.version.startswith("1."):
            reason = f"version {request.version} does not go with 1.0.0"
            raise Refused(RefusalCode.FAILED_PRECONDITION, reason)
        older = self.present.get(request.rmID)
        self.present[request.rmID] = callback
        if older is not None:
            older.session_lost("registered again")
        return si_pb2.RegisterResourceManagerResponse()

    async def _let_in(self) -> None:
        await self.gate.wait()
        if self.bug is not None:
            raise self.bug
        if self.refusal is not None:
            raise self.refusal

    async def update_allocation(self, request: si_pb2.AllocationRequest) -> None:
        await self._let_in()
        self.allocations.add(request)

    async def update_application(self, request: si_pb2.ApplicationRequest) -> None:
        await self._let_in()
        self.applications.add(request)

    async def update_node(self, request: si_pb2.NodeRequest) -> None:
        await self._let_in()
        self.nodes.add(request)

    async def update_configuration(self, request: si_pb2.UpdateConfigurationRequest) -> None:
        await self._let_in()
        self.configurations.add(request)

    async def update_utilization(self, request: muster_pb2.UtilizationRequest) -> muster_pb2.UtilizationResponse:
        await self._let_in()
        self.utilization.add(request)
        rejected = [muster_pb2.RejectedUtilizationReport(ID=one.ID, reason="odd") for one in request.reports[1:]]
        return muster_pb2.UtilizationResponse(rejected=rejected)

    async def answer(self, rm_id: str, answer: muster_pb2.Answer) -> None:
        await self._let_in()
        self.answers.add((rm_id, answer))

    async def barrier(self, request: muster_pb2.BarrierRequest) -> None:
        await self.applications.first(request.applicationRequests)
        await self.nodes.first(request.nodeRequests)
        await self.allocations.first(request.allocationRequests)

    async def take_inventory(self, request: muster_pb2.InventoryRequest) -> muster_pb2.Inventory:
        await self.barrier(request.after)
        return muster_pb2.Inventory(sentItems=request.limit)

    async def update_facts(self, request: muster_pb2.FactsRequest) -> muster_pb2.FactsResponse:
        await self._let_in()
        rejected = [muster_pb2.RejectedFact(kind=one.kind, name=one.name, reason="odd") for one in request.facts[1:]]
        return muster_pb2.FactsResponse(rejected=rejected)

    async def unregister(self, request: muster_pb2.UnregisterRequest) -> None:
        callback = self.present.pop(request.rmID)
        callback.session_lost("unregistered")
        self.left.add(request.rmID)

    async def connection_lost(self, rm_id: str, callback: ResourceManagerCallback) -> None:
        if self.present.get(rm_id) is callback:
            del self.present[rm_id]
            self.lost.add((rm_id, callback))


class ResourceManager:
    """A ResourceManagerCallback that records responses."""

    def __init__(self) -> None:
        self.allocations: Log[si_pb2.AllocationResponse] = Log()
        self.applications: Log[si_pb2.ApplicationResponse] = Log()
        self.nodes: Log[si_pb2.NodeResponse] = Log()
        self.callbacks: Log[muster_pb2.Callback] = Log()
        self.ends: Log[str] = Log()

    def update_allocation(self, response: si_pb2.AllocationResponse) -> None:
        self.allocations.add(response)

    def update_application(self, response: si_pb2.ApplicationResponse) -> None:
        self.applications.add(response)

    def update_node(self, response: si_pb2.NodeResponse) -> None:
        self.nodes.add(response)

    def call_back(self, callback: muster_pb2.Callback) -> None:
        self.callbacks.add(callback)

    def session_lost(self, reason: str) -> None:
        self.ends.add(reason)


def a_registration(rm_id: str = "rm", version: str = "1.0.0") -> si_pb2.RegisterResourceManagerRequest:
    return si_pb2.RegisterResourceManagerRequest(rmID=rm_id, version=version, policyGroup="queues")


def an_ask(key: str, padding: int = 0) -> si_pb2.AllocationAsk:
    """Return an ask with `padding` additional bytes."""
    return si_pb2.AllocationAsk(allocationKey=key, applicationID="app", tags={"padding": "x" * padding})


def asks(*keys: str, rm_id: str = "rm", padding: int = 0) -> si_pb2.AllocationRequest:
    return si_pb2.AllocationRequest(rmID=rm_id, asks=[an_ask(key, padding) for key in keys])


def keys_of(requests: list[si_pb2.AllocationRequest]) -> list[str]:
    """Return the keys of all asks in the order of receipt."""
    return [ask.allocationKey for request in requests for ask in request.asks]
