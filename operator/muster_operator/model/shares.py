"""Usage counts of a shared resource; the largest holder loses an entry when the resource is full."""

from __future__ import annotations

from collections import defaultdict


class Shares:
    """Counts by holder; every operation takes the same time, however many holders there are."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._holders: defaultdict[int, dict[str, None]] = defaultdict(dict)
        self._most = 0

    def add(self, holder: str) -> None:
        """The holder has one more."""
        self._move(holder, self._counts.get(holder, 0) + 1)

    def remove(self, holder: str) -> None:
        """The holder has one less."""
        self._move(holder, self._counts[holder] - 1)

    def clear(self) -> None:
        """Remove all counts."""
        self._counts.clear()
        self._holders.clear()
        self._most = 0

    def largest(self) -> str:
        """The largest holder; among equals the one with that count for longest. StopIteration if none."""
        return next(iter(self._holders[self._most]))

    def _move(self, holder: str, count: int) -> None:
        before = self._counts.pop(holder, 0)
        if before:
            del self._holders[before][holder]
            if not self._holders[before]:
                del self._holders[before]
        if count:
            self._counts[holder] = count
            self._holders[count][holder] = None
        self._most = max(self._most, count)
        if before == self._most and before not in self._holders:
            self._most = count
