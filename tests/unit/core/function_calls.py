"""Counts function calls, which bound the time of a part of a computation independently of the machine."""

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Self

#: Calls in one part, about 2 ms.
MOST_CALLS = 20_000


class CallCounter:
    """Counts the calls of functions, and the steps of generators, while it is used as a context manager."""

    def __init__(self) -> None:
        self.calls = 0

    def __enter__(self) -> Self:
        self._previous = sys.getprofile()
        sys.setprofile(self._count)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(self._previous)

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        self.calls += event in ("call", "c_call")


def most_calls(parts: Iterator[object]) -> tuple[int, list[object]]:
    """The largest number of calls for one part, and all parts."""
    most, made = 0, list[object]()
    with CallCounter() as counter:
        for part in parts:
            made.append(part)
            most, counter.calls = max(most, counter.calls), 0
    return max(most, counter.calls), made
