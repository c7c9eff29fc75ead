"""The in-process transport: operator and core in one process pass the same message objects.

A message must not be changed after it was sent. The behaviour is that of the gRPC transport: a rejected message ends
the session, the callback gets its end once, and later calls raise SessionLost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from google.protobuf.message import Message

from muster_si import muster_pb2, si_pb2
from muster_si.api import ResourceManagerCallback, SchedulerAPI
from muster_si.errors import Refused, SessionLost
from muster_si.transport.client_session import ClientSession
from muster_si.transport.streams import require_rm_id, unregistered

M = TypeVar("M", bound=Message)
T = TypeVar("T")


class InProcessClient:  # long: as many methods as the interface
    """A SchedulerAPI for one resource manager that calls the core directly."""

    def __init__(self, core: SchedulerAPI) -> None:
        self._core = core
        self._session: ClientSession | None = None

    async def register_resource_manager(
        self, request: si_pb2.RegisterResourceManagerRequest, callback: ResourceManagerCallback
    ) -> si_pb2.RegisterResourceManagerResponse:
        """Opens a session and ends the previous one of this object.

        Raises:
            Refused: the core rejected the registration.
        """
        require_rm_id("RegisterResourceManagerRequest", request.rmID)
        session = ClientSession(request.rmID, callback)
        response = await self._core.register_resource_manager(request, session)
        session.require_open()
        older, self._session = self._session, session
        if older is not None and not older.is_over:
            older.session_lost("replaced by a newer registration")
            await self._core.connection_lost(older.rm_id, older)
        return response

    async def update_allocation(self, request: si_pb2.AllocationRequest) -> None:
        """Passes the request to the core. Raises SessionLost."""
        await _deliver(self._core, self._present(), request.rmID, request, self._core.update_allocation)

    async def update_application(self, request: si_pb2.ApplicationRequest) -> None:
        """Passes the request to the core. Raises SessionLost."""
        await _deliver(self._core, self._present(), request.rmID, request, self._core.update_application)

    async def update_node(self, request: si_pb2.NodeRequest) -> None:
        """Passes the request to the core. Raises SessionLost."""
        await _deliver(self._core, self._present(), request.rmID, request, self._core.update_node)

    async def update_configuration(self, request: si_pb2.UpdateConfigurationRequest) -> None:
        """Replaces the configuration. Raises Refused, SessionLost."""
        await self._call(request.rmID, request, self._core.update_configuration)

    async def update_utilization(self, request: muster_pb2.UtilizationRequest) -> muster_pb2.UtilizationResponse:
        """Passes the reports to the core. Raises Refused, SessionLost."""
        return await self._call(request.rmID, request, self._core.update_utilization)

    async def answer(self, rm_id: str, answer: muster_pb2.Answer) -> None:
        """Passes the answer to the core. Raises SessionLost."""
        await _deliver(self._core, self._present(), rm_id, answer, lambda given: self._core.answer(rm_id, given))

    async def barrier(self, request: muster_pb2.BarrierRequest) -> None:
        """Waits until the core has processed the counted messages. Raises Refused, SessionLost."""
        await self._call(request.rmID, request, self._core.barrier)

    async def take_inventory(self, request: muster_pb2.InventoryRequest) -> muster_pb2.Inventory:
        """Returns a part of the core's state after the counted messages. Raises Refused, SessionLost."""
        return await self._call(request.after.rmID, request, self._core.take_inventory)

    async def update_facts(self, request: muster_pb2.FactsRequest) -> muster_pb2.FactsResponse:
        """Passes the objects to the core. Raises Refused, SessionLost."""
        return await self._call(request.rmID, request, self._core.update_facts)

    async def unregister(self, request: muster_pb2.UnregisterRequest) -> None:
        """Ends the session on purpose. The callback is not called any more. Raises Refused, SessionLost."""
        session = self._present()
        require_rm_id("UnregisterRequest", request.rmID, session.rm_id)
        session.start_leaving()
        try:
            await self._core.unregister(request)
        finally:
            session.leave("unregistered")

    async def connection_lost(self, rm_id: str, callback: ResourceManagerCallback) -> None:
        """Ends the session of this callback if it is the present one. The callback is not called."""
        session = self._session
        if session is not None and session.callback is callback and session.rm_id == rm_id:
            await self.aclose()

    async def aclose(self) -> None:
        """Ends the session without unregistering. The core gets a lost connection."""
        session = self._session
        if session is not None and not session.is_over:
            session.leave("closed")
            await self._core.connection_lost(session.rm_id, session)

    def _present(self) -> ClientSession:
        if self._session is None:
            raise unregistered("")
        self._session.require_open()
        return self._session

    async def _call(self, rm_id: str, message: M, take: Callable[[M], Awaitable[T]]) -> T:
        session = self._present()
        require_rm_id(message.DESCRIPTOR.name, rm_id, session.rm_id)
        return await session.unless_over(take(message))


async def _deliver(
    core: SchedulerAPI, session: ClientSession, rm_id: str, message: M, take: Callable[[M], Awaitable[None]]
) -> None:
    """Passes a message to the core. A rejected message ends the session, as it does with gRPC."""
    try:
        require_rm_id(message.DESCRIPTOR.name, rm_id, session.rm_id)
        await take(message)
    except Refused as refusal:
        session.session_lost(str(refusal))
        await core.connection_lost(session.rm_id, session)
    except SessionLost as lost:
        session.session_lost(lost.reason)
        raise
