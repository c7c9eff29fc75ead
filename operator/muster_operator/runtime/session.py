"""Recovery of a session and comparison with the core.

A recovery sends applications, nodes with their pods, requests, and the recovery barrier. Each step waits for the
response to the previous one (docs/internals/semantics.md, 19). Afterwards a part of the controller's state is compared
with the core's every few seconds (docs/internals/adr, number 0015). An object that changes during a comparison is left
for the next one.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from enum import StrEnum
from typing import Final, Protocol

import msgspec
import orjson
import structlog

from muster_operator.controller import reconciliation, recovery, tasks
from muster_operator.controller.reconciliation import Difference
from muster_operator.controller.state import Ledger, Phase
from muster_operator.kube.watch import paths
from muster_operator.model.commands import Outcome
from muster_operator.model.core_messages import CoreRequest, CoreResponse, Inventory, InventoryPart
from muster_operator.model.states import AppState
from muster_operator.runtime.inputs import BarrierAck, Compared, Input, OfSession, RecoveryStep, SessionLost, SessionUp
from muster_operator.runtime.metrics import Metrics
from muster_operator.si.session import Session, state_dump
from muster_si import muster_pb2
from muster_si.errors import Refused, SchedulerInterfaceError

comparing_log = structlog.get_logger("muster.comparing")
log = structlog.get_logger("muster.session")

_OPTIONS: Final = orjson.OPT_NON_STR_KEYS


def as_json(ledger: Ledger) -> str:
    """The controller's state as JSON, without timers."""
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
    """Converts a value for JSON: structs to objects, sets to sorted lists, others to text. Skips repeated tags."""
    if isinstance(value, msgspec.Struct):
        return {name: part for name, part in msgspec.structs.asdict(value).items() if name != "common"}
    return sorted(value, key=str) if isinstance(value, set | frozenset) else str(value)


#: Seconds between two parts, of about 1,000 names and keys each. 20,000 pods are compared in four minutes.
PAUSE_S: Final = 5.0
LIMIT: Final = 1_000

#: Timeout of the core's answer in seconds. Its longest pause is far below one second.
ANSWER_S: Final = 60.0
_LOOK_S: Final = 0.02


class Comparing:
    """Compares the state with the core's periodically. Owned by `Current`; results arrive through the inbox."""

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
        self._suspect = suspect  # a difference can be caused by a missed event
        #: Names in messages during a comparison, which it skips; None = no comparison is running.
        self.recent_names: set[str] | None = None
        self._compared = asyncio.Event()
        self.sent_items = 0
        self._repaired: set[Difference] = set()
        self._restarted: set[Difference] = set()  # these do not restart the session again
        self._task: asyncio.Task[None] | None = None

    def register(self) -> None:
        """Resets the counters for a new session."""
        self.end()
        self.sent_items = 0
        self._repaired.clear()

    def begin(self, session: Session) -> None:
        """Starts comparing, because the session is live."""
        self._task = asyncio.create_task(self._run(session))

    def end(self) -> None:
        """Stops comparing, because the session has ended."""
        if self._task is not None:
            self._task.cancel()
        self._task = self.recent_names = None

    def record_sent(self, requests: Iterable[CoreRequest]) -> None:
        """Records the names in requests to the core."""
        if self.recent_names is not None:
            for item in requests:
                self.recent_names.update(reconciliation.names_of_request(item))

    def record_received(self, response: CoreResponse) -> None:
        """Records the names in a message of the core, after it was handled."""
        if self.recent_names is not None:
            self.recent_names.update(reconciliation.names_of_response(response))

    def compare(self, item: Compared, now: float) -> Outcome:
        """Compares a part, logs each difference and returns the requests that repair them."""
        if self.recent_names is None:
            return Outcome()
        before, names, self.recent_names = self._repaired | self._restarted, self.recent_names, None
        self._compared.set()  # before comparing, so that a failure does not stop the next part
        found = reconciliation.compare(self._ledger, item.inventory, names, now, before)
        for difference in found.found:
            self._metrics.differences.labels(difference.what).inc()
            comparing_log.error(
                "state mismatch between operator and core",
                what=difference.what,
                subject=difference.subject,
                is_put_right=difference not in before,
            )
        if found.found:
            self._suspect("pods", "nodes")
        (self._restarted if found.inconsistency else self._repaired).update(found.found)
        if found.inconsistency:
            item.session.session_lost(found.inconsistency)
        return found.out

    async def _run(self, session: Session) -> None:
        part, beyond = InventoryPart.APPLICATIONS, ""
        while True:
            await asyncio.sleep(self._pause_s)
            self._compared.clear()
            self.recent_names = set()
            inventory = await self._ask(session, part, beyond)
            if inventory is None:
                return
            self._put(Compared(session, inventory))
            await self._compared.wait()
            beyond = inventory.last
            if not beyond:
                self._metrics.compared.labels(part.value).inc()
                part = InventoryPart.NODES if part is InventoryPart.APPLICATIONS else InventoryPart.APPLICATIONS

    async def _ask(self, session: Session, part: InventoryPart, beyond: str) -> Inventory | None:
        """Requests a part, and waits for all messages that it is based on. None = the session has ended."""
        try:
            async with asyncio.timeout(self._answer_s):
                inventory, sent = await session.take_inventory(part, beyond, LIMIT)
                while self.sent_items < sent:  # noqa: ASYNC110 - another stream delivers them without a signal
                    await asyncio.sleep(_LOOK_S)
                return inventory
        except TimeoutError:
            session.session_lost(f"the core has not answered for {self._answer_s:g} s")
        except Refused as refused:
            comparing_log.warning("cannot compare the state with the core", reason=refused.reason)
        except SchedulerInterfaceError:
            pass  # the session reports its end itself
        self.recent_names = None
        return None


#: Timeout of a recovery in seconds. 20,000 pods need two or three.
RECOVERY_S: Final = 120.0

#: Seconds that a recovery waits for answers to applications without a pod that Muster bound, after all were submitted.
#: The core does not answer while it cannot look up the groups of the user.
ANSWERS_S: Final = 10.0


class Stage(StrEnum):
    """State of the session with the core. The values are the texts of `/readyz`."""

    NO_SESSION = "no session with the core"
    SETTLING = "waiting for the last binds of the previous session"
    DRAINING = "shutting down"
    LISTING = "waiting for the first lists of the cluster"
    ANSWERS = "waiting for the core to accept or reject the applications"
    REPORT = "sending the cluster state to the core"
    BARRIER = "waiting for the core to process the cluster state"
    OPEN = "the core has processed the cluster state"
    OPENING = "making the nodes schedulable"
    LIVE = ""


_RECOVERING: Final = frozenset({Stage.ANSWERS, Stage.REPORT, Stage.BARRIER, Stage.OPEN, Stage.OPENING})


class Binds(Protocol):
    """Ends the binds of the previous session, so that none of them is carried out in the present one."""

    def cancel_binds(self) -> None:
        """Drops queued binds, and stops further attempts."""

    @property
    def binds_in_flight(self) -> int:
        """Number of binds in flight."""


class Current:
    """The present session, or None. `recovered` is set once a core has the complete state."""

    def __init__(
        self, ledger: Ledger, put: Callable[[Input], None], comparing: Comparing, binds: Binds | None = None
    ) -> None:
        self._ledger, self._put, self.comparing, self._binds = ledger, put, comparing, binds
        self.clock_ahead_s: Callable[[], float] = lambda: 0.0
        self.session: Session | None = None
        self.stage = Stage.NO_SESSION
        self.recovered = asyncio.Event()
        self._steps: Iterator[Outcome] | None = None  # remaining messages of the present step
        self._wait: asyncio.Event | None = None  # set when the recovery continues without missing answers
        self._listed: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def has_listed(self) -> bool:
        """Whether all lists that a recovery needs are complete."""
        return self._listed >= paths(has_devices=self._ledger.settings.device_claims).keys()

    def listed(self, plural: str) -> None:
        """Records a complete list of a resource."""
        self._listed.add(plural)

    def drain(self) -> None:
        """Ignores all sessions from now on."""
        self.session, self.stage, self._steps = None, Stage.DRAINING, None
        self.comparing.end()

    def failed(self) -> None:
        """Handling an input has failed. Ends a session in recovery, because its state is unreliable."""
        if self.session is not None and self.stage in _RECOVERING:
            self.session.session_lost("the recovery failed")

    @property
    def is_served_without_keys(self) -> bool:
        """Whether the session has started without keys and pods may be signed, so that a new recovery is needed."""
        ledger = self._ledger
        if ledger.keys is not None or self.session is None:
            return False
        return ledger.phase is Phase.RECOVERING or bool(ledger.phase is Phase.LIVE and ledger.unverified)

    def end_session(self, reason: str, now: float) -> None:
        """Ends the session and requests another one."""
        if self.session is not None:
            self.session.session_lost(reason)
            self.changed(SessionLost(self.session, reason), now)

    def changed(self, item: OfSession, now: float) -> Outcome:
        """Handles a change of the session."""
        match item:
            case SessionUp(session=session) if not session.over.done() and self.stage is not Stage.DRAINING:
                self.session, self.stage, self._steps = session, Stage.SETTLING, None
                self._cancel_binds()
                self.comparing.register()
            case SessionLost(session=session, reason=reason) if session is self.session:
                log.warning("session with the core ended", reason=reason)
                self.session, self.stage, self._steps = None, Stage.NO_SESSION, None
                self.comparing.end()
                self._cancel_binds()
                recovery.pause(self._ledger)
            case BarrierAck(session=session) if session is self.session:
                self.stage = Stage.OPEN
            case Compared(session=session) if session is self.session:
                return self.comparing.compare(item, now)
            case _:
                pass
        return Outcome()

    def next_step(self, now: float) -> Outcome | None:
        """The next messages of the recovery. None if it has to wait or is complete."""
        if self.stage is Stage.LIVE:
            return None
        if self._steps is not None:
            request = next(self._steps, None)
            if request is not None:
                return request
            self._steps = None
        match self.stage:
            case Stage.SETTLING if self._binds is None or not self._binds.binds_in_flight:
                self.stage = Stage.LISTING
                return Outcome()
            case Stage.LISTING if self.has_listed:
                self._ledger.clock_ahead_ms = round(self.clock_ahead_s() * 1000)
                self._ledger.epoch_s = time.time() - now
                self.stage, self._steps = Stage.ANSWERS, recovery.begin(self._ledger, now)
                self._wait = None
                self._spawn(self._wait_for(self.session))
                return Outcome()
            case Stage.ANSWERS if recovery.is_answered(self._ledger) or self._has_waited():
                reports = recovery.report_nodes(self._ledger, now), recovery.submit_asks(self._ledger, now)
                self.stage, self._steps = Stage.REPORT, itertools.chain(*reports)
                return Outcome()
            case Stage.REPORT:
                self.stage = Stage.BARRIER
                return Outcome()
            case Stage.OPEN:
                self.stage = Stage.OPENING
                return self._open(now)
            case _:
                return None

    def sent(self) -> None:
        """The last step was passed to the session. Continues with the barrier, or with scheduling."""
        if self.session is not None:
            self._put(RecoveryStep(self.session))
        if self.stage is Stage.BARRIER and self.session is not None:
            self._spawn(_told(self.session, self._put))
        elif self.stage is Stage.OPENING and self.session is not None:
            self.stage = Stage.LIVE
            self.recovered.set()
            self._spawn(_begin_scheduling(self.session))
            self.comparing.begin(self.session)

    def answer_dump(self, question: muster_pb2.Callback) -> None:
        """Sends the controller's state to the core."""
        if self.session is not None:
            self._spawn(_answer(self.session, state_dump(question, as_json(self._ledger))))

    def _cancel_binds(self) -> None:
        """Drops binds of the previous session, whose resources can be allocated to others.

        See docs/internals/semantics.md, 20.
        """
        if self._binds is not None:
            self._binds.cancel_binds()

    def _has_waited(self) -> bool:
        """Whether the recovery continues without the missing answers, which can arrive later.

        Applications that are submitted by force are waited for, because the core always answers them. Bound pods of the
        others count on their nodes until the answer.
        """
        if self._wait is None:
            self._wait = asyncio.Event()
            self._spawn(self._end_wait(self.session, self._wait))
        if not self._wait.is_set():
            return False
        missing = [app for app in self._ledger.applications.values() if app.state is AppState.SUBMITTED]
        if any(tasks.is_forced(self._ledger, app) for app in missing):
            return False
        log.warning(
            "no response from the core for some applications; the others are scheduled", applications=len(missing)
        )
        return True

    async def _end_wait(self, session: Session | None, wait: asyncio.Event) -> None:
        await asyncio.sleep(ANSWERS_S)
        wait.set()
        if session is self.session and session is not None:
            self._put(RecoveryStep(session))

    def _open(self, now: float) -> Outcome:
        out = recovery.open_nodes(self._ledger, now)
        gc.collect()
        gc.freeze()  # the state is long-lived, so that collections can skip it (docs/internals/semantics.md, 26)
        log.info("recovered", pods=len(self._ledger.pods), nodes=len(self._ledger.nodes))
        return out

    async def _wait_for(self, session: Session | None) -> None:
        """Requests another session if the core does not complete the recovery in time."""
        await asyncio.sleep(RECOVERY_S)
        if session is self.session and session is not None and self.stage in _RECOVERING:
            session.session_lost(f"the core has not processed the cluster state within {RECOVERY_S:g} s")

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _told(session: Session, put: Callable[[Input], None]) -> None:
    """Sends the barrier before the nodes become schedulable. Otherwise the core would report that no node is."""
    try:
        await session.barrier(more=True)
    except SchedulerInterfaceError as error:
        session.session_lost(f"no answer to the recovery barrier: {error}")
    else:
        put(BarrierAck(session))


async def _begin_scheduling(session: Session) -> None:
    try:
        await session.barrier()
    except SchedulerInterfaceError as error:
        session.session_lost(f"no answer to the recovery barrier: {error}")


async def _answer(session: Session, answer: muster_pb2.Answer) -> None:
    try:
        await session.answer(answer)
    except SchedulerInterfaceError as error:
        log.info("a state dump was not delivered", reason=str(error))
