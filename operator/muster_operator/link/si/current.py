"""The present session with the core, and how far its recovery is (semantics 19).

The last binds of the session before, lists complete, applications, their answers, nodes with what is on them, asks,
fence, open nodes: each step once the one before is done. Called by `link.loop`, which sends what a step says before it
asks for the next.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import Callable, Coroutine, Iterator
from enum import StrEnum
from typing import Final, Protocol

import structlog

from muster_operator.agent import recovery
from muster_operator.agent.ledger import Ledger
from muster_operator.link.inbox import Compared, Fenced, Input, OfSession, SessionLost, SessionUp, Went
from muster_operator.link.si import dump
from muster_operator.link.si.comparing import Comparing
from muster_operator.link.si.core import Session, state_dump
from muster_operator.model.outcome import Outcome
from muster_si import muster_pb2
from muster_si.errors import SchedulerInterfaceError

log = structlog.get_logger("muster.session")

#: Resources whose first list has to be complete before the core is told anything.
NEEDED: Final = frozenset(
    {
        *("pods", "nodes", "namespaces", "priorityclasses"),
        *("persistentvolumes", "persistentvolumeclaims", "storageclasses"),
        *("csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"),
    }
)

#: Seconds that a core may need to take in all of a cluster; 20,000 pods take it two or three.
RECOVERY_S: Final = 120.0


class Stage(StrEnum):
    """How far the session with the core is; the values are what `/readyz` says."""

    NO_SESSION = "no session with the core"
    SETTLING = "waiting for the last binds of the session before"
    DRAINING = "shutting down"
    LISTING = "waiting for the first lists of the cluster"
    ANSWERS = "waiting for the core to answer the applications"
    REPORT = "telling the core what the cluster holds"
    FENCE = "waiting for the core to take in the cluster"
    OPEN = "the core has taken in the cluster"
    OPENING = "opening the nodes"
    LIVE = ""


_RECOVERING: Final = frozenset({Stage.ANSWERS, Stage.REPORT, Stage.FENCE, Stage.OPEN, Stage.OPENING})


class Binds(Protocol):
    """What a session has to know of the writers: a bind of the session before must not come into this one."""

    def recall_binds(self) -> None:
        """Drop what waits, try nothing again."""

    @property
    def binds_in_flight(self) -> int:
        """How many may be being carried out just now."""


class Current:
    """The session that is obeyed; none while there is none, or at the end. `recovered`: a core knew all, once."""

    def __init__(
        self, ledger: Ledger, put: Callable[[Input], None], comparing: Comparing, binds: Binds | None = None
    ) -> None:
        self._ledger, self._put, self.comparing, self._binds = ledger, put, comparing, binds
        self.clock_ahead_s: Callable[[], float] = lambda: 0.0
        self.session: Session | None = None
        self.stage = Stage.NO_SESSION
        self.recovered = asyncio.Event()
        self._turns: Iterator[Outcome] | None = None  # of the step under way, which is too long for one
        self._listed: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def has_listed(self) -> bool:
        """Whether the ledger holds all that a session begins with."""
        return self._listed >= NEEDED

    def listed(self, plural: str) -> None:
        """A first, or another, complete list of a resource is in the ledger."""
        self._listed.add(plural)

    def drain(self) -> None:
        """From now on no session is obeyed."""
        self.session, self.stage, self._turns = None, Stage.DRAINING, None
        self.comparing.end()

    def failed(self) -> None:
        """The agent failed on an input; a recovery that is under way is not to be trusted."""
        if self.session is not None and self.stage in _RECOVERING:
            self.session.session_lost("the recovery failed")

    def changed(self, item: OfSession, now: float) -> Outcome:
        """A session came, went, got on with its recovery, has taken in everything, or showed what it holds."""
        match item:
            case SessionUp(session=session) if not session.over.done() and self.stage is not Stage.DRAINING:
                self.session, self.stage, self._turns = session, Stage.SETTLING, None
                self._recall_binds()
                self.comparing.register()
            case SessionLost(session=session, reason=reason) if session is self.session:
                log.warning("the session with the core is over", reason=reason)
                self.session, self.stage, self._turns = None, Stage.NO_SESSION, None
                self.comparing.end()
                self._recall_binds()
                recovery.pause(self._ledger)
            case Fenced(session=session) if session is self.session:
                self.stage = Stage.OPEN
            case Compared(session=session) if session is self.session:
                return self.comparing.compare(item, now)
            case _:
                pass
        return Outcome()

    def next_step(self, now: float) -> Outcome | None:
        """What the recovery says next, None = it has to wait for something, or is done."""
        if self.stage is Stage.LIVE:
            return None
        if self._turns is not None:
            said = next(self._turns, None)
            if said is not None:
                return said
            self._turns = None
        match self.stage:
            case Stage.SETTLING if self._binds is None or not self._binds.binds_in_flight:
                self.stage = Stage.LISTING
                return Outcome()
            case Stage.LISTING if self.has_listed:
                self._ledger.clock_ahead_ms = round(self.clock_ahead_s() * 1000)
                self.stage, self._turns = Stage.ANSWERS, recovery.begin(self._ledger, now)
                self._spawn(self._wait_for(self.session))
                return Outcome()
            case Stage.ANSWERS if recovery.is_answered(self._ledger):
                told = recovery.report_nodes(self._ledger, now), recovery.submit_asks(self._ledger, now)
                self.stage, self._turns = Stage.REPORT, itertools.chain(*told)
                return Outcome()
            case Stage.REPORT:
                self.stage = Stage.FENCE
                return Outcome()
            case Stage.OPEN:
                self.stage = Stage.OPENING
                return self._open(now)
            case _:
                return None

    def sent(self) -> None:
        """The last step was handed to the session: after the asks comes the fence, after the open nodes its fall."""
        if self.session is not None:
            self._put(Went(self.session))
        if self.stage is Stage.FENCE and self.session is not None:
            self._spawn(_told(self.session, self._put))
        elif self.stage is Stage.OPENING and self.session is not None:
            self.stage = Stage.LIVE
            self.recovered.set()
            self._spawn(_begin_scheduling(self.session))
            self.comparing.begin(self.session)

    def answer_dump(self, question: muster_pb2.Callback) -> None:
        """Give the core our ledger as it is now."""
        if self.session is not None:
            self._spawn(_answer(self.session, state_dump(question, dump.as_json(self._ledger))))

    def _recall_binds(self) -> None:
        """What the session before decided is not in force any more: its room may be given to others (semantics 20)."""
        if self._binds is not None:
            self._binds.recall_binds()

    def _open(self, now: float) -> Outcome:
        out = recovery.open_nodes(self._ledger, now)
        gc.collect()
        gc.freeze()  # what a cluster looks like stays for long: the collector need not walk it (semantics 26)
        log.info("recovered", pods=len(self._ledger.pods), nodes=len(self._ledger.nodes))
        return out

    async def _wait_for(self, session: Session | None) -> None:
        """A core that takes connections and nothing else is no core: ask for another session."""
        await asyncio.sleep(RECOVERY_S)
        if session is self.session and session is not None and self.stage in _RECOVERING:
            session.session_lost(f"the core has not taken in the cluster within {RECOVERY_S:g} s")

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _told(session: Session, put: Callable[[Input], None]) -> None:
    """The core has all but open nodes: so that it does not find, and tell people, that none is (ADR 0016)."""
    try:
        await session.fence(more=True)
    except SchedulerInterfaceError as error:
        session.session_lost(f"no fence: {error}")
    else:
        put(Fenced(session))


async def _begin_scheduling(session: Session) -> None:
    try:
        await session.fence()
    except SchedulerInterfaceError as error:
        session.session_lost(f"no fence: {error}")


async def _answer(session: Session, answer: muster_pb2.Answer) -> None:
    try:
        await session.answer(answer)
    except SchedulerInterfaceError as error:
        log.info("a state dump was not delivered", reason=str(error))
