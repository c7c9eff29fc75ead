"""A core state and its time for scenarios: a test sends events and compares effects."""

import heapq
from collections import deque
from dataclasses import replace
from itertools import count

from muster_core.model.config import Configuration
from muster_core.model.constraints import ANYWHERE, Constraints
from muster_core.model.effects import (
    AllocationResponse,
    ApplicationRejected,
    ApplicationUpdated,
    Effect,
    SchedulingStateChanged,
    TimerSet,
)
from muster_core.model.events import (
    AllocationReleased,
    AllocationReported,
    ApplicationAdded,
    ApplicationRemoved,
    AskAdded,
    AskReleased,
    ConfigurationReplaced,
    Event,
    ManagerRegistered,
    NodeAction,
    NodeActionReported,
    NodeAdded,
    TimerFired,
    TimerKind,
)
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId, Termination
from muster_core.model.records import AllocationsRecorded, AskRecorded, EventRecorded, records_of
from muster_core.model.specs import AllocationSpec, ApplicationSpec, AskSpec, GangPlacement
from muster_core.placement.autoscaling import Outstanding, outstanding_in_steps
from muster_core.scheduling import invariants
from muster_core.scheduling.scheduler import cycle, step
from muster_core.state.applications import Application
from muster_core.state.scheduler_state import Partition, SchedulerState
from tests.unit.builders import PARTITION, RM, SECOND, a_node, an_allocation, an_ask

#: The check recomputes all sums. With more events it runs only after the last one.
_MANY = 50


class Scenario:
    """Sends events, runs the cycle after each, and stores the effects.

    It begins with a configuration and equal nodes, to which the first events and applications are sent.
    """

    def __init__(
        self, configuration: Configuration, *first: Event | ApplicationSpec, nodes: int = 0, vcore: int = 4000
    ) -> None:
        self.scheduler_state = SchedulerState()
        self.now_ns = 1_000 * SECOND
        self.timers: list[tuple[int, int, TimerSet]] = []
        self.order = count()
        #: Effects for observers (event records and metrics) since the start.
        self.records: list[EventRecorded] = []
        self.send(ManagerRegistered(RM, configuration))
        for index in range(nodes):
            self.send(NodeAdded(a_node(f"n{index}", vcore)))
        if first:
            self.send(*(ApplicationAdded(one) if isinstance(one, ApplicationSpec) else one for one in first))

    @property
    def partition(self) -> Partition:
        return self.scheduler_state.partitions[PARTITION]

    def app(self, name: str = "app") -> Application:
        return self.partition.applications[ApplicationId(name)]

    def send(self, *events: Event) -> list[Effect]:
        """Step every event and run one complete cycle. Checks the state after each event, or after the last of many.

        Returns the effects for the resource manager. Effects for observers are in `records`.
        """
        effects: list[Effect] = []
        left = deque(events)
        while left:
            stepped = step(self.scheduler_state, left.popleft(), self.now_ns)
            effects += stepped
            left += [TimerFired(one.timer) for one in self._set(stepped)]  # before the cycle, as in the loop
            if len(events) < _MANY:
                self._check()
        decided = cycle(self.scheduler_state, self.now_ns, lambda: True).effects
        self._check()
        for timer in self._set(decided):
            heapq.heappush(self.timers, (timer.at_ns, next(self.order), timer))
        effects += decided
        return [effect for effect in effects if not self._is_noted(effect) and not _is_looking_again(effect)]

    def _set(self, effects: list[Effect]) -> list[TimerSet]:
        """Set the timers of these effects. Returns those that are due."""
        due: list[TimerSet] = []
        for effect in effects:
            if isinstance(effect, TimerSet) and effect.at_ns <= self.now_ns:
                due.append(effect)
            elif isinstance(effect, TimerSet):
                heapq.heappush(self.timers, (effect.at_ns, next(self.order), effect))
        return due

    def _is_noted(self, effect: Effect) -> bool:
        """Store effects for observers. Messages to users are also returned."""
        if not isinstance(effect, EventRecorded | AskRecorded | AllocationsRecorded):
            return False
        self.records += records_of(effect)
        return not (isinstance(effect, EventRecorded) and effect.is_for_people)

    def wait(self, seconds: float) -> list[Effect]:
        """Advance the time. Timers fire when they are due."""
        end_ns = self.now_ns + int(seconds * SECOND)
        effects: list[Effect] = []
        while self.timers and self.timers[0][0] <= end_ns:
            at_ns, _, timer = heapq.heappop(self.timers)
            self.now_ns = max(self.now_ns, at_ns)
            effects += self.send(TimerFired(timer.timer))
        self.now_ns = end_ns
        return effects

    def ask(self, *asks: AskSpec) -> list[Effect]:
        return self.send(*(AskAdded(ask) for ask in asks))

    def submit(self, spec: ApplicationSpec, *asks: AskSpec) -> list[Effect]:
        """Submit an application, and in a second step its requests."""
        effects = self.send(ApplicationAdded(spec))
        return effects + self.ask(*(replace(ask, application=spec.id) for ask in asks)) if asks else effects

    def remove(self, app: str = "app") -> list[Effect]:
        return self.send(ApplicationRemoved(PARTITION, ApplicationId(app)))

    def reload(self, configuration: Configuration) -> list[Effect]:
        return self.send(ConfigurationReplaced(RM, configuration))

    def report(self, *allocations: AllocationSpec) -> list[Effect]:
        """Report allocations, for example after a restart."""
        return self.send(*map(AllocationReported, allocations))

    def gang(self, spec: ApplicationSpec, members: int, constraints: Constraints = ANYWHERE) -> list[Effect]:
        """Submit a gang and all its placeholder asks p0, p1, … (prefixed by its name).

        An Auto or Direct gang has its first member r0 instead of p0, because it is not planned without a member, and a
        Direct gang has no placeholder asks.
        """
        name = spec.id
        each = spec.members[0].resources["vcore"]
        first = an_ask(f"{name}-r0", app=name, vcore=each, group="workers", constraints=constraints)
        present = [first] if spec.uses_virtual_placeholders else []
        asks = (
            an_ask(f"{name}-p{i}", app=name, vcore=each, group="workers", placeholder=True, constraints=constraints)
            for i in range(len(present), members if spec.gang_placement is not GangPlacement.DIRECT else 0)
        )
        return self.send(ApplicationAdded(spec), *(AskAdded(ask) for ask in (*present, *asks)))

    def release(
        self, key: str, app: str = "app", why: Termination = Termination.STOPPED_BY_RM, identity: str | None = None
    ) -> list[Effect]:
        """Report that an allocation has ended."""
        which = AllocationId(identity) if identity else None
        return self.send(AllocationReleased(PARTITION, ApplicationId(app), AllocationKey(key), which, why))

    def release_ask(self, key: str, app: str = "app") -> list[Effect]:
        termination = Termination.STOPPED_BY_RM
        return self.send(AskReleased(PARTITION, ApplicationId(app), AllocationKey(key), termination))

    def node(self, name: str, action: NodeAction) -> list[Effect]:
        return self.send(NodeActionReported(PARTITION, NodeId(name), action))

    def add_node(self, name: str, *existing: AllocationSpec, vcore: int = 4000, draining: bool = False) -> list[Effect]:
        return self.send(NodeAdded(a_node(name, vcore), draining=draining, existing=existing))

    def add_full_node(self, name: str = "full", vcore: int = 4000) -> list[Effect]:
        """Add a node that a foreign pod fills, so that an empty cluster could hold more than the current one."""
        return self.add_node(name, an_allocation(f"{name}-pod", name, vcore=vcore, foreign=True), vcore=vcore)

    def _check(self) -> None:
        assert invariants.check(self.scheduler_state) == []
        assert self.scheduler_state.outbox.failures == []
        assert all(partition.void_decisions == 0 for partition in self.scheduler_state.partitions.values())


class UncheckedScenario(Scenario):
    """A scenario with so many pods that its invariants are not checked after each event."""

    def _check(self) -> None:
        pass


_INTERNAL = (TimerKind.RESERVATION, TimerKind.PREEMPTION, TimerKind.REFRESH, TimerKind.RETRY)


def _is_looking_again(effect: Effect) -> bool:
    """Whether the effect is an internal timer of a leaf queue or of reported texts."""
    return isinstance(effect, TimerSet) and effect.timer.kind in _INTERNAL


def placed(effects: list[Effect]) -> dict[str, str]:
    """Return the new allocations: key → node."""
    answers = [effect for effect in effects if isinstance(effect, AllocationResponse)]
    return {new.ask.key: new.node for answer in answers for new in answer.new}


def releases(effects: list[Effect]) -> dict[str, Termination]:
    """Return the releases: key → type."""
    answers = [effect for effect in effects if isinstance(effect, AllocationResponse)]
    return {one.key: one.termination for answer in answers for one in answer.released}


def released_asks(effects: list[Effect]) -> dict[str, Termination]:
    answers = [effect for effect in effects if isinstance(effect, AllocationResponse)]
    return {one.key: one.termination for answer in answers for one in answer.released_asks}


def refused_asks(effects: list[Effect]) -> dict[str, str]:
    answers = [effect for effect in effects if isinstance(effect, AllocationResponse)]
    return {one.key: one.reason for answer in answers for one in answer.rejected_asks}


def states(effects: list[Effect], app: str = "app") -> list[str]:
    """Return the reported states of an application in order."""
    return [str(e.state) for e in effects if isinstance(e, ApplicationUpdated) and e.application == app]


def rejection(effects: list[Effect]) -> str:
    """Return the reason of a rejected application; empty if none was rejected."""
    return next((e.reason for e in effects if isinstance(e, ApplicationRejected)), "")


def waits(effects: list[Effect]) -> dict[str, tuple[str, str]]:
    """Return the reported scheduling states: key → (state, reason)."""
    return {e.key: (str(e.state), e.reason) for e in effects if isinstance(e, SchedulingStateChanged)}


def nominations(effects: list[Effect]) -> dict[str, NodeId | None]:
    """Return the node of each reported scheduling state on which victims are released for the request."""
    return {e.key: e.preemption_node for e in effects if isinstance(e, SchedulingStateChanged)}


def notices(effects: list[Effect]) -> list[str]:
    return [e.message for e in effects if isinstance(e, EventRecorded)]


def outstanding(partition: Partition) -> list[Outstanding]:
    """The pending allocations per resources and instance type, sorted by ID."""
    return next(found for found in outstanding_in_steps(partition) if found is not None)
