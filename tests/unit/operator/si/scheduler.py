"""A SchedulerAPI peer that records requests, and rejects them or fails if a test wants it. It is not a scheduler."""

import asyncio
from dataclasses import dataclass, field

from muster_si import muster_pb2, si_pb2
from muster_si.api import ResourceManagerCallback
from muster_si.errors import Refused, SchedulerInterfaceError, SessionLost

Message = si_pb2.ApplicationRequest | si_pb2.NodeRequest | si_pb2.AllocationRequest | muster_pb2.FactsRequest


@dataclass
class Peer:  # long: as many methods as the interface
    """Accepts every application immediately, unless `answers` is false."""

    registrations: list[si_pb2.RegisterResourceManagerRequest] = field(default_factory=list)
    callbacks: list[ResourceManagerCallback] = field(default_factory=list)
    received: list[Message | muster_pb2.BarrierRequest | muster_pb2.UnregisterRequest] = field(default_factory=list)
    answered: list[muster_pb2.Answer] = field(default_factory=list)
    configurations: list[si_pb2.UpdateConfigurationRequest] = field(default_factory=list)
    refusals: list[SchedulerInterfaceError] = field(default_factory=list)
    configuration_refusal: Refused | None = None
    inventory_requests: list[muster_pb2.InventoryRequest] = field(default_factory=list)
    inventories: list[muster_pb2.Inventory] = field(default_factory=list)
    rejected_facts: list[muster_pb2.RejectedFact] = field(default_factory=list)
    accepts: bool = True
    broken: bool = False
    held: asyncio.Event | None = None
    """Allocations are handled once this event is set."""

    @property
    def callback(self) -> ResourceManagerCallback:
        """The callback of the current session."""
        return self.callbacks[-1]

    async def register_resource_manager(
        self, request: si_pb2.RegisterResourceManagerRequest, callback: ResourceManagerCallback
    ) -> si_pb2.RegisterResourceManagerResponse:
        if self.refusals:
            raise self.refusals.pop(0)
        self.registrations.append(request)
        self.callbacks.append(callback)
        return si_pb2.RegisterResourceManagerResponse()

    async def update_allocation(self, request: si_pb2.AllocationRequest) -> None:
        if self.held is not None:
            await self.held.wait()
        self._take(request)

    async def update_application(self, request: si_pb2.ApplicationRequest) -> None:
        self._take(request)
        if self.accepts:
            accepted = [si_pb2.AcceptedApplication(applicationID=new.applicationID) for new in request.new]
            self.callback.update_application(si_pb2.ApplicationResponse(accepted=accepted))

    async def update_node(self, request: si_pb2.NodeRequest) -> None:
        self._take(request)

    async def update_configuration(self, request: si_pb2.UpdateConfigurationRequest) -> None:
        if self.configuration_refusal is not None:
            raise self.configuration_refusal
        self.configurations.append(request)

    async def update_utilization(self, request: muster_pb2.UtilizationRequest) -> muster_pb2.UtilizationResponse:
        raise NotImplementedError

    async def update_facts(self, request: muster_pb2.FactsRequest) -> muster_pb2.FactsResponse:
        self._take(request)
        return muster_pb2.FactsResponse(rejected=self.rejected_facts)

    async def answer(self, rm_id: str, answer: muster_pb2.Answer) -> None:
        self.answered.append(answer)

    async def barrier(self, request: muster_pb2.BarrierRequest) -> None:
        self.received.append(request)

    async def take_inventory(self, request: muster_pb2.InventoryRequest) -> muster_pb2.Inventory:
        self.inventory_requests.append(request)
        return self.inventories.pop(0) if self.inventories else muster_pb2.Inventory()

    async def unregister(self, request: muster_pb2.UnregisterRequest) -> None:
        self.received.append(request)

    async def connection_lost(self, rm_id: str, callback: ResourceManagerCallback) -> None:
        raise NotImplementedError

    def _take(self, message: Message) -> None:
        if self.broken:
            raise SessionLost("the connection broke")
        self.received.append(message)
