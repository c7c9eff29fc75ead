"""What an application used over time: amounts times how long, by the instance type of the node.

Kept in units times nanoseconds, read in units times seconds (contract 4.1,
resourceHistory; contract 6.5). Counted when an allocation goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from muster_core.model.resources import Resources

#: Instance type of a node that names none.
UNKNOWN_TYPE: Final = "UNKNOWN"
_SECOND: Final = 1_000_000_000


@dataclass(slots=True, eq=False)
class Consumption:
    """One kind of use: instance type → resource → units times nanoseconds."""

    amounts: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, instance_type: str, resources: Resources, span_ns: int) -> None:
        """Count an allocation that was there for `span_ns`."""
        mine = self.amounts.setdefault(instance_type or UNKNOWN_TYPE, {})
        for name, amount in resources.items():
            mine[name] = mine.get(name, 0) + amount * max(span_ns, 0)

    def seconds(self) -> dict[str, dict[str, int]]:
        """Instance type → resource → units times seconds."""
        return {kind: {name: amount // _SECOND for name, amount in mine.items()} for kind, mine in self.amounts.items()}
