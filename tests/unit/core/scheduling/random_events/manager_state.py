"""What one resource manager stores of one partition: its allocations and the requested releases."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from muster_core.model.effects import AllocationResponse, Effect, NewAllocation
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, PartitionId, Termination
from muster_core.model.specs import AllocationSpec
from muster_core.state.applications import Allocation
from muster_core.state.scheduler_state import Partition

Place = tuple[ApplicationId, AllocationId]


@dataclass(frozen=True, slots=True)
class UnconfirmedRelease:
    """A requested release that is not confirmed."""

    application: ApplicationId
    key: AllocationKey
    id: AllocationId
    termination: Termination


@dataclass(slots=True)
class ManagerState:
    """The state of one partition. `held` has the allocations without a requested release."""

    partition: PartitionId
    held: dict[Place, NewAllocation] = field(default_factory=dict)
    unconfirmed: list[UnconfirmedRelease] = field(default_factory=list)

    def receive(self, effects: Iterable[Effect]) -> None:
        """Store new allocations and requested releases."""
        for answer in effects:
            if isinstance(answer, AllocationResponse):
                self._receive(answer)

    def _receive(self, answer: AllocationResponse) -> None:
        released = [one.key for one in answer.released_asks] + [one.key for one in answer.rejected_asks]
        assert not any(map(uses_virtual_placeholders, released)), f"virtual placeholders are reported: {released}"
        for one in answer.released:
            assert not uses_virtual_placeholders(one.key), f"{one.key} is released and was never reported"
            if one.partition == self.partition:
                self.held.pop((one.application, one.id), None)
                if one.termination is not Termination.STOPPED_BY_RM:
                    self.unconfirmed.append(UnconfirmedRelease(one.application, one.key, one.id, one.termination))
        for new in answer.new:
            assert not new.ask.is_virtual, f"{new.ask.key} has no pod and is allocated"
            if new.ask.partition == self.partition:
                place = (new.ask.application, new.id)
                assert place not in self.held, f"{place} is allocated twice"
                self.held[place] = new

    def revise(self, app: ApplicationId, known: Allocation) -> None:
        """Store new values of an allocation, whose pod changed."""
        place = (app, known.id)
        if place in self.held:
            self.held[place] = replace(self.held[place], ask=known.spec)

    def find(self, partition: Partition, app: ApplicationId, identity: AllocationId) -> None:
        """Store a reported allocation, if the core accepted it and did not release it immediately."""
        owner = partition.applications.get(app)
        known = owner.allocations.get(identity) if owner is not None else None
        if known is not None and known.releasing is None:
            self.held[app, identity] = NewAllocation(known.spec, identity, known.node)

    def agree_with(self, partition: Partition) -> None:
        """Assert that core and resource manager have the same allocations, except for virtual placeholders."""
        held = {
            (app.id, allocation.id)
            for app in partition.applications.values()
            for allocation in app.allocations.values()
            if allocation.releasing is None and not allocation.spec.is_virtual
        }
        assert held == self.held.keys(), f"{self.partition}: {held ^ self.held.keys()} is known to one side only"


def uses_virtual_placeholders(key: AllocationKey) -> bool:
    """Whether the key is that of a virtual placeholder (model/ids.py)."""
    return "/" in key


def as_existing(new: NewAllocation) -> AllocationSpec:
    """Return an allocation as reported after a restart."""
    ask = new.ask
    return AllocationSpec(
        ask.partition,
        ask.application,
        ask.key,
        new.id,
        new.node,
        ask.resources,
        ask.group,
        ask.placeholder,
        originator=ask.originator,
        priority=ask.priority,
        tags=ask.tags,
        required_node=ask.required_node,
        allow_preempt_self=ask.allow_preempt_self,
        allow_preempt_other=ask.allow_preempt_other,
    )
