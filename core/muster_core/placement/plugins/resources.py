"""Filters NodeResourcesFit and NodePorts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from muster_core.model.resources import Resources
from muster_core.model.specs import HostPort
from muster_core.state.columns import BoolColumn, IntColumn
from muster_core.state.snapshot import RequestShape, Snapshot

#: Function that returns the available amount per row of a resource; None = no node has it.
Available = Callable[[str], IntColumn | None]
NAME: Final = "NodeResourcesFit"

# The Scheduler Interface names cpu "vcore"; Kubernetes reports "cpu".
INSUFFICIENT: Final = "Insufficient "
CROWDED: Final = "Too many pods"
_REASONS: Final = {"vcore": INSUFFICIENT + "cpu", "pods": CROWDED}


def insufficient_resources(resource: str) -> str:
    """Returns kube-scheduler's reason for too little of a resource."""
    return _REASONS.get(resource, INSUFFICIENT + resource)


def fits(available: Available, asked: Resources, among: BoolColumn) -> BoolColumn:
    """Rows in `among` with enough available resources for one pod."""
    found = among
    for name, amount in asked.items():
        column = available(name)
        if column is None:
            return np.zeros(len(among), dtype=np.bool_)
        found = found & (column >= amount)
    return found


def too_small(capacity: Available, asked: Resources, among: BoolColumn) -> BoolColumn:
    """Rows in `among` whose nodes could not hold one pod even if they were empty. The number of pods is ignored."""
    return among & ~fits(capacity, Resources({name: amount for name, amount in asked.items() if name != "pods"}), among)


def counts(available: Available, asked: Resources, among: BoolColumn, at_most: int) -> IntColumn:
    """Returns how many pods fit per row, at most `at_most`; 0 outside `among`."""
    found = among * np.int64(at_most)
    for name, amount in asked.items():
        column = available(name)
        if column is None:
            return np.zeros(len(among), dtype=np.int64)
        np.minimum(found, column // amount, out=found)
    return np.maximum(found, 0, out=found)


def counts_of(available: Available, asked: Resources, rows: IntColumn, at_most: int) -> IntColumn:
    """Like `counts`, for rows that fit at least one pod, in their order. Faster than dividing complete columns."""
    found = np.full(len(rows), at_most, dtype=np.int64)
    for name, amount in asked.items():
        column = available(name)
        if column is not None:
            np.minimum(found, column[rows] // amount, out=found)
    return found


def insufficient(available: Available, asked: Resources, among: BoolColumn) -> Iterator[tuple[str, BoolColumn]]:
    """Yields each requested resource with the rows in `among` that have too little of it."""
    for name, amount in sorted(asked.items()):
        column = available(name)
        yield name, among.copy() if column is None else among & (column < amount)


TAKEN: Final = "node(s) didn't have free ports for the requested pod ports"
_EVERY: Final = "0.0.0.0"  # noqa: S104 - the value is only compared, no socket is bound


class NodePortsFilter:
    """Filter by the host ports of a shape. `_users`: number of conflicting ports in use per row."""

    def __init__(self, snapshot: Snapshot, ports: Sequence[HostPort]) -> None:
        self._users = np.zeros(snapshot.size, dtype=np.int64)
        for port, rows in snapshot.nodes.pods_on_nodes.ports.items():
            self._count((port,), ports, rows)
        for pod_on_node, came in snapshot.came():
            self._count(pod_on_node.facts.ports, ports, came)

    def allows(self) -> BoolColumn:
        """Rows where all ports are free."""
        return self._users <= 0

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """Like `allows`, for some rows."""
        return self._users[rows] <= 0

    def refusals(self) -> Sequence[tuple[str, BoolColumn]]:
        """Rows where a port is in use."""
        return ((TAKEN, self._users > 0),)

    def add(self, row: int) -> IntColumn | None:
        """Marks the ports of the row as used."""
        self._users[row] += 1
        return np.array([row], dtype=np.int64)

    def _count(self, theirs: Iterable[HostPort], ours: Sequence[HostPort], rows: Mapping[int, int]) -> None:
        for port in theirs:
            if any(_is_same(port, one) for one in ours):
                for row, count in rows.items():
                    self._users[row] += count


def ports_filter(snapshot: Snapshot, shape: RequestShape) -> NodePortsFilter | None:
    """Creates the filter if the shape has host ports."""
    ports = shape.pod_on_node.facts.ports
    return NodePortsFilter(snapshot, ports) if ports else None


def _is_same(one: HostPort, other: HostPort) -> bool:
    if (one.port, one.protocol) != (other.port, other.protocol):
        return False
    return one.ip == other.ip or _EVERY in (one.ip, other.ip)
