"""An open stream of a session on the server: one task reads and one writes, until the session ends.

They do not wait for each other (docs/internals/semantics.md, 25). A resource manager that does not read can still send,
and one that sends without a pause still gets responses.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import grpc

from muster_si import muster_pb2, si_pb2
from muster_si.api import SchedulerAPI
from muster_si.errors import Refused, SessionLost
from muster_si.transport.outbox import Outbox
from muster_si.transport.server_session import Ending, ServerSession
from muster_si.transport.sessions import Context
from muster_si.transport.status import status_code
from muster_si.transport.streams import BOUND_METADATA, StreamKind, parse, require_rm_id

#: End of a session whose connection was lost.
CONNECTION_BROKE: Final = Ending(grpc.StatusCode.UNAVAILABLE, "the connection broke")


class ServerStream:
    """Transfers one kind of message in both directions."""

    def __init__(
        self,
        core: SchedulerAPI,
        kind: StreamKind,
        session: ServerSession,
        requests: AsyncIterator[bytes],
        context: Context,
    ) -> None:
        """Attaches to the session.

        Raises:
            Refused: the session has such a stream already.
        """
        self._core = core
        self._kind = kind
        self._session = session
        self._requests = requests
        self._context = context
        self._outbox: Outbox = session.attach(kind)

    async def run(self, first: bytes | None, farewell_s: float) -> Ending:
        """Tells the client that the stream is bound, serves until the session ends, and returns how it ended.

        `first` is a request that was read already. The connection can break before the first message; that ends the
        session too. The rest of the outbox is sent for up to `farewell_s` if the ending requires it, and always on the
        callback stream, which may contain the reason.
        """
        over = self._session.over
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._context.send_initial_metadata(((BOUND_METADATA, "1"),))
            reading, writing = asyncio.create_task(self._read(first)), asyncio.create_task(self._write())
            reading.add_done_callback(self._report)
            tasks += [reading, writing]
            await asyncio.wait({over})
            if over.result().drains or self._kind is StreamKind.CALLBACK:
                await asyncio.wait({writing}, timeout=farewell_s)
        except (asyncio.CancelledError, grpc.aio.BaseError):
            self._session.end(CONNECTION_BROKE)
            raise
        finally:
            for task in tasks:
                task.cancel()
        return over.result()

    async def _read(self, first: bytes | None) -> None:
        try:
            if first is not None:
                await self._hand_over(first)
            async for request in self._requests:
                await self._hand_over(request)
            self._session.fall_silent(self._kind)
        except Refused as refusal:
            self._session.end(Ending(status_code(refusal.code), refusal.reason))
        except SessionLost as lost:
            self._session.end(Ending(grpc.StatusCode.ABORTED, lost.reason, needs_report=False))
        except grpc.aio.BaseError:
            self._session.end(CONNECTION_BROKE)

    def _report(self, reading: asyncio.Task[None]) -> None:
        """Ends the session after an exception of the core, because the state after a failed request is unreliable."""
        if reading.cancelled() or (bug := reading.exception()) is None:
            return
        message = f"the scheduler failed on a request of {self._kind.rpc}"
        self._session.end(Ending(grpc.StatusCode.INTERNAL, f"{message}: {bug!r}"))
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": bug})

    async def _hand_over(self, data: bytes) -> None:
        match self._kind:
            case StreamKind.ALLOCATION:
                allocation = parse(si_pb2.AllocationRequest, data)
                require_rm_id("AllocationRequest", allocation.rmID, self._session.rm_id)
                await self._core.update_allocation(allocation)
            case StreamKind.APPLICATION:
                application = parse(si_pb2.ApplicationRequest, data)
                require_rm_id("ApplicationRequest", application.rmID, self._session.rm_id)
                await self._core.update_application(application)
            case StreamKind.NODE:
                node = parse(si_pb2.NodeRequest, data)
                require_rm_id("NodeRequest", node.rmID, self._session.rm_id)
                await self._core.update_node(node)
            case StreamKind.CALLBACK:
                answer = parse(muster_pb2.Answer, data)
                await self._core.answer(self._session.rm_id, answer)

    async def _write(self) -> None:
        try:
            while (batch := await self._outbox.take()) is not None:
                await self._context.write(batch)
        except grpc.aio.BaseError:
            self._session.end(CONNECTION_BROKE)
