"""Reads the API server's audit log: who wrote what, and how it ended. Tests count with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson

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


class AuditLog:
    """The log file, read from a mark on: ``mark = audit.mark()`` ... ``audit.since(mark)``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mark(self) -> int:
        """The present end of the log, in bytes."""
        return self.path.stat().st_size if self.path.exists() else 0

    def since(self, mark: int = 0) -> list[Write]:
        """Every write answered after the mark; a line that is still being written is left for the next time."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(mark)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        return [Write.from_event(event) for line in whole.splitlines() if (event := _event(line)) is not None]


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
