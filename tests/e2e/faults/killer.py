"""Kills processes with SIGKILL at seeded random times: after a number of writes, alone or together, and again while
they recover. `kubelet.py` restarts them.
"""

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

WAIT_S = 4.0
"""Maximum wait for the number of requests; the kill follows in any case."""

END_S = 10.0
LATEST_WRITE = 25
RECOVERY = frozenset({Kind.LIST, Kind.PAGE, Kind.WATCH, Kind.WATCH_PODS})
"""The requests of a starting operator."""


class Victim(StrEnum):
    """The processes that can be killed. Not etcd, because a cluster relies on its disk."""

    OPERATOR = "operator"
    CORE = "core"
    APISERVER = "kube-apiserver"


@dataclass(frozen=True, slots=True)
class Kill:
    """One episode: kill ``victims`` after ``writes`` writes, and again after ``steps`` requests of their recovery."""

    victims: tuple[Victim, ...]
    writes: int
    steps: int = 0

    def __str__(self) -> str:
        again = f", again after {self.steps} steps" if self.steps else ""
        return f"{' and '.join(self.victims)} after {self.writes} writes{again}"


ALONE = ((Victim.OPERATOR,), (Victim.CORE,), (Victim.APISERVER,))
TOGETHER = ((Victim.OPERATOR, Victim.CORE), (Victim.OPERATOR, Victim.APISERVER), (Victim.CORE, Victim.APISERVER))
DECK = (*((victims, False) for victims in (*ALONE, *ALONE[:2], *TOGETHER)), (ALONE[0], True), (ALONE[1], True))
"""Victims, and whether they are killed twice: ten episodes in random order."""


class Killer:
    """``count``: number of kills per victim. ``find`` returns the current process of a victim, of several operators the
    leader. ``before`` is called before each kill, to read counters that would be lost.
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

    async def execute(self, kill: Kill) -> None:
        """Wait for the number of writes, then kill the victims."""
        await self._wait_for_requests(WRITES, kill.writes)
        await self._kill(kill.victims)
        if kill.steps:
            await self._wait_for_requests(RECOVERY, kill.steps)
            await self._kill(kill.victims)
            self.again += 1

    async def _wait_for_requests(self, kinds: frozenset[Kind], count: int) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._proxy.reaches(kinds, count), WAIT_S)

    async def _kill(self, victims: tuple[Victim, ...]) -> None:
        await self._before()
        processes = [await self._find(victim) for victim in victims]
        await asyncio.gather(*(_kill_and_wait(process) for process in processes))
        self.count.update(victims)


async def _kill_and_wait(process: Process) -> None:
    """Send SIGKILL and wait until this process has ended. It may already have been restarted then."""

    async def is_running() -> bool:
        return process.pid is not None

    async def has_ended() -> bool:
        return process.pid != pid

    await until(f"{process.name} runs", is_running, END_S, every_s=0.01)
    pid = process.pid
    process.signal(signal.SIGKILL)
    await until(f"{process.name} has ended", has_ended, END_S, every_s=0.01)
