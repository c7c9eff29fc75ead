"""The gRPC client of the operator: `GrpcClient` is a SchedulerAPI for one resource manager.

    scheduler = GrpcClient("unix:///run/muster/si.sock")
    await scheduler.register_resource_manager(request, callback)
    await scheduler.update_node(...)

After `session_lost` register again on the same object. It keeps its channel, and gRPC connects again. The caller
decides how often to try.
"""

from __future__ import annotations

from muster_si import muster_pb2, si_pb2
from muster_si.api import ResourceManagerCallback
from muster_si.errors import Refused
from muster_si.transport.channel import ClientChannel
from muster_si.transport.client_link import ClientLink
from muster_si.transport.client_session import ClientSession
from muster_si.transport.credentials import TlsFiles
from muster_si.transport.settings import TransportSettings
from muster_si.transport.streams import StreamKind, parse, require_rm_id, unregistered

_DEFAULTS = TransportSettings()


class GrpcClient:  # long: as many methods as the interface
    """A SchedulerAPI over gRPC for one resource manager."""

    def __init__(
        self,
        address: str,
        *,
        tls: TlsFiles | None = None,
        settings: TransportSettings = _DEFAULTS,
        allow_plaintext: bool = False,
    ) -> None:
        """Does not connect yet.

        Raises:
            AddressError: the address is invalid or needs TLS.
        """
        self._channel = ClientChannel(address, tls, settings, allow_plaintext=allow_plaintext)
        self._settings = settings
        self._link: ClientLink | None = None

    async def register_resource_manager(
        self, request: si_pb2.RegisterResourceManagerRequest, callback: ResourceManagerCallback
    ) -> si_pb2.RegisterResourceManagerResponse:
        """Opens a session and its streams, and ends the previous session of this object.

        Waits for the server to start, up to `register_timeout_s`. Raises Refused, SessionLost.
        """
        require_rm_id("RegisterResourceManagerRequest", request.rmID)
        session = ClientSession(request.rmID, callback)
        link = ClientLink(self._channel.channel(), session, self._settings)
        response = await link.open(request)
        older, self._link = self._link, link
        if older is not None:
            older.session.session_lost("replaced by a newer registration")
        session.require_open()
        return response

    async def update_allocation(self, request: si_pb2.AllocationRequest) -> None:
        """Sends on the allocation stream. Raises SessionLost, or Refused if the message is too large."""
        await self._present().send(StreamKind.ALLOCATION, request)

    async def update_application(self, request: si_pb2.ApplicationRequest) -> None:
        """Sends on the application stream. Raises SessionLost, or Refused if the message is too large."""
        await self._present().send(StreamKind.APPLICATION, request)

    async def update_node(self, request: si_pb2.NodeRequest) -> None:
        """Sends on the node stream. Raises SessionLost, or Refused if the message is too large."""
        await self._present().send(StreamKind.NODE, request)

    async def update_configuration(self, request: si_pb2.UpdateConfigurationRequest) -> None:
        """Replaces the configuration. Raises Refused, SessionLost."""
        await self._present().call("UpdateConfiguration", request)

    async def update_utilization(self, request: muster_pb2.UtilizationRequest) -> muster_pb2.UtilizationResponse:
        """Reports actual usage. Raises Refused, SessionLost."""
        return parse(muster_pb2.UtilizationResponse, await self._present().call("UpdateUtilization", request))

    async def update_facts(self, request: muster_pb2.FactsRequest) -> muster_pb2.FactsResponse:
        """Reports objects for filters. Raises Refused, SessionLost."""
        return parse(muster_pb2.FactsResponse, await self._present().call("UpdateFacts", request))

    async def answer(self, rm_id: str, answer: muster_pb2.Answer) -> None:
        """Sends on the callback stream. Raises SessionLost, or Refused if the message is too large."""
        link = self._present()
        try:
            require_rm_id("Answer", rm_id, link.session.rm_id)
        except Refused as refusal:  # the message has no rmID, so that the server cannot reject it
            link.session.session_lost(str(refusal))
            return
        await link.send(StreamKind.CALLBACK, answer)

    async def barrier(self, request: muster_pb2.BarrierRequest) -> None:
        """Waits until the scheduler has processed as many messages as this object has sent.

        Raises Refused, SessionLost.
        """
        link = self._present()
        await link.call("RecoveryBarrier", await link.as_sent(request))

    async def take_inventory(self, request: muster_pb2.InventoryRequest) -> muster_pb2.Inventory:
        """Returns a part of the scheduler's state, after the messages that `barrier` would wait for.

        Raises Refused, SessionLost.
        """
        link = self._present()
        asked = muster_pb2.InventoryRequest()
        asked.CopyFrom(request)
        asked.after.CopyFrom(await link.as_sent(request.after))
        return parse(muster_pb2.Inventory, await link.call("TakeInventory", asked))

    async def unregister(self, request: muster_pb2.UnregisterRequest) -> None:
        """Ends the session on purpose. The callback is not called any more. Raises Refused, SessionLost."""
        link = self._present()
        require_rm_id("UnregisterRequest", request.rmID, link.session.rm_id)
        link.session.start_leaving()
        try:
            await link.unregister(request)
        finally:
            link.session.leave("unregistered")

    async def connection_lost(self, rm_id: str, callback: ResourceManagerCallback) -> None:
        """Ends the session of this callback if it is the present one. The callback is not called."""
        link = self._link
        if link is not None and link.session.callback is callback and link.session.rm_id == rm_id:
            link.session.leave("dropped")

    async def aclose(self) -> None:
        """Sends what is queued, ends the session without unregistering and closes the connection."""
        link, self._link = self._link, None
        if link is not None:
            link.session.start_leaving()
            await link.drain()
            link.session.leave("closed")
        await self._channel.aclose()

    def _present(self) -> ClientLink:
        if self._link is None:
            raise unregistered("")
        return self._link
