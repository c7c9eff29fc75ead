"""The session with the core.

Registers, keeps the streams open, and reconnects with increasing delays. Each stream has its own outbox and sender,
because streams must not wait for each other (docs/internals/semantics.md, 25). Messages are tagged with their session,
so that a message of an earlier session is ignored.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar, cast

import structlog

from muster_operator.config.settings import Configuration
from muster_operator.model.core_messages import CoreRequest, Inventory, InventoryPart
from muster_operator.model.errors import ConfigurationRejected, StartupRefused
from muster_operator.model.limits import OUTBOX_FULL, OUTBOX_LIMIT, OUTBOX_ROOM, REJECTED_CHARACTERS
from muster_operator.si.codec import UNENCODABLE, Batch, EncodedRequest, Encoder, MessageStream, Sent, decoded_inventory
from muster_operator.si.isolation import EncodableBatch, Refusal
from muster_si import keys, muster_pb2, si_pb2
from muster_si.api import SI_VERSION, SchedulerAPI
from muster_si.errors import RefusalCode, Refused, SchedulerInterfaceError, SessionLost
from muster_si.sent_items import count_items

log = structlog.get_logger("muster.core")

#: Seconds between registrations; the last value repeats. A core restarts within a second.
BACKOFF_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)

#: After a session of at least this many seconds the delays start again.
GOOD_SESSION_S: Final = 30.0
_STATE_DUMP: Final = "stateDump"
M = TypeVar("M")
FromCore = si_pb2.AllocationResponse | si_pb2.ApplicationResponse | si_pb2.NodeResponse | muster_pb2.Callback


class SessionListener(Protocol):
    """Receives the events of a session. The methods must not block."""

    def session_up(self, session: Session) -> None:
        """A session was opened. The core has no state of it yet."""

    def session_lost(self, session: Session, reason: str) -> None:
        """The session has ended."""

    def message_received(self, session: Session, message: FromCore) -> None:
        """The core sent a message."""

    def core_is_slow(self, session: Session, *, is_slow: bool) -> None:
        """The number of waiting messages has reached the limit for handling objects, or is below it again."""


class Session:
    """One registration: the callback of the core, and the outboxes of the streams."""

    def __init__(self, api: SchedulerAPI, encoder: Encoder, listener: SessionListener) -> None:
        self._api, self._encoder, self._listener = api, encoder, listener
        self.sent = Sent()
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._outboxes: dict[MessageStream, _Outbox[Any]] = {
            MessageStream.APPLICATIONS: self._outbox(partial(_send_applications, api)),
            MessageStream.NODES: self._outbox(api.update_node),
            MessageStream.ALLOCATIONS: self._outbox(api.update_allocation),
        }
        self._own_items = 0  # items of rejections by the operator itself, which the listener receives too
        self._is_core_slow = False

    def _outbox(self, deliver: Callable[[M], Awaitable[None]]) -> _Outbox[M]:
        return _Outbox(self._encoder, deliver, self.session_lost, self._sent_one, self._refused)

    def _refused(self, refusal: Refusal) -> None:
        """Passes on a rejection of an item that cannot be sent, as if it were the core's."""
        if not isinstance(refusal, si_pb2.NodeResponse):
            self._own_items += count_items(refusal)
        self._listener.message_received(self, refusal)

    def update_allocation(self, response: si_pb2.AllocationResponse) -> None:
        """Passes the message on."""
        self._listener.message_received(self, response)

    def update_application(self, response: si_pb2.ApplicationResponse) -> None:
        """Passes the message on."""
        self._listener.message_received(self, response)

    def update_node(self, response: si_pb2.NodeResponse) -> None:
        """Passes the message on."""
        self._listener.message_received(self, response)

    def call_back(self, callback: muster_pb2.Callback) -> None:
        """Passes the message on. A request of the core for a new registration ends the session."""
        if callback.WhichOneof("kind") == "reregister":
            self.session_lost(f"the core asks for it: {callback.reregister.reason}")
        else:
            self._listener.message_received(self, callback)

    def session_lost(self, reason: str) -> None:
        """Ends the session. Later reasons are ignored."""
        if not self.over.done():
            self.over.set_result(reason)
            self._listener.session_lost(self, reason)

    def send(self, requests: Iterable[CoreRequest]) -> None:
        """Queues requests on their streams, in this order. Does nothing after the end of the session."""
        if self.over.done():
            return
        for batch in self._encoder.batches(requests):
            if batch.is_counted:
                self.sent.add(batch.stream)
            self._outboxes[batch.stream].put(batch)
        if not self._is_core_slow and self._waiting() > OUTBOX_FULL:
            self._is_core_slow = True
            self._listener.core_is_slow(self, is_slow=True)

    def _waiting(self) -> int:
        return sum(len(outbox) for outbox in self._outboxes.values())

    def _sent_one(self) -> None:
        if self._is_core_slow and self._waiting() < OUTBOX_ROOM:
            self._is_core_slow = False
            self._listener.core_is_slow(self, is_slow=False)

    def depths(self) -> dict[str, int]:
        """Waiting messages by stream."""
        return {stream.value: len(outbox) for stream, outbox in self._outboxes.items()}

    async def barrier(self, *, more: bool = False) -> None:
        """Returns when the core has processed all messages so far. Without ``more`` it starts scheduling then.

        Raises:
            SchedulerInterfaceError: the session has ended, or the core rejects the barrier.
        """
        so_far = await _sent_by(self)
        await self._api.barrier(self._encoder.barrier(so_far, more=more))

    async def take_inventory(self, part: InventoryPart, beyond: str, limit: int) -> tuple[Inventory, int]:
        """Returns a part of the core's state after all messages so far, and its number of sent items by then.

        Raises:
            SchedulerInterfaceError: the session has ended, or the core rejects the request.
        """
        so_far = await _sent_by(self)
        answer = await self._api.take_inventory(self._encoder.question(so_far, part, beyond, limit))
        return decoded_inventory(answer, part, beyond), answer.sentItems + self._own_items

    async def flushed(self) -> None:
        """Waits until the transport has accepted all messages that are queued now."""
        await asyncio.gather(*[outbox.handed_over() for outbox in self._outboxes.values()])

    async def answer(self, answer: muster_pb2.Answer) -> None:
        """Answers a question of the core. The first answer declares which questions are supported."""
        await self._api.answer(self._encoder.rm_id, answer)

    def close(self) -> None:
        """Stops sending."""
        for outbox in self._outboxes.values():
            outbox.close()


async def _sent_by(session: Session) -> Sent:
    """The number of messages so far, after the transport has accepted them. Raises SessionLost after the end."""
    so_far = replace(session.sent)
    await session.flushed()
    if session.over.done():
        raise SessionLost("the session is over")
    return so_far


async def _send_applications(api: SchedulerAPI, message: si_pb2.ApplicationRequest | muster_pb2.FactsRequest) -> None:
    """Sends applications, or objects for filters, which are in effect on return."""
    if isinstance(message, si_pb2.ApplicationRequest):
        await api.update_application(message)
        return
    for refused in (await api.update_facts(message)).rejected:
        kind = muster_pb2.Fact.Kind.Name(refused.kind)
        log.warning("the core rejected an item of a message", kind=kind, name=refused.name, reason=refused.reason)


class _Outbox(Generic[M]):
    """Queued messages of one stream, and the task that encodes and sends them."""

    def __init__(
        self,
        encoder: Encoder,
        deliver: Callable[[M], Awaitable[None]],
        lost: Callable[[str], None],
        sent: Callable[[], None],
        refused: Callable[[Refusal], None],
    ) -> None:
        self._encoder, self._deliver, self._lost, self._sent = encoder, deliver, lost, sent
        self._refused = refused
        self._waiting: deque[Batch] = deque()
        self._gone = 0  # number of messages that the transport has accepted
        self._flush_waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._wake_up = asyncio.Event()
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(lambda _: self._complete())

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, batch: Batch) -> None:
        self._waiting.append(batch)
        if len(self._waiting) > OUTBOX_LIMIT:
            self._lost(f"more than {OUTBOX_LIMIT} messages wait for the core")
            self._waiting.clear()
        self._wake_up.set()

    def handed_over(self) -> asyncio.Future[None]:
        """A future that is done when the transport has accepted all queued messages, or never will."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flush_waiters.append((self._gone + len(self._waiting), done))
        self._complete()
        return done

    def close(self) -> None:
        self._task.cancel()

    def _complete(self) -> None:
        """Completes the futures whose messages were accepted, and all after the end."""
        is_over = self._task.done()
        while self._flush_waiters and (is_over or self._flush_waiters[0][0] <= self._gone):
            done = self._flush_waiters.popleft()[1]
            if not done.done():
                done.set_result(None)

    def _message(self, batch: Batch) -> EncodedRequest:
        """Encodes a batch. Items that cannot be encoded are left out and rejected."""
        try:
            return self._encoder.encoded(batch)
        except UNENCODABLE:
            encodable = EncodableBatch(self._encoder)
            message = encodable.message(batch)
            for refusal in encodable.refused:
                self._refused(refusal)
            return message

    async def _run(self) -> None:
        try:
            while True:
                await self._wake_up.wait()
                self._wake_up.clear()
                while self._waiting:
                    await self._deliver(cast("M", self._message(self._waiting[0])))
                    if self._waiting:  # it was cleared in the meantime if the limit was exceeded
                        self._waiting.popleft()
                    self._gone += 1
                    self._complete()
                    self._sent()
                    await asyncio.sleep(0)  # lets other tasks run between two messages
        except SchedulerInterfaceError as error:
            self._lost(str(error))
        except Exception as error:
            log.exception("a message to the core could not be encoded")
            self._lost(f"a message could not be encoded: {error}")


@dataclass(slots=True)
class CoreLink:
    """Opens sessions one after the other."""

    api: SchedulerAPI
    encoder: Encoder
    configuration: Configuration
    listener: SessionListener
    attempts: Callable[[], None]
    """Called for each attempt after the first, for metrics."""
    _session: Session | None = None
    _rejected: str = ""
    """What of the ConfigMaps is rejected, one line for each error."""

    def depths(self) -> dict[str, int]:
        """Messages that wait for the core, per stream."""
        return self._session.depths() if self._session is not None else {}

    async def run(self) -> None:
        """Keeps a session open until cancelled.

        Raises:
            StartupRefused: the core rejects the first registration because of the version. ConfigurationRejected if it
                does so because of the configuration.
        """
        failures, registered = 0, False
        while True:
            session = self._session = Session(self.api, self.encoder, self.listener)
            began = time.monotonic()
            try:
                await self._register(session)
                registered = True
                reason = await asyncio.shield(session.over)
            except Refused as refused:
                reason = str(refused)
                if not registered and refused.code in _FINAL:
                    raise self._end(refused) from refused
            except SchedulerInterfaceError as error:
                reason = str(error)
            finally:
                session.close()
            session.session_lost(reason)
            failures = 0 if time.monotonic() - began > GOOD_SESSION_S else failures + 1
            pause_s = BACKOFF_S[min(failures, len(BACKOFF_S)) - 1] if failures else 0.0
            log.warning("no session with the core, registering again", reason=reason, in_seconds=pause_s)
            self.attempts()
            await asyncio.sleep(pause_s)

    async def reconfigure(self, configuration: Configuration) -> None:
        """Sends a new configuration to the core and uses it for later registrations.

        A standby has no session and only uses it later.

        Raises:
            Refused: the core rejects it. Core and operator keep the previous one.
            SessionLost: there is no session. The next registration has the new one.
        """
        if self._session is None:
            self.configuration = configuration
            return
        request = self._update(configuration)
        try:
            await self.api.update_configuration(request)
        except Refused:
            raise
        except SchedulerInterfaceError:
            self.configuration = configuration
            raise
        self.configuration = configuration

    async def report_rejected(self, errors: Sequence[str]) -> None:
        """Tells the core, and the cores of later sessions, what of the ConfigMaps is rejected, for its users."""
        lines = "\n".join(errors)[:REJECTED_CHARACTERS]
        if lines == self._rejected:
            return
        self._rejected = lines
        if self._session is None:
            return
        try:
            await self.api.update_configuration(self._update(self.configuration))
        except SchedulerInterfaceError as error:
            log.info("the next session begins with what was rejected", reason=str(error))

    def _update(self, configuration: Configuration) -> si_pb2.UpdateConfigurationRequest:
        return self.encoder.configuration(
            configuration.policy_group, configuration.queues, self._extra(configuration.extra)
        )

    def _extra(self, extra: Mapping[str, str]) -> Mapping[str, str]:
        return {**extra, keys.EXTRA_REJECTED: self._rejected} if self._rejected else extra

    async def leave(self) -> None:
        """Unregisters, so that the core is informed of the intentional end."""
        try:
            await self.api.unregister(self.encoder.unregister_request())
        except SchedulerInterfaceError as error:
            log.info("session closed without unregistering", reason=str(error))

    async def _register(self, session: Session) -> None:
        configuration = self.configuration
        request = self.encoder.registration(
            SI_VERSION, configuration.policy_group, configuration.queues, self._extra(configuration.extra)
        )
        await self.api.register_resource_manager(request, session)
        await session.answer(muster_pb2.Answer(attendance=muster_pb2.Attendance(stateDump=True)))
        log.info("registered with the core", rm_id=self.encoder.rm_id)
        self.listener.session_up(session)

    def _end(self, refused: Refused) -> StartupRefused:
        reason = f"the core refuses to serve: {refused.reason}"
        if refused.code is RefusalCode.INVALID_ARGUMENT:
            return ConfigurationRejected(f"{self.configuration.policy_group}.yaml", reason)
        return StartupRefused(reason)


def is_state_dump(callback: muster_pb2.Callback) -> bool:
    """Whether the core requests a state dump."""
    return callback.WhichOneof("kind") == _STATE_DUMP


def state_dump(callback: muster_pb2.Callback, json: str, error: str = "") -> muster_pb2.Answer:
    """The answer to a state dump request."""
    return muster_pb2.Answer(stateDump=muster_pb2.StateDumpAnswer(id=callback.stateDump.id, json=json, error=error))


#: Rejections that a further attempt does not change.
_FINAL: Final = frozenset({RefusalCode.INVALID_ARGUMENT, RefusalCode.FAILED_PRECONDITION})
