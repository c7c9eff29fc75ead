"""A core state with its timers: processes events, checks the state after each, and replays all events at the end."""

from __future__ import annotations

import heapq
import io
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

from muster_core.model.effects import Effect, TimerSet
from muster_core.model.errors import CommitFailed, InconsistentState
from muster_core.model.events import Event, ManagerRegistered, TimerFired
from muster_core.model.ids import PartitionId, RmId
from muster_core.model.states import ManagerState
from muster_core.runtime.journal import Journal
from muster_core.scheduling import invariants
from muster_core.scheduling.scheduler import CycleBudget, CycleResult, cycle, step_part
from muster_core.state.scheduler_state import SchedulerState
from tests.unit.builders import SECOND
from tests.unit.core.replay import replay
from tests.unit.core.scheduling.faults import FAULT, FaultAt
from tests.unit.core.scheduling.random_events import preemption_invariants, quota_invariants
from tests.unit.core.scheduling.random_events.budgets import FREE, Budget, granting
from tests.unit.core.scheduling.random_events.replica import Replica

#: Number of requests, allocations, applications and queues up to which the state is checked after every event. Larger
#: states are checked proportionally less often.
_CHECKED: Final = 15
#: The largest number of them in a small state.
_SMALL: Final = 400
#: Maximal cycles with a budget between two events. More are a defect; in a large state one without a budget follows.
_CYCLES: Final = 1_000
_LARGE_CYCLES: Final = 20


@dataclass(slots=True)
class Tally:
    """Counts of events and other steps over all examples."""

    events: int = 0
    cycles: int = 0
    faults: int = 0
    crashes: int = 0


@dataclass(frozen=True, slots=True)
class Recorded:
    """One part of an event, or one cycle with its number of continuations, and its effects. `fault`: the injected
    fault, if any. `is_continued`: not the first part. `is_discarded`: the state was discarded afterwards.
    """

    now_ns: int
    event: Event | None
    granted: int
    effects: list[Effect]
    fault: FaultAt
    is_continued: bool = False
    is_discarded: bool = False


@dataclass(slots=True)
class Stage:  # long: everything that the loop of the core does, and its checks
    """A simulated core. `budget`: of each cycle; cycles repeat until nothing is left to do. `fault`: raised in the next
    cycles or timers. `is_crashed`: the state was inconsistent afterwards; `discard_state` has to follow.
    """

    tally: Tally
    scheduler_state: SchedulerState = field(default_factory=SchedulerState)
    now_ns: int = 1_000 * SECOND
    budget: Budget = FREE
    fault: FaultAt = field(default_factory=lambda: FaultAt(0))
    is_crashed: bool = False
    log: list[Recorded] = field(default_factory=list)
    timers: list[tuple[int, int, TimerSet]] = field(default_factory=list)
    #: The state of the resource managers.
    replicas: dict[PartitionId, Replica] = field(default_factory=dict)
    _order: count[int] = field(default_factory=count)
    _unchecked: int = 0

    def send(self, *events: Event) -> list[Effect]:
        """Process the events, then schedule until nothing is left to do. Returns all effects."""
        effects: list[Effect] = []
        for event in events:
            if not self.is_crashed:
                effects += self._step(event)
        return effects + self._schedule()

    def wait(self, seconds: float) -> list[Effect]:
        """Advance the time. Timers fire when they are due."""
        end_ns = self.now_ns + int(seconds * SECOND)
        effects: list[Effect] = []
        while self.timers and self.timers[0][0] <= end_ns and not self.is_crashed:
            at_ns, _, timer = heapq.heappop(self.timers)
            self.now_ns = max(self.now_ns, at_ns)
            effects += self.send(TimerFired(timer.timer))
        self.now_ns = end_ns
        return effects

    def discard_state(self) -> dict[PartitionId, Replica]:
        """Discard the state, as the core's loop does. Returns the replicas of the resource managers."""
        known, self.replicas = self.replicas, {}
        self.scheduler_state = SchedulerState()
        self.timers.clear()
        self.fault = FaultAt(0)
        self.is_crashed = False
        self.log.append(replace(self.log[-1], event=None, effects=[], is_discarded=True))
        self.tally.crashes += 1
        return known

    @property
    def is_small(self) -> bool:
        """Whether checks of the complete state are cheap."""
        return self._weight() <= _SMALL

    # -- events and cycles ---------------------------------------------------------

    def _step(self, event: Event) -> list[Effect]:
        effects: list[Effect] = []
        failure: Exception | None = None
        is_continued = False
        while not is_continued or self.scheduler_state.has_begun(event):
            armed = replace(self.fault)
            part, failure = _stepped(self.scheduler_state, event, self.now_ns, self.fault)
            self._keep(Recorded(self.now_ns, event, 0, part, armed, is_continued))
            effects, is_continued = effects + part, True
        self.tally.events += 1
        self._replicate(event, effects)
        self._check_failure(failure)
        if failure is None:
            preemption_invariants.check(self.scheduler_state, effects)
        return effects

    def _schedule(self) -> list[Effect]:
        effects: list[Effect] = []
        for number in count():
            if self.is_crashed:
                return effects
            is_large = not self.is_small
            is_last = is_large and number >= _LARGE_CYCLES
            decided, more = self._cycle(FREE if is_last else self.budget)
            effects += decided
            if not more:
                return effects
            assert number < _CYCLES, f"{number} cycles had something left to do and no event between them"
        return effects

    def _cycle(self, budget: Budget) -> tuple[list[Effect], bool]:
        cycle_budget, armed = budget.begin(), replace(self.fault)
        before = quota_invariants.running(self.scheduler_state)
        effects, more, failure = _cycled(self.scheduler_state, self.now_ns, cycle_budget, self.fault)
        self.tally.cycles += 1
        self._keep(Recorded(self.now_ns, None, cycle_budget.granted, effects, armed))
        self._replicate(None, effects)
        self._check_failure(failure)
        if not self.is_crashed:
            quota_invariants.check(self.scheduler_state, effects, before)
        return effects, more

    def _keep(self, recorded: Recorded) -> None:
        self.log.append(recorded)
        for effect in recorded.effects:
            if isinstance(effect, TimerSet):
                heapq.heappush(self.timers, (effect.at_ns, next(self._order), effect))

    def _replicate(self, event: Event | None, effects: list[Effect]) -> None:
        """Pass the effects to the resource managers."""
        if isinstance(event, ManagerRegistered):
            for name in [
                name
                for name in self.replicas
                if name not in self.scheduler_state.partitions or self._rm(name) == event.rm
            ]:
                del self.replicas[name]
        for name in self.scheduler_state.partitions:
            self.replicas.setdefault(name, Replica(name))
        here = _partition_of(event)
        for name, replica in self.replicas.items():
            mine = [effect for effect in effects if getattr(effect, "rm", None) == self._rm(name)]
            if name == here and event is not None:
                replica.step(event, mine)
            elif mine:
                replica.receive(mine)

    def _rm(self, name: PartitionId) -> RmId:
        found = self.scheduler_state.partitions.get(name)
        return found.rm if found is not None else RmId(name[1 : name.index("]")])

    # -- checks ----------------------------------------------------------------------

    def _check_failure(self, failure: Exception | None) -> None:
        """Check after every event and cycle. After an injected exception the state must be consistent or discarded."""
        failures = [one.error for one in self.scheduler_state.outbox.take_failures()]
        errors = [error for error in (*failures, failure) if error is not None]
        for error in errors:
            found = error.__cause__ if isinstance(error, CommitFailed) else error
            if found is not FAULT and not isinstance(error, InconsistentState):
                raise error
        assert not errors or self.fault.left == 0, "an exception that was not injected"
        self.tally.faults += bool(errors)
        broken = self._broken(at_once=bool(errors))
        if errors and broken:
            self.is_crashed = True
            return
        assert not isinstance(failure, InconsistentState), "the state was discarded although it is consistent"
        assert not broken, broken
        void = [partition.id for partition in self.scheduler_state.partitions.values() if partition.void_decisions]
        assert not void, f"an invalid decision in {void}: {self.log[-1].effects}"

    def check(self) -> None:
        """Check now, for any size of the state."""
        broken = self._broken(at_once=True)
        assert not broken, broken

    def _broken(self, *, at_once: bool) -> list[str]:
        self._unchecked += 1
        if not at_once and self._unchecked * _CHECKED < self._weight():
            return []
        self._unchecked = 0
        return invariants.check(self.scheduler_state) or self._undelivered()

    def _weight(self) -> int:
        return sum(
            len(partition.applications)
            + len(partition.queues.by_path)
            + sum(len(app.asks) + len(app.allocations) for app in partition.applications.values())
            for partition in self.scheduler_state.partitions.values()
        )

    def _undelivered(self) -> list[str]:
        """Return changes that were not delivered: differences between the core and its resource managers."""
        found: list[str] = []
        for name, replica in list(self.replicas.items()):
            kept = self.scheduler_state.partitions.get(name)
            if kept is not None:
                found += [f"{name}: {one}" for one in replica.differences(kept)]
                continue
            manager = self.scheduler_state.managers.get(self._rm(name))
            if (
                manager is not None
                and manager.state is ManagerState.RUNNING
                and (replica.applications or replica.allocations)
            ):
                found.append(f"{name} is gone, its resource manager knows {replica.applications, replica.allocations}")
            del self.replicas[name]
        return found

    # -- replay ------------------------------------------------------------------------

    def do_over(self) -> None:
        """Assert that a new state with the same events has the same effects."""
        scheduler_state = SchedulerState()
        for recorded in self.log:
            if recorded.is_discarded:
                scheduler_state = SchedulerState()
                continue
            fault = replace(recorded.fault)
            if recorded.event is not None:
                effects, _ = _stepped(scheduler_state, recorded.event, recorded.now_ns, fault)
            else:
                effects, _, _ = _cycled(
                    scheduler_state, recorded.now_ns, CycleBudget(granting(recorded.granted)), fault
                )
            assert effects == recorded.effects, f"{recorded.event or 'a cycle'} had other effects when it was done over"
            scheduler_state.outbox.take_failures()

    def do_over_from_file(self) -> None:
        """Replay from a journal. Journals do not contain injected exceptions."""
        if not self.tally.faults:
            assert list(replay(self.journal().splitlines())) == []

    def journal(self) -> bytes:
        """Return the events as a journal of the core."""
        file = io.BytesIO()
        journal = Journal(file)
        for recorded in self.log:
            if recorded.is_discarded:
                journal.recovery_started()
            elif recorded.event is not None:
                journal.stepped(recorded.now_ns, recorded.event, recorded.effects, is_continued=recorded.is_continued)
            else:
                cycle_budget = CycleBudget(lambda: True)
                cycle_budget.granted = recorded.granted
                journal.cycled(recorded.now_ns, cycle_budget, recorded.effects)
        return file.getvalue()


def _stepped(
    scheduler_state: SchedulerState, event: Event, now_ns: int, fault: FaultAt
) -> tuple[list[Effect], Exception | None]:
    """Step a part like the core's loop: an exception loses no effect. The fault is raised only for timers, because a
    resource manager repeats its own events.
    """
    if not isinstance(event, TimerFired) or not fault.left:
        return step_part(scheduler_state, event, now_ns), None
    try:
        with fault.armed():
            return step_part(scheduler_state, event, now_ns), None
    except Exception as failure:  # noqa: BLE001 - checked by the caller
        return scheduler_state.outbox.drain(), failure


def _cycled(
    scheduler_state: SchedulerState, now_ns: int, cycle_budget: CycleBudget, fault: FaultAt
) -> tuple[list[Effect], bool, Exception | None]:
    try:
        with fault.armed():
            result = cycle(scheduler_state, now_ns, cycle_budget)
    except Exception as failure:  # noqa: BLE001 - checked by the caller
        result = CycleResult(scheduler_state.outbox.drain())
        return result.effects, False, failure
    return result.effects, result.more, None


def _partition_of(event: Event | None) -> PartitionId | None:
    spec = getattr(event, "spec", None)
    found: PartitionId | None = spec.partition if spec is not None else getattr(event, "partition", None)
    if isinstance(event, TimerFired):
        found = event.timer.partition
    return found
