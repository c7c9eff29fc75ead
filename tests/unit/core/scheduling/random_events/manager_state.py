"""What one resource manager knows of one partition: what it was given, and what it was told to let go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from muster_core.model.effects import AllocationResponse, Effect, NewAllocation
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, PartitionId, Termination
from muster_core.model.specs import AllocationSpec
from muster_core.state.applications import Allocation
from muster_core.state.scheduler_state import Partition

Place = tuple[ApplicationId, AllocationId]


@dataclass(frozen=True, slots=True)
class Owed:
    """A release that was told and not confirmed yet."""

    application: ApplicationId
    key: AllocationKey
    id: AllocationId
    termination: Termination


@dataclass(slots=True)
class Books:
    """Of one partition; `given` has what nobody told to go."""

    partition: PartitionId
    given: dict[Place, NewAllocation] = field(default_factory=dict)
    owed: list[Owed] = field(default_factory=list)

    def hear(self, said: Iterable[Effect]) -> None:
        """Write down what was given and what is to go."""
        for answer in said:
            if isinstance(answer, AllocationResponse):
                self._receive(answer)

    def _receive(self, answer: AllocationResponse) -> None:
        told = [one.key for one in answer.released_asks] + [one.key for one in answer.rejected_asks]
        assert not any(map(uses_virtual_placeholders, told)), f"somebody is told of {told}"
        for one in answer.released:
            assert not uses_virtual_placeholders(one.key), f"{one.key} is to go, of which nobody was told"
            if one.partition == self.partition:
                self.given.pop((one.application, one.id), None)
                if one.termination is not Termination.STOPPED_BY_RM:
                    self.owed.append(Owed(one.application, one.key, one.id, one.termination))
        for new in answer.new:
            assert not new.ask.is_virtual, f"{new.ask.key} has no pod, and is given"
            if new.ask.partition == self.partition:
                place = (new.ask.application, new.id)
                assert place not in self.given, f"{place} is given twice"
                self.given[place] = new

    def revise(self, app: ApplicationId, known: Allocation) -> None:
        """The pod of an allocation is another than it was asked for."""
        place = (app, known.id)
        if place in self.given:
            self.given[place] = replace(self.given[place], ask=known.spec)

    def find(self, partition: Partition, app: ApplicationId, identity: AllocationId) -> None:
        """An allocation was reported: if it was taken in, and not told to go at once, it is there."""
        owner = partition.applications.get(app)
        known = owner.allocations.get(identity) if owner is not None else None
        if known is not None and known.releasing is None:
            self.given[app, identity] = NewAllocation(known.spec, identity, known.node)

    def agree_with(self, partition: Partition) -> None:
        """The core and its resource manager know the same allocations, but for places without pods."""
        held = {
            (app.id, allocation.id)
            for app in partition.applications.values()
            for allocation in app.allocations.values()
            if allocation.releasing is None and not allocation.spec.is_virtual
        }
        assert held == self.given.keys(), f"{self.partition}: {held ^ self.given.keys()} is known to one side only"


def uses_virtual_placeholders(key: AllocationKey) -> bool:
    """Whether it is one of those that the core makes for itself (model/ids.py)."""
    return "/" in key


def as_existing(new: NewAllocation) -> AllocationSpec:
    """What was given, as a restart reports it."""
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
