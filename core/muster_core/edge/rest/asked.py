"""What was asked: the request's own words, read, and what they name in the world.

Every reading that fails is a RestFailure with the words of contract 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar
from urllib.parse import unquote_plus

from muster_core.edge.rest import failures
from muster_core.edge.rest.desk import Desk
from muster_core.edge.rest.failures import bad_request, not_found
from muster_core.edge.si_encode import partition_name
from muster_core.model.ids import ApplicationId, NodeId, PartitionId, QueuePath
from muster_core.world.applications import Application
from muster_core.world.queues import Queue
from muster_core.world.world import Partition, World

T = TypeVar("T")

_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")
_QUEUE: Final = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}(\.[a-zA-Z0-9_:#/@-]{1,64})*")
_USER: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?")
_GROUP: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*|\*")
_STATUSES: Final = ("new", "accepted", "running", "completing", "failing", "resuming")
_MOST_DIGITS: Final = 18


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `path` and `query` are as the client wrote them, unescaped once."""

    desk: Desk
    path: Mapping[str, str]
    query: Mapping[str, str]
    now_ns: int

    @property
    def world(self) -> World:
        """As it is now: it may be another one later."""
        return self.desk.core.loop.world

    def text(self, name: str) -> str:
        """A part of the path, query-unescaped as contract 4 has it."""
        raw = self.path[name]
        if _BROKEN_ESCAPE.search(raw):
            raise bad_request(f"invalid URL escape in {name}")
        return unquote_plus(raw)

    def partition(self) -> Partition:
        """By its name, or with its resource manager, `[rm]name`, where two have one of that name."""
        wanted = self.path["partition"]
        found = self.world.partitions.get(PartitionId(wanted))
        if found is None:
            partitions = self.world.partitions.values()
            found = next((item for item in partitions if partition_name(item.id) == wanted), None)
        if found is None:
            raise not_found(failures.NO_PARTITION)
        return found

    def queue(self) -> Queue:
        """By its full path; the queue of recovered applications is not shown (contract 2.10)."""
        path = self.text("queue").lower()
        if not _QUEUE.fullmatch(path):
            raise bad_request("Invalid queue name")
        found = self.partition().queues.get(QueuePath(path))
        if found is None or found.is_recovery:
            raise not_found(failures.NO_QUEUE)
        return found

    def application(self, queue: Queue | None = None) -> Application:
        """A live one, else the newest of that ID that ended; in this queue, and in the namespace of the query.

        The ID is the one that people see, which applications of several namespaces may have, or the one on the wire.
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
        raise not_found(failures.NO_APPLICATION)

    def node(self) -> NodeId:
        """A node of the partition."""
        name = NodeId(self.text("node"))
        if name not in self.partition().nodes:
            raise not_found(failures.NO_NODE)
        return name

    def user(self) -> str:
        """A name that a user may have."""
        return self._name("user", _USER, failures.INVALID_USER)

    def group(self) -> str:
        """A name that a group may have, or the wildcard."""
        return self._name("group", _GROUP, failures.INVALID_GROUP)

    def _name(self, part: str, form: re.Pattern[str], otherwise: str) -> str:
        name = self.text(part)
        if not form.fullmatch(name):
            raise bad_request(otherwise)
        return name

    def number(self, name: str, default: int) -> int:
        """A whole number of 0 or more out of the query."""
        text = self.query.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
            raise bad_request(f"{name} is not a whole number of 0 or more")
        return int(text)

    def portion(self, items: Iterable[T]) -> Iterator[T]:
        """What `offset` and `limit` leave of a list; without them all of it."""
        offset = self.number("offset", 0)
        limit = self.number("limit", -1)
        return islice(items, offset, None if limit < 0 else offset + limit)

    def with_status(self, apps: Iterable[Application]) -> list[Application]:
        """Those whose state is the one asked for, if one is."""
        status = self.query.get("status", "").lower()
        if status and status not in _STATUSES:
            raise bad_request(f"Only following active statuses are allowed: {', '.join(_STATUSES)}")
        return [app for app in apps if not status or app.state.value.lower() == status]


def _is_in(app: Application, namespace: str) -> bool:
    """Whether the application began in that namespace, or has a pod there. Always true for an empty namespace."""
    if namespace in ("", app.spec.namespace):
        return True
    specs = (*(ask.spec for ask in app.asks.values()), *(item.spec for item in app.allocations.values()))
    return any(spec.namespace == namespace for spec in specs)
