"""Sessions of resource managers, and the dispatch of effects to sessions, timers and the event store.

The scheduler task calls `Dispatcher.carry` with the effects of each event and cycle. The supervisor catches exceptions
on the way. A message of an earlier session is never delivered to a later one.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import count, groupby
from typing import Final, TypeVar, cast

import orjson
import structlog

from muster_core.config.load import Loaded
from muster_core.config.settings import DEFAULT_SETTINGS, CoreSettings
from muster_core.metrics.counters import Metrics
from muster_core.model.config import GroupResolver
from muster_core.model.effects import (
    AllocationResponse,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationSummarized,
    ApplicationUpdated,
    Effect,
    NodeAccepted,
    NodeRecommended,
    NodeRejected,
    PlacementsProposed,
    SchedulingStateChanged,
    TimerSet,
    VictimsProposed,
)
from muster_core.model.events import TimerFired
from muster_core.model.ids import PartitionId, RmId
from muster_core.model.records import AllocationsRecorded, AskRecorded, EventRecorded, Recorded
from muster_core.si import callbacks
from muster_core.si.allocations import AllocationDecoder, allocation_response
from muster_core.si.applications import ApplicationAnswer, ApplicationDecoder, application_response
from muster_core.si.events import EventStore, PushFilter, event_record, is_pushed
from muster_core.si.nodes import NodeAnswer, NodeDecoder, node_recommendations, node_response
from muster_core.si.pod_tags import Partitions
from muster_si import muster_pb2, si_pb2
from muster_si.api import ResourceManagerCallback
from muster_si.errors import SessionLost
from muster_si.sent_items import count_items

_log = structlog.get_logger(__name__)
_diagnostics = structlog.get_logger("muster_core.runtime.diagnostics")
T = TypeVar("T")


class MessageKind(Enum):
    """The three streams. Order holds within a stream, never across streams (docs/internals/semantics.md, rule 19)."""

    APPLICATION = "application"
    NODE = "node"
    ALLOCATION = "allocation"


class Decoder:
    """Decodes the messages of one resource manager."""

    def __init__(self, rm: RmId, partitions: Iterable[str]) -> None:
        self.partitions = Partitions(rm, partitions)
        self.allocations = AllocationDecoder(rm, self.partitions)
        self.applications = ApplicationDecoder(rm, self.partitions)
        self.nodes = NodeDecoder(rm, self.partitions, self.allocations)


@dataclass(slots=True, eq=False)
class RecoveryBarrier:
    """Waits until as many messages of each kind were taken in as the resource manager counted.

    `recovers`: it ends a recovery; else a caller only waits for the end.
    """

    counts: Mapping[MessageKind, int]
    passed: asyncio.Future[None]
    recovers: bool = True

    def open(self) -> None:
        """Lets the waiting caller continue."""
        if not self.passed.done():
            self.passed.set_result(None)

    def end(self, reason: str) -> None:
        """Raises SessionLost in the waiting caller, because the session has ended."""
        if not self.passed.done():
            self.passed.set_exception(SessionLost(reason))


@dataclass(slots=True, eq=False)
class Session:
    """One session of a resource manager. `ended`: why it ended, or empty. `taken`: messages that were processed."""

    rm: RmId
    callback: ResourceManagerCallback
    decoder: Decoder
    build_info: Mapping[str, str]
    loaded: Loaded
    ended: str = ""
    #: The scheduler has processed the registration. Earlier decisions are not for this session.
    is_in_force: bool = False
    taken: dict[MessageKind, int] = field(default_factory=lambda: dict.fromkeys(MessageKind, 0))
    #: Number of sent items about allocations and applications (`muster_si.sent_items`).
    sent_items: int = 0
    barriers: list[RecoveryBarrier] = field(default_factory=list)
    #: Source of users' groups by partition, for applications that name none.
    resolvers: Mapping[PartitionId, GroupResolver] = field(default_factory=dict)
    #: Keeps messages of applications in order while groups are looked up.
    application_order: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: Declared predicate callbacks; none until the callback stream is open.
    attendance: muster_pb2.Attendance = field(default_factory=muster_pb2.Attendance)
    #: Requested state dumps by ID of the request.
    questions: dict[int, asyncio.Future[muster_pb2.StateDumpAnswer]] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether messages are still accepted."""
        return not self.ended

    def require_open(self) -> None:
        """Raises SessionLost if the session has ended."""
        if self.ended:
            raise SessionLost(self.ended)

    def end(self, reason: str) -> None:
        """Ends the session. Every caller that waits for something of this session receives SessionLost."""
        if self.ended:
            return
        self.ended = reason
        for barrier in self.barriers:
            barrier.end(reason)
        self.barriers.clear()
        for future in self.questions.values():
            if not future.done():
                future.set_exception(SessionLost(reason))
        self.questions.clear()

    def take_passed_barriers(self) -> list[RecoveryBarrier]:
        """Returns the recovery barriers whose counts are reached; each is returned once."""
        passed = [
            barrier
            for barrier in self.barriers
            if all(self.taken[kind] >= count for kind, count in barrier.counts.items())
        ]
        if passed:
            self.barriers = [barrier for barrier in self.barriers if barrier not in passed]
        return passed


_numbers = count(1)


async def state_dump(session: Session, deadline_s: float) -> str:
    """The resource manager's own state as one JSON document (GetStateDump).
    Raises SessionLost, TimeoutError, and LookupError where it has none to give.
    """
    session.require_open()
    if not session.attendance.stateDump:
        raise LookupError("the resource manager does not declare a state dump")
    number = next(_numbers)
    asked = session.questions[number] = asyncio.get_running_loop().create_future()
    session.callback.call_back(callbacks.state_dump_question(number))
    try:
        answer = await asyncio.wait_for(asked, deadline_s)
    finally:
        session.questions.pop(number, None)
    if answer.error:
        raise LookupError(answer.error)
    return str(answer.json)


class Supervisor:
    """Runs steps of the core, and counts and logs their exceptions.

    `failure`: the last exception since `take_failure` after which the state may be inconsistent; None = there is none.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.failure: Exception | None = None

    def attempt(self, act: Callable[[], T], instead: T, cause: object, *, changes_state: bool = True) -> T:
        """Returns the result of `act`, or `instead` if it raised. `cause` is shown in the log.

        `changes_state`: whether the invariants are checked after an exception.
        """
        try:
            return act()
        except Exception as failure:  # noqa: BLE001 - the one supervisor of the core
            self._metrics.failures.inc()
            self.failure = failure if changes_state else self.failure
            with suppress(OSError, ValueError):  # a log that cannot be written stops nothing
                _diagnostics.error("recovered from a failure in the core", cause=repr(cause)[:2000], exc_info=failure)
            return instead

    def take_failure(self) -> Exception | None:
        """Returns and clears the last exception; None if there was none."""
        failure, self.failure = self.failure, None
        return failure


class TimerHeap:
    """Pending timers, the earliest first. Timers of the same time fire in the order in which they were set."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, TimerFired]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, effect: TimerSet) -> None:
        """Adds a timer."""
        heapq.heappush(self._heap, (effect.at_ns, next(self._order), TimerFired(effect.timer)))

    def due(self, now_ns: int) -> TimerFired | None:
        """Removes and returns the earliest timer if it is due, else None."""
        if not self._heap or self._heap[0][0] > now_ns:
            return None
        return heapq.heappop(self._heap)[2]

    def next_ns(self) -> int | None:
        """Returns the time of the earliest timer, or None."""
        return self._heap[0][0] if self._heap else None

    def clear(self) -> None:
        """Removes all timers, because the state they belong to was discarded."""
        self._heap.clear()


_MS = 1_000_000


def line(summed: ApplicationSummarized) -> str:
    """Returns the log line `YK_APP_SUMMARY: {…}` with the field names of YuniKorn. Times are in ms; 0 = never ran."""
    submitted_ns, started_ns, ended_ns = summed.times_ns
    found = {
        "appId": summed.application,
        "submissionTime": submitted_ns // _MS,
        "startTime": started_ns // _MS,
        "finishTime": ended_ns // _MS,
        "user": summed.user,
        "queue": summed.queue,
        "state": summed.state.value,
        "rmID": summed.rm,
        "resourceUsage": summed.used,
        "preemptedResource": summed.preempted,
        "placeholderResource": summed.placeholders,
    }
    return f"YK_APP_SUMMARY: {orjson.dumps(found).decode()}"


_NOTED: Final = (EventRecorded, AskRecorded, AllocationsRecorded)
_APPLICATION = (ApplicationAccepted, ApplicationRejected, ApplicationUpdated)
_NODE = (NodeAccepted, NodeRejected)


class Dispatcher:
    """Sends effects to their receivers.

    `sessions`: the newest session of each resource manager; `Scheduler` sets it. `broken`: sessions whose callback
    failed; the scheduler task ends them.
    """

    def __init__(self, metrics: Metrics, supervisor: Supervisor, events: EventStore) -> None:
        self.sessions: dict[RmId, Session] = {}
        self.deadlines = TimerHeap()
        self.events = events
        self.settings = DEFAULT_SETTINGS
        #: Functions that are called with new settings.
        self.followers: list[Callable[[CoreSettings], None]] = []
        self.pushes = PushFilter()
        self.broken: list[Session] = []
        self._metrics = metrics
        self._supervisor = supervisor

    def carry(self, effects: Iterable[Effect], now_ns: int) -> None:
        """Sends all effects in order. Event records come last."""
        responses: list[Effect] = []
        noted: list[Recorded] = []
        for effect in effects:
            if isinstance(effect, _NOTED):
                noted.append(effect)
            else:
                responses.append(effect)
        for (_, rm), run in groupby(responses, key=_run_of):
            self._carry_run(rm, list(run), now_ns)
        if noted:
            self._note(noted, now_ns)

    def configure(self, settings: CoreSettings) -> None:
        """Applies new settings."""
        self.settings = settings
        for follow in self.followers:
            follow(settings)
        self.pushes.capacity = settings.request_capacity
        self.events.configure(
            tracking=settings.tracks_events,
            capacity=settings.ring_capacity,
            most_streams=settings.most_streams,
            most_per_host=settings.most_streams_per_host,
        )

    def _carry_run(self, rm: RmId | None, run: Sequence[Effect], now_ns: int) -> None:
        """Sends consecutive effects of one kind to one resource manager."""
        for effect in run:
            self._metrics.sent(effect)
        first = run[0]
        if isinstance(first, TimerSet):
            for effect in run:
                self.deadlines.set(cast("TimerSet", effect))
            return
        with suppress(OSError, ValueError):  # a log that cannot be written stops nothing
            _show(run)
        if isinstance(first, ApplicationSummarized):
            return
        self._send_to(rm, partial(_send, run=run), run)

    def _note(self, noted: Sequence[Recorded], now_ns: int) -> None:
        """Stores event records, and sends those that users act on to the resource managers."""
        if self.events.tracking:
            self.events.add(noted, now_ns)
        by_manager: dict[RmId, list[EventRecorded]] = {}
        for each in noted:
            if isinstance(each, EventRecorded) and is_pushed(each):
                by_manager.setdefault(each.rm, []).append(each)
        for rm, notes in by_manager.items():
            self._push(rm, self.pushes.chosen(notes, now_ns), now_ns)

    def _push(self, rm: RmId, notes: Sequence[EventRecorded], now_ns: int) -> None:
        none: list[si_pb2.EventRecord] = []
        records = self._supervisor.attempt(lambda: [event_record(each, now_ns) for each in notes], none, notes)
        if records:
            self._send_to(rm, partial(_send_events, records=records), notes)

    def _send_to(self, rm: RmId | None, send: Callable[[Session], None], run: Sequence[Effect]) -> None:
        session = self.sessions.get(rm) if rm is not None else None
        if session is None or not session.is_open or not session.is_in_force:
            self._metrics.dropped("effects of a session that is over")
            return
        if not self._supervisor.attempt(lambda: _done(send, session), instead=False, cause=run, changes_state=False):
            self.broken.append(session)


def _done(send: Callable[[Session], None], session: Session) -> bool:
    send(session)
    return True


def _send_events(session: Session, records: Sequence[si_pb2.EventRecord]) -> None:
    session.callback.call_back(callbacks.events(records))


def _run_of(effect: Effect) -> tuple[object, RmId | None]:
    """Returns a key that is equal for consecutive effects that can share a message."""
    if isinstance(effect, TimerSet):
        return TimerSet, None
    if isinstance(effect, AllocationResponse):
        return id(effect), effect.rm
    return type(effect), effect.rm


def _send(session: Session, run: Sequence[Effect]) -> None:
    first = run[0]
    if isinstance(first, AllocationResponse):
        response = allocation_response(first)
        session.sent_items += count_items(response)
        session.callback.update_allocation(response)
    elif isinstance(first, _APPLICATION):
        answers = cast("Sequence[ApplicationAnswer]", run)
        message = application_response(answers)
        session.sent_items += count_items(message)
        session.callback.update_application(message)
    elif isinstance(first, _NODE):
        session.callback.update_node(node_response(cast("Sequence[NodeAnswer]", run)))
    elif isinstance(first, NodeRecommended):
        session.callback.call_back(node_recommendations(cast("Sequence[NodeRecommended]", run)))
    elif isinstance(first, PlacementsProposed):
        for asked in cast("Sequence[PlacementsProposed]", run):
            session.callback.call_back(callbacks.places_asked(asked))
    elif isinstance(first, VictimsProposed):
        for one in cast("Sequence[VictimsProposed]", run):
            session.callback.call_back(callbacks.victims_asked(one))
    elif isinstance(first, SchedulingStateChanged):
        states = cast("Sequence[SchedulingStateChanged]", run)
        session.callback.call_back(callbacks.scheduling_states(states))


def _show(run: Sequence[Effect]) -> None:
    """Logs what users can see. Allocations are too many, so only their number is logged."""
    for effect in run:
        match effect:
            case ApplicationAccepted():
                _log.info("application accepted", application=effect.application)
            case ApplicationRejected():
                _log.info("application rejected", application=effect.application, reason=effect.reason)
            case ApplicationUpdated():
                _log.info(
                    "application changed state",
                    application=effect.application,
                    state=effect.state.value,
                    message=effect.message,
                )
            case ApplicationSummarized():
                _log.info(line(effect))
            case NodeRecommended():
                _log.warning("node recommendation", node=effect.node, message=effect.message)
            case NodeRejected():
                _log.warning("node rejected", node=effect.node, reason=effect.reason)
            case AllocationResponse():
                _log.debug("allocations", new=len(effect.new), released=len(effect.released))
            case _:
                pass
