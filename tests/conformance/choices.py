"""Random choices by Hypothesis, which shrinks them toward the first option."""

from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

T = TypeVar("T")


@cache
def _below(size: int) -> SearchStrategy[int]:
    return st.integers(0, size - 1)


class Choices:
    """Draws random values with few kinds of draws, so that thousands of draws are fast."""

    def __init__(self, draw: DrawFn) -> None:
        self._draw = draw

    def below(self, size: int) -> int:
        """0, 1, ... size - 1."""
        return self._draw(_below(size)) if size > 1 else 0

    def between(self, low: int, high: int) -> int:
        """Return a number from low to high, both included."""
        return low + self.below(high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options. List the simplest one first."""
        return options[self.below(len(options))]

    def chance(self, percent: int) -> bool:
        """Return True with this probability. Shrinks to False."""
        return self.below(100) >= 100 - percent

    def some(self, options: Sequence[T], at_most: int, at_least: int = 0) -> list[T]:
        """Return ``at_least`` to ``at_most`` different options in their order."""
        left = list(options)
        wanted = min(self.between(at_least, at_most), len(left))
        chosen = [left.pop(self.below(len(left))) for _ in range(wanted)]
        return [option for option in options if option in chosen]
