"""The transport without a wire: operator and core in one process, the same message objects on both sides.

A message belongs to its receiver once it is sent. What the gRPC transport guarantees by its streams holds here too:
a refused message ends the session, the callback hears of the end once, and calls after it raise SessionLost.
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
    """The scheduler as one resource manager sees it (a SchedulerAPI); the core itself stands behind."""

    def __init__(self, core: SchedulerAPI) -> None:
        self._core = core
        self._session: ClientSession | None = None

    async def register_resource_manager(
        self, request: si_pb2.RegisterResourceManagerRequest, callback: ResourceManagerCallback
    ) -> si_pb2.RegisterResourceManagerResponse:
        """Opens a session; the one this object had before is over. Raises Refused."""
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
        """Hands the request to the core. Raises SessionLost."""
        await _deliver(self._core, self._present(), request.rmID, request, self._core.update_allocation)

    async def update_application(self, request: si_pb2.ApplicationRequest) -> None:
        """Hands the request to the core. Raises SessionLost."""
        await _deliver(self._core, self._present(), request.rmID, request, self._core.update_application)

    async def update_node(self, request: si_pb2.NodeRequest) -> None:
        """Hands the request to the core. Raises SessionLost."""
        await _deliver(self._core, self._present(), request.rmID, request, self._core.update_node)

    async def update_configuration(self, request: si_pb2.UpdateConfigurationRequest) -> None:
        """Asks the core to take a configuration. Raises Refused, SessionLost."""
        await self._call(request.rmID, request, self._core.update_configuration)

    async def update_utilization(self, request: muster_pb2.UtilizationRequest) -> muster_pb2.UtilizationResponse:
        """Hands the reports to the core. Raises Refused, SessionLost."""
        return await self._call(request.rmID, request, self._core.update_utilization)

    async def answer(self, rm_id: str, answer: muster_pb2.Answer) -> None:
        """Hands the answer to the core. Raises SessionLost."""
        await _deliver(self._core, self._present(), rm_id, answer, lambda given: self._core.answer(rm_id, given))

    async def fence(self, request: muster_pb2.FenceRequest) -> None:
        """Waits for the core to have taken in what the request counts. Raises Refused, SessionLost."""
        await self._call(request.rmID, request, self._core.fence)

    async def take_inventory(self, request: muster_pb2.InventoryRequest) -> muster_pb2.Inventory:
        """Asks the core once it has taken in what the request counts. Raises Refused, SessionLost."""
        return await self._call(request.after.rmID, request, self._core.take_inventory)

    async def update_facts(self, request: muster_pb2.FactsRequest) -> muster_pb2.FactsResponse:
        """Hands the facts to the core. Raises Refused, SessionLost."""
        return await self._call(request.rmID, request, self._core.update_facts)

    async def unregister(self, request: muster_pb2.UnregisterRequest) -> None:
        """Leaves on purpose; the callback receives nothing more. Raises Refused, SessionLost."""
        session = self._present()
        require_rm_id("UnregisterRequest", request.rmID, session.rm_id)
        session.start_leaving()
        try:
            await self._core.unregister(request)
        finally:
            session.leave("unregistered")

    async def connection_lost(self, rm_id: str, callback: ResourceManagerCallback) -> None:
        """Drops the session of this callback, if it is the present one; the callback is not told."""
        session = self._session
        if session is not None and session.callback is callback and session.rm_id == rm_id:
            await self.aclose()

    async def aclose(self) -> None:
        """Ends the session without unregistering: the core sees the connection lost."""
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
    """A refused message ends the session, as it ends the streams of the other transport."""
    try:
        require_rm_id(message.DESCRIPTOR.name, rm_id, session.rm_id)
        await take(message)
    except Refused as refusal:
        session.session_lost(str(refusal))
        await core.connection_lost(session.rm_id, session)
    except SessionLost as lost:
        session.session_lost(lost.reason)
        raise
