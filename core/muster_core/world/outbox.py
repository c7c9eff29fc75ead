"""Effects of state changes that were not sent yet.

The rule for engine/: no function returns effects. Whoever changes the world puts the effect of the change here, in
the statement after the write::

    ledger.book(partition, app, allocation)
    partition.outbox.put(ApplicationUpdated(...))

and everything that one decision says about allocations goes into one answer, opened before the first write and
extended in the statement after each write::

    answer = partition.outbox.answer(partition.rm)
    for allocation in gone:
        ledger.drop(partition, app, allocation, now_ns)
        answer.released.append(Release(...))

The world owns one outbox, which all of its partitions share. The loop drains it after each event and each cycle,
also after one that raised: an exception cannot lose the effects of changes that were made before it. `step` and
`cycle` return what they drained, which is a view for tests and for the journal.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from muster_core.model.effects import (
    AllocationAnswer,
    AskRelease,
    Effect,
    NewAllocation,
    Release,
    SchedulingStateChanged,
)
from muster_core.model.ids import ApplicationId, RmId
from muster_core.model.notes import Noted


@dataclass(slots=True, eq=False)
class Answer:
    """An `AllocationAnswer` that is still being written; one with nothing in it is never said."""

    rm: RmId
    application: ApplicationId | None = None
    new: list[NewAllocation] = field(default_factory=list)
    released: list[Release] = field(default_factory=list)
    released_asks: list[AskRelease] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.new or self.released or self.released_asks)

    def closed(self) -> AllocationAnswer:
        """The effect, once nothing is added any more."""
        return AllocationAnswer(self.rm, tuple(self.new), tuple(self.released), tuple(self.released_asks))


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """An exception that one application, or one partition, was responsible for; the others went on."""

    subject: str
    error: Exception


@dataclass(slots=True, eq=False)
class Outbox:
    """Effects in the order in which they are carried out; notes for observers come last."""

    _effects: list[Effect | Answer] = field(default_factory=list)
    _notes: list[Noted] = field(default_factory=list)
    #: For the loop to log and to count.
    failures: list[Failure] = field(default_factory=list)
    #: The last scheduling state in `_effects`.
    _state: SchedulingStateChanged | None = None

    def put(self, effect: Effect) -> None:
        """Add the effect of a change that was just made."""
        self._effects.append(effect)

    def state(self, changed: SchedulingStateChanged) -> None:
        """Add a scheduling state, unless it repeats the last one: all places of a task group without pods share one."""
        if changed != self._state:
            self._state = changed
            self._effects.append(changed)

    def note(self, noted: Noted) -> None:
        """Add a note for observers; notes come after all other effects."""
        self._notes.append(noted)

    def answer(self, rm: RmId) -> Answer:
        """Open the allocation answer of one decision, at this place in the order."""
        answer = Answer(rm)
        self._effects.append(answer)
        return answer

    def joined(self, rm: RmId, application: ApplicationId) -> Answer:
        """The same for one of many small decisions of an application: it extends the last answer if that is what was
        put last and if it only gives places.
        """
        last = self._effects[-1] if self._effects else None
        if isinstance(last, Answer) and last.application == application and not last.released:
            return last
        answer = Answer(rm, application)
        self._effects.append(answer)
        return answer

    def take_failures(self) -> list[Failure]:
        """Take out the failures since the last call."""
        taken, self.failures = self.failures, []
        return taken

    def drain(self) -> list[Effect]:
        """Take out everything. Called by the loop, and at the end of `step` and `cycle`."""
        if not self._effects and not self._notes:
            return []
        drained: list[Effect] = []
        for effect in self._effects:
            if not isinstance(effect, Answer):
                drained.append(effect)
            elif effect:
                drained.append(effect.closed())
        drained += self._notes
        self._effects, self._notes, self._state = [], [], None
        return drained
