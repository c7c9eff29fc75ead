"""What probes say about leading: one who stands by is ready too, or a rolling upgrade would wait for it for ever."""

from __future__ import annotations

from dataclasses import dataclass

from muster_operator.link.beside.neighbours import NameLeases
from muster_operator.link.leading.leadership import Leading
from muster_operator.link.loop import Loop


@dataclass(frozen=True, slots=True)
class Standing:
    """Reads the loop and the leadership each time somebody asks."""

    leading: Leading
    loop: Loop
    names: NameLeases | None = None

    @property
    def missing(self) -> str:
        """What keeps us from being ready; empty = nothing. Who stands by is ready when it could take over at once."""
        if self.leading.trouble:
            return f"the lease cannot be read or renewed: {self.leading.trouble}"
        if not self.leading.begun.is_set():
            return self.loop.unlisted
        if self.names is not None and not self.names.held.is_set():
            return f"the Leases of scheduler names are not held yet: {self.names.missing}"
        return self.loop.missing

    @property
    def role(self) -> str:
        """The leader, if it is another replica; else the reason why decisions wait.

        Waiting decisions do not make the process unready: its webhook and the core's REST API still respond.
        """
        if self.leading.begun.is_set():
            if self.names is not None and self.names.are_lost:
                return f"not binding, the Leases of scheduler names are not held: {self.names.missing}"
            return self.loop.held
        return f"standing by, {self.leading.holder or 'nobody yet'} leads"
