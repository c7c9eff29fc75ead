"""Reads the API server's audit log: the writes with user and result, and the permissions that accounts used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson

WRITTEN = {"pods", "events", "persistentvolumes", "persistentvolumeclaims", "resourceclaims"}
"""Resources whose writes ``AuditLog`` returns."""
READING = {"get", "list", "watch"}
BEGINNING = b'{"kind":"Event","apiVersion":"audit.k8s.io'
"""The first bytes of each event in the log."""


@dataclass(frozen=True, slots=True)
class Write:
    """One answered write. ``at`` is when the server received it (RFC 3339).

    A binding also has its ``node``, and the pod's ``uid`` if the request contained it. The UID distinguishes pods that
    were created one after the other with the same name.
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
        """Whether the server carried out the write."""
        return 200 <= self.code < 300

    @property
    def what(self) -> str:
        """Verb and resource, such as ``create pods/binding``. ``counts`` groups by it."""
        return f"{self.verb} {self.resource}/{self.subresource}" if self.subresource else f"{self.verb} {self.resource}"

    @classmethod
    def from_event(cls, event: dict[str, Any]) -> Self:
        """Decode one line of the log."""
        thing = event.get("objectRef") or {}
        body = event.get("requestObject") or {}
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
            node=(body.get("target") or {}).get("name", ""),
            uid=(body.get("metadata") or {}).get("uid", ""),
        )


@dataclass(frozen=True, slots=True)
class Permission:
    """A permission as in Kubernetes RBAC: a verb on all objects of a resource, or on the object ``name``."""

    group: str
    resource: str
    """With the subresource, such as ``pods/binding``."""
    verb: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Use:
    """A request: the permission that it needs on its object (no name for a list), and whether it was allowed."""

    permission: Permission
    agent: str
    allowed: bool


class AuditLog:
    """The log file. A mark is an offset to read from: ``mark = audit.mark()`` ... ``audit.since(mark)``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mark(self) -> int:
        """The current end of the log, in bytes."""
        return self.path.stat().st_size if self.path.exists() else 0

    def since(self, mark: int = 0) -> list[Write]:
        """Return every write of pods, events, volumes and claims that was answered after the mark."""
        return self.writes_with_mark(mark)[0]

    def writes_with_mark(self, mark: int) -> tuple[list[Write], int]:
        """Return the writes after the mark, and the mark for the next call, so that a poll reads only new lines."""
        found = []
        for event, end in self._events(mark):
            mark = end
            if event["verb"] not in READING and (event.get("objectRef") or {}).get("resource") in WRITTEN:
                found.append(Write.from_event(event))
        return found, mark

    def uses(self, account: str) -> set[Use]:
        """Return the kinds of requests that a service account (``namespace:name``) sent."""
        user = f"system:serviceaccount:{account}"
        return {
            _use(event)
            for event, _ in self._events(0)
            if (event.get("user") or {}).get("username") == user and "objectRef" in event
        }

    def count(self, mark: int, account: str, permission: Permission) -> int:
        """Return how often a service account (``namespace:name``) used a permission after the mark."""
        user = f"system:serviceaccount:{account}"
        events = (event for event, _ in self._events(mark) if (event.get("user") or {}).get("username") == user)
        return sum("objectRef" in event and _use(event).permission == permission for event in events)

    def _events(self, mark: int) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield the events after the mark, each with the offset of its end. Skips an incomplete last line."""
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
    permission = Permission(thing.get("apiGroup", ""), resource, event["verb"], thing.get("name", ""))
    decision = (event.get("annotations") or {}).get("authorization.k8s.io/decision", "")
    return Use(permission, event.get("userAgent", ""), decision == "allow")


def _event(line: bytes) -> dict[str, Any] | None:
    """Decode the event of a line, or None. A killed server may have left part of another event before it."""
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
    """Count writes by kind (``create pods/binding``), of one user or of all, including rejected ones."""
    return Counter(write.what for write in writes if user is None or write.user == user)
