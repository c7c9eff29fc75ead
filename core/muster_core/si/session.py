"""Sessions of resource managers and their bounded queue of messages.

A resource manager that does not read its stream fills the queue, and the session is closed. A message of an earlier
session is never delivered to a later one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Final

from muster_core.config.load import Loaded, load
from muster_core.model.config import GroupResolver
from muster_core.model.effects import Effect
from muster_core.model.errors import ConfigurationError
from muster_core.model.events import Event
from muster_core.model.ids import PartitionId, RmId, partition_id
from muster_core.model.records import EventRecorded, Notice
from muster_core.placement.filters.hooks import HOOKS
from muster_core.si import callbacks
from muster_core.si.allocations import AllocationDecoder
from muster_core.si.applications import ApplicationDecoder
from muster_core.si.nodes import NodeDecoder
from muster_core.si.pod_tags import Partitions
from muster_core.si.values import NAME_LIMIT
from muster_si import keys, muster_pb2
from muster_si.api import SI_VERSION, ResourceManagerCallback
from muster_si.errors import RefusalCode, Refused, SessionLost

#: policyGroup of a registration that names none (service.policyGroup).
_POLICY_GROUP: Final = "queues"


def rm_id(name: str) -> RmId:
    """Returns the rmID, which is required."""
    if not name:
        raise Refused(RefusalCode.INVALID_ARGUMENT, "rmID is missing")
    if len(name) > NAME_LIMIT:
        raise Refused(RefusalCode.INVALID_ARGUMENT, f"rmID is longer than {NAME_LIMIT} characters")
    return RmId(name)


def require_version(version: str) -> None:
    """Requires the same major version. Raises Refused with both versions otherwise."""
    if version.partition(".")[0].removeprefix("v") != SI_VERSION.partition(".")[0]:
        said = f"the resource manager speaks version {version[:32]!r} of the Scheduler Interface"
        raise Refused(RefusalCode.FAILED_PRECONDITION, f"{said}, this scheduler {SI_VERSION!r}")


def text_of(policy_group: str, config: str, extra: Mapping[str, str]) -> str:
    """Returns the text of queues.yaml: from `config`, or from the extra keys under the name of the policy group."""
    if len(policy_group) > NAME_LIMIT:
        raise Refused(RefusalCode.INVALID_ARGUMENT, f"policyGroup is longer than {NAME_LIMIT} characters")
    return config or extra.get(_file_of(policy_group), "")


def _file_of(policy_group: str) -> str:
    return f"{policy_group or _POLICY_GROUP}.yaml"


def configuration_of(text: str, extra: Mapping[str, str], policy_group: str) -> Loaded:
    """Loads the configuration from the text and the extra keys."""
    if HOOKS.utilization is None and extra.get(keys.EXTRA_UTILIZATION, "").lower() == "true":
        raise unsupported(f"utilization reports, which {keys.EXTRA_UTILIZATION} announces")
    try:
        return load(text, extra, _file_of(policy_group))
    except ConfigurationError as error:
        raise Refused(RefusalCode.INVALID_ARGUMENT, f"config: {error}") from error


def unsupported(feature: str) -> Refused:
    """Returns the answer to a call that uses a feature which is not installed."""
    return Refused(RefusalCode.FAILED_PRECONDITION, f"this scheduler runs without {feature}")


def require_queues(loaded: Loaded, policy_group: str) -> None:
    """Reject an empty configuration, which would remove all active quotas, limits and access lists."""
    if loaded.is_default:
        what = f"{_file_of(policy_group)} is empty or missing"
        fix = "the active configuration stays; restore the file, or restart the core to use the default queues"
        raise Refused(RefusalCode.INVALID_ARGUMENT, f"config: {what}; {fix}")


def partition_names(loaded: Loaded) -> list[str]:
    """Returns the names of its partitions without the resource manager."""
    return [partition.name for partition in loaded.configuration.partitions]


def resolvers(rm: RmId, loaded: Loaded) -> dict[PartitionId, GroupResolver]:
    """Returns the source of users' groups by partition."""
    return {partition_id(rm, found.name): found.resolver for found in loaded.configuration.partitions}


def warnings(rm: RmId, loaded: Loaded) -> list[EventRecorded]:
    """Returns the warnings of the configuration as event records."""
    found = list(loaded.warnings)
    if loaded.configuration.timing.empty_node_interval_ns and HOOKS.recommendations is None:
        found.append(f"{keys.EXTRA_EMPTY_NODE_INTERVAL} has no effect: this scheduler runs without recommendations")
    return [EventRecorded(rm, Notice.QUEUE, "root", warning) for warning in found]


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


@dataclass(slots=True, eq=False)
class Session:
    """One session of a resource manager. `ended`: why it ended, or empty. `taken`: messages that were processed."""

    rm: RmId
    callback: ResourceManagerCallback
    decoder: Decoder
    build_info: Mapping[str, str]
    extra_config: Mapping[str, str]
    config_text: str = ""
    #: `config_text` is not empty, so the default queues are not active.
    has_queues: bool = False
    ended: str = ""
    #: The world has heard of it: what was decided before is not for it.
    is_in_force: bool = False
    taken: dict[MessageKind, int] = field(default_factory=lambda: dict.fromkeys(MessageKind, 0))
    #: Number of sent items about allocations and applications (`muster_si.words`).
    words: int = 0
    fences: list[RecoveryBarrier] = field(default_factory=list)
    #: Source of users' groups by partition, for applications that name none.
    resolvers: Mapping[PartitionId, GroupResolver] = field(default_factory=dict)
    #: Keeps messages of applications in order while groups are looked up.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
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
        waiting: list[asyncio.Future[None] | asyncio.Future[muster_pb2.StateDumpAnswer]] = [
            *(fence.passed for fence in self.fences),
            *self.questions.values(),
        ]
        self.fences.clear()
        self.questions.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(SessionLost(reason))

    def take_passed_fences(self) -> list[RecoveryBarrier]:
        """Returns the recovery barriers whose counts are reached; each is returned once."""
        passed = [
            fence for fence in self.fences if all(self.taken[kind] >= count for kind, count in fence.counts.items())
        ]
        if passed:
            self.fences = [fence for fence in self.fences if fence not in passed]
        return passed


@dataclass(slots=True, eq=False)
class QueuedMessage:
    """One message, taken apart. `kind`: which stream it counts on; None = none.

    Mail of a session that is over by the time it is read is not read.
    """

    events: Sequence[Event]
    session: Session | None = None
    answers: Sequence[Effect] = ()
    kind: MessageKind | None = None
    fence: RecoveryBarrier | None = None
    #: Time of arrival, set by the event queue.
    posted_s: float = 0.0


class EventQueue:
    """Bounded queue of messages for the scheduler task.

    `news` is set when there may be something to read or to check.
    """

    def __init__(self, capacity: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.news = asyncio.Event()
        self._capacity = capacity
        self._queued: deque[QueuedMessage] = deque()
        self._room = asyncio.Event()

    def __len__(self) -> int:
        return len(self._queued)

    def oldest_s(self) -> float:
        """Returns the waiting time of the oldest message in seconds; 0 = empty."""
        return self.clock() - self._queued[0].posted_s if self._queued else 0.0

    async def put(self, queued: QueuedMessage) -> None:
        """Adds a message. Waits while the queue is full."""
        while len(self._queued) >= self._capacity:
            self._room.clear()
            await self._room.wait()
        self.post(queued)

    def post(self, queued: QueuedMessage) -> None:
        """Adds a message that must not wait: the end of a session."""
        queued.posted_s = self.clock()
        self._queued.append(queued)
        self.news.set()

    def take(self) -> QueuedMessage | None:
        """Returns the oldest message, or None."""
        if not self._queued:
            return None
        self._room.set()
        return self._queued.popleft()


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
