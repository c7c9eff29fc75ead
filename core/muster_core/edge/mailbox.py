"""What waits for the world: messages taken apart, in the order they came, bounded.

Senders wait while it is full, and that is the core's back-pressure. One
reader: the loop.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from muster_core.edge.session import Fence, Kind, Session
from muster_core.model.effects import Effect
from muster_core.model.events import Event


@dataclass(slots=True, eq=False)
class Mail:
    """One message, taken apart. `kind`: which stream it counts on; None = none.

    Mail of a session that is over by the time it is read is not read.
    """

    events: Sequence[Event]
    session: Session | None = None
    answers: Sequence[Effect] = ()
    kind: Kind | None = None
    fence: Fence | None = None
    #: When it was handed over; set by the mailbox.
    posted_s: float = 0.0


class Mailbox:
    """`news` is set when there may be something to read, or the reader is to look around."""

    def __init__(self, capacity: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.news = asyncio.Event()
        self._capacity = capacity
        self._mail: deque[Mail] = deque()
        self._room = asyncio.Event()

    def __len__(self) -> int:
        return len(self._mail)

    def oldest_s(self) -> float:
        """How long the oldest mail waits already, in seconds; 0 where there is none."""
        return self.clock() - self._mail[0].posted_s if self._mail else 0.0

    async def put(self, mail: Mail) -> None:
        """Hand mail over; waits while the box is full."""
        while len(self._mail) >= self._capacity:
            self._room.clear()
            await self._room.wait()
        self.post(mail)

    def post(self, mail: Mail) -> None:
        """Hand over what must not wait: the end of a session."""
        mail.posted_s = self.clock()
        self._mail.append(mail)
        self.news.set()

    def take(self) -> Mail | None:
        """The oldest mail, None if there is none."""
        if not self._mail:
            return None
        self._room.set()
        return self._mail.popleft()
