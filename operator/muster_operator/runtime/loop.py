"""The task that owns the controller's state.

It takes inputs from the inbox, calls the controller, and passes requests to the core and commands to the write queue
after each turn. It sleeps until an input arrives or the next timer is due, and yields regularly so that streams and
probes stay responsive. An input that the controller fails on is logged and counted, and the loop continues.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Final

import structlog
from msgspec import Struct
from msgspec.structs import astuple

from muster_operator.controller import cluster_events, core_responses, state, timers
from muster_operator.controller.state import Ledger
from muster_operator.kube.watch import whole
from muster_operator.kube.write_queue import named_command
from muster_operator.model.cluster_events import KeysSeen, PodSeen
from muster_operator.model.commands import Failure, Order, Outcome, Result
from muster_operator.runtime.inbox import (
    BarrierAck,
    CommandEnded,
    Compared,
    CoreMessage,
    EventReceived,
    Inbox,
    Input,
    Listed,
    OfSession,
    RecoveryStep,
    SessionLost,
    SessionUp,
    Unreadable,
)
from muster_operator.runtime.metrics import Metrics
from muster_operator.runtime.session import PAUSE_S, Binds, Comparing, Current, Stage
from muster_operator.si.codec import decoded, decoded_callback
from muster_operator.si.session import is_state_dump
from muster_operator.translate.pod_classes import PartialPod
from muster_operator.translate.pods import read_bound
from muster_operator.translate.values import mapping, text
from muster_si import muster_pb2, si_pb2
from muster_si.words import words

log = structlog.get_logger("muster.loop")

#: Threshold of the youngest generation (gc.set_threshold): net allocations before a collection, which takes 2 to 4 ms.
#: It is far more than the containers of one decoded object.
YOUNG: Final = 20_000

#: Collections of one generation before a collection of the next.
MIDDLE: Final = 10
OLD: Final = 20

#: Events between two freezes. A collection of what they left takes 5 ms.
EVERY: Final = 2_000

#: Freezes between two full collections, because frozen objects, such as a task, can become garbage in a cycle. With
#: 20,000 pods a full collection takes 50 ms and runs a few times a day, under 5,000 events a second every 80 s.
FULL: Final = 200


class Collector:
    """Tunes the garbage collector: long-lived objects of the state are frozen, so that collections skip them."""

    def __init__(self) -> None:
        self._is_on = False
        self._taken = self._freezes = 0

    def begin(self) -> None:
        """Starts tuning the process."""
        self._is_on = True
        gc.set_threshold(YOUNG, MIDDLE, OLD)

    def taken(self) -> None:
        """Counts an event. Freezes what remains in the state from time to time."""
        self._taken += 1
        if not self._is_on or self._taken < EVERY:
            return
        self._taken, self._freezes = 0, self._freezes + 1
        if self._freezes % FULL:
            gc.collect(1)
        else:
            gc.unfreeze()
            gc.collect()
        gc.freeze()


#: Maximum characters of a name.
_LONGEST = 320


def named_input(item: Input | None) -> dict[str, str]:
    """Kind and object of an input for log lines; None = a timer. Never raises."""
    match item:
        case None:
            return {"input": "Reminder"}
        case EventReceived(fact=fact) if isinstance(fact, Struct):
            return {"input": type(fact).__name__, "object": _object(fact)[:_LONGEST]}
        case CommandEnded(result=result) if isinstance(result, Result):
            return {"input": type(result).__name__, **named_command(result.command)}
        case CoreMessage(message=message):
            return {"input": type(message).__name__}
        case Unreadable(plural=plural, raw=raw):
            return {"input": plural, "object": _of_metadata(raw)[:_LONGEST]}
        case _:
            return {"input": type(item).__name__}


def _object(fact: Struct) -> str:
    """The object of an event: its first field is a name, or has one."""
    if isinstance(fact, PodSeen):
        return f"{fact.pod.ref.namespace}/{fact.pod.ref.name}"
    about = astuple(fact)[0]
    if isinstance(about, str):
        return about
    return str(getattr(about, "name", "") or getattr(getattr(about, "ref", None), "key", ""))


def _of_metadata(raw: object) -> str:
    if isinstance(raw, PartialPod):
        return f"{raw.metadata.namespace}/{raw.metadata.name}"
    metadata = mapping(mapping(raw).get("metadata"))
    return f"{text(metadata.get('namespace'))}/{text(metadata.get('name'))}"


#: Maximum seconds of work before other tasks can run.
TURN_S: Final = 0.010


class Loop:
    """Owns the controller's state. `submit` receives commands for Kubernetes; `binds` ends those of a lost session.

    `recovered` is set once a core has the whole state.
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
        """Why the operator is not ready; empty = ready."""
        return self._current.stage.value

    @property
    def unlisted(self) -> str:
        """Why a session could not be served immediately after becoming leader; empty if it could."""
        if not self._current.has_listed:
            return Stage.LISTING.value
        stale = self._inbox.freshness.stale
        return f"stale watches: {stale}" if stale else ""

    @property
    def held(self) -> str:
        """Why decisions are not sent although this replica leads; empty if they are."""
        freshness = self._inbox.freshness
        return "" if freshness.may_decide() else f"not binding, stale watches: {freshness.stale}"

    def use_clock(self, ahead_s: Callable[[], float]) -> None:
        """Sets the function for the clock difference: seconds to add to times of the API server, per session."""
        self._current.clock_ahead_s = ahead_s

    def drain(self) -> None:
        """Ignores the core from now on. Results of commands are still handled."""
        self._current.drain()

    async def run(self) -> None:
        """Runs until cancelled."""
        self._collector.begin()
        while True:
            due = state.next_due(self._ledger)
            await self._inbox.something(None if due is None else max(0.0, due - time.monotonic()))
            self.turn()
            await asyncio.sleep(0)

    def turn(self) -> None:
        """Handles pending inputs for at most TURN_S, then timers, and sends the results."""
        out, now = Outcome(), time.monotonic()
        ends = now + TURN_S
        while now <= ends and (item := self._inbox.take()) is not None:
            self._supervised(item, out, now)
            now = time.monotonic()
        self._set_wake_up(out)
        self._hand_out(out)

    def _set_wake_up(self, out: Outcome) -> None:
        """Handles expired timers for at most TURN_S, so that many inputs do not delay them."""
        now = time.monotonic()
        ends = now + TURN_S
        while (due := state.next_due(self._ledger)) is not None and due <= now <= ends:
            self._supervised(None, out, now)
            now = time.monotonic()

    def _supervised(self, item: Input | None, out: Outcome, now: float) -> None:
        """Handles one input, or a timer (None). A failure affects this input only."""
        if isinstance(item, OfSession):
            self._hand_out(out)  # the results so far belong to the present session
        news, commands = len(out.news), len(out.commands)
        try:
            self._handle(item, out, now)
            news, commands = len(out.news), len(out.commands)  # a failing recovery step does not drop these
            if self._current.stage is not Stage.LIVE:
                self._go_on(out, now)
        except Exception:
            kind = type(item).__name__ if item is not None else "Reminder"
            self._metrics.failures.labels(kind).inc()
            del out.news[news:], out.commands[commands:]
            log.exception("the operator failed on an input, continuing", **named_input(item))
            if not isinstance(item, Unreadable):  # an unreadable object has not changed the state
                self._current.failed()

    def _handle(self, item: Input | None, out: Outcome, now: float) -> None:
        match item:
            case EventReceived():
                self._collector.taken()
                if isinstance(item.fact, KeysSeen) and self._current.is_served_without_keys:
                    self._hand_out(out)  # the results so far belong to the present session
                    self._current.end_session("signing keys loaded: recovering signed pods", now)
                cluster_events.apply_event(self._ledger, out, item.fact, now)
            case Unreadable():
                self._unreadable(item, out, now)
            case CoreMessage():
                self._said(item, out, now)
            case CommandEnded():
                core_responses.handle_command_result(self._ledger, out, item.result, now)
            case Listed():
                self._current.listed(item.plural)
            case SessionUp() | SessionLost() | RecoveryStep() | BarrierAck() | Compared():
                out.add(self._current.changed(item, now))
            case None:
                out.add(timers.on_timers(self._ledger, now))

    def _unreadable(self, item: Unreadable, out: Outcome, now: float) -> None:
        """Reports an object that cannot be translated. If it is a bound pod, its resources count on its node."""
        name = named_input(item).get("object", "")
        if item.plural == "pods":
            raw = whole(item.raw) if isinstance(item.raw, PartialPod) else item.raw
            if (pod := read_bound(raw)) is not None:
                cluster_events.unreadable_seen(self._ledger, out, pod, now)
        out.failures.append(Failure("Unreadable", name, item.error))

    def _go_on(self, out: Outcome, now: float) -> None:
        """Sends the next step of a recovery if it can begin. Each step is sent before the next one is computed.

        See docs/internals/semantics.md, 19. A step with several messages is continued later, so that other inputs are
        handled in between.
        """
        if (step := self._current.next_step(now)) is not None:
            out.add(step)
            self._hand_out(out)
            self._current.sent()

    def _said(self, item: CoreMessage, out: Outcome, now: float) -> None:
        if item.session is not self._current.session:
            return
        message = item.message
        if isinstance(message, muster_pb2.Callback):
            if is_state_dump(message):
                self._current.answer_dump(message)
            response = decoded_callback(message)
        else:
            response = decoded(message)
        if response is not None:
            out.add(core_responses.handle_core_response(self._ledger, response, now))
        comparing = self._current.comparing
        if isinstance(message, si_pb2.AllocationResponse | si_pb2.ApplicationResponse):
            comparing.words += words(message)
        if comparing.touched is not None and response is not None:
            comparing.record_received(response)

    def _hand_out(self, out: Outcome) -> None:
        """Sends requests to the core and commands for Kubernetes, logs failures, and clears `out`."""
        if self._current.session is not None and out.news:
            self._current.session.send(out.news)
            if self._current.comparing.touched is not None:
                self._current.comparing.record_sent(out.news)
        for command in out.commands:
            self._submit(command)
        for failure in out.failures:
            self._metrics.failures.labels(failure.kind).inc()
            log.error(
                "internal error while processing an object, continuing without it",
                input=failure.kind,
                object=failure.name,
                exc_info=failure.error,
            )
        out.news.clear()
        out.commands.clear()
        out.failures.clear()
