"""Who waits for what: one line per obstacle, and per leaf the agenda of those worth trying.

An application that was refused stands in the line of what refused it. A line
*opens* when that may have changed; whoever stands in it is then tried in the
usual order until somebody is refused by the same obstacle again: then it is
closed for all of them. So a pass never asks the same question twice, and never
walks over those for whom nothing changed (semantics 22).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from muster_core.model.ids import ApplicationId, QueuePath


@dataclass(slots=True, eq=False)
class Line:
    """Applications refused by one obstacle, by leaf."""

    waiting: dict[QueuePath, dict[ApplicationId, None]] = field(default_factory=dict)
    is_open: bool = False

    def join(self, leaf: QueuePath, app: ApplicationId) -> None:
        """Stand in it."""
        self.waiting.setdefault(leaf, {})[app] = None

    def leave(self, leaf: QueuePath, app: ApplicationId) -> None:
        """Stand in it no longer."""
        here = self.waiting.get(leaf, {})
        here.pop(app, None)
        if not here:
            self.waiting.pop(leaf, None)


@dataclass(slots=True, eq=False)
class Agenda:
    """What a leaf's next turn has to look at."""

    #: Applications to be tried whatever they were refused for.
    stirred: dict[ApplicationId, None] = field(default_factory=dict)
    #: Lines that opened while somebody of this leaf stood in them.
    opened: dict[Line, None] = field(default_factory=dict)
    #: Gangs that keep those behind them from starting (semantics 11).
    blockers: dict[ApplicationId, None] = field(default_factory=dict)

    def candidates(self, leaf: QueuePath) -> dict[ApplicationId, None]:
        """Who is worth trying, in no order."""
        found = dict(self.stirred)
        for line in list(self.opened):
            here = line.waiting.get(leaf) if line.is_open else None
            if here:
                found.update(here)
            else:
                del self.opened[line]
        return found

    def has_candidates(self, leaf: QueuePath) -> bool:
        """Whether anybody is worth trying."""
        return bool(self.stirred) or any(line.is_open and leaf in line.waiting for line in self.opened)
