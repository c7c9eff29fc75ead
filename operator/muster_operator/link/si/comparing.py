"""Compares the ledger with the core's, a part every few seconds for as long as a session lives (ADR 0015).

From the question to the comparison everything that is said or heard is noted (`touched`): who was spoken of is left for
the next round. The answer is used once as many words have been heard as the core had said when it was taken. A core
that does not answer is no core: the session is lost, and another one is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from muster_operator.agent import comparing, touched
from muster_operator.agent.comparing import Difference
from muster_operator.agent.ledger import Ledger
from muster_operator.link.inbox import Compared, Input
from muster_operator.link.metrics import Metrics
from muster_operator.link.si.core import FromCore, Session
from muster_operator.model.inventory import Inventory, Part
from muster_operator.model.news import News
from muster_operator.model.outcome import Outcome
from muster_operator.model.verdicts import Verdict
from muster_si import si_pb2
from muster_si.errors import Refused, SchedulerInterfaceError
from muster_si.words import words

log = structlog.get_logger("muster.comparing")

#: Seconds between two parts. Some 1,000 names and keys each: 20,000 pods are compared in four minutes.
PAUSE_S: Final = 5.0
LIMIT: Final = 1_000
#: Seconds after which a core that has not answered is given up; the longest pause it allows itself is far below one.
ANSWER_S: Final = 60.0
_LOOK_S: Final = 0.02


class Comparing:
    """Owned by the loop's `Current`; what it finds comes back through the inbox."""

    def __init__(
        self,
        ledger: Ledger,
        put: Callable[[Input], None],
        metrics: Metrics,
        pause_s: float = PAUSE_S,
        answer_s: float = ANSWER_S,
        suspect: Callable[..., None] = lambda *plurals: None,
    ) -> None:
        self._ledger, self._put, self._metrics = ledger, put, metrics
        self._pause_s, self._answer_s = pause_s, answer_s
        self._suspect = suspect  # a difference may come from an event that was missed
        self._touched: set[str] | None = None  # None = no question is open
        self._compared = asyncio.Event()
        self._words = 0
        self._repaired: set[Difference] = set()
        self._restarted: set[Difference] = set()  # never for the same reason again
        self._task: asyncio.Task[None] | None = None

    def register(self) -> None:
        """A session was opened: what is heard from now on is its own."""
        self.end()
        self._words = 0
        self._repaired.clear()

    def begin(self, session: Session) -> None:
        """The session lives: compare from now on."""
        self._task = asyncio.create_task(self._run(session))

    def end(self) -> None:
        """The session is over."""
        if self._task is not None:
            self._task.cancel()
        self._task = self._touched = None

    def said(self, news: Iterable[News]) -> None:
        """Note of whom we speak."""
        if self._touched is not None:
            for item in news:
                self._touched.update(touched.by_news(item))

    def heard(self, message: FromCore, verdict: Verdict | None) -> None:
        """Note of whom the core spoke, once the ledger knows."""
        if isinstance(message, si_pb2.AllocationResponse | si_pb2.ApplicationResponse):
            self._words += words(message)
        if self._touched is not None and verdict is not None:
            self._touched.update(touched.by_verdict(verdict))

    def compare(self, item: Compared, now: float) -> Outcome:
        """Compare a part, tell of each difference, and say what puts them right."""
        if self._touched is None:
            return Outcome()
        before, names, self._touched = self._repaired | self._restarted, self._touched, None
        self._compared.set()  # also where comparing fails: the next part may be better
        found = comparing.compare(self._ledger, item.inventory, names, now, before)
        for difference in found.found:
            self._metrics.differences.labels(difference.what).inc()
            log.error(
                "the core holds something else than we do",
                what=difference.what,
                subject=difference.subject,
                is_put_right=difference not in before,
            )
        if found.found:
            self._suspect("pods", "nodes")
        (self._restarted if found.unsound else self._repaired).update(found.found)
        if found.unsound:
            item.session.session_lost(found.unsound)
        return found.out

    async def _run(self, session: Session) -> None:
        part, beyond = Part.APPLICATIONS, ""
        while True:
            await asyncio.sleep(self._pause_s)
            self._compared.clear()
            self._touched = set()
            inventory = await self._ask(session, part, beyond)
            if inventory is None:
                return
            self._put(Compared(session, inventory))
            await self._compared.wait()
            beyond = inventory.last
            if not beyond:
                self._metrics.compared.labels(part.value).inc()
                part = Part.NODES if part is Part.APPLICATIONS else Part.APPLICATIONS

    async def _ask(self, session: Session, part: Part, beyond: str) -> Inventory | None:
        """A part, when we have heard all that it rests on; None = there is nobody to ask any more."""
        try:
            async with asyncio.timeout(self._answer_s):
                inventory, said = await session.take_inventory(part, beyond, LIMIT)
                while self._words < said:  # noqa: ASYNC110 - another stream brings them; nobody signals
                    await asyncio.sleep(_LOOK_S)
                return inventory
        except TimeoutError:
            session.session_lost(f"the core has not answered for {self._answer_s:g} s")
        except Refused as refused:
            log.warning("the core cannot be compared with", reason=refused.reason)
        except SchedulerInterfaceError:
            pass  # the session says so itself
        self._touched = None
        return None
