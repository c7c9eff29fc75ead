"""What waits for the world: messages taken apart, in the order they came, bounded.

Senders wait while it is full, and that is the core's back-pressure. One
reader: the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
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


class Mailbox:
    """`news` is set when there may be something to read, or the reader is to look around."""

    def __init__(self, capacity: int) -> None:
        self.news = asyncio.Event()
        self._capacity = capacity
        self._mail: deque[Mail] = deque()
        self._room = asyncio.Event()

    def __len__(self) -> int:
        return len(self._mail)

    async def put(self, mail: Mail) -> None:
        """Hand mail over; waits while the box is full."""
        while len(self._mail) >= self._capacity:
            self._room.clear()
            await self._room.wait()
        self.post(mail)

    def post(self, mail: Mail) -> None:
        """Hand over what must not wait: the end of a session."""
        self._mail.append(mail)
        self.news.set()

    def take(self) -> Mail | None:
        """The oldest mail, None if there is none."""
        if not self._mail:
            return None
        self._room.set()
        return self._mail.popleft()
