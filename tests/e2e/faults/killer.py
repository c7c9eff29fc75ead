"""Kills processes (-9) at moments that a seed chooses: after so many writes, alone or together, and once more while
they recover. It starts nothing: that is the kubelet's work.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from devcluster.process import Process
from devcluster.waiting import until
from tests.e2e.faults.proxy import WRITES, FaultyProxy
from tests.e2e.faults.schedule import Kind

MOMENT_S = 4.0
"""How long a moment is waited for; where so much never happens, the kill comes then."""

DEATH_S = 10.0
LATEST_WRITE = 25
RECOVERY = frozenset({Kind.LIST, Kind.PAGE, Kind.WATCH, Kind.WATCH_PODS})
"""What an operator asks for when it starts."""


class Victim(StrEnum):
    """Who can be killed. Not etcd: its disk is the one thing a cluster may trust."""

    OPERATOR = "operator"
    CORE = "core"
    APISERVER = "kube-apiserver"


@dataclass(frozen=True, slots=True)
class Kill:
    """One episode: ``victims`` die after so many ``writes``, and after so many ``steps`` of their recovery again."""

    victims: tuple[Victim, ...]
    writes: int
    steps: int = 0

    def __str__(self) -> str:
        again = f", again after {self.steps} steps" if self.steps else ""
        return f"{' and '.join(self.victims)} after {self.writes} writes{again}"


ALONE = ((Victim.OPERATOR,), (Victim.CORE,), (Victim.APISERVER,))
TOGETHER = ((Victim.OPERATOR, Victim.CORE), (Victim.OPERATOR, Victim.APISERVER), (Victim.CORE, Victim.APISERVER))
DECK = (*((victims, False) for victims in (*ALONE, *ALONE[:2], *TOGETHER)), (ALONE[0], True), (ALONE[1], True))
"""Victims, and whether they die twice: ten episodes, in an order that the seed chooses."""


class Killer:
    """``count``: who was killed how often. ``find``: which process that is just now, for of several operators the one
    that leads is meant. ``before`` is called ahead of each kill, to take down what would be lost.
    """

    def __init__(
        self,
        seed: int,
        find: Callable[[Victim], Awaitable[Process]],
        proxy: FaultyProxy,
        before: Callable[[], Awaitable[None]],
    ) -> None:
        self._random = random.Random(f"{seed}/kills")
        self._find = find
        self._proxy = proxy
        self._before = before
        self._deck: list[tuple[tuple[Victim, ...], bool]] = []
        self.count: Counter[Victim] = Counter()
        self.again = 0

    def next(self) -> Kill:
        """The next episode."""
        if not self._deck:
            self._deck = list(DECK)
            self._random.shuffle(self._deck)
        victims, twice = self._deck.pop()
        steps = self._random.randint(1, 8) if twice else 0
        return Kill(victims, self._random.randint(1, LATEST_WRITE), steps)

    async def strike(self, kill: Kill) -> None:
        """Wait for the moment and kill."""
        await self._moment(WRITES, kill.writes)
        await self._kill(kill.victims)
        if kill.steps:
            await self._moment(RECOVERY, kill.steps)
            await self._kill(kill.victims)
            self.again += 1

    async def _moment(self, kinds: frozenset[Kind], count: int) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._proxy.reaches(kinds, count), MOMENT_S)

    async def _kill(self, victims: tuple[Victim, ...]) -> None:
        await self._before()
        processes = [await self._find(victim) for victim in victims]
        await asyncio.gather(*(_die(process) for process in processes))
        self.count.update(victims)


async def _die(process: Process) -> None:
    """SIGKILL; returns when this life of it is over, whoever may have begun the next one by then."""

    async def lives() -> bool:
        return process.pid is not None

    async def is_over() -> bool:
        return process.pid != pid

    await until(f"{process.name} runs, to be killed", lives, DEATH_S, every_s=0.01)
    pid = process.pid
    process.signal(signal.SIGKILL)
    await until(f"{process.name} is dead", is_over, DEATH_S, every_s=0.01)
