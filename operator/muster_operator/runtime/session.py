"""Recovery of a session and comparison with the core.

A recovery sends applications, nodes and their pods, requests, and the recovery barrier, each step after the response
to the one before (semantics 19). Afterwards a part of the controller's state is compared with the core's every few
seconds (ADR 0015). An object that changed during a comparison is left for the next round.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import Callable, Coroutine, Iterable, Iterator
from enum import StrEnum
from typing import Final, Protocol

import msgspec
import orjson
import structlog

from muster_operator.controller import reconciliation, recovery, tasks
from muster_operator.controller.reconciliation import Difference
from muster_operator.controller.state import Ledger, Phase
from muster_operator.model.commands import Outcome
from muster_operator.model.core_requests import CoreRequest
from muster_operator.model.core_responses import CoreResponse, Inventory, Part
from muster_operator.model.states import AppState
from muster_operator.runtime.inbox import BarrierAck, Compared, Input, OfSession, RecoveryStep, SessionLost, SessionUp
from muster_operator.runtime.metrics import Metrics
from muster_operator.si.session import Session, state_dump
from muster_si import muster_pb2
from muster_si.errors import Refused, SchedulerInterfaceError

comparing_log = structlog.get_logger("muster.comparing")
log = structlog.get_logger("muster.session")

_OPTIONS: Final = orjson.OPT_NON_STR_KEYS


def as_json(ledger: Ledger) -> str:
    """Everything the agent remembers, except the heap of deadlines."""
    parts = {
        "phase": ledger.phase.name,
        "applications": ledger.applications,
        "pods": ledger.pods,
        "foreignPods": ledger.foreign,
        "nodes": ledger.nodes,
        "namespaces": ledger.namespaces,
        "deletions": ledger.deletions,
        "untrackedPods": ledger.untracked_pods,
        "podsAwaitingNode": ledger.awaiting_node,
    }
    return orjson.dumps(parts, default=_plain, option=_OPTIONS).decode()


def _plain(value: object) -> object:
    """Structs become objects, sets sorted lists, anything else its text; what a pod says twice is said once."""
    if isinstance(value, msgspec.Struct):
        return {name: part for name, part in msgspec.structs.asdict(value).items() if name != "common"}
    return sorted(value, key=str) if isinstance(value, set | frozenset) else str(value)


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
        #: What a comparison that is under way leaves for the next one; None = none is.
        self.touched: set[str] | None = None
        self._compared = asyncio.Event()
        self.words = 0
        self._repaired: set[Difference] = set()
        self._restarted: set[Difference] = set()  # never for the same reason again
        self._task: asyncio.Task[None] | None = None

    def register(self) -> None:
        """A session was opened: what is received from now on is its own."""
        self.end()
        self.words = 0
        self._repaired.clear()

    def begin(self, session: Session) -> None:
        """The session lives: compare from now on."""
        self._task = asyncio.create_task(self._run(session))

    def end(self) -> None:
        """The session is over."""
        if self._task is not None:
            self._task.cancel()
        self._task = self.touched = None

    def said(self, news: Iterable[CoreRequest]) -> None:
        """Note of whom we speak."""
        if self.touched is not None:
            for item in news:
                self.touched.update(reconciliation.names_of_request(item))

    def heard(self, verdict: CoreResponse) -> None:
        """Note of whom the core spoke, once the ledger knows."""
        if self.touched is not None:
            self.touched.update(reconciliation.names_of_response(verdict))

    def compare(self, item: Compared, now: float) -> Outcome:
        """Compare a part, tell of each difference, and say what puts them right."""
        if self.touched is None:
            return Outcome()
        before, names, self.touched = self._repaired | self._restarted, self.touched, None
        self._compared.set()  # also where comparing fails: the next part may be better
        found = reconciliation.compare(self._ledger, item.inventory, names, now, before)
        for difference in found.found:
            self._metrics.differences.labels(difference.what).inc()
            comparing_log.error(
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
            self.touched = set()
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
        """A part, when we have received all that it rests on; None = the session has ended."""
        try:
            async with asyncio.timeout(self._answer_s):
                inventory, said = await session.take_inventory(part, beyond, LIMIT)
                while self.words < said:  # noqa: ASYNC110 - another stream brings them; nobody signals
                    await asyncio.sleep(_LOOK_S)
                return inventory
        except TimeoutError:
            session.session_lost(f"the core has not answered for {self._answer_s:g} s")
        except Refused as refused:
            comparing_log.warning("the core cannot be compared with", reason=refused.reason)
        except SchedulerInterfaceError:
            pass  # the session says so itself
        self.touched = None
        return None


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

#: Seconds that a recovery waits for the answers to applications of which Muster bound no pod, after all were submitted.
#: The core answers none whose user's groups it cannot look up.
ANSWERS_S: Final = 10.0


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
    """The session with effect; none while there is none, or at the end. `recovered`: a core knew all, once."""

    def __init__(
        self, ledger: Ledger, put: Callable[[Input], None], comparing: Comparing, binds: Binds | None = None
    ) -> None:
        self._ledger, self._put, self.comparing, self._binds = ledger, put, comparing, binds
        self.clock_ahead_s: Callable[[], float] = lambda: 0.0
        self.session: Session | None = None
        self.stage = Stage.NO_SESSION
        self.recovered = asyncio.Event()
        self._steps: Iterator[Outcome] | None = None  # of the step under way, which is too long for one
        self._wait: asyncio.Event | None = None  # set when the recovery continues without the missing answers
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
        """From now on no session has effect."""
        self.session, self.stage, self._steps = None, Stage.DRAINING, None
        self.comparing.end()

    def failed(self) -> None:
        """The agent failed on an input; a recovery that is under way is not to be trusted."""
        if self.session is not None and self.stage in _RECOVERING:
            self.session.session_lost("the recovery failed")

    @property
    def is_served_without_keys(self) -> bool:
        """Whether a session began, or begins, without keys, and pods may be signed: only a recovery adopts those."""
        ledger = self._ledger
        if ledger.keys is not None or self.session is None:
            return False
        return ledger.phase is Phase.RECOVERING or bool(ledger.phase is Phase.LIVE and ledger.unverified)

    def end_session(self, reason: str, now: float) -> None:
        """Ignore the session from now on, and ask for another one."""
        if self.session is not None:
            self.session.session_lost(reason)
            self.changed(SessionLost(self.session, reason), now)

    def changed(self, item: OfSession, now: float) -> Outcome:
        """A session came, went, got on with its recovery, has taken in everything, or showed what it holds."""
        match item:
            case SessionUp(session=session) if not session.over.done() and self.stage is not Stage.DRAINING:
                self.session, self.stage, self._steps = session, Stage.SETTLING, None
                self._recall_binds()
                self.comparing.register()
            case SessionLost(session=session, reason=reason) if session is self.session:
                log.warning("the session with the core is over", reason=reason)
                self.session, self.stage, self._steps = None, Stage.NO_SESSION, None
                self.comparing.end()
                self._recall_binds()
                recovery.pause(self._ledger)
            case BarrierAck(session=session) if session is self.session:
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
        if self._steps is not None:
            said = next(self._steps, None)
            if said is not None:
                return said
            self._steps = None
        match self.stage:
            case Stage.SETTLING if self._binds is None or not self._binds.binds_in_flight:
                self.stage = Stage.LISTING
                return Outcome()
            case Stage.LISTING if self.has_listed:
                self._ledger.clock_ahead_ms = round(self.clock_ahead_s() * 1000)
                self.stage, self._steps = Stage.ANSWERS, recovery.begin(self._ledger, now)
                self._wait = None
                self._spawn(self._wait_for(self.session))
                return Outcome()
            case Stage.ANSWERS if recovery.is_answered(self._ledger) or self._has_waited():
                told = recovery.report_nodes(self._ledger, now), recovery.submit_asks(self._ledger, now)
                self.stage, self._steps = Stage.REPORT, itertools.chain(*told)
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
            self._put(RecoveryStep(self.session))
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
            self._spawn(_answer(self.session, state_dump(question, as_json(self._ledger))))

    def _recall_binds(self) -> None:
        """What the session before decided is not in force any more: its room may be given to others (semantics 20)."""
        if self._binds is not None:
            self._binds.recall_binds()

    def _has_waited(self) -> bool:
        """Whether the recovery continues without the missing answers: they come while the session is live.

        An application that is submitted by force is waited for: the core answers it whatever it cannot look up. Bound
        pods of the others count on their nodes until the answer.
        """
        if self._wait is None:
            self._wait = asyncio.Event()
            self._spawn(self._end_wait(self.session, self._wait))
        if not self._wait.is_set():
            return False
        missing = [app for app in self._ledger.applications.values() if app.state is AppState.SUBMITTED]
        if any(tasks.is_forced(self._ledger, app) for app in missing):
            return False
        log.warning("the core has not answered all applications: the others are scheduled", applications=len(missing))
        return True

    async def _end_wait(self, session: Session | None, wait: asyncio.Event) -> None:
        await asyncio.sleep(ANSWERS_S)
        wait.set()
        if session is self.session and session is not None:
            self._put(RecoveryStep(session))

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
        put(BarrierAck(session))


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
