"""The real controller and the real core, message by message in any order, without time and I/O.

This is the simulation of the controller's tests with the real engine and both codecs instead of the small core. Time
advances for controller, core and Kubernetes together.
"""

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
from muster_core.runtime.sessions import Decoder, TimerHeap
from muster_core.scheduling import invariants
from muster_core.scheduling.scheduler import cycle, step
from muster_core.si import allocations as si_allocations
from muster_core.si import applications as si_applications
from muster_core.si import callbacks as si_callbacks
from muster_core.si import events as si_events
from muster_core.si import nodes as si_nodes
from muster_core.si import storage
from muster_core.si.allocations import Intake
from muster_core.state.applications import Application
from muster_core.state.scheduler_state import Partition, SchedulerState
from muster_operator.controller.reconciliation import compare
from muster_operator.controller.state import next_due
from muster_operator.controller.timers import on_timers
from muster_operator.model.core_messages import CoreRequest, CoreResponse, Inventory, InventoryPart
from muster_operator.si.codec import Encoder, Sent, decoded, decoded_callback, decoded_inventory
from muster_si import muster_pb2, si_pb2
from tests.unit.builders import PARTITION, RM, SECOND, a_configuration
from tests.unit.operator.controller.core import Core
from tests.unit.operator.controller.objects import CREATED_S
from tests.unit.operator.controller.simulation import Simulation

#: Seconds from the creation of a test's first pod to the start of its time.
BEGIN_S = 300
COMPLETING_S = 30
_APPLICATION = (ApplicationAccepted, ApplicationRejected, ApplicationUpdated)
_NODE = (NodeAccepted, NodeRejected)


class RealCore(Core):  # long: the interface of the simulation's core
    """The engine with the interface of the simulation's core. ``now_s``: Unix seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = float(CREATED_S + BEGIN_S)
        self.configuration = a_configuration(timing=Timing(completing_timeout_ns=COMPLETING_S * SECOND))
        self.reset()

    @property
    def partition(self) -> Partition:
        """The only partition."""
        return self.scheduler_state.partitions[PARTITION]

    @property
    def applications_there(self) -> dict[str, Application]:
        """The applications by ID."""
        return {str(key): app for key, app in self.partition.applications.items()}

    @property
    def _now_ns(self) -> int:
        return int(self.now_s * SECOND)

    def reset(self) -> None:
        """Start a new session with its recovery barrier."""
        self.scheduler_state, self.deadlines = SchedulerState(), TimerHeap()
        self.encoder, self.decoder = Encoder(str(RM), "default"), Decoder(RM, ["default"])
        self.applications.clear()
        self.allocations.clear()
        self._receive([ManagerRegistered(RM, self.configuration, awaits_barrier=True)])

    def reload(self, configuration: Configuration) -> None:
        """Load another configuration, also for later sessions."""
        self.configuration = configuration
        self._receive([ConfigurationReplaced(RM, configuration)])

    def inventory(self, part: InventoryPart) -> Inventory:
        """Return a part of the inventory through request and response messages."""
        question = self.encoder.question(Sent(), part, "", 1_000_000)
        return decoded_inventory(service.take_inventory(self.partition, question, 0), part, "")

    def pass_barrier(self) -> None:
        """Complete the recovery barrier."""
        self._receive([RecoveryBarrierPassed(RM)])

    def take(self, requests: CoreRequest) -> None:
        """Handle one request as a message."""
        for batch in self.encoder.batches([requests]):
            match self.encoder.encoded(batch):
                case si_pb2.ApplicationRequest() as request:
                    self._take_in(self.decoder.applications.read(request))
                case si_pb2.NodeRequest() as request:
                    self._take_in(self.decoder.nodes.read(request))
                case si_pb2.AllocationRequest() as request:
                    self._take_in(self.decoder.allocations.read(request))
                case muster_pb2.FactsRequest() as request:
                    taken, rejected = storage.read_cluster_object(request.facts)
                    assert not rejected
                    self._receive([ClusterObjectsReported(partition_id(RM, "default"), taken)])

    def next_s(self) -> float | None:
        """Return the seconds until the core's next timer, or None."""
        due = self.deadlines.next_ns()
        return None if due is None else due / SECOND - self.now_s + 1e-6  # not too early after rounding

    def ring(self) -> None:
        """Fire the timers that are due."""
        while (rang := self.deadlines.due(self._now_ns)) is not None:
            self._receive([rang])

    def complete(self) -> None:
        """Do nothing: timers complete applications."""

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
            self._report(list(run))

    def _report(self, run: list[Effect]) -> None:
        match run[0]:
            case TimerSet():
                for effect in run:
                    assert isinstance(effect, TimerSet)
                    self.deadlines.set(effect)
            case AllocationResponse() as answer:
                self.allocations.append(decoded(si_allocations.allocation_response(answer)))
            case ApplicationAccepted() | ApplicationRejected() | ApplicationUpdated():
                reported = [effect for effect in run if isinstance(effect, _APPLICATION)]
                self.applications.append(decoded(si_applications.application_response(reported)))
            case NodeAccepted() | NodeRejected():
                nodes = [effect for effect in run if isinstance(effect, _NODE)]
                self.allocations.append(decoded(si_nodes.node_response(nodes)))
            case SchedulingStateChanged():
                states = [effect for effect in run if isinstance(effect, SchedulingStateChanged)]
                self._call_back(si_callbacks.scheduling_states(states))
            case EventRecorded():
                notes = [effect for effect in run if isinstance(effect, EventRecorded)]
                self._call_back(si_callbacks.events([si_events.event_record(note, self._now_ns) for note in notes]))
            case _:
                return

    def _call_back(self, callback: muster_pb2.Callback) -> None:
        response: CoreResponse | None = decoded_callback(callback)
        if response is not None:
            self.allocations.append(response)


def _is_alone(effect: Effect) -> bool:
    """Whether the effect is a separate message, because one decision is one message."""
    return isinstance(effect, AllocationResponse)


@dataclass
class Both(Simulation):
    """The simulation with controller and engine. ``now`` is the time of both and of Kubernetes."""

    real: RealCore = field(default_factory=RealCore)

    def __post_init__(self) -> None:
        self.core = self.real
        self.kubernetes.now = shown(self.real.now_s)

    def _barrier(self) -> None:
        self.real.pass_barrier()

    def wait(self, seconds: float) -> None:
        """Advance the time for both, and fire their timers."""
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
        """Compare the state of both when no message is in flight, and repair differences (ADR 0015)."""
        for part in InventoryPart:
            self.run()
            found = compare(self.ledger, self.real.inventory(part), set(), self.now)
            self.differences += found.found
            self._take(found.out)
        self.run()

    def created(self) -> str:
        """The creation time of a pod that is created now."""
        return shown(self.real.now_s)


def shown(epoch_s: float) -> str:
    """Format a time like Kubernetes, in full seconds."""
    return datetime.fromtimestamp(int(epoch_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
