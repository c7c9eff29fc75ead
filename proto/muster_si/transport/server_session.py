"""One registration as the core sees it: the ResourceManagerCallback that puts what it is told into four outboxes.

Made by the servicer at registration, before the resource manager opens its streams, so nothing said meanwhile is
lost. It ends once, with a status that all its streams close with.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import grpc
from google.protobuf.message import Message

from muster_si import muster_pb2, si_pb2
from muster_si.errors import RefusalCode, Refused
from muster_si.transport.batching import parcel
from muster_si.transport.outbox import Outbox
from muster_si.transport.settings import TransportSettings
from muster_si.transport.streams import StreamKind


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a session ended.

    is_news: the core does not know yet and has to be told that the connection is lost.
    drains: what waits in the outboxes is still delivered, if the resource manager reads it soon.
    """

    code: grpc.StatusCode
    reason: str
    is_news: bool = True
    drains: bool = False


class ServerSession:
    """The outboxes of one resource manager and the end of its session."""

    def __init__(self, rm_id: str, session_id: str | None, settings: TransportSettings) -> None:
        self.rm_id = rm_id
        self.session_id = session_id  # None: a plain si.v1 client, which knows of no sessions
        self.over: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._settings = settings
        self._outboxes = {
            kind: Outbox(settings.server_outbox_bytes, settings.batch_items, settings.batch_bytes)
            for kind in StreamKind
        }
        self._attached: set[StreamKind] = set()
        self._silent: set[StreamKind] = set()
        self._unattended = asyncio.get_running_loop().call_later(settings.attach_timeout_s, self._give_up)

    def update_allocation(self, response: si_pb2.AllocationResponse) -> None:
        """Queues for the allocation stream."""
        self._post(StreamKind.ALLOCATION, response)

    def update_application(self, response: si_pb2.ApplicationResponse) -> None:
        """Queues for the application stream."""
        self._post(StreamKind.APPLICATION, response)

    def update_node(self, response: si_pb2.NodeResponse) -> None:
        """Queues for the node stream."""
        self._post(StreamKind.NODE, response)

    def call_back(self, callback: muster_pb2.Callback) -> None:
        """Queues for the stream of callbacks."""
        self._post(StreamKind.CALLBACK, callback)

    def session_lost(self, reason: str) -> None:
        """The core's word that the session is over: its streams close with ABORTED."""
        self.end(Ending(grpc.StatusCode.ABORTED, reason, is_news=False))

    def attach(self, kind: StreamKind) -> Outbox:
        """The outbox for a stream that the resource manager opened.

        Raises Refused when it has this stream already.
        """
        if kind in self._attached:
            reason = f"this session has its {kind.rpc} stream already"
            raise Refused(RefusalCode.FAILED_PRECONDITION, reason)
        self._attached.add(kind)
        self._unattended.cancel()
        return self._outboxes[kind]

    def fall_silent(self, kind: StreamKind) -> None:
        """The resource manager sends no more on this stream. When it said so on every stream, it is leaving; a plain
        client may only be done asking and still wants its answers."""
        self._silent.add(kind)
        if self.session_id is not None and self._silent == set(StreamKind):
            self.end(Ending(grpc.StatusCode.OK, "closed by the resource manager", drains=True))

    def end(self, ending: Ending) -> None:
        """Ends the session; only the first end counts."""
        if self.over.done():
            return
        self.over.set_result(ending)
        self._unattended.cancel()
        for outbox in self._outboxes.values():
            outbox.close(ending.reason)

    def _give_up(self) -> None:
        waited = self._settings.attach_timeout_s
        self.end(Ending(grpc.StatusCode.DEADLINE_EXCEEDED, f"no stream was opened for {waited:g} s"))

    def _post(self, kind: StreamKind, message: Message) -> None:
        if self.over.done():
            return
        outgoing = parcel(message)
        size = len(outgoing.data)
        if size > self._settings.max_message_bytes:
            name = message.DESCRIPTOR.name
            self._overrun(f"a {name} of {size} bytes is over the limit of {self._settings.max_message_bytes}")
        elif not self._outboxes[kind].try_put(outgoing):
            limit = self._settings.server_outbox_bytes
            self._overrun(f"more than {limit} bytes wait to be read from {kind.rpc}")

    def _overrun(self, reason: str) -> None:
        """Ends the session instead of growing, and says goodbye on the callbacks' stream if that one still flows."""
        reregister = muster_pb2.Callback(reregister=muster_pb2.Reregister(reason=reason))
        self._outboxes[StreamKind.CALLBACK].try_put(parcel(reregister))
        self.end(Ending(grpc.StatusCode.RESOURCE_EXHAUSTED, reason))
