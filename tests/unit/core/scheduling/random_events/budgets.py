"""How much time a scheduling cycle has: without limit, counted, by a clock that is made up, or by the real clock.

A cycle learns from its clock only how often it may go on, and that is recorded: whatever the budget was, a replay is
exact. The made-up clock makes failing examples that shrink; the real one is for `make soak`.
"""

from __future__ import annotations

import random  # noqa: TID251 - with a seed
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from muster_core.scheduling.cycle import CycleBudget


class Budget(Protocol):
    """Makes what one cycle asks whether it may go on."""

    def begin(self) -> CycleBudget:
        """For one cycle."""
        ...


@dataclass(frozen=True)
class Counted:
    """So many times, None = always."""

    times: int | None = None

    def begin(self) -> CycleBudget:
        """For one cycle."""
        return CycleBudget(lambda: True) if self.times is None else CycleBudget(granting(self.times))


@dataclass
class MadeUp:
    """Each attempt takes a random part of the budget, now and then more than all of it."""

    seed: int

    def __post_init__(self) -> None:
        """The same seed, the same times."""
        self._random = random.Random(self.seed)

    def begin(self) -> CycleBudget:
        """For one cycle."""
        left = 1.0

        def may_go_on() -> bool:
            nonlocal left
            left -= self._random.expovariate(8.0)
            return left > 0

        return CycleBudget(may_go_on)


@dataclass(frozen=True)
class Real:
    """Seconds by a clock that the caller brings."""

    clock: Callable[[], float]
    seconds: float = 0.001

    def begin(self) -> CycleBudget:
        """For one cycle."""
        until = self.clock() + self.seconds
        return CycleBudget(lambda: self.clock() < until)


FREE = Counted()


def granting(times: int) -> Callable[[], bool]:
    """Exactly so many times."""
    left = iter(range(times))
    return lambda: next(left, None) is not None
