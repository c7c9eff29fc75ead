"""The state of a resource manager for one partition, computed only from sent events and received effects.

After every event and every cycle the replica must equal the core's state. This shows that every committed change was
delivered. Names without a partition (applications, nodes) are looked up in the partition of the event that caused the
effect, and after a cycle in every partition, because applications of one resource manager have different names.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Final

from muster_core.model.effects import (
    AllocationResponse,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationUpdated,
    Effect,
    NodeAccepted,
    NodeRejected,
    SchedulingState,
    SchedulingStateChanged,
)
from muster_core.model.events import (
    AllocationReleased,
    AllocationReported,
    ApplicationAdded,
    ApplicationRemoved,
    AskAdded,
    Event,
    NodeAction,
    NodeActionReported,
    NodeAdded,
    NodeUpdated,
)
from muster_core.model.ids import (
    AllocationId,
    AllocationKey,
    ApplicationId,
    NodeId,
    PartitionId,
    Termination,
    allocation_id,
)
from muster_core.model.resources import Resources
from muster_core.model.specs import AllocationSpec, ApplicationSpec, AskSpec, NodeSpec
from muster_core.model.states import ApplicationState, NodeState
from muster_core.scheduling.reporting import SCHEDULING_STATES
from muster_core.state.scheduler_state import Partition

Place = tuple[ApplicationId, AllocationId]
AskName = tuple[ApplicationId, AllocationKey]

_ENDED: Final = (ApplicationState.COMPLETED, ApplicationState.FAILED)


@dataclass(slots=True)
class Pending:
    """A request that is not completely answered. `left`: number of missing allocations. It has several possible values
    after a repeated request, which the core may treat as the same request or as a new one.
    """

    spec: AskSpec
    left: frozenset[int]


@dataclass(frozen=True, slots=True)
class HeldAllocation:
    """An allocation of a request, or a reported one. `releasing`: the core requested its release."""

    key: AllocationKey
    node: NodeId
    resources: Resources
    spec: AskSpec | AllocationSpec
    releasing: Termination | None = None


@dataclass(slots=True)
class Replica:  # long: one method for each kind of event and effect
    """The state of one partition since its resource manager registered."""

    partition: PartitionId
    sent: dict[ApplicationId, ApplicationSpec] = field(default_factory=dict)
    applications: dict[ApplicationId, ApplicationSpec] = field(default_factory=dict)
    states: dict[ApplicationId, ApplicationState] = field(default_factory=dict)
    asks: dict[AskName, Pending] = field(default_factory=dict)
    ask_states: dict[AskName, SchedulingState] = field(default_factory=dict)
    allocations: dict[Place, HeldAllocation] = field(default_factory=dict)
    foreign: dict[AllocationId, AllocationSpec] = field(default_factory=dict)
    nodes: dict[NodeId, NodeSpec] = field(default_factory=dict)
    draining: set[NodeId] = field(default_factory=set)

    # -- events and effects -------------------------------------------------------

    def step(self, event: Event, effects: Iterable[Effect]) -> None:
        """Process an event of this partition and all effects of its step."""
        found = list(effects)
        match event:
            case ApplicationAdded(spec) if not spec.is_renewal:
                self.sent[spec.id] = spec
            case ApplicationRemoved(application=name):
                self.applications.pop(name, None)
                self.states.pop(name, None)
            case AskAdded(spec):
                self._ask(spec, found)
            case AllocationReported(spec):
                self._report((spec,), found)
            case AllocationReleased():
                self._end(event)
            case NodeAdded() | NodeUpdated() | NodeActionReported():
                self._node(event, found)
            case _:
                pass
        self.receive(found)

    def receive(self, effects: Iterable[Effect]) -> None:
        """Process effects. A name that is unknown in this partition belongs to another one."""
        for effect in effects:
            match effect:
                case AllocationResponse():
                    self._answer(effect)
                case ApplicationAccepted(application=name) if name in self.sent:
                    self.applications[name] = self.sent.pop(name)
                    self.states[name] = ApplicationState.NEW
                case ApplicationRejected(application=name):
                    self.sent.pop(name, None)
                case ApplicationUpdated(application=name, state=state) if name in self.applications:
                    self.states[name] = state
                    if state in _ENDED:
                        del self.applications[name], self.states[name]
                case SchedulingStateChanged(application=name, key=key, state=state):
                    if (name, key) in self.asks:
                        self.ask_states[name, key] = state
                case _:
                    pass

    def _ask(self, spec: AskSpec, effects: list[Effect]) -> None:
        name = (spec.application, spec.key)
        if name in _refused(effects, "rejected_asks") or name in _returned(effects):
            return
        known = self.asks.get(name)
        left = frozenset((spec.max_allocations,))
        if known is not None and known.spec.max_allocations == spec.max_allocations:
            left |= known.left
        else:
            self.ask_states.pop(name, None)
        self.asks[name] = Pending(spec, left)

    def _report(self, specs: Iterable[AllocationSpec], effects: list[Effect]) -> None:
        refused = _refused(effects, "rejected_allocations")
        for spec in specs:
            name, identity = (spec.application, spec.key), spec.id or allocation_id(spec.key, 0)
            if name in refused:
                continue
            if spec.foreign or not spec.application:
                self.foreign[identity] = spec
                continue
            place = (spec.application, identity)
            known = self.allocations.get(place)
            if known is None:
                self._forget_ask(name)
                self.allocations[place] = HeldAllocation(spec.key, spec.node, spec.resources, spec)
            else:
                self.allocations[place] = replace(known, resources=spec.resources)

    def _end(self, event: AllocationReleased) -> None:
        """Remove ended allocations. Those that the resource manager reports itself need no answer."""
        for app, identity in list(self.allocations):
            held = self.allocations[app, identity]
            is_meant = event.id in (None, identity) and (event.id is not None or event.key in (None, held.key))
            if app == event.application and is_meant:
                del self.allocations[app, identity]
        if event.application:
            return
        for identity, spec in list(self.foreign.items()):
            if identity == event.id or (event.id is None and spec.key == event.key):
                del self.foreign[identity]

    def _node(self, event: NodeAdded | NodeUpdated | NodeActionReported, effects: list[Effect]) -> None:
        name = event.node if isinstance(event, NodeActionReported) else event.spec.id
        if any(isinstance(effect, NodeRejected) and effect.node == name for effect in effects):
            return
        if isinstance(event, NodeActionReported):
            self._tell_node(event)
            return
        if isinstance(event, NodeAdded):
            assert any(isinstance(effect, NodeAccepted) for effect in effects), f"node {name} was not answered"
            if event.draining:
                self.draining.add(name)
        self.nodes[name] = event.spec
        self._report(event.existing, effects)

    def _tell_node(self, event: NodeActionReported) -> None:
        if event.action is NodeAction.DRAIN:
            self.draining.add(event.node)
            return
        self.draining.discard(event.node)
        if event.action is NodeAction.DECOMMISSION:
            self.nodes.pop(event.node, None)
            self.foreign = {one: spec for one, spec in self.foreign.items() if spec.node != event.node}

    def _answer(self, answer: AllocationResponse) -> None:
        for gone in answer.released_asks:
            if gone.partition == self.partition:
                self._forget_ask((gone.application, gone.key))
        for one in answer.released:
            place = (one.application, one.id)
            if one.partition != self.partition or place not in self.allocations:
                continue
            if one.termination is Termination.STOPPED_BY_RM:
                del self.allocations[place]
            else:
                self.allocations[place] = replace(self.allocations[place], releasing=one.termination)
        for new in answer.new:
            if new.ask.partition == self.partition:
                place, name = (new.ask.application, new.id), (new.ask.application, new.ask.key)
                assert place not in self.allocations, f"{place} is allocated twice"
                assert name in self.asks, f"{place} is allocated for a request that is not pending"
                self.allocations[place] = HeldAllocation(new.ask.key, new.node, new.ask.resources, new.ask)
                self._count(name)

    def _count(self, name: AskName) -> None:
        left = frozenset(count - 1 for count in self.asks[name].left if count > 1)
        if left:
            self.asks[name].left = left
        else:
            self._forget_ask(name)

    def _forget_ask(self, name: AskName) -> None:
        self.asks.pop(name, None)
        self.ask_states.pop(name, None)

    # -- comparison ---------------------------------------------------------------

    def differences(self, partition: Partition) -> Iterator[str]:
        """Yield the differences between core and replica."""
        apps = {name: app for name, app in partition.applications.items() if not app.removed}
        yield from _unequal("applications", set(self.applications), set(apps))
        held, pending = {}, {}
        for app in apps.values():
            for one in app.allocations.values():
                if not one.spec.is_virtual:
                    held[app.id, one.id] = (one.node, one.spec.resources, one.releasing)
            for ask in app.asks.values():
                if not ask.spec.is_virtual:
                    pending[app.id, ask.spec.key] = ask.left
        yield from _unequal(
            "allocations",
            {(place, (one.node, one.resources, one.releasing)) for place, one in self.allocations.items()},
            set(held.items()),
        )
        for name in self.asks.keys() & pending.keys():
            if pending[name] in self.asks[name].left:
                self.asks[name].left = frozenset((pending[name],))
        yield from _unequal(
            "requests",
            {(name, one.left) for name, one in self.asks.items()},
            {(name, frozenset((left,))) for name, left in pending.items()},
        )
        yield from _unequal("foreign allocations", set(self.foreign), set(partition.foreign))
        draining = {node for node in partition.nodes if partition.nodes.record(node).state is NodeState.DRAINING}
        yield from _unequal("nodes", set(self.nodes), set(partition.nodes))
        yield from _unequal("draining nodes", self.draining, draining)
        yield from self._states(partition)

    def _states(self, partition: Partition) -> Iterator[str]:
        for app in partition.applications.values():
            if app.removed:
                continue
            if self.states.get(app.id) is not app.state:
                yield f"application {app.id} is {app.state}, reported was {self.states.get(app.id)}"
            for ask in app.asks.values():
                known = self.ask_states.get((app.id, ask.spec.key))
                kind, demand = ask.reported_kind, partition.node_demand.find(app, ask.kind)
                if kind is None or ask.spec.is_virtual or (demand is not None and ask.spec.key in demand.unreported):
                    continue
                is_refused = partition.node_demand.is_refused(app, ask)
                if known is not (SchedulingState.SKIPPED if is_refused else SCHEDULING_STATES[kind]):
                    yield f"request {ask.spec.key} waits for {kind}, reported was {known}"


def _unequal(what: str, known: AbstractSet[Any], kept: AbstractSet[Any]) -> Iterator[str]:
    if known != kept:
        yield f"{what}: only the resource manager knows {known - kept}, only the core knows {kept - known}"


def _refused(effects: list[Effect], kind: str) -> set[AskName]:
    answers = (effect for effect in effects if isinstance(effect, AllocationResponse))
    return {(one.application, one.key) for answer in answers for one in getattr(answer, kind)}


def _returned(effects: list[Effect]) -> set[AskName]:
    answers = (effect for effect in effects if isinstance(effect, AllocationResponse))
    return {(one.application, one.key) for answer in answers for one in answer.released_asks}
