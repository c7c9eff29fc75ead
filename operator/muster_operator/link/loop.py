"""The one task that owns the ledger: takes inputs, lets the agent answer, hands out what it says.

Nothing ticks: the loop sleeps until an input comes or the agent's next deadline is due. It hands news and commands out
after each turn, so that what belongs together travels together, and yields after `TURN_S` so that streams and probes
stay live. Here is the operator's only supervisor: an input that the agent fails on is counted, logged and left behind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog

from muster_operator.agent import answering, obeying, observing, reminders
from muster_operator.agent.ledger import Ledger
from muster_operator.link.collector import Collector
from muster_operator.link.inbox import (
    Compared,
    Ended,
    Fenced,
    Inbox,
    Input,
    Listed,
    OfSession,
    Said,
    Seen,
    SessionLost,
    SessionUp,
    Unreadable,
    Went,
)
from muster_operator.link.metrics import Metrics
from muster_operator.link.naming import named_input
from muster_operator.link.si.comparing import PAUSE_S, Comparing
from muster_operator.link.si.core import is_state_dump
from muster_operator.link.si.current import Binds, Current, Stage
from muster_operator.link.si.decode import decoded, decoded_callback
from muster_operator.model.commands import Order
from muster_operator.model.outcome import Outcome
from muster_si import muster_pb2

log = structlog.get_logger("muster.loop")

#: Seconds the loop works without letting others run (architecture 3).
TURN_S: Final = 0.010


class Loop:
    """Owns the ledger. `submit` takes commands for Kubernetes; `binds` are those of them that end with a session.

    `recovered`: set once a core has taken in the cluster.
    """

    def __init__(
        self,
        ledger: Ledger,
        inbox: Inbox,
        submit: Callable[[Order], None],
        metrics: Metrics,
        compare_s: float = PAUSE_S,
        binds: Binds | None = None,
    ) -> None:
        self._ledger, self._inbox, self._submit, self._metrics = ledger, inbox, submit, metrics
        comparing = Comparing(ledger, inbox.put, metrics, compare_s, suspect=inbox.suspect)
        self._current = Current(ledger, inbox.put, comparing, binds)
        self.recovered = self._current.recovered
        self._collector = Collector()

    @property
    def missing(self) -> str:
        """What keeps the operator from being ready; empty = nothing."""
        return self._current.stage.value

    @property
    def unlisted(self) -> str:
        """What keeps it from beginning a session at once, once it may; empty = nothing."""
        if not self._current.has_listed:
            return Stage.LISTING.value
        stale = self._inbox.freshness.stale
        return f"stale watches: {stale}" if stale else ""

    @property
    def held(self) -> str:
        """What keeps decisions from being carried out although we lead; empty = nothing."""
        freshness = self._inbox.freshness
        return "" if freshness.may_decide else f"not binding, stale watches: {freshness.stale}"

    def use_clock(self, ahead_s: Callable[[], float]) -> None:
        """Times of objects are the API server's; ours is so many seconds ahead. Asked when a session begins."""
        self._current.clock_ahead_s = ahead_s

    def drain(self) -> None:
        """Obey and tell the core nothing more; results of commands are still taken."""
        self._current.drain()

    async def run(self) -> None:
        """Work until cancelled."""
        self._collector.begin()
        while True:
            due = reminders.next_due(self._ledger)
            await self._inbox.something(None if due is None else max(0.0, due - time.monotonic()))
            self.turn()
            await asyncio.sleep(0)

    def turn(self) -> None:
        """Handle what waits, for at most TURN_S, and what is due; then hand out what follows."""
        out, now = Outcome(), time.monotonic()
        ends = now + TURN_S
        while now <= ends and (item := self._inbox.take()) is not None:
            self._supervised(item, out, now)
            now = time.monotonic()
        self._remind(out)
        self._hand_out(out)

    def _remind(self, out: Outcome) -> None:
        """Look at what is due, for at most TURN_S as well: inputs do not starve it."""
        now = time.monotonic()
        ends = now + TURN_S
        while (due := reminders.next_due(self._ledger)) is not None and due <= now <= ends:
            self._supervised(None, out, now)
            now = time.monotonic()

    def _supervised(self, item: Input | None, out: Outcome, now: float) -> None:
        """One input, or what is due (None). A failure costs this input and nothing else."""
        if isinstance(item, OfSession):
            self._hand_out(out)  # what was said so far is for the session so far
        news, commands = len(out.news), len(out.commands)
        try:
            self._handle(item, out, now)
            news, commands = len(out.news), len(out.commands)  # a step that fails takes nothing of that along
            if self._current.stage is not Stage.LIVE:
                self._go_on(out, now)
        except Exception:
            kind = type(item).__name__ if item is not None else "Reminder"
            self._metrics.failures.labels(kind).inc()
            del out.news[news:], out.commands[commands:]
            log.exception("the agent failed on an input, going on", **named_input(item))
            if not isinstance(item, Unreadable):  # nothing of that was taken in
                self._current.failed()

    def _handle(self, item: Input | None, out: Outcome, now: float) -> None:
        match item:
            case Seen():
                self._collector.taken()
                observing.take(self._ledger, out, item.fact, now)
            case Unreadable():
                raise item.error
            case Said():
                self._said(item, out, now)
            case Ended():
                answering.take(self._ledger, out, item.result, now)
            case Listed():
                self._current.listed(item.plural)
            case SessionUp() | SessionLost() | Went() | Fenced() | Compared():
                out.add(self._current.changed(item, now))
            case None:
                out.add(reminders.remind(self._ledger, now))

    def _go_on(self, out: Outcome, now: float) -> None:
        """The next step of a recovery, if its time has come; each step is sent before the next one (semantics 19).

        Who has said something comes back for the next one, so that others get their turn in between.
        """
        if (step := self._current.next_step(now)) is not None:
            out.add(step)
            self._hand_out(out)
            self._current.sent()

    def _said(self, item: Said, out: Outcome, now: float) -> None:
        if item.session is not self._current.session:
            return
        message = item.message
        if isinstance(message, muster_pb2.Callback):
            if is_state_dump(message):
                self._current.answer_dump(message)
            verdict = decoded_callback(message)
        else:
            verdict = decoded(message)
        if verdict is not None:
            out.add(obeying.obey(self._ledger, verdict, now))
        self._current.comparing.heard(message, verdict)

    def _hand_out(self, out: Outcome) -> None:
        """Say the news and order the commands; `out` is empty afterwards."""
        if self._current.session is not None and out.news:
            self._current.session.send(out.news)
            self._current.comparing.said(out.news)
        for command in out.commands:
            self._submit(command)
        for failure in out.failures:
            self._metrics.failures.labels(failure.kind).inc()
            log.error(
                "the agent failed on an object, going on without it",
                input=failure.kind,
                object=failure.name,
                exc_info=failure.error,
            )
        out.news.clear()
        out.commands.clear()
        out.failures.clear()
