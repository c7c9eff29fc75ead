"""What of all that was noted a resource manager is told: what people act on, and never a flood of it (semantics 28).

Told: words about a request, warnings, and nodes that come or go (contract
6.1). Three bounds keep a resource manager, and the API server behind it, from
drowning: so many in a window (event.requestCapacity), no kind of thing more
than half of them, and the same words about the same thing once in 15 s. What
was held back is counted, and the next one that is told says how many.
Pure: the time comes in. Called by outlet.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from muster_core.model.ids import RmId
from muster_core.model.notes import Change, Detail, EventNoted, Notice

#: Slots of a window (contract 3, event.requestCapacity).
REQUEST_CAPACITY: Final = 1_000

_WINDOW_NS: Final = 2_000_000_000
_SAME_NS: Final = 15_000_000_000
#: Subjects whose last words are remembered; beyond it the oldest are forgotten early.
_REMEMBERED: Final = 20_000

#: Whom, about what, in which words.
_Words = tuple[RmId, Notice, str, str]


@dataclass(slots=True)
class _Window:
    """What one resource manager was told since `since_ns`, and what it was not told, by kind of thing."""

    since_ns: int
    told: dict[Notice, int] = field(default_factory=dict)
    held_back: dict[Notice, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Said:
    """When something was said last, and how often it would have been since."""

    at_ns: int
    again: int = 0


class Pushes:
    """The memory of what was told. Counts are since the start."""

    def __init__(self, capacity: int = REQUEST_CAPACITY) -> None:
        self.capacity = capacity
        self.told = 0
        self.held_back = 0
        self._windows: dict[RmId, _Window] = {}
        self._said: dict[_Words, _Said] = {}

    def chosen(self, notes: Iterable[EventNoted], now_ns: int) -> list[EventNoted]:
        """Those of one resource manager's notes that it is told, with what was held back said in them."""
        return [told for noted in notes if is_pushed(noted) and (told := self._admit(noted, now_ns)) is not None]

    def forget(self, rm: RmId) -> None:
        """The resource manager is gone, or begins anew."""
        self._windows.pop(rm, None)
        self._said = {key: said for key, said in self._said.items() if key[0] != rm}

    def _admit(self, noted: EventNoted, now_ns: int) -> EventNoted | None:
        key = (noted.rm, noted.about, noted.subject, noted.message)
        said = self._said.get(key)
        if said is not None and now_ns < said.at_ns + _SAME_NS:
            said.again += 1
            self.held_back += 1
            return None
        window = self._window(noted.rm, now_ns)
        told = window.told.get(noted.about, 0)
        if told >= max(self.capacity // 2, 1) or sum(window.told.values()) >= self.capacity:
            window.held_back[noted.about] = window.held_back.get(noted.about, 0) + 1
            self.held_back += 1
            return None
        window.told[noted.about] = told + 1
        self.told += 1
        self._remember(key, now_ns)
        held_back = window.held_back.pop(noted.about, 0)
        return _with_count(noted, said.again if said else 0, held_back)

    def _window(self, rm: RmId, now_ns: int) -> _Window:
        window = self._windows.get(rm)
        if window is None:
            window = self._windows[rm] = _Window(now_ns)
        elif now_ns >= window.since_ns + _WINDOW_NS:
            window.since_ns = now_ns
            window.told.clear()
        return window

    def _remember(self, key: _Words, now_ns: int) -> None:
        """Newest last, so that what is old, or too much, is found at the front."""
        self._said.pop(key, None)
        self._said[key] = _Said(now_ns)
        while len(self._said) > _REMEMBERED:
            del self._said[next(iter(self._said))]


def is_pushed(noted: EventNoted) -> bool:
    """Whether a resource manager is told at all: words for people, and nodes that come or go."""
    if noted.is_for_people:
        return True
    if noted.about is not Notice.NODE:
        return False
    came = noted.change is Change.ADD and noted.detail is Detail.NONE
    return came or noted.detail is Detail.NODE_DECOMISSION


def _with_count(noted: EventNoted, again: int, held_back: int) -> EventNoted:
    """The note, with what was not said before it."""
    said = [noted.message] if noted.message else []
    if again:
        said.append(f"(said {again} more times since it was last told)")
    if held_back:
        said.append(f"({held_back} other events of this kind were held back before it)")
    return replace(noted, message=" ".join(said)) if again or held_back else noted
