"""Queue of writes with the same priority: round-robin by namespace, first in first out within a namespace."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Waiting(Protocol):
    """What may wait here."""

    @property
    def namespace(self) -> str:
        """Namespace of the write."""


J = TypeVar("J", bound=Waiting)


class FairQueue(Generic[J]):
    """Round-robin by namespace, so that writes of one namespace delay those of another by one write each."""

    def __init__(self) -> None:
        self._by_namespace: OrderedDict[str, deque[J]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def append(self, job: J) -> None:
        """Last of its namespace."""
        self._by_namespace.setdefault(job.namespace, deque()).append(job)

    def first(self) -> J:
        """Return the next write without removing it. The queue must not be empty."""
        return next(iter(self._by_namespace.values()))[0]

    def drop_first(self) -> None:
        """Remove a waiting write; its namespace keeps its position."""
        namespace, jobs = next(iter(self._by_namespace.items()))
        jobs.popleft()
        if not jobs:
            del self._by_namespace[namespace]

    def sweep(self, namespace: str, keep: Callable[[J], bool]) -> None:
        """Only these of a namespace wait any longer."""
        kept = deque(filter(keep, self._by_namespace.get(namespace, ())))
        if kept:
            self._by_namespace[namespace] = kept
        else:
            self._by_namespace.pop(namespace, None)

    def take(self) -> J:
        """Remove and return the next write, and move its namespace to the end."""
        namespace, jobs = next(iter(self._by_namespace.items()))
        job = jobs.popleft()
        if jobs:
            self._by_namespace.move_to_end(namespace)
        else:
            del self._by_namespace[namespace]
        return job
