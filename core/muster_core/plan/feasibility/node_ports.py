"""NodePorts: no two pods of a node have the same host port.

Ports are the same where protocol and number are, and the addresses are or one of them stands for all (0.0.0.0).
Two of one shape always want the same, so at most one goes to a node.
Source: Kubernetes 1.36, ContainerPort.hostPort and hostIP.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from muster_core.model.facts import HostPort
from muster_core.plan.draft import Draft
from muster_core.plan.shape import Shape
from muster_core.world.columns import BoolColumn, IntColumn

TAKEN: Final = "node(s) didn't have free ports for the requested pod ports"
_EVERY: Final = "0.0.0.0"  # noqa: S104 - what it is compared with, nobody listens there


class FreePorts:
    """The ports of a shape, as a guard. `_users`: per row how many of its ports others have there."""

    __slots__ = ("_users",)

    def __init__(self, draft: Draft, ports: Sequence[HostPort]) -> None:
        self._users = np.zeros(draft.size, dtype=np.int64)
        for port, rows in draft.nodes.occupants.ports.items():
            self._count((port,), ports, rows)
        for occupant, came in draft.came():
            self._count(occupant.facts.ports, ports, came)

    def allows(self) -> BoolColumn:
        """Rows where nobody has one of them."""
        return self._users <= 0

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """The same of some rows."""
        return self._users[rows] <= 0

    def refusals(self) -> Sequence[tuple[str, BoolColumn]]:
        """Rows where somebody has."""
        return ((TAKEN, self._users > 0),)

    def add(self, row: int) -> IntColumn | None:
        """One more has its ports there."""
        self._users[row] += 1
        return np.array([row], dtype=np.int64)

    def _count(self, theirs: Iterable[HostPort], ours: Sequence[HostPort], rows: Mapping[int, int]) -> None:
        for port in theirs:
            if any(_is_same(port, one) for one in ours):
                for row, count in rows.items():
                    self._users[row] += count


def guard(draft: Draft, shape: Shape) -> FreePorts | None:
    """Of a shape with host ports."""
    ports = shape.occupant.facts.ports
    return FreePorts(draft, ports) if ports else None


def _is_same(one: HostPort, other: HostPort) -> bool:
    if (one.port, one.protocol) != (other.port, other.protocol):
        return False
    return one.ip == other.ip or _EVERY in (one.ip, other.ip)
