"""The gRPC streams and calls of a client session, with a common session ID."""

from __future__ import annotations

import asyncio
import uuid
from typing import TypeAlias

import grpc
from google.protobuf.message import Message

from muster_si import muster_pb2, si_pb2
from muster_si.errors import SessionLost
from muster_si.transport.client_session import ClientSession
from muster_si.transport.client_stream import ClientStream
from muster_si.transport.settings import TransportSettings
from muster_si.transport.status import raised
from muster_si.transport.streams import (
    RM_ID_METADATA,
    SCHEDULER_SERVICE,
    SESSION_METADATA,
    SESSION_SERVICE,
    StreamKind,
    parse,
)

_UnaryMethod: TypeAlias = "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]"
_StreamMethod: TypeAlias = "grpc.aio.StreamStreamMultiCallable[bytes, bytes]"


class ClientLink:
    """gRPC streams and calls of one ClientSession. Used for one registration only."""

    def __init__(self, channel: grpc.aio.Channel, session: ClientSession, settings: TransportSettings) -> None:
        self.session = session
        self._channel = channel
        self._settings = settings
        self._metadata: tuple[tuple[str, str | bytes], ...] = (
            (SESSION_METADATA, uuid.uuid4().hex),
            (RM_ID_METADATA, session.rm_id.encode()),
        )
        self._streams: dict[StreamKind, ClientStream] = {}
        self._watching: asyncio.Task[None] | None = None

    async def open(self, request: si_pb2.RegisterResourceManagerRequest) -> si_pb2.RegisterResourceManagerResponse:
        """Registers, opens the streams and returns when the server has bound all of them.

        On errors the callback is not called.

        Raises:
            Refused, SessionLost: the registration failed.
        """
        self.session.over.add_done_callback(self._cancel)
        try:
            data = await self._register(request)
            for kind in StreamKind:
                method: _StreamMethod = self._channel.stream_stream(kind.value)
                call = method(metadata=self._metadata)
                self._streams[kind] = ClientStream(kind, call, self.session, self._settings)
            await asyncio.gather(*(stream.open() for stream in self._streams.values()))
        except grpc.aio.AioRpcError as error:
            failure = raised(error)
            self.session.leave(str(failure))
            raise failure from error
        except BaseException:  # cancelled, or a timeout of the caller: no stream may stay open
            self.session.leave("the registration was given up")
            raise
        self._watching = asyncio.create_task(self._watch())
        return parse(si_pb2.RegisterResourceManagerResponse, data)

    async def _register(self, request: si_pb2.RegisterResourceManagerRequest) -> bytes:
        register: _UnaryMethod = self._channel.unary_unary(f"/{SCHEDULER_SERVICE}/RegisterResourceManager")
        timeout_s = self._settings.register_timeout_s
        try:
            return await register(
                request.SerializeToString(), metadata=self._metadata, wait_for_ready=True, timeout=timeout_s
            )
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
            reason = f"no scheduler answered within {timeout_s:g} s: {error.details()}"
            raise SessionLost(reason) from error

    async def send(self, kind: StreamKind, message: Message) -> None:
        """Queues the message for its stream.

        Raises:
            SessionLost: the session has ended.
            Refused: the message is too large.
        """
        self.session.require_open()
        await self._streams[kind].send(message)

    async def call(self, rpc: str, request: Message) -> bytes:
        """Calls a method of muster.v1.Session and returns the bytes of its response.

        Raises:
            Refused, SessionLost: the call failed.
        """
        self.session.require_open()
        method: _UnaryMethod = self._channel.unary_unary(f"/{SESSION_SERVICE}/{rpc}")
        try:
            return await self.session.unless_over(method(request.SerializeToString(), metadata=self._metadata))
        except grpc.aio.AioRpcError as error:
            raise raised(error) from error

    async def unregister(self, request: muster_pb2.UnregisterRequest) -> None:
        """Unregisters. The server closes the streams during the call, which must not cancel it.

        Raises:
            Refused, SessionLost: the call failed.
        """
        self.session.require_open()
        method: _UnaryMethod = self._channel.unary_unary(f"/{SESSION_SERVICE}/Unregister")
        try:
            await method(request.SerializeToString(), metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise raised(error) from error

    async def as_sent(self, request: muster_pb2.BarrierRequest) -> muster_pb2.BarrierRequest:
        """Converts a barrier to the number of merged messages that gRPC sent. Waits until they are sent.

        Raises:
            SessionLost: the session has ended.
        """
        self.session.require_open()
        return muster_pb2.BarrierRequest(
            rmID=request.rmID,
            applicationRequests=await self._sent(StreamKind.APPLICATION, request.applicationRequests),
            nodeRequests=await self._sent(StreamKind.NODE, request.nodeRequests),
            allocationRequests=await self._sent(StreamKind.ALLOCATION, request.allocationRequests),
            more=request.more,
        )

    async def _sent(self, kind: StreamKind, messages: int) -> int:
        if messages < 0:  # the scheduler rejects it
            return messages
        return await self._streams[kind].batches_holding(messages)

    async def drain(self) -> None:
        """Sends what is queued and closes the streams, within `farewell_s` of the settings."""
        farewells = [asyncio.create_task(stream.drain()) for stream in self._streams.values()]
        if not self.session.is_over and farewells:
            await asyncio.wait(farewells, timeout=self._settings.farewell_s)
        for farewell in farewells:
            farewell.cancel()
        await asyncio.gather(*farewells, return_exceptions=True)

    async def _watch(self) -> None:
        """Ends the session when the first stream closes, after the others have delivered what they hold.

        The reason is the same on all streams; an interrupted stream does not have it.
        """
        ends = [stream.ended for stream in self._streams.values()]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait(ends, timeout=self._settings.farewell_s)
        ended = [stream for stream in self._streams.values() if stream.ended.done()]
        first = min(ended, key=lambda stream: stream.is_cut_off)
        self.session.session_lost(first.ended.result())

    def _cancel(self, over: asyncio.Future[str]) -> None:
        for stream in self._streams.values():
            stream.cancel(over.result())
        if self._watching is not None:
            self._watching.cancel()
