"""How many of a set have which priority: the highest of many that come and go one by one."""

from __future__ import annotations


class Tally:
    """Counts by value. There are few different priorities, so the highest is quickly found."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def replace(self, old: int | None, new: int | None) -> None:
        """One of them changed; None = it was, or is, none of them."""
        if old is not None:
            left = self._counts[old] - 1
            if left:
                self._counts[old] = left
            else:
                del self._counts[old]
        if new is not None:
            self._counts[new] = self._counts.get(new, 0) + 1

    @property
    def top(self) -> int | None:
        """The highest; None of nothing."""
        return max(self._counts) if self._counts else None
