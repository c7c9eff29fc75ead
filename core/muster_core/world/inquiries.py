"""What a resource manager is asked before it is decided: places and victims that wait for its word.

Seed 003, Predicates. One for all partitions of a resource manager; empty for those that declared
nothing, which is decided by facts alone. Written by engine/inquiries.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from muster_core.model.decisions import Placement, Preemption, Swap
from muster_core.model.ids import ApplicationId, PartitionId


@dataclass(slots=True, eq=False)
class Inquiry:
    """Decisions of one plan for one application. `questions`: their numbers, and which place each is about; of victims
    there is one per place, answered one by one.
    """

    partition: PartitionId
    application: ApplicationId
    decisions: tuple[Placement | Swap | Preemption, ...]
    questions: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Inquiries:
    """`places`, `victims`: what the resource manager declared that it is to be asked."""

    places: bool = False
    victims: bool = False
    #: By the numbers of their questions.
    open: dict[int, Inquiry] = field(default_factory=dict)
    #: How many questions of an application are open.
    waiting: dict[tuple[PartitionId, ApplicationId], int] = field(default_factory=dict)
    sequence: int = 0

    def is_parked(self, partition: PartitionId, app: ApplicationId) -> bool:
        """Whether a word about something of the application is awaited."""
        return (partition, app) in self.waiting

    def add(self, inquiry: Inquiry, place: int = 0) -> int:
        """A question more, about its place of that position; returns the number."""
        self.sequence += 1
        self.open[self.sequence] = inquiry
        inquiry.questions[self.sequence] = place
        name = (inquiry.partition, inquiry.application)
        self.waiting[name] = self.waiting.get(name, 0) + 1
        return self.sequence

    def close(self, number: int) -> Inquiry | None:
        """The question is answered, or nobody waits for it any more; None = it is not open."""
        inquiry = self.open.pop(number, None)
        if inquiry is None:
            return None
        name = (inquiry.partition, inquiry.application)
        self.waiting[name] -= 1
        if not self.waiting[name]:
            del self.waiting[name]
        return inquiry
