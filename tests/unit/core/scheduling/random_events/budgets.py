"""Time budgets of a scheduling cycle: unlimited, a number of calls, simulated time, or real time.

A cycle only asks its budget whether it may continue. The number of positive answers is recorded, so a replay is exact
with every budget. Failing examples with simulated time can be shrunk. `make soak` uses real time.
"""

import random  # noqa: TID251 - with a seed
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from muster_core.scheduling.scheduler import CycleBudget


class Budget(Protocol):
    """Creates the budget of each cycle."""

    def begin(self) -> CycleBudget:
        """Return the budget of one cycle."""
        ...


@dataclass(frozen=True)
class Counted:
    """Allows a number of continuations; None = unlimited."""

    times: int | None = None

    def begin(self) -> CycleBudget:
        """Return the budget of one cycle."""
        return CycleBudget(lambda: True) if self.times is None else CycleBudget(granting(self.times))


@dataclass
class MadeUp:
    """Simulated time: each attempt takes a random part of the budget, sometimes more than all of it."""

    seed: int

    def __post_init__(self) -> None:
        """Seed the random times."""
        self._random = random.Random(self.seed)

    def begin(self) -> CycleBudget:
        """Return the budget of one cycle."""
        left = 1.0

        def may_go_on() -> bool:
            nonlocal left
            left -= self._random.expovariate(8.0)
            return left > 0

        return CycleBudget(may_go_on)


@dataclass(frozen=True)
class Real:
    """Real time in seconds of the caller's clock."""

    clock: Callable[[], float]
    seconds: float = 0.001

    def begin(self) -> CycleBudget:
        """Return the budget of one cycle."""
        until = self.clock() + self.seconds
        return CycleBudget(lambda: self.clock() < until)


FREE = Counted()


def granting(times: int) -> Callable[[], bool]:
    """Return a budget that allows exactly this number of continuations."""
    left = iter(range(times))
    return lambda: next(left, None) is not None
