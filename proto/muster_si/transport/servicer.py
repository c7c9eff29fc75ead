"""gRPC services of the scheduler: assigns streams and calls to sessions and passes requests to the core.

Requests arrive as bytes and are parsed here, so that an invalid message is rejected with a reason. Decisions are left
to the core.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from muster_si import muster_pb2, si_pb2
from muster_si.api import SchedulerAPI
from muster_si.errors import RefusalCode, Refused, SessionLost
from muster_si.transport.interruption import unless_over
from muster_si.transport.server_session import Ending, ServerSession
from muster_si.transport.server_stream import CONNECTION_BROKE, ServerStream
from muster_si.transport.sessions import Claim, Context, Sessions
from muster_si.transport.settings import TransportSettings
from muster_si.transport.status import details, status_code
from muster_si.transport.streams import (
    SCHEDULER_SERVICE,
    SESSION_SERVICE,
    StreamKind,
    parse,
    require_rm_id,
    rm_id_of,
)

T = TypeVar("T")


class Servicer:
    """The services si.v1.Scheduler and muster.v1.Session of a SchedulerAPI."""

    def __init__(self, core: SchedulerAPI, sessions: Sessions, settings: TransportSettings) -> None:
        self._core = core
        self._sessions = sessions
        self._settings = settings

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """Handlers of both services for a grpc.aio server."""
        scheduler = {
            "RegisterResourceManager": unary(self._register),
            **{kind.rpc: self._stream(kind) for kind in StreamKind if kind is not StreamKind.CALLBACK},
        }
        session = {
            "Attend": self._stream(StreamKind.CALLBACK),
            "UpdateConfiguration": unary(self._update_configuration),
            "RecoveryBarrier": unary(self._barrier),
            "TakeInventory": unary(self._take_inventory),
            "UpdateUtilization": unary(self._update_utilization),
            "UpdateFacts": unary(self._update_facts),
            "Unregister": unary(self._unregister),
        }
        return [
            grpc.method_handlers_generic_handler(SCHEDULER_SERVICE, scheduler),
            grpc.method_handlers_generic_handler(SESSION_SERVICE, session),
        ]

    # -- calls ----------------------------------------------------------------

    async def _register(self, data: bytes, context: Context) -> Message:
        request = parse(si_pb2.RegisterResourceManagerRequest, data)
        require_rm_id("RegisterResourceManagerRequest", request.rmID)
        session = ServerSession(request.rmID, Claim.of(context).session_id, self._settings)
        self._sessions.watch(session)
        try:
            response = await self._core.register_resource_manager(request, session)
            self._sessions.open(session)
        except (Refused, SessionLost) as error:
            session.end(Ending(grpc.StatusCode.ABORTED, error.reason, needs_report=False))
            raise
        except BaseException:  # the client has disconnected, or the core failed: there is no session in either case
            session.end(CONNECTION_BROKE)
            raise
        return response

    async def _update_configuration(self, data: bytes, context: Context) -> Message:
        request = parse(si_pb2.UpdateConfigurationRequest, data)
        session = self._session_of(request, request.rmID, context)
        await _while_open(session, self._core.update_configuration(request))
        return muster_pb2.UpdateConfigurationResponse()

    async def _update_utilization(self, data: bytes, context: Context) -> Message:
        request = parse(muster_pb2.UtilizationRequest, data)
        session = self._session_of(request, request.rmID, context)
        return await _while_open(session, self._core.update_utilization(request))

    async def _update_facts(self, data: bytes, context: Context) -> Message:
        request = parse(muster_pb2.FactsRequest, data)
        session = self._session_of(request, request.rmID, context)
        return await _while_open(session, self._core.update_facts(request))

    async def _barrier(self, data: bytes, context: Context) -> Message:
        request = parse(muster_pb2.BarrierRequest, data)
        session = self._session_of(request, request.rmID, context)
        await _while_open(session, self._core.barrier(request))
        return muster_pb2.BarrierResponse()

    async def _take_inventory(self, data: bytes, context: Context) -> Message:
        request = parse(muster_pb2.InventoryRequest, data)
        session = self._session_of(request, request.after.rmID, context)
        return await _while_open(session, self._core.take_inventory(request))

    async def _unregister(self, data: bytes, context: Context) -> Message:
        request = parse(muster_pb2.UnregisterRequest, data)
        session = self._session_of(request, request.rmID, context)
        await self._core.unregister(request)
        session.end(Ending(grpc.StatusCode.OK, "unregistered", needs_report=False))
        return muster_pb2.UnregisterResponse()

    def _session_of(self, request: Message, rm_id: str, context: Context) -> ServerSession:
        claim = Claim.of(context)
        require_rm_id(request.DESCRIPTOR.name, rm_id, claim.rm_id)
        return self._sessions.find(rm_id, claim.session_id)

    # -- streams --------------------------------------------------------------

    def _stream(self, kind: StreamKind) -> grpc.RpcMethodHandler[bytes, bytes]:
        async def behaviour(requests: AsyncIterator[bytes], context: Context) -> None:
            try:
                session, first = await self._bind(kind, requests, context)
                stream = ServerStream(self._core, kind, session, requests, context)
            except Refused as refusal:
                await context.abort(status_code(refusal.code), details(refusal.reason))
            ending = await stream.run(first, self._settings.farewell_s)
            if ending.code is not grpc.StatusCode.OK:
                await context.abort(ending.code, details(ending.reason))

        return grpc.stream_stream_rpc_method_handler(behaviour)

    async def _bind(
        self, kind: StreamKind, requests: AsyncIterator[bytes], context: Context
    ) -> tuple[ServerSession, bytes | None]:
        """The session of a stream, by its metadata or by its first request, which is returned too."""
        claim = Claim.of(context)
        if claim.rm_id is not None:
            return self._sessions.find(claim.rm_id, claim.session_id), None
        data = await anext(requests, None)
        if data is None:
            raise Refused(RefusalCode.INVALID_ARGUMENT, f"{kind.rpc} ended before its first request")
        rm_id = rm_id_of(kind, data)
        require_rm_id(f"the first request of {kind.rpc}", rm_id)
        return self._sessions.find(rm_id, None), data


def unary(
    act: Callable[[bytes, Context], Awaitable[Message]],
) -> grpc.RpcMethodHandler[bytes, bytes]:
    """A handler that converts Refused and SessionLost to a status."""

    async def behaviour(data: bytes, context: Context) -> bytes:
        try:
            response = await act(data, context)
        except Refused as refusal:
            await context.abort(status_code(refusal.code), details(refusal.reason))
        except SessionLost as lost:
            await context.abort(grpc.StatusCode.ABORTED, details(lost.reason))
        return response.SerializeToString()

    return grpc.unary_unary_rpc_method_handler(behaviour)


async def _while_open(session: ServerSession, call: Awaitable[T]) -> T:
    return await unless_over(call, session.over, lambda: session.over.result().reason)
