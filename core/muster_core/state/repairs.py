"""Gangs below their minimum whose replacements precede other applications (docs/internals/semantics.md, rule 32).

The scheduling queue keeps this index next to its own order, because the precedence is only for the members that restore
the minimum, and the other requests of the application keep their position. `scheduling.repair` decides which gangs are
in it, and when one of them is tried.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from muster_core.model.ids import ApplicationId

_Set = TypeVar("_Set", bound=Hashable)


@dataclass(slots=True, eq=False)
class Repairs(Generic[_Set]):
    """Applications with replacements that have precedence, longest waiting first.

    `waiting`: those that wait for a blocking reason, by its set in the scheduling queue. `ready`: those that are active
    and whose replacements were not tried since.
    """

    wanted: dict[ApplicationId, None] = field(default_factory=dict)
    waiting: dict[_Set, dict[ApplicationId, None]] = field(default_factory=dict)
    ready: dict[ApplicationId, None] = field(default_factory=dict)

    def add(self, app: ApplicationId, entries: Iterable[_Set], *, is_active: bool) -> None:
        """Gives precedence to the replacements of an application, which may have been tried without it already."""
        self.wanted[app] = None
        for entry in entries:
            self.wait(entry, app)
        if is_active:
            self.activated(app)

    def remove(self, app: ApplicationId, entries: Iterable[_Set]) -> None:
        """Ends the precedence."""
        if app not in self.wanted:
            return
        del self.wanted[app]
        self.ready.pop(app, None)
        for entry in entries:
            self.stop_waiting(entry, app)

    def activated(self, app: ApplicationId) -> None:
        """The application is worth an attempt."""
        if app in self.wanted:
            self.ready[app] = None

    def deactivated(self, app: ApplicationId) -> None:
        """The application was tried, or waits again for the reasons before."""
        self.ready.pop(app, None)

    def wait(self, entry: _Set, app: ApplicationId) -> None:
        """The application waits for a blocking reason."""
        if app in self.wanted:
            self.waiting.setdefault(entry, {})[app] = None

    def stop_waiting(self, entry: _Set, app: ApplicationId) -> None:
        """The application does not wait for this reason any more."""
        names = self.waiting.get(entry)
        if names is not None:
            names.pop(app, None)
            if not names:
                del self.waiting[entry]

    def first_waiting(self, entry: _Set) -> ApplicationId | None:
        """Returns the application that has waited longest for the reason, or None."""
        return next(iter(self.waiting.get(entry, ())), None)
