"""A stream of a client: the queue of outgoing messages, a task that sends them, and a task that reads responses.

Sending and reading do not wait for each other (docs/internals/semantics.md, 25).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc
from google.protobuf.message import Message

from muster_si import muster_pb2, si_pb2
from muster_si.errors import RefusalCode, Refused
from muster_si.transport.batching import parcel
from muster_si.transport.client_session import ClientSession
from muster_si.transport.outbox import Outbox
from muster_si.transport.settings import TransportSettings
from muster_si.transport.status import ending
from muster_si.transport.streams import BOUND_METADATA, StreamKind, parse


class ClientStream:
    """Transfers one kind of message in both directions. Its end is the end of the session."""

    def __init__(
        self,
        kind: StreamKind,
        call: grpc.aio.StreamStreamCall[bytes, bytes],
        session: ClientSession,
        settings: TransportSettings,
    ) -> None:
        self._kind = kind
        self._call = call
        self._session = session
        self._max_message_bytes = settings.max_message_bytes
        self._outbox = Outbox(settings.client_outbox_bytes, settings.batch_items, settings.batch_bytes)
        self._deliver = _delivery(kind, session)
        #: Set to the reason after the server has closed the stream and all responses were delivered.
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        #: A write was pending when the stream closed. The reader gets the status INTERNAL from gRPC in that case.
        self.is_cut_off = False
        self._writing: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Returns when the server has bound the stream to the session. Raises AioRpcError if it has not."""
        if BOUND_METADATA not in dict(await self._call.initial_metadata()):
            code, details = await self._call.code(), await self._call.details()
            raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)
        self._writing = asyncio.create_task(self._write())
        self._reading = asyncio.create_task(self._read())
        self._reading.add_done_callback(self._report)

    async def send(self, message: Message) -> None:
        """Queues the message. Waits while the queue is full.

        Raises:
            Refused: the message is too large. The session continues.
            SessionLost: the session has ended.
        """
        outgoing = parcel(message)
        size = len(outgoing.data)
        if size > self._max_message_bytes:
            name = message.DESCRIPTOR.name
            reason = f"a {name} of {size} bytes is over the limit of {self._max_message_bytes}: send it in parts"
            raise Refused(RefusalCode.RESOURCE_EXHAUSTED, reason)
        await self._outbox.put(outgoing)

    async def batches_holding(self, messages: int) -> int:
        """Number of merged messages that contain the first `messages` messages. Waits until they are sent.

        Raises:
            SessionLost: the session has ended.
        """
        return await self._outbox.batches_holding(messages)

    async def drain(self) -> None:
        """Sends what is queued, closes the sending side and waits until the server closes the stream."""
        self._outbox.close("closed")
        if self._writing is not None and self._reading is not None:
            await self._writing
            await self._call.done_writing()
            await self._reading

    def cancel(self, reason: str) -> None:
        """Ends the stream immediately. Waiting senders get SessionLost with the reason."""
        self._outbox.close(reason)
        self._call.cancel()
        for task in (self._writing, self._reading):
            if task is not None:
                task.cancel()

    async def _write(self) -> None:
        """Sends queued messages. The reader reports why a write failed, because it gets the status."""
        try:
            while (batch := await self._outbox.take()) is not None:
                await self._call.write(batch)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            self.is_cut_off = True

    async def _read(self) -> None:
        try:
            while isinstance(response := await self._call.read(), bytes):
                self._deliver(response)
            self._end("OK: closed by the scheduler")
        except grpc.aio.AioRpcError as error:
            self._end(ending(error))
        except Refused as unreadable:
            self._session.session_lost(str(unreadable))

    def _end(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)

    def _report(self, reading: asyncio.Task[None]) -> None:
        """Ends the session after an exception of the callback, because a message was lost."""
        if reading.cancelled() or (bug := reading.exception()) is None:
            return
        message = f"the resource manager failed on a response of {self._kind.rpc}"
        self._session.session_lost(f"{message}: {bug!r}")
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": bug})


def _delivery(kind: StreamKind, session: ClientSession) -> Callable[[bytes], None]:
    """The function that passes a response to the session."""
    match kind:
        case StreamKind.ALLOCATION:
            return lambda data: session.update_allocation(parse(si_pb2.AllocationResponse, data))
        case StreamKind.APPLICATION:
            return lambda data: session.update_application(parse(si_pb2.ApplicationResponse, data))
        case StreamKind.NODE:
            return lambda data: session.update_node(parse(si_pb2.NodeResponse, data))
        case StreamKind.CALLBACK:
            return lambda data: session.call_back(parse(muster_pb2.Callback, data))
