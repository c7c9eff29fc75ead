"""Carries the core's effects to those they are meant for: a session's callback, the deadlines, the store of events.

Order holds within allocations, within applications and within nodes, as the
effects came; runs of one kind are put into one message, except allocations:
one decision is one message (semantics 1). Called by loop.py only. A callback
that fails loses its session, never the core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Final, cast

import structlog

from muster_core.edge import si_encode, summary
from muster_core.edge.config.settings import DEFAULT_SETTINGS, CoreSettings
from muster_core.edge.deadlines import Deadlines
from muster_core.edge.events.pushes import Pushes, is_pushed
from muster_core.edge.events.store import EventStore
from muster_core.edge.metrics.counted import Metrics
from muster_core.edge.session import Session
from muster_core.edge.supervisor import Supervisor
from muster_core.model.effects import (
    AllocationAnswer,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationSummed,
    ApplicationUpdated,
    ClockSet,
    Effect,
    NodeAccepted,
    NodeRecommended,
    NodeRejected,
    PlacesAsked,
    SchedulingStateChanged,
    VictimsAsked,
)
from muster_core.model.ids import RmId
from muster_core.model.notes import AskNoted, EventNoted, Noted, PlacesNoted
from muster_si import si_pb2
from muster_si.words import words

_log = structlog.get_logger(__name__)

_NOTED: Final = (EventNoted, AskNoted, PlacesNoted)
_APPLICATION = (ApplicationAccepted, ApplicationRejected, ApplicationUpdated)
_NODE = (NodeAccepted, NodeRejected)


class Outlet:
    """`sessions`: the newest session of each resource manager, filled by scheduler.py.
    `broken`: sessions whose callback failed, for the loop to end.
    """

    def __init__(self, metrics: Metrics, supervisor: Supervisor, events: EventStore) -> None:
        self.sessions: dict[RmId, Session] = {}
        self.deadlines = Deadlines()
        self.events = events
        self.settings = DEFAULT_SETTINGS
        #: Who else is told the settings that come into force.
        self.followers: list[Callable[[CoreSettings], None]] = []
        self.pushes = Pushes()
        self.broken: list[Session] = []
        self._metrics = metrics
        self._supervisor = supervisor

    def carry(self, effects: Iterable[Effect], now_ns: int) -> None:
        """Hand out everything, in order; what was noted comes after what is said."""
        said: list[Effect] = []
        noted: list[Noted] = []
        for effect in effects:
            if isinstance(effect, _NOTED):
                noted.append(effect)
            else:
                said.append(effect)
        for (_, rm), run in groupby(said, key=_run_of):
            self._carry_run(rm, list(run), now_ns)
        if noted:
            self._note(noted, now_ns)

    def configure(self, settings: CoreSettings) -> None:
        """Put the settings in force."""
        self.settings = settings
        for follow in self.followers:
            follow(settings)
        self.pushes.capacity = settings.request_capacity
        self.events.configure(
            tracking=settings.tracks_events,
            capacity=settings.ring_capacity,
            most_streams=settings.most_streams,
            most_per_host=settings.most_streams_per_host,
        )

    def _carry_run(self, rm: RmId | None, run: Sequence[Effect], now_ns: int) -> None:
        """One or more effects of one kind for one resource manager."""
        for effect in run:
            self._metrics.said(effect)
        first = run[0]
        if isinstance(first, ClockSet):
            for effect in run:
                self.deadlines.set(cast("ClockSet", effect))
            return
        with suppress(OSError, ValueError):  # a log that cannot be written stops nothing
            _show(run)
        if isinstance(first, ApplicationSummed):
            return
        self._tell(rm, partial(_say, run=run), run)

    def _note(self, noted: Sequence[Noted], now_ns: int) -> None:
        """Into the store; resource managers are told what people act on."""
        if self.events.tracking:
            self.events.add(noted, now_ns)
        told: dict[RmId, list[EventNoted]] = {}
        for each in noted:
            if isinstance(each, EventNoted) and is_pushed(each):
                told.setdefault(each.rm, []).append(each)
        for rm, notes in told.items():
            self._push(rm, self.pushes.chosen(notes, now_ns), now_ns)

    def _push(self, rm: RmId, notes: Sequence[EventNoted], now_ns: int) -> None:
        none: list[si_pb2.EventRecord] = []
        records = self._supervisor.attempt(
            lambda: [si_encode.event_record(each, now_ns) for each in notes], none, notes
        )
        if records:
            self._tell(rm, partial(_say_events, records=records), notes)

    def _tell(self, rm: RmId | None, say: Callable[[Session], None], run: Sequence[Effect]) -> None:
        session = self.sessions.get(rm) if rm is not None else None
        if session is None or not session.is_open or not session.is_in_force:
            self._metrics.unheard("effects of a session that is over")
            return
        if not self._supervisor.attempt(lambda: _done(say, session), instead=False, cause=run):
            self._supervisor.take_failure()  # the callback's, not the world's
            self.broken.append(session)


def _done(say: Callable[[Session], None], session: Session) -> bool:
    say(session)
    return True


def _say_events(session: Session, records: Sequence[si_pb2.EventRecord]) -> None:
    session.callback.call_back(si_encode.events(records))


def _run_of(effect: Effect) -> tuple[object, RmId | None]:
    """What may share a message with its neighbour has an equal key."""
    if isinstance(effect, ClockSet):
        return ClockSet, None
    if isinstance(effect, AllocationAnswer):
        return id(effect), effect.rm
    return type(effect), effect.rm


def _say(session: Session, run: Sequence[Effect]) -> None:
    first = run[0]
    if isinstance(first, AllocationAnswer):
        response = si_encode.allocation_response(first)
        session.words += words(response)
        session.callback.update_allocation(response)
    elif isinstance(first, _APPLICATION):
        news = cast("Sequence[si_encode.ApplicationNews]", run)
        told = si_encode.application_response(news)
        session.words += words(told)
        session.callback.update_application(told)
    elif isinstance(first, _NODE):
        session.callback.update_node(si_encode.node_response(cast("Sequence[si_encode.NodeNews]", run)))
    elif isinstance(first, NodeRecommended):
        session.callback.call_back(si_encode.node_recommendations(cast("Sequence[NodeRecommended]", run)))
    elif isinstance(first, PlacesAsked):
        for asked in cast("Sequence[PlacesAsked]", run):
            session.callback.call_back(si_encode.places_asked(asked))
    elif isinstance(first, VictimsAsked):
        for one in cast("Sequence[VictimsAsked]", run):
            session.callback.call_back(si_encode.victims_asked(one))
    elif isinstance(first, SchedulingStateChanged):
        states = cast("Sequence[SchedulingStateChanged]", run)
        session.callback.call_back(si_encode.scheduling_states(states))


def _show(run: Sequence[Effect]) -> None:
    """What a user can see is logged (style 32); allocations are too many for more than a count."""
    for effect in run:
        match effect:
            case ApplicationAccepted():
                _log.info("application accepted", application=effect.application)
            case ApplicationRejected():
                _log.info("application rejected", application=effect.application, reason=effect.reason)
            case ApplicationUpdated():
                _log.info(
                    "application changed state",
                    application=effect.application,
                    state=effect.state.value,
                    message=effect.message,
                )
            case ApplicationSummed():
                _log.info(summary.line(effect))
            case NodeRecommended():
                _log.warning("node recommended", node=effect.node, message=effect.message)
            case NodeRejected():
                _log.warning("node rejected", node=effect.node, reason=effect.reason)
            case AllocationAnswer():
                _log.debug("allocations", new=len(effect.new), released=len(effect.released))
            case _:
                pass
