"""NodeResourcesFit: what is left on a node must cover what is asked, resource by resource.

`pods` is a resource like any other, one a pod. An ask for 0 of something fits
even where less than nothing is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from muster_core.model.resources import Resources
from muster_core.world.columns import BoolColumn, IntColumn

#: What is left of a resource on every node; None where no node has it.
Available = Callable[[str], IntColumn | None]

NAME: Final = "NodeResourcesFit"

# Kubernetes speaks of cpu where the Scheduler Interface speaks of vcore.
INSUFFICIENT: Final = "Insufficient "
CROWDED: Final = "Too many pods"
_REASONS: Final = {"vcore": INSUFFICIENT + "cpu", "pods": CROWDED}


def reason(resource: str) -> str:
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
