"""Filters NodeResourcesFit and NodePorts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from muster_core.model.resources import Resources
from muster_core.model.specs import HostPort
from muster_core.placement.snapshot import RequestShape, Snapshot
from muster_core.state.columns import BoolColumn, IntColumn

#: What is left of a resource on every node; None where no node has it.
Available = Callable[[str], IntColumn | None]
NAME: Final = "NodeResourcesFit"

# Kubernetes speaks of cpu where the Scheduler Interface speaks of vcore.
INSUFFICIENT: Final = "Insufficient "
CROWDED: Final = "Too many pods"
_REASONS: Final = {"vcore": INSUFFICIENT + "cpu", "pods": CROWDED}


def insufficient_resources(resource: str) -> str:
    """kube-scheduler's words for too little of a resource."""
    return _REASONS.get(resource, INSUFFICIENT + resource)


def fits(available: Available, asked: Resources, among: BoolColumn) -> BoolColumn:
    """Those `among` the nodes that have room for one."""
    found = among
    for name, amount in asked.items():
        column = available(name)
        if column is None:
            return np.zeros(len(among), dtype=np.bool_)
        found = found & (column >= amount)
    return found


def too_small(capacity: Available, asked: Resources, among: BoolColumn) -> BoolColumn:
    """Those `among` the nodes that could not hold one if they were empty; how many pods they hold does not count."""
    return among & ~fits(capacity, Resources({name: amount for name, amount in asked.items() if name != "pods"}), among)


def counts(available: Available, asked: Resources, among: BoolColumn, at_most: int) -> IntColumn:
    """How many fit on each of the nodes, up to `at_most`; 0 outside `among`."""
    found = among * np.int64(at_most)
    for name, amount in asked.items():
        column = available(name)
        if column is None:
            return np.zeros(len(among), dtype=np.int64)
        np.minimum(found, column // amount, out=found)
    return np.maximum(found, 0, out=found)


def counts_of(available: Available, asked: Resources, rows: IntColumn, at_most: int) -> IntColumn:
    """The same of rows that have room for one, in their order: dividing whole columns takes long."""
    found = np.full(len(rows), at_most, dtype=np.int64)
    for name, amount in asked.items():
        column = available(name)
        if column is not None:
            np.minimum(found, column[rows] // amount, out=found)
    return found


def insufficient(available: Available, asked: Resources, among: BoolColumn) -> Iterator[tuple[str, BoolColumn]]:
    """Per asked resource, those `among` the nodes that have too little of it."""
    for name, amount in sorted(asked.items()):
        column = available(name)
        yield name, among.copy() if column is None else among & (column < amount)


TAKEN: Final = "node(s) didn't have free ports for the requested pod ports"
_EVERY: Final = "0.0.0.0"  # noqa: S104 - what it is compared with, nobody listens there


class NodePortsFilter:
    """The ports of a shape, as a guard. `_users`: per row how many of its ports others have there."""

    __slots__ = ("_users",)

    def __init__(self, snapshot: Snapshot, ports: Sequence[HostPort]) -> None:
        self._users = np.zeros(snapshot.size, dtype=np.int64)
        for port, rows in snapshot.nodes.pods_on_nodes.ports.items():
            self._count((port,), ports, rows)
        for pod_on_node, came in snapshot.came():
            self._count(pod_on_node.facts.ports, ports, came)

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


def ports_filter(snapshot: Snapshot, shape: RequestShape) -> NodePortsFilter | None:
    """Of a shape with host ports."""
    ports = shape.pod_on_node.facts.ports
    return NodePortsFilter(snapshot, ports) if ports else None


def _is_same(one: HostPort, other: HostPort) -> bool:
    if (one.port, one.protocol) != (other.port, other.protocol):
        return False
    return one.ip == other.ip or _EVERY in (one.ip, other.ip)
