"""The one task that owns the ledger: takes inputs, lets the agent answer, hands out what it says.

Nothing ticks: the loop sleeps until an input comes or the agent's next deadline is due. It hands news and commands out
after each turn, so that what belongs together travels together, and yields after `TURN_S` so that streams and probes
stay live. Here is the operator's only supervisor: an input that the agent fails on is counted, logged and left behind.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine
from enum import StrEnum
from typing import Final

import structlog

from muster_operator.agent import answering, obeying, observing, recovery, reminders
from muster_operator.agent.ledger import Ledger
from muster_operator.link import dump
from muster_operator.link.core import Session, is_state_dump, state_dump
from muster_operator.link.facts import fact_of
from muster_operator.link.inbox import (
    Ended,
    Fenced,
    Inbox,
    Input,
    ListBegun,
    Listed,
    Said,
    SessionLost,
    SessionUp,
    Watched,
)
from muster_operator.link.metrics import Metrics
from muster_operator.link.relists import Missed, missed_by
from muster_operator.link.si_decode import decoded, decoded_callback
from muster_operator.link.versions import Versions
from muster_operator.model.commands import Command
from muster_operator.model.outcome import Outcome
from muster_si import muster_pb2
from muster_si.errors import SchedulerInterfaceError

log = structlog.get_logger("muster.loop")

#: Seconds the loop works without letting others run (architecture 3).
TURN_S: Final = 0.010
#: Resources whose first list has to be complete before the core is told anything.
NEEDED: Final = frozenset({"pods", "nodes", "namespaces", "priorityclasses"})


class Stage(StrEnum):
    """How far the session with the core is; the values are what `/readyz` says."""

    NO_SESSION = "no session with the core"
    DRAINING = "shutting down"
    LISTING = "waiting for the first lists of the cluster"
    ANSWERS = "waiting for the core to answer the applications"
    FENCE = "waiting for the core to take in the cluster"
    LIVE = ""


class Loop:
    """Owns the ledger. `submit` takes commands for Kubernetes."""

    def __init__(self, ledger: Ledger, inbox: Inbox, submit: Callable[[Command], None], metrics: Metrics) -> None:
        self._ledger, self._inbox, self._submit, self._metrics = ledger, inbox, submit, metrics
        self._session: Session | None = None
        self._stage = Stage.NO_SESSION
        self._listed: set[str] = set()
        self._missed: dict[str, Missed] = {}
        self._versions = Versions()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def missing(self) -> str:
        """What keeps the operator from being ready; empty = nothing."""
        return self._stage.value

    def drain(self) -> None:
        """Obey and tell the core nothing more; results of commands are still taken."""
        self._session, self._stage = None, Stage.DRAINING

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            due = reminders.next_due(self._ledger)
            await self._inbox.something(None if due is None else max(0.0, due - time.monotonic()))
            self.turn()
            await asyncio.sleep(0)

    def turn(self) -> None:
        """Handle what waits, for at most TURN_S, and what is due; then hand out what follows."""
        out, ends = Outcome(), time.monotonic() + TURN_S
        while (item := self._inbox.take()) is not None:
            self._supervised(item, out)
            if time.monotonic() > ends:
                break
        due = reminders.next_due(self._ledger)
        if due is not None and due <= time.monotonic():
            self._supervised(None, out)
        self._hand_out(out)

    def _supervised(self, item: Input | None, out: Outcome) -> None:
        """One input, or what is due (None). A failure costs this input and nothing else."""
        try:
            self._handle(item, out)
        except Exception:
            kind = type(item).__name__ if item is not None else "Reminder"
            self._metrics.failures.labels(kind).inc()
            log.exception("the agent failed on an input, going on", input=item)
            if self._stage in (Stage.ANSWERS, Stage.FENCE) and self._session is not None:
                self._session.session_lost("the recovery failed")

    def _handle(self, item: Input | None, out: Outcome) -> None:
        now = time.monotonic()
        match item:
            case Watched():
                self._watched(item, out, now)
            case Said():
                self._said(item, out, now)
            case Ended():
                _add(out, answering.answered(self._ledger, item.result, now))
            case ListBegun() | Listed():
                self._list(item, out, now)
            case SessionUp() | SessionLost() | Fenced():
                self._session_changed(item, out, now)
            case None:
                _add(out, reminders.remind(self._ledger, now))
        if self._stage is Stage.ANSWERS:
            self._recover_on(out)

    def _watched(self, item: Watched, out: Outcome, now: float) -> None:
        """An object that looks as it did when it was last seen, or older, is not news: lists show thousands of them."""
        if self._versions.is_news(item):
            fact = fact_of(item.plural, item.kind, item.raw, self._ledger.settings)
            if fact is not None:
                _add(out, observing.observe(self._ledger, fact, now))

    def _list(self, item: ListBegun | Listed, out: Outcome, now: float) -> None:
        """What was known before a list was asked for and is not in it has vanished unseen."""
        if isinstance(item, ListBegun):
            self._missed[item.plural] = missed_by(item.plural, self._ledger)
            return
        for fact in self._missed.pop(item.plural)(item.keys):
            log.warning("vanished unseen, a list shows it", resource=item.plural, fact=fact)
            self._metrics.repairs.labels(item.plural).inc()
            _add(out, observing.observe(self._ledger, fact, now))
        self._listed.add(item.plural)
        self._begin_if_ready(out, now)

    def _session_changed(self, item: SessionUp | SessionLost | Fenced, out: Outcome, now: float) -> None:
        match item:
            case SessionUp(session=session) if not session.over.done() and self._stage is not Stage.DRAINING:
                out.news.clear()  # it was for an older session
                self._session, self._stage = session, Stage.LISTING
                self._begin_if_ready(out, now)
            case SessionLost(session=session, reason=reason) if session is self._session:
                log.warning("the session with the core is over", reason=reason)
                out.news.clear()
                self._session, self._stage = None, Stage.NO_SESSION
                recovery.pause(self._ledger)
            case Fenced(session=session) if session is self._session:
                _add(out, recovery.open_nodes(self._ledger, now))
                self._stage = Stage.LIVE
                gc.collect()
                gc.freeze()  # what a cluster looks like stays for long: the collector need not walk it (semantics 26)
                log.info("recovered", pods=len(self._ledger.pods), nodes=len(self._ledger.nodes))
            case _:
                return

    def _begin_if_ready(self, out: Outcome, now: float) -> None:
        """Start the recovery once there is a session and the cluster is known (semantics 19)."""
        if self._stage is Stage.LISTING and self._listed >= NEEDED:
            _add(out, recovery.begin(self._ledger, now))
            self._stage = Stage.ANSWERS

    def _recover_on(self, out: Outcome) -> None:
        """When every application is answered: the nodes with what runs on them, the asks, then the fence."""
        if self._session is None or not recovery.is_answered(self._ledger):
            return
        now = time.monotonic()
        _add(out, recovery.report_nodes(self._ledger, now))
        _add(out, recovery.submit_asks(self._ledger, now))
        self._stage = Stage.FENCE
        self._hand_out(out)
        self._spawn(self._fence(self._session))

    async def _fence(self, session: Session) -> None:
        try:
            await session.fence()
        except SchedulerInterfaceError as error:
            session.session_lost(f"no fence: {error}")
        else:
            self._inbox.put(Fenced(session))

    def _said(self, item: Said, out: Outcome, now: float) -> None:
        if item.session is not self._session:
            return
        message = item.message
        if isinstance(message, muster_pb2.Callback):
            if is_state_dump(message):
                self._spawn(self._answer_dump(item.session, message))
            verdict = decoded_callback(message)
        else:
            verdict = decoded(message)
        if verdict is not None:
            _add(out, obeying.obey(self._ledger, verdict, now))

    async def _answer_dump(self, session: Session, question: muster_pb2.Callback) -> None:
        try:
            await session.answer(state_dump(question, dump.as_json(self._ledger)))
        except SchedulerInterfaceError as error:
            log.info("a state dump was not delivered", reason=str(error))

    def _hand_out(self, out: Outcome) -> None:
        """Say the news and order the commands; `out` is empty afterwards."""
        if self._session is not None and out.news:
            self._session.send(out.news)
        for command in out.commands:
            self._submit(command)
        out.news.clear()
        out.commands.clear()

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _add(out: Outcome, more: Outcome) -> None:
    out.news += more.news
    out.commands += more.commands
