"""Context of a request: its parameters, and the objects of the state that they refer to."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, TypeVar
from urllib.parse import unquote_plus

from aiohttp.web_protocol import RequestHandler

from muster_core.model.ids import ApplicationId, NodeId, PartitionId, QueuePath, partition_name
from muster_core.model.states import ApplicationState
from muster_core.rest import responses
from muster_core.rest.responses import bad_request, not_found
from muster_core.rest.schemas import ApplicationCount, ContainerCount, Health
from muster_core.runtime.log_level import LevelControl
from muster_core.runtime.service import Scheduler
from muster_core.state.applications import Application
from muster_core.state.queues import Queue
from muster_core.state.scheduler_state import Partition, SchedulerState

#: Seconds until the first request line and headers of a connection must have arrived.
HEADER_S: Final = 10.0


class Connections:
    """Tracks which connections of a server have sent a request, and since when the others are open."""

    def __init__(self) -> None:
        self._received: set[RequestHandler] = set()
        self._since: dict[RequestHandler, float] = {}

    def record_request(self, connection: RequestHandler) -> None:
        """Records that the connection has sent a request."""
        self._received.add(connection)

    def sweep(self, connections: Collection[RequestHandler], now_s: float) -> int:
        """Closes connections that have sent no request in time and forgets closed ones. Returns how many it closed."""
        self._received.intersection_update(connections)
        silent = [each for each in connections if each not in self._received]
        self._since = {each: self._since.get(each, now_s) for each in silent}
        late = [each for each in silent if now_s - self._since[each] >= HEADER_S]
        for connection in late:
            if connection.transport is not None:
                connection.transport.abort()
        return len(late)


#: Seconds between two samples.
EVERY_S: Final = 60.0
_KEPT: Final = 1440


class Sample(NamedTuple):
    """Sample of one minute."""

    at_ns: int
    applications: int
    containers: int


class History:
    """The newest samples, oldest first."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=_KEPT)

    def sample(self, scheduler_state: SchedulerState, now_ns: int) -> None:
        """Adds a sample."""
        apps = [app for partition in scheduler_state.partitions.values() for app in partition.applications.values()]
        running = sum(app.state is ApplicationState.RUNNING for app in apps)
        self._samples.append(Sample(now_ns, running, sum(len(app.allocations) for app in apps)))

    def applications(self) -> Iterator[ApplicationCount]:
        """Yields the numbers of running applications."""
        for sample in list(self._samples):
            yield ApplicationCount(timestamp=sample.at_ns, totalApplications=str(sample.applications))

    def containers(self) -> Iterator[ContainerCount]:
        """Yields the numbers of allocations, including placeholders."""
        for sample in list(self._samples):
            yield ContainerCount(timestamp=sample.at_ns, totalContainers=str(sample.containers))


@dataclass(slots=True, eq=False)
class RestContext:
    """State of one REST server. `levels`: None if the log is configured outside this process."""

    core: Scheduler
    now_ns: Callable[[], int] = time.time_ns
    levels: LevelControl | None = None
    history: History = field(default_factory=History)
    #: Result of the last health checks; None = not run yet.
    health: Health | None = None
    #: Allows one dump at a time, as in YuniKorn, and one profile at a time.
    dumping: asyncio.Lock = field(default_factory=asyncio.Lock)
    profiling: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: Allows one validation at a time, because a large configuration takes about a second of CPU time.
    checking: asyncio.Lock = field(default_factory=asyncio.Lock)
    connections: Connections = field(default_factory=Connections)
    started_ns: int = 0

    def __post_init__(self) -> None:
        """Sets the start time."""
        self.started_ns = self.now_ns()


T = TypeVar("T")
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")
_QUEUE: Final = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}(\.[a-zA-Z0-9_:#/@-]{1,64})*")
_USER: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?")
_GROUP: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*|\*")
_STATUSES: Final = ("new", "accepted", "running", "completing", "failing", "resuming")
_MOST_DIGITS: Final = 18


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request. `path` and `query` are as the client sent them, unescaped once."""

    rest_context: RestContext
    path: Mapping[str, str]
    query: Mapping[str, str]
    now_ns: int

    @property
    def scheduler_state(self) -> SchedulerState:
        """The present state. The object may be replaced later."""
        return self.rest_context.core.loop.scheduler_state

    def text(self, name: str) -> str:
        """Returns a part of the path, unescaped a second time as a query, as YuniKorn does."""
        raw = self.path[name]
        if _BROKEN_ESCAPE.search(raw):
            raise bad_request(f"invalid URL escape in {name}")
        return unquote_plus(raw)

    def partition(self) -> Partition:
        """Finds the partition by name, or by `[rm]name` if several resource managers have one of that name."""
        wanted = self.path["partition"]
        found = self.scheduler_state.partitions.get(PartitionId(wanted))
        if found is None:
            partitions = self.scheduler_state.partitions.values()
            found = next((item for item in partitions if partition_name(item.id) == wanted), None)
        if found is None:
            raise not_found(responses.NO_PARTITION)
        return found

    def queue(self) -> Queue:
        """Finds the queue by its full path. The recovery queue is not shown, as in YuniKorn."""
        path = self.text("queue").lower()
        if not _QUEUE.fullmatch(path):
            raise bad_request("Invalid queue name")
        found = self.partition().queues.get(QueuePath(path))
        if found is None or found.is_recovery:
            raise not_found(responses.NO_QUEUE)
        return found

    def application(self, queue: Queue | None = None) -> Application:
        """Finds a live application, or else the newest ended one, in this queue and in the namespace of the query.

        The ID is the one that users see, which several namespaces may use, or the one on the Scheduler Interface.
        """
        partition, name = self.partition(), self.text("application")
        namespace = self.query.get("namespace", "")
        live = partition.applications.get(ApplicationId(name))
        for apps in ((live,) if live else partition.applications.values(), reversed(partition.history)):
            found: dict[ApplicationId, Application] = {}
            for app in apps:
                if name in (app.name, app.id) and queue in (None, app.queue) and _is_in(app, namespace):
                    found.setdefault(app.id, app)
            if len(found) > 1:
                namespaces = ", ".join(sorted({app.spec.namespace for app in found.values()}))
                raise bad_request(f"application {name} exists in namespaces {namespaces}: add ?namespace=<one of them>")
            if found:
                return next(iter(found.values()))
        raise not_found(responses.NO_APPLICATION)

    def node(self) -> NodeId:
        """Returns the ID of a node in the partition."""
        name = NodeId(self.text("node"))
        if name not in self.partition().nodes:
            raise not_found(responses.NO_NODE)
        return name

    def user(self) -> str:
        """Returns a valid user name."""
        return self._name("user", _USER, responses.INVALID_USER)

    def group(self) -> str:
        """Returns a valid group name or the wildcard."""
        return self._name("group", _GROUP, responses.INVALID_GROUP)

    def _name(self, part: str, form: re.Pattern[str], otherwise: str) -> str:
        name = self.text(part)
        if not form.fullmatch(name):
            raise bad_request(otherwise)
        return name

    def number(self, name: str, default: int) -> int:
        """Returns an integer of at least 0 from the query."""
        text = self.query.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
            raise bad_request(f"{name} must be an integer of 0 or more")
        return int(text)

    def portion(self, items: Iterable[T]) -> Iterator[T]:
        """Applies `offset` and `limit` of the query to a list."""
        offset = self.number("offset", 0)
        limit = self.number("limit", -1)
        return islice(items, offset, None if limit < 0 else offset + limit)

    def with_status(self, apps: Iterable[Application]) -> list[Application]:
        """Applies `status` of the query to applications."""
        status = self.query.get("status", "").lower()
        if status and status not in _STATUSES:
            raise bad_request(f"Only following active statuses are allowed: {', '.join(_STATUSES)}")
        return [app for app in apps if not status or app.state.value.lower() == status]


def _is_in(app: Application, namespace: str) -> bool:
    """Whether the application began in the namespace or has a pod there. Always true for an empty namespace."""
    if namespace in ("", app.spec.namespace):
        return True
    specs = (*(ask.spec for ask in app.asks.values()), *(item.spec for item in app.allocations.values()))
    return any(spec.namespace == namespace for spec in specs)
