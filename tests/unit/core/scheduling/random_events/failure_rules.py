"""Rules that raise exceptions inside the core. If its state is inconsistent afterwards, the core restarts."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from muster_core.model.events import (
    ApplicationAdded,
    AskAdded,
    ManagerRegistered,
    NodeAction,
    NodeActionReported,
    NodeAdded,
    RecoveryBarrierPassed,
)
from muster_core.model.ids import AllocationId
from muster_core.model.specs import AllocationSpec
from muster_core.model.states import ApplicationState
from tests.unit.builders import PARTITION
from tests.unit.core.scheduling.faults import FaultAt
from tests.unit.core.scheduling.random_events.base import Ground
from tests.unit.core.scheduling.random_events.replica import HeldAllocation, Replica


class Failures(Ground):
    """Rules of failures."""

    @precondition(lambda self: self.apps())
    @rule(calls=st.sampled_from([*range(1, 20), 30, 50, 80]), after=st.booleans())
    def fail_soon(self, calls: int, *, after: bool) -> None:
        """Make one of the next writing functions raise an exception."""
        self.stage.fault = FaultAt(calls, after)

    def recover(self) -> None:
        """Register all resource managers again and replay their state."""
        known = self.stage.discard_state()
        before = self.site
        for rm in dict.fromkeys(site.rm for site in self.sites):
            self.receive(self.stage.send(ManagerRegistered(rm, self.configurations[rm], awaits_barrier=True)))
            mine = [site for site in self.sites if site.rm == rm]
            for self.site in mine:
                if self.site.id in self.stage.scheduler_state.partitions and self.site.id in known:
                    self._send_again(known[self.site.id])
            self.receive(self.stage.send(RecoveryBarrierPassed(rm)))
            for self.site in mine:
                if self.site.id in self.stage.scheduler_state.partitions and self.site.id in known:
                    replica = known[self.site.id]
                    open_nodes = [node for node in replica.nodes if node not in replica.draining]
                    self.send(*(NodeActionReported(PARTITION, node, NodeAction.OPEN) for node in open_nodes))
        self.site = before
        self.forget_closed()

    def _send_again(self, replica: Replica) -> None:
        apps = {
            name: spec
            for name, spec in replica.applications.items()
            if replica.states[name] is not ApplicationState.FAILING
        }
        self.manager_state.held.clear()
        self.send(*(ApplicationAdded(replace(spec, forced=True)) for spec in apps.values()))
        undecided = (ApplicationAdded(spec) for spec in replica.sent.values())
        for node, spec in replica.nodes.items():
            own = [
                _existing(place[1], held)
                for place, held in replica.allocations.items()
                if held.node == node and place[0] in apps
            ]
            foreign = [one for one in replica.foreign.values() if one.node == node]
            self.send(NodeAdded(spec, draining=True, existing=(*own, *foreign)))
        for name, identity in replica.allocations:
            self.manager_state.find(self.partition, name, identity)
        self.send(*undecided)
        for (name, _), pending in replica.asks.items():
            if name in apps:
                self.send(AskAdded(replace(pending.spec, max_allocations=max(pending.left))))


def _existing(identity: AllocationId, held: HeldAllocation) -> AllocationSpec:
    spec = held.spec
    return AllocationSpec(
        spec.partition,
        spec.application,
        held.key,
        identity,
        held.node,
        held.resources,
        spec.group,
        spec.placeholder,
        originator=spec.originator,
        priority=spec.priority,
        tags=spec.tags,
        facts=spec.facts,
        required_node=spec.required_node,
        allow_preempt_self=spec.allow_preempt_self,
        allow_preempt_other=spec.allow_preempt_other,
    )
