"""A world and its clocks: takes events in, checks after each, and does everything over at the end (style 18)."""

from __future__ import annotations

import heapq
import io
from dataclasses import dataclass, field
from itertools import count

from muster_core.edge.journal import Journal, Leave, replay
from muster_core.engine import invariants
from muster_core.engine.cycle import cycle
from muster_core.engine.step import step
from muster_core.model.effects import ApplicationUpdated, ClockSet, Effect
from muster_core.model.events import ClockRang, Event
from muster_core.model.ids import ApplicationId, RmId
from muster_core.model.states import ApplicationState
from muster_core.world.applications import Application
from muster_core.world.world import World
from tests.unit.builders import SECOND
from tests.unit.core.engine.randomly import laws_of_preemption, laws_of_quotas


@dataclass(slots=True)
class Tally:
    """How many events were taken in, over all examples."""

    events: int = 0


@dataclass(frozen=True, slots=True)
class Told:
    """One event, or one cycle that was allowed to go on so often, and what came of it."""

    now_ns: int
    event: Event | None
    granted: int
    effects: list[Effect]


@dataclass(slots=True)
class Stage:
    """`leave`: how often the first cycle after an event may go on, None = as often as it likes."""

    tally: Tally
    world: World = field(default_factory=World)
    now_ns: int = 1_000 * SECOND
    leave: int | None = None
    told: list[Told] = field(default_factory=list)
    clocks: list[tuple[int, int, ClockSet]] = field(default_factory=list)
    #: What was said last of the state of each application.
    states: dict[tuple[RmId, ApplicationId], ApplicationState] = field(default_factory=dict)
    _order: count[int] = field(default_factory=count)

    def tell(self, *events: Event) -> list[Effect]:
        """Take in the events, then schedule; returns all that was said."""
        said = [effect for event in events for effect in self._step(event)]
        if self.leave is not None:
            said += self._cycle(self.leave)
        return said + self._cycle(None)

    def wait(self, seconds: float) -> list[Effect]:
        """Let time pass; every clock that is due rings at its time."""
        end_ns = self.now_ns + int(seconds * SECOND)
        said: list[Effect] = []
        while self.clocks and self.clocks[0][0] <= end_ns:
            at_ns, _, clock = heapq.heappop(self.clocks)
            self.now_ns = max(self.now_ns, at_ns)
            said += self.tell(ClockRang(clock.clock))
        self.now_ns = end_ns
        return said

    def _step(self, event: Event) -> list[Effect]:
        effects = step(self.world, event, self.now_ns)
        self.tally.events += 1
        self._keep(Told(self.now_ns, event, 0, effects))
        laws_of_preemption.check(self.world, effects)
        return effects

    def _cycle(self, most: int | None) -> list[Effect]:
        left = iter(range(most)) if most is not None else None
        leave = Leave(lambda: left is None or next(left, None) is not None)
        before = laws_of_quotas.running(self.world)
        effects = cycle(self.world, self.now_ns, leave).effects
        self._keep(Told(self.now_ns, None, leave.granted, effects))
        laws_of_quotas.check(self.world, effects, before)
        return effects

    def _keep(self, told: Told) -> None:
        self.told.append(told)
        for effect in told.effects:
            if isinstance(effect, ClockSet):
                heapq.heappush(self.clocks, (effect.at_ns, next(self._order), effect))
        broken = invariants.check(self.world)
        assert not broken, broken
        assert self.world.outbox.failures == []
        self._hear_states(told.effects)
        void = [partition.id for partition in self.world.partitions.values() if partition.void_decisions]
        assert not void, f"a decision did not hold in {void}: {told.effects}"

    def _hear_states(self, effects: list[Effect]) -> None:
        """Every change of state was delivered: what was said last of an application is what it is."""
        for effect in effects:
            if isinstance(effect, ApplicationUpdated):
                self.states[effect.rm, effect.application] = effect.state
        owners: dict[tuple[RmId, ApplicationId], list[Application]] = {}
        for partition in self.world.partitions.values():
            for app in partition.applications.values():
                owners.setdefault((partition.rm, app.id), []).append(app)
        for name, apps in owners.items():
            if len(apps) == 1 and apps[0].state is not ApplicationState.NEW:
                assert self.states.get(name) is apps[0].state, f"{name} is {apps[0].state}, said was {self.states}"

    def do_over(self) -> None:
        """Told the same in a new world, the core says the same."""
        world = World()
        for told in self.told:
            if told.event is not None:
                effects = step(world, told.event, told.now_ns)
            else:
                left = iter(range(told.granted))
                effects = cycle(world, told.now_ns, lambda left=left: next(left, None) is not None).effects  # type: ignore[misc]  # bound at once
            assert effects == told.effects, f"{told.event or 'a cycle'} came out otherwise when it was done over"

    def do_over_from_file(self) -> None:
        """The same, by what a journal wrote down."""
        file = io.BytesIO()
        journal = Journal(file)
        for told in self.told:
            if told.event is not None:
                journal.stepped(told.now_ns, told.event, told.effects)
            else:
                leave = Leave(lambda: True)
                leave.granted = told.granted
                journal.cycled(told.now_ns, leave, told.effects)
        assert list(replay(file.getvalue().splitlines())) == []
