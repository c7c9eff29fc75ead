"""Kubernetes events that wait until nothing else does: bounded, equal ones once, a series by its newest word."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from muster_operator.model.commands import Importance, PostEvent

Key = tuple[str, str, str, str]
_FIRST_TO_LAST: Final = tuple(sorted(Importance, reverse=True))


class EventBuffer:
    """Holds at most `limit`; beyond that the oldest of the least important goes, and `dropped` is called."""

    def __init__(self, limit: int, dropped: Callable[[], None]) -> None:
        self._limit, self._dropped = limit, dropped
        self._by_importance: dict[Importance, OrderedDict[Key, tuple[PostEvent, float, float]]] = {
            importance: OrderedDict() for importance in Importance
        }
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, event: PostEvent, at: float) -> None:
        """Take over an event that happened then, epoch seconds; where the same or an older word of its series waits, it
        takes that one's place, and has waited as long.
        """
        key = _key(event)
        for waiting in self._by_importance.values():
            if key in waiting:
                waiting[key] = (event, at, waiting[key][2])
                return
        self._by_importance[event.importance][key] = (event, at, at)
        self._count += 1
        if self._count > self._limit:
            next(waiting for waiting in self._by_importance.values() if waiting).popitem(last=False)
            self._count -= 1
            self._dropped()

    def oldest(self) -> float:
        """Since when the one waits that waits longest, epoch seconds; infinity = nothing waits."""
        oldest = float("inf")
        for waiting in self._by_importance.values():
            if waiting:
                oldest = min(oldest, next(iter(waiting.values()))[2])
        return oldest

    def take(self) -> PostEvent | None:
        """The oldest of the most important, with its time; None = nothing waits."""
        for importance in _FIRST_TO_LAST:
            if self._by_importance[importance]:
                self._count -= 1
                event, at, _ = self._by_importance[importance].popitem(last=False)[1]
                return replace(event, at=at)
        return None


def _key(event: PostEvent) -> Key:
    said = ("", event.series) if event.series else (event.reason, event.note)
    return (event.namespace, event.uid or event.name, *said)
