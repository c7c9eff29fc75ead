"""The present session of each resource manager, and the assignment of requests to sessions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TypeAlias

import grpc

from muster_si.api import SchedulerAPI
from muster_si.errors import SessionLost
from muster_si.transport.server_session import Ending, ServerSession
from muster_si.transport.streams import RM_ID_METADATA, SESSION_METADATA, unregistered

Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"


@dataclass(frozen=True, slots=True)
class Claim:
    """Resource manager and session in the metadata of a request. None if missing (a plain si.v1 client)."""

    rm_id: str | None
    session_id: str | None

    @classmethod
    def of(cls, context: Context) -> Claim:
        """Reads the metadata. An rmID that is not valid UTF-8 belongs to no session."""
        metadata = dict(context.invocation_metadata() or ())
        rm_id, session_id = metadata.get(RM_ID_METADATA), metadata.get(SESSION_METADATA)
        return cls(
            rm_id.decode(errors="replace") if isinstance(rm_id, bytes) else None,
            session_id if isinstance(session_id, str) else None,
        )


class Sessions:
    """Present sessions by rmID. Each resource manager has at most one, as in the core."""

    def __init__(self, core: SchedulerAPI) -> None:
        self._core = core
        self._present: dict[str, ServerSession] = {}
        self._notifying: set[asyncio.Task[None]] = set()

    def open(self, session: ServerSession) -> None:
        """Makes it the present session and ends the previous one of the same resource manager.

        Raises:
            SessionLost: it ended during the registration, because of a later registration.
        """
        if session.over.done():
            raise SessionLost(session.over.result().reason)
        older = self._present.get(session.rm_id)
        self._present[session.rm_id] = session
        if older is not None:
            older.session_lost(f"resource manager {session.rm_id!r} registered again")

    def watch(self, session: ServerSession) -> None:
        """Reports the end of this session to the core, unless the core ended it."""
        session.over.add_done_callback(lambda over: self._ended(session, over.result()))

    def find(self, rm_id: str, session_id: str | None) -> ServerSession:
        """Returns the present session of a resource manager. A given session ID must match.

        Raises:
            Refused: there is none (FAILED_PRECONDITION).
        """
        session = self._present.get(rm_id)
        if session is None or session.over.done():
            raise unregistered(rm_id)
        if session_id is not None and session_id != session.session_id:
            raise unregistered(rm_id)
        return session

    def end_all(self, reason: str) -> None:
        """Ends all sessions because the server stops: sends what is queued, then closes with UNAVAILABLE."""
        for session in list(self._present.values()):
            session.end(Ending(grpc.StatusCode.UNAVAILABLE, reason, drains=True))

    async def notified(self) -> None:
        """Returns after every end so far was reported to the core."""
        while self._notifying:
            await asyncio.wait(self._notifying)

    def _ended(self, session: ServerSession, ending: Ending) -> None:
        if self._present.get(session.rm_id) is session:
            del self._present[session.rm_id]
        if ending.needs_report:
            task = asyncio.get_running_loop().create_task(self._notify(session))
            self._notifying.add(task)
            task.add_done_callback(self._notifying.discard)

    async def _notify(self, session: ServerSession) -> None:
        await self._core.connection_lost(session.rm_id, session)
