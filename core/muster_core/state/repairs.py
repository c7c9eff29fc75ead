"""Gangs below their minimum whose replacements precede other applications (docs/internals/semantics.md, rule 32).

The scheduling queue keeps this index next to its own order, because the precedence is only for the members that restore
the minimum, and the other requests of the application keep their position. `scheduling.repair` decides which gangs are
in it, and when one of them is tried.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from muster_core.model.ids import ApplicationId, QueuePath


@dataclass(slots=True, eq=False)
class Repair:
    """Replacements of one application that have precedence.

    `priority`: the highest of them. `number`: orders those that are ready, longest first; 0 = not ready.
    """

    leaf: QueuePath
    priority: int
    number: int = 0


@dataclass(slots=True, eq=False)
class Repairs:
    """Applications with replacements that have precedence.

    `ready`: those that are active and whose replacements were not tried since, by leaf: (-priority, number,
    application), in order.
    """

    wanted: dict[ApplicationId, Repair] = field(default_factory=dict)
    ready: dict[QueuePath, list[tuple[int, int, ApplicationId]]] = field(default_factory=dict)
    _last_number: int = 0

    def add(self, app: ApplicationId, repair: Repair, *, is_active: bool) -> None:
        """Gives precedence to the replacements of an application, which may have been tried without it already."""
        known = self.wanted.get(app)
        if known is None or known.priority != repair.priority:
            self.deactivated(app)
            self.wanted[app] = repair
        if is_active:
            self.activated(app)

    def remove(self, app: ApplicationId) -> None:
        """Ends the precedence."""
        self.deactivated(app)
        del self.wanted[app]

    def activated(self, app: ApplicationId) -> None:
        """The application is worth an attempt."""
        repair = self.wanted.get(app)
        if repair is not None and not repair.number:
            repair.number = self._last_number = self._last_number + 1
            insort(self.ready.setdefault(repair.leaf, []), (-repair.priority, repair.number, app))

    def deactivated(self, app: ApplicationId) -> None:
        """The application was tried, or waits again for the reasons before."""
        repair = self.wanted.get(app)
        if repair is not None and repair.number:
            ready = self.ready[repair.leaf]
            del ready[bisect_left(ready, (-repair.priority, repair.number, app))]
            if not ready:
                del self.ready[repair.leaf]
            repair.number = 0
