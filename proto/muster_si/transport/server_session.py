"""A session on the server: the ResourceManagerCallback that queues messages in four outboxes.

The servicer creates it at registration, before the resource manager opens its streams, so that no message is lost. It
ends once, with a status for all its streams.
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

    needs_report: the core has to receive `connection_lost`.
    drains: queued messages are still sent, if the resource manager reads them soon.
    """

    code: grpc.StatusCode
    reason: str
    needs_report: bool = True
    drains: bool = False


class ServerSession:
    """The outboxes of one resource manager and the end of its session."""

    def __init__(self, rm_id: str, session_id: str | None, settings: TransportSettings) -> None:
        self.rm_id = rm_id
        self.session_id = session_id  # None: a plain si.v1 client without sessions
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
        """Queues a message for the allocation stream."""
        self._post(StreamKind.ALLOCATION, response)

    def update_application(self, response: si_pb2.ApplicationResponse) -> None:
        """Queues a message for the application stream."""
        self._post(StreamKind.APPLICATION, response)

    def update_node(self, response: si_pb2.NodeResponse) -> None:
        """Queues a message for the node stream."""
        self._post(StreamKind.NODE, response)

    def call_back(self, callback: muster_pb2.Callback) -> None:
        """Queues a message for the callback stream."""
        self._post(StreamKind.CALLBACK, callback)

    def session_lost(self, reason: str) -> None:
        """The core ends the session. Its streams close with ABORTED."""
        self.end(Ending(grpc.StatusCode.ABORTED, reason, needs_report=False))

    def attach(self, kind: StreamKind) -> Outbox:
        """Returns the outbox for a new stream of the resource manager.

        Raises:
            Refused: it has such a stream already.
        """
        if kind in self._attached:
            reason = f"this session has its {kind.rpc} stream already"
            raise Refused(RefusalCode.FAILED_PRECONDITION, reason)
        self._attached.add(kind)
        self._unattended.cancel()
        return self._outboxes[kind]

    def fall_silent(self, kind: StreamKind) -> None:
        """The resource manager has closed its sending side of this stream. After all streams the session ends.

        A plain si.v1 client may still read responses, so that its session continues.
        """
        self._silent.add(kind)
        if self.session_id is not None and self._silent == set(StreamKind):
            self.end(Ending(grpc.StatusCode.OK, "closed by the resource manager", drains=True))

    def end(self, ending: Ending) -> None:
        """Ends the session. Later ends are ignored."""
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
        """Ends the session because a limit is exceeded. Requests a new registration on the callback stream."""
        reregister = muster_pb2.Callback(reregister=muster_pb2.Reregister(reason=reason))
        self._outboxes[StreamKind.CALLBACK].try_put(parcel(reregister))
        self.end(Ending(grpc.StatusCode.RESOURCE_EXHAUSTED, reason))
