"""Kubernetes events that wait until nothing else does: bounded, equal ones once, a series by its newest word.

Namespaces take turns, and where the buffer is full the one with most events loses its oldest: a noisy namespace costs
another neither time nor events.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from muster_operator.model.commands import Importance, PostEvent
from muster_operator.model.shares import Shares

Key = tuple[str, str, str, str]
_FIRST_TO_LAST: Final = tuple(sorted(Importance, reverse=True))


class _Level:
    """Events of one importance. `entries`: as they came, each with its time and since when it waits."""

    def __init__(self) -> None:
        self.entries: OrderedDict[Key, tuple[PostEvent, float, float]] = OrderedDict()
        self._turns: OrderedDict[str, OrderedDict[Key, None]] = OrderedDict()
        self._shares = Shares()

    def add(self, key: Key, event: PostEvent, at: float) -> None:
        self.entries[key] = (event, at, at)
        self._turns.setdefault(event.namespace, OrderedDict())[key] = None
        self._shares.add(event.namespace)

    def drop(self) -> None:
        """The oldest of the namespace with most."""
        self._remove_oldest(self._shares.largest())

    def take(self) -> tuple[PostEvent, float]:
        """The oldest event of the next namespace, and its time."""
        namespace = next(iter(self._turns))
        event, at, _ = self._remove_oldest(namespace)
        if namespace in self._turns:
            self._turns.move_to_end(namespace)
        return event, at

    def _remove_oldest(self, namespace: str) -> tuple[PostEvent, float, float]:
        keys = self._turns[namespace]
        key = keys.popitem(last=False)[0]
        if not keys:
            del self._turns[namespace]
        self._shares.remove(namespace)
        return self.entries.pop(key)


class EventBuffer:
    """Holds at most `limit`; beyond that one of the least important goes, and `dropped` is called."""

    def __init__(self, limit: int, dropped: Callable[[], None]) -> None:
        self._limit, self._dropped = limit, dropped
        self._levels = {importance: _Level() for importance in Importance}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, event: PostEvent, at: float) -> None:
        """Take over an event that happened then, epoch seconds; where the same or an older word of its series waits, it
        takes that one's place, and has waited as long.
        """
        key = _key(event)
        for level in self._levels.values():
            if key in level.entries:
                level.entries[key] = (event, at, level.entries[key][2])
                return
        self._levels[event.importance].add(key, event, at)
        self._count += 1
        if self._count > self._limit:
            next(level for level in self._levels.values() if level.entries).drop()
            self._count -= 1
            self._dropped()

    def oldest(self) -> float:
        """Since when the one waits that waits longest, epoch seconds; infinity = nothing waits."""
        waiting = [next(iter(level.entries.values()))[2] for level in self._levels.values() if level.entries]
        return min(waiting, default=float("inf"))

    def take(self) -> PostEvent | None:
        """The oldest of the most important of the namespace whose turn it is, with its time; None = nothing waits."""
        for importance in _FIRST_TO_LAST:
            if self._levels[importance].entries:
                self._count -= 1
                event, at = self._levels[importance].take()
                return replace(event, at=at)
        return None


def _key(event: PostEvent) -> Key:
    said = ("", event.series) if event.series else (event.reason, event.note)
    return (event.namespace, event.uid or event.name, *said)
