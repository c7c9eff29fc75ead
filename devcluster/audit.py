"""Reads the API server's audit log: who wrote what and how it ended, for tests to count; which rights were used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson

WRITTEN = {"pods", "events", "persistentvolumes", "persistentvolumeclaims"}
"""Resources whose writes are counted."""
READING = {"get", "list", "watch"}
BEGINNING = b'{"kind":"Event","apiVersion":"audit.k8s.io'
"""How each event in the log begins."""


@dataclass(frozen=True, slots=True)
class Write:
    """One answered write; ``at``: when the server received it (RFC 3339).

    Of a binding there is more: its ``node``, and the pod's ``uid`` if the binder named it, for a pod may be made again
    under the name of one that is gone.
    """

    user: str
    agent: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    at: str
    node: str = ""
    uid: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether the server did it."""
        return 200 <= self.code < 300

    @property
    def what(self) -> str:
        """``create pods/binding`` and the like: what counts are grouped by."""
        return f"{self.verb} {self.resource}/{self.subresource}" if self.subresource else f"{self.verb} {self.resource}"

    @classmethod
    def from_event(cls, event: dict[str, Any]) -> Self:
        """Decode one line of the log."""
        thing = event.get("objectRef") or {}
        asked = event.get("requestObject") or {}
        created = (event.get("responseObject") or {}).get("metadata") or {}
        return cls(
            user=(event.get("user") or {}).get("username", ""),
            agent=event.get("userAgent", ""),
            verb=event["verb"],
            resource=thing.get("resource", ""),
            subresource=thing.get("subresource", ""),
            namespace=thing.get("namespace", ""),
            name=thing.get("name") or created.get("name", ""),
            code=(event.get("responseStatus") or {}).get("code", 0),
            at=event.get("requestReceivedTimestamp", ""),
            node=(asked.get("target") or {}).get("name", ""),
            uid=(asked.get("metadata") or {}).get("uid", ""),
        )


@dataclass(frozen=True, slots=True)
class Right:
    """Who may do something to all objects of a resource, or to the one of that name (Kubernetes, RBAC)."""

    group: str
    resource: str
    """With its subresource: ``pods/binding``."""
    verb: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Use:
    """A request, by the right that it needs on the object it names (none for a list), and whether it was allowed."""

    right: Right
    agent: str
    allowed: bool


class AuditLog:
    """The log file, read from a mark on: ``mark = audit.mark()`` ... ``audit.since(mark)``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mark(self) -> int:
        """The present end of the log, in bytes."""
        return self.path.stat().st_size if self.path.exists() else 0

    def since(self, mark: int = 0) -> list[Write]:
        """Every write of pods, events, volumes and claims that was answered after the mark."""
        return self.news(mark)[0]

    def news(self, mark: int) -> tuple[list[Write], int]:
        """The same, and the mark to read on from: who asks again and again need not read a long log from its start."""
        found = []
        for event, end in self._events(mark):
            mark = end
            if event["verb"] not in READING and (event.get("objectRef") or {}).get("resource") in WRITTEN:
                found.append(Write.from_event(event))
        return found, mark

    def uses(self, account: str) -> set[Use]:
        """What a service account (``namespace:name``) asked of resources, each kind of request once."""
        user = f"system:serviceaccount:{account}"
        return {
            _use(event)
            for event, _ in self._events(0)
            if (event.get("user") or {}).get("username") == user and "objectRef" in event
        }

    def count(self, mark: int, account: str, right: Right) -> int:
        """How often a service account (``namespace:name``) used a right after the mark."""
        user = f"system:serviceaccount:{account}"
        events = (event for event, _ in self._events(mark) if (event.get("user") or {}).get("username") == user)
        return sum("objectRef" in event and _use(event).right == right for event in events)

    def _events(self, mark: int) -> Iterator[tuple[dict[str, Any], int]]:
        """The events after the mark, each with its end; a line that is still being written is left for later."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(mark)
            for line in file:
                if line.endswith(b"\n"):
                    mark += len(line)
                    if (event := _event(line)) is not None:
                        yield event, mark


def _use(event: dict[str, Any]) -> Use:
    thing = event["objectRef"]
    resource = "/".join(filter(None, (thing.get("resource", ""), thing.get("subresource", ""))))
    right = Right(thing.get("apiGroup", ""), resource, event["verb"], thing.get("name", ""))
    decision = (event.get("annotations") or {}).get("authorization.k8s.io/decision", "")
    return Use(right, event.get("userAgent", ""), decision == "allow")


def _event(line: bytes) -> dict[str, Any] | None:
    """The event in a line; a server that was killed may have left half of one before it, or nothing but that."""
    try:
        event: dict[str, Any] = orjson.loads(line[max(line.rfind(BEGINNING), 0) :])
    except orjson.JSONDecodeError:
        return None
    return event


def bindings_per_pod(writes: Iterable[Write]) -> Counter[tuple[str, str, str]]:
    """Successful bindings by namespace, name and uid of the pod."""
    return Counter(
        (write.namespace, write.name, write.uid)
        for write in writes
        if write.succeeded and write.verb == "create" and write.subresource == "binding"
    )


def counts(writes: Iterable[Write], user: str | None = None) -> Counter[str]:
    """Writes by kind (``create pods/binding``), of one user or of everybody, refused ones included."""
    return Counter(write.what for write in writes if user is None or write.user == user)
