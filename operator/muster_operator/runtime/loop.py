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

#: Containers allocated and not freed before a pass over the youngest, which takes 2 to 4 ms: far more than one decoded
#: object, which is freed before the next.
YOUNG: Final = 20_000

#: Passes over one generation before one over the next.
MIDDLE: Final = 10
OLD: Final = 20

#: Facts taken between two freezes; a pass over what they left takes 5 ms.
EVERY: Final = 2_000

#: Freezes between two passes over everything: what was frozen alive, a task say, may have died in a cycle since.
#: With 20,000 pods it takes 50 ms, some times a day; under 5,000 events a second every 80 s.
FULL: Final = 200


class Collector:
    """Owned by the loop, because the ledger is what it spares. Does nothing before `begin`."""

    def __init__(self) -> None:
        self._is_on = False
        self._taken = self._freezes = 0

    def begin(self) -> None:
        """From now on the process is ours to tune."""
        self._is_on = True
        gc.set_threshold(YOUNG, MIDDLE, OLD)

    def taken(self) -> None:
        """One more fact was taken in; what the last ones left in the ledger has come to stay."""
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


#: Characters of a name.
_LONGEST = 320


def named_input(item: Input | None) -> dict[str, str]:
    """The kind of an input (None = something that is due), and which object it is about; never raises."""
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
    """Every fact begins with what it is about: a name, or something that has one."""
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
        return "" if freshness.may_decide() else f"not binding, stale watches: {freshness.stale}"

    def use_clock(self, ahead_s: Callable[[], float]) -> None:
        """Times of objects are the API server's; ours is so many seconds ahead. Asked when a session begins."""
        self._current.clock_ahead_s = ahead_s

    def drain(self) -> None:
        """Ignore responses and send the core nothing more; results of commands are still taken."""
        self._current.drain()

    async def run(self) -> None:
        """Work until cancelled."""
        self._collector.begin()
        while True:
            due = state.next_due(self._ledger)
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
        while (due := state.next_due(self._ledger)) is not None and due <= now <= ends:
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
            log.exception("the operator failed on an input, continuing", **named_input(item))
            if not isinstance(item, Unreadable):  # nothing of that was taken in
                self._current.failed()

    def _handle(self, item: Input | None, out: Outcome, now: float) -> None:
        match item:
            case EventReceived():
                self._collector.taken()
                if isinstance(item.fact, KeysSeen) and self._current.is_served_without_keys:
                    self._hand_out(out)  # what was said so far is for the session so far
                    self._current.end_session("the signing keys arrived: recovering with what they sign", now)
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
        """Continue without an object that cannot be read; what takes room on a node is counted."""
        name = named_input(item).get("object", "")
        if item.plural == "pods":
            raw = whole(item.raw) if isinstance(item.raw, PartialPod) else item.raw
            if (pod := read_bound(raw)) is not None:
                cluster_events.unreadable_seen(self._ledger, out, pod, now)
        out.failures.append(Failure("Unreadable", name, item.error))

    def _go_on(self, out: Outcome, now: float) -> None:
        """The next step of a recovery, if its time has come; each step is sent before the next one (semantics 19).

        A source with a message is called again for the next one, so that others are served in between.
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
            verdict = decoded_callback(message)
        else:
            verdict = decoded(message)
        if verdict is not None:
            out.add(core_responses.handle_core_response(self._ledger, verdict, now))
        comparing = self._current.comparing
        if isinstance(message, si_pb2.AllocationResponse | si_pb2.ApplicationResponse):
            comparing.words += words(message)
        if comparing.touched is not None and verdict is not None:
            comparing.heard(verdict)

    def _hand_out(self, out: Outcome) -> None:
        """Say the news and order the commands; `out` is empty afterwards."""
        if self._current.session is not None and out.news:
            self._current.session.send(out.news)
            if self._current.comparing.touched is not None:
                self._current.comparing.said(out.news)
        for command in out.commands:
            self._submit(command)
        for failure in out.failures:
            self._metrics.failures.labels(failure.kind).inc()
            log.error(
                "the operator failed on an object, continuing without it",
                input=failure.kind,
                object=failure.name,
                exc_info=failure.error,
            )
        out.news.clear()
        out.commands.clear()
        out.failures.clear()
