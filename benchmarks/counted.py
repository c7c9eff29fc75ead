"""Counts the messages of the Scheduler Interface, and their bytes, between operator and core in one process."""

from __future__ import annotations

from collections import Counter

from google.protobuf.message import Message

from muster_si import muster_pb2, si_pb2
from muster_si.api import ResourceManagerCallback, SchedulerAPI
from muster_si.transport.inprocess import InProcessClient


class Counts:
    """Messages and their encoded bytes by type of message."""

    def __init__(self) -> None:
        self.messages: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    def add(self, message: Message) -> None:
        """Count a message."""
        name = message.DESCRIPTOR.name
        self.messages[name] += 1
        self.bytes[name] += message.ByteSize()

    def reset(self) -> None:
        """Start again at zero."""
        self.messages.clear()
        self.bytes.clear()


class CountingClient(InProcessClient):
    """The in-process transport, which counts requests of the operator and responses of the core."""

    def __init__(self, core: SchedulerAPI, counts: Counts) -> None:
        super().__init__(core)
        self._counts = counts

    async def register_resource_manager(
        self, request: si_pb2.RegisterResourceManagerRequest, callback: ResourceManagerCallback
    ) -> si_pb2.RegisterResourceManagerResponse:
        """Open a session whose responses are counted."""
        return await super().register_resource_manager(request, _CountingCallback(callback, self._counts))

    async def update_allocation(self, request: si_pb2.AllocationRequest) -> None:
        """Count and deliver."""
        self._counts.add(request)
        await super().update_allocation(request)

    async def update_application(self, request: si_pb2.ApplicationRequest) -> None:
        """Count and deliver."""
        self._counts.add(request)
        await super().update_application(request)


class _CountingCallback:
    def __init__(self, callback: ResourceManagerCallback, counts: Counts) -> None:
        self._callback = callback
        self._counts = counts
        self.update_node = callback.update_node
        self.session_lost = callback.session_lost

    def update_allocation(self, response: si_pb2.AllocationResponse) -> None:
        self._counts.add(response)
        self._callback.update_allocation(response)

    def update_application(self, response: si_pb2.ApplicationResponse) -> None:
        self._counts.add(response)
        self._callback.update_application(response)

    def call_back(self, callback: muster_pb2.Callback) -> None:
        self._counts.add(callback)
        self._callback.call_back(callback)
