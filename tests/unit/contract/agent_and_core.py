"""The real agent and the real core, message by message in any order, without a clock and without I/O.

The simulation of the agent's tests, whose small core is replaced by the engine behind both codecs. Time passes for both
at once, and for Kubernetes too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby

from muster_core.model.config import Configuration, Timing
from muster_core.model.effects import (
    AllocationResponse,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationUpdated,
    Effect,
    NodeAccepted,
    NodeRejected,
    SchedulingStateChanged,
    TimerSet,
)
from muster_core.model.events import (
    ClusterObjectsReported,
    ConfigurationReplaced,
    Event,
    ManagerRegistered,
    RecoveryBarrierPassed,
)
from muster_core.model.ids import partition_id
from muster_core.model.records import EventRecorded
from muster_core.runtime import service
from muster_core.runtime.dispatch import TimerHeap
from muster_core.scheduling import invariants
from muster_core.scheduling.cycle import cycle
from muster_core.scheduling.step import step
from muster_core.si import encode, storage
from muster_core.si.decode import Decoder, Intake
from muster_core.state.applications import Application
from muster_core.state.scheduler_state import Partition, SchedulerState
from muster_operator.controller.reconciliation import compare
from muster_operator.controller.state import next_due
from muster_operator.controller.timers import on_timers
from muster_operator.model.core_requests import CoreRequest
from muster_operator.model.core_responses import CoreResponse, Inventory, Part
from muster_operator.si.codec import Encoder, Sent, decoded, decoded_callback, decoded_inventory
from muster_si import muster_pb2, si_pb2
from tests.unit.builders import PARTITION, RM, SECOND, a_configuration
from tests.unit.operator.controller.core import Core
from tests.unit.operator.controller.objects import CREATED_S
from tests.unit.operator.controller.simulation import Simulation

#: Seconds after the first pod of any test at which its time begins.
BEGIN_S = 300
COMPLETING_S = 30
_APPLICATION = (ApplicationAccepted, ApplicationRejected, ApplicationUpdated)
_NODE = (NodeAccepted, NodeRejected)


class RealCore(Core):  # long: what the simulation asks of a core
    """What the simulation asks of its core, by the engine. ``now_s``: epoch seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = float(CREATED_S + BEGIN_S)
        self.configuration = a_configuration(timing=Timing(completing_timeout_ns=COMPLETING_S * SECOND))
        self.reset()

    @property
    def partition(self) -> Partition:
        """The only one."""
        return self.scheduler_state.partitions[PARTITION]

    @property
    def applications_there(self) -> dict[str, Application]:
        """By id."""
        return {str(key): app for key, app in self.partition.applications.items()}

    @property
    def _now_ns(self) -> int:
        return int(self.now_s * SECOND)

    def reset(self) -> None:
        """A new session, behind its fence."""
        self.scheduler_state, self.deadlines = SchedulerState(), TimerHeap()
        self.encoder, self.decoder = Encoder(str(RM), "default"), Decoder(RM, ["default"])
        self.applications.clear()
        self.allocations.clear()
        self._receive([ManagerRegistered(RM, self.configuration, fenced=True)])

    def reload(self, configuration: Configuration) -> None:
        """Another one is in force, also for sessions to come."""
        self.configuration = configuration
        self._receive([ConfigurationReplaced(RM, configuration)])

    def inventory(self, part: Part) -> Inventory:
        """A part of what it holds, as it is asked for it and as it says it."""
        question = self.encoder.question(Sent(), part, "", 1_000_000)
        return decoded_inventory(service.take_inventory(self.partition, question, 0), part, "")

    def pass_fence(self) -> None:
        """All was told."""
        self._receive([RecoveryBarrierPassed(RM)])

    def take(self, news: CoreRequest) -> None:
        """One item of news, as the message that says it."""
        for batch in self.encoder.batches([news]):
            match self.encoder.encoded(batch):
                case si_pb2.ApplicationRequest() as request:
                    self._take_in(self.decoder.applications(request))
                case si_pb2.NodeRequest() as request:
                    self._take_in(self.decoder.nodes(request))
                case si_pb2.AllocationRequest() as request:
                    self._take_in(self.decoder.allocations(request))
                case muster_pb2.FactsRequest() as request:
                    taken, rejected = storage.read_cluster_object(request.facts)
                    assert not rejected
                    self._receive([ClusterObjectsReported(partition_id(RM, "default"), taken)])

    def next_s(self) -> float | None:
        """When a clock of the core rings next, in seconds from now."""
        due = self.deadlines.next_ns()
        return None if due is None else due / SECOND - self.now_s + 1e-6  # not a moment too early

    def ring(self) -> None:
        """Hear the clocks that are due."""
        while (rang := self.deadlines.due(self._now_ns)) is not None:
            self._receive([rang])

    def complete(self) -> None:
        """Time does it."""

    def _take_in(self, intake: Intake) -> None:
        self._carry(intake.answers)
        self._receive(intake.events)

    def _receive(self, events: Sequence[Event]) -> None:
        for event in events:
            self._carry(step(self.scheduler_state, event, self._now_ns))
        more = True
        while more:
            result = cycle(self.scheduler_state, self._now_ns, lambda: True)
            self._carry(result.effects)
            more = result.more
        broken = invariants.check(self.scheduler_state)
        assert not broken, broken

    def _carry(self, effects: Iterable[Effect]) -> None:
        for kind, run in groupby(effects, key=lambda effect: id(effect) if _is_alone(effect) else type(effect)):
            del kind
            self._say(list(run))

    def _say(self, run: list[Effect]) -> None:
        match run[0]:
            case TimerSet():
                for effect in run:
                    assert isinstance(effect, TimerSet)
                    self.deadlines.set(effect)
            case AllocationResponse() as answer:
                self.allocations.append(decoded(encode.allocation_response(answer)))
            case ApplicationAccepted() | ApplicationRejected() | ApplicationUpdated():
                said = [effect for effect in run if isinstance(effect, _APPLICATION)]
                self.applications.append(decoded(encode.application_response(said)))
            case NodeAccepted() | NodeRejected():
                nodes = [effect for effect in run if isinstance(effect, _NODE)]
                self.allocations.append(decoded(encode.node_response(nodes)))
            case SchedulingStateChanged():
                states = [effect for effect in run if isinstance(effect, SchedulingStateChanged)]
                self._call_back(encode.scheduling_states(states))
            case EventRecorded():
                notes = [effect for effect in run if isinstance(effect, EventRecorded)]
                self._call_back(encode.events([encode.event_record(note, self._now_ns) for note in notes]))
            case _:
                return

    def _call_back(self, callback: muster_pb2.Callback) -> None:
        verdict: CoreResponse | None = decoded_callback(callback)
        if verdict is not None:
            self.allocations.append(verdict)


def _is_alone(effect: Effect) -> bool:
    """One decision is one message (semantics 1)."""
    return isinstance(effect, AllocationResponse)


@dataclass
class Both(Simulation):
    """Agent and engine; ``now`` moves the clocks of all three."""

    real: RealCore = field(default_factory=RealCore)

    def __post_init__(self) -> None:
        self.core = self.real
        self.kubernetes.now = shown(self.real.now_s)

    def _fence(self) -> None:
        self.real.pass_fence()

    def wait(self, seconds: float) -> None:
        """Let time pass for both, with what is due by then."""
        end = self.now + seconds
        while True:
            own, of_core = next_due(self.ledger), self.real.next_s()
            due = min(
                [end, *([own] if own is not None else []), *([self.now + of_core] if of_core is not None else [])]
            )
            self._pass(max(due, self.now))
            self.real.ring()
            if own is not None and own <= self.now:
                self._take(on_timers(self.ledger, self.now))
            self.run()
            if due >= end:
                return

    def _pass(self, until: float) -> None:
        self.real.now_s += until - self.now
        self.now = until
        self.kubernetes.now = shown(self.real.now_s)

    def compare(self) -> None:
        """Both ledgers are compared when nothing is on its way, and what differs is put right (ADR 0015)."""
        for part in Part:
            self.run()
            found = compare(self.ledger, self.real.inventory(part), set(), self.now)
            self.differences += found.found
            self._take(found.out)
        self.run()

    def created(self) -> str:
        """The creation time of a pod that is made now."""
        return shown(self.real.now_s)


def shown(epoch_s: float) -> str:
    """As Kubernetes writes a moment: whole seconds."""
    return datetime.fromtimestamp(int(epoch_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
