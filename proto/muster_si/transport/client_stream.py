"""One of a client's streams: what waits to be sent, a task that sends it, a task that reads the answers.

Sending and reading never wait for each other (semantics 25).
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
    """Carries one kind of message both ways; its end is the session's end."""

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
        #: Done with the reason when the server closed the stream and everything before that was delivered.
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        #: A write was pending when the stream closed; gRPC then makes up a status of its own (INTERNAL) for the reader.
        self.is_cut_off = False
        self._writing: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Returns when the server has bound the stream to the session. Raises AioRpcError when it did not."""
        if BOUND_METADATA not in dict(await self._call.initial_metadata()):
            code, details = await self._call.code(), await self._call.details()
            raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)
        self._writing = asyncio.create_task(self._write())
        self._reading = asyncio.create_task(self._read())
        self._reading.add_done_callback(self._report)

    async def send(self, message: Message) -> None:
        """Takes the message over for delivery; waits while too much is waiting already.

        Raises Refused when it is too large to be sent at all (the session continues), SessionLost when it is over.
        """
        outgoing = parcel(message)
        size = len(outgoing.data)
        if size > self._max_message_bytes:
            name = message.DESCRIPTOR.name
            reason = f"a {name} of {size} bytes is over the limit of {self._max_message_bytes}: send it in parts"
            raise Refused(RefusalCode.RESOURCE_EXHAUSTED, reason)
        await self._outbox.put(outgoing)

    async def batches_holding(self, messages: int) -> int:
        """How many messages of the wire hold the first `messages` that were sent; waits until they left.

        Raises SessionLost.
        """
        return await self._outbox.batches_holding(messages)

    async def drain(self) -> None:
        """Sends what waits, tells the server that no more comes, and waits for it to close the stream."""
        self._outbox.close("closed")
        if self._writing is not None and self._reading is not None:
            await self._writing
            await self._call.done_writing()
            await self._reading

    def cancel(self, reason: str) -> None:
        """Ends at once; whoever waits to send gets SessionLost with the reason."""
        self._outbox.close(reason)
        self._call.cancel()
        for task in (self._writing, self._reading):
            if task is not None:
                task.cancel()

    async def _write(self) -> None:
        """Why a write failed is the reader's to say: it gets the status (of this stream or, better, of another)."""
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
        """A bug of the callback ends the session: what it was told is lost, and only a new start repairs that."""
        if reading.cancelled() or (bug := reading.exception()) is None:
            return
        message = f"the resource manager failed on a response of {self._kind.rpc}"
        self._session.session_lost(f"{message}: {bug!r}")
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": bug})


def _delivery(kind: StreamKind, session: ClientSession) -> Callable[[bytes], None]:
    """How the bytes of a response reach the session."""
    match kind:
        case StreamKind.ALLOCATION:
            return lambda data: session.update_allocation(parse(si_pb2.AllocationResponse, data))
        case StreamKind.APPLICATION:
            return lambda data: session.update_application(parse(si_pb2.ApplicationResponse, data))
        case StreamKind.NODE:
            return lambda data: session.update_node(parse(si_pb2.NodeResponse, data))
        case StreamKind.CALLBACK:
            return lambda data: session.call_back(parse(muster_pb2.Callback, data))
