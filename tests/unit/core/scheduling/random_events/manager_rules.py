"""Rules: configurations are replaced; resource managers disconnect, register again and replay their state."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from muster_core.model.effects import NewAllocation
from muster_core.model.events import (
    ApplicationAdded,
    AskAdded,
    ConfigurationReplaced,
    ConnectionLost,
    ManagerRegistered,
    NodeAction,
    NodeActionReported,
    NodeAdded,
    RecoveryBarrierPassed,
)
from muster_core.model.ids import ApplicationId, PartitionId
from muster_core.model.resources import NOTHING
from muster_core.model.specs import AllocationSpec
from muster_core.model.states import ApplicationState, NodeState
from muster_core.state.applications import Application
from muster_core.state.scheduler_state import Partition
from tests.unit.builders import PARTITION
from tests.unit.core.scheduling.faults import FaultAt
from tests.unit.core.scheduling.random_events.base import Ground
from tests.unit.core.scheduling.random_events.manager_state import as_existing


class Managers(Ground):
    """Rules of configurations and connections."""

    @precondition(lambda self: self.apps())
    @rule(data=st.data(), keeps=st.sampled_from([True, True, True, False]))
    def reload(self, data: st.DataObject, *, keeps: bool) -> None:
        """Load another configuration, possibly without one of the partitions."""
        rm = self.site.rm
        names = self.names_of(rm)
        self.configurations[rm] = self.configuration_of(data, names if keeps else names[:1])
        self.send(ConfigurationReplaced(rm, self.configurations[rm]))
        self.forget_closed()

    @precondition(lambda self: len(self.apps()) > 2 and not self.partition.is_closing)
    @rule(data=st.data(), lost_s=st.sampled_from([None, 0, 20, 400]))
    def come_back(self, data: st.DataObject, lost_s: int | None) -> None:
        """Reconnect: the resource manager replays its state.

        Allocations with a requested release still exist. Some of them end later and are confirmed as usual.
        """
        self.stage.fault = FaultAt(0)  # the recovered state is compared with the old one
        rm, before = self.site.rm, self.site
        mine = [site for site in self.sites if site.rm == rm]
        old = {
            site.id: scheduler_state
            for site in mine
            if (scheduler_state := self.stage.scheduler_state.partitions.get(site.id)) is not None
        }
        if lost_s is not None:
            self.send(ConnectionLost(rm))
            self.wait(lost_s)
        for site in mine:
            if site.id in old:
                self._remember(site.manager_state.partition, old[site.id])
                site.manager_state.unconfirmed = site.manager_state.unconfirmed if data.draw(st.booleans()) else []
        self.receive(self.stage.send(ManagerRegistered(rm, self.configurations[rm], awaits_barrier=True)))
        self.forget_closed()
        for site in mine:
            self.site = site
            if self.site.id in self.stage.scheduler_state.partitions and self.site.id in old:
                self._tell_all(old[self.site.id])
        self.send(RecoveryBarrierPassed(rm))
        for site in mine:
            self.site = site
            if self.site.id in self.stage.scheduler_state.partitions and self.site.id in old:
                self._open_nodes(old[self.site.id])
        self.site = before

    def _remember(self, identity: PartitionId, old: Partition) -> None:
        """Prepare the state to replay: allocations being released still exist; failed applications are left out."""
        manager_state = next(site.manager_state for site in self.sites if site.id == identity)
        for unconfirmed in manager_state.unconfirmed:
            owner = old.applications.get(unconfirmed.application)
            if owner is not None and (releasing := owner.allocations.get(unconfirmed.id)) is not None:
                manager_state.held[unconfirmed.application, unconfirmed.id] = NewAllocation(
                    releasing.spec, unconfirmed.id, releasing.node
                )
        known = {app.id for app in _live(old)}
        manager_state.held = {place: new for place, new in manager_state.held.items() if place[0] in known}

    def _tell_all(self, old: Partition) -> None:
        apps = _live(old)
        self.send(*(ApplicationAdded(replace(app.spec, forced=True)) for app in apps))
        for node in list(old.nodes):
            existing = [_as_existing(old, new) for new in self.manager_state.held.values() if new.node == node]
            existing += [spec for spec in old.foreign.values() if spec.node == node]
            self.send(NodeAdded(old.nodes.record(node).spec, draining=True, existing=tuple(existing)))
        self._same_as({app.id: app for app in apps})
        for app in apps:
            asks = (ask.spec for ask in app.asks.values() if ask.spec.key not in app.ids and not ask.spec.is_virtual)
            self.send(*(AskAdded(replace(ask, max_allocations=app.asks[ask.key].left)) for ask in asks))

    def _open_nodes(self, old: Partition) -> None:
        for node in list(old.nodes):
            if old.nodes.record(node).state is NodeState.SCHEDULABLE:
                self.send(NodeActionReported(PARTITION, node, NodeAction.OPEN))

    def _same_as(self, known: dict[ApplicationId, Application]) -> None:
        """Assert that the recovered state has the allocations of the old one, except for virtual placeholders."""
        for name, before in known.items():
            after = self.partition.applications[name]
            with_pods = [one for one in before.allocations.values() if one.spec.placeholder and not one.spec.is_virtual]
            assert after.allocated == before.allocated
            assert after.gang.allocated == sum((one.spec.resources for one in with_pods), NOTHING)
            if after.real_allocations:
                assert after.state is ApplicationState.RUNNING


def _as_existing(old: Partition, new: NewAllocation) -> AllocationSpec:
    """Return the allocation with the time at which it got its node."""
    owner = old.applications.get(new.ask.application)
    known = owner.allocations.get(new.id) if owner is not None else None
    return replace(as_existing(new), allocated_ns=known.allocated_ns if known is not None else 0)


def _live(old: Partition) -> list[Application]:
    return [app for app in old.applications.values() if app.state is not ApplicationState.FAILING and not app.removed]
