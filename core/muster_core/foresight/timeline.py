"""Resource usage of a simulation over virtual time: exact integrals, and samples for curves.

`outside` reports each change, and `simulation` calls `advance` before the changes of an instant. Amounts are those of
the core, integrals are amounts times nanoseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from muster_core.model.resources import NOTHING, Resources
from muster_core.state.nodes import NodeTable

#: Samples of a curve. When there are twice as many, every second one is dropped.
_SAMPLES: Final = 512


@dataclass(frozen=True, slots=True)
class UsageSample:
    """The cluster at one time. The last three are amounts of the main resource.

    `fragmented`: see `fragmentation`. `reserved`: free resources that node reservations keep from other pods.
    """

    at_ns: int
    waiting: int
    running: int
    used: int
    fragmented: float
    reserved: int


class Timeline:
    """Usage from `start_ns` to the last `advance`. `main`: the resource of fragmentation and of the curves."""

    def __init__(self, start_ns: int, every_ns: int, capacity: Resources, main: str, mix: Counter[Resources]) -> None:
        self.start_ns = self.now_ns = start_ns
        self.capacity = capacity
        self.main = main
        #: Allocated now. `idle`: the part of it whose job does not run, because members or replacements are missing.
        self.allocated = NOTHING
        self.idle = NOTHING
        #: What the waiting jobs need at once: all pods of a gang, else one pod.
        self.wanted: Counter[Resources] = Counter()
        self.waiting = 0
        self.running = 0
        self.used_ns: Counter[str] = Counter()
        self.idle_ns: Counter[str] = Counter()
        #: Free while a waiting job would fit by its amounts.
        self.unused_ns: Counter[str] = Counter()
        self.reserved_ns = 0
        self.samples: list[UsageSample] = []
        self._every_ns = max(every_ns, 1)
        self._next_ns = start_ns
        self._mix = [(shape, count) for shape, count in mix.most_common() if shape[main]]

    def advance(self, now_ns: int, nodes: NodeTable) -> None:
        """Counts the time until `now_ns`, in which nothing has changed."""
        span_ns = now_ns - self.now_ns
        if span_ns <= 0:
            return
        _add(self.used_ns, self.allocated, span_ns)
        if self.idle:
            _add(self.idle_ns, self.idle, span_ns)
        if self.wanted:
            free = self.capacity - self.allocated
            if any(free.covers(shape) for shape in self.wanted):
                _add(self.unused_ns, free, span_ns)
        if self._next_ns < now_ns:
            self._sample(now_ns, nodes)
        self.now_ns = now_ns

    def _sample(self, until_ns: int, nodes: NodeTable) -> None:
        used, waiting, running = self.allocated[self.main], self.waiting, self.running
        fragmented, reserved = fragmentation(nodes, self.main, self._mix), reserved_amount(nodes, self.main)
        while self._next_ns < until_ns:
            self.samples.append(UsageSample(self._next_ns, waiting, running, used, fragmented, reserved))
            self.reserved_ns += reserved * self._every_ns
            self._next_ns += self._every_ns
            if len(self.samples) >= 2 * _SAMPLES:
                self.samples = self.samples[::2]
                self._every_ns *= 2
                self._next_ns = self.samples[-1].at_ns + self._every_ns


def _add(total: Counter[str], amounts: Resources, span_ns: int) -> None:
    for name, amount in amounts.items():
        total[name] += amount * span_ns


def fragmentation(nodes: NodeTable, main: str, mix: Iterable[tuple[Resources, int]]) -> float:
    """Returns the amount of the main resource that is free, but not for a typical pod.

    For each pod shape of the workload, the free amount on the nodes that have no room for it; averaged over the shapes
    by how often they occur. Source: Weng et al., "Beware of Fragmentation", USENIX ATC 2023, without shares of devices.
    """
    columns, total, weight = nodes.columns(), 0.0, 0
    free = columns.availables.column(main, columns.size)
    if free is None:
        return 0.0
    free = np.where(columns.open, np.maximum(free, 0), 0)
    for shape, count in mix:
        fits = np.ones(columns.size, dtype=np.bool_)
        for name, amount in shape.items():
            column = columns.availables.column(name, columns.size)
            fits &= column >= amount if column is not None else False
        total += count * float(free[~fits].sum())
        weight += count
    return total / weight if weight else 0.0


def reserved_amount(nodes: NodeTable, main: str) -> int:
    """Returns the free amount that reservations of nodes keep from other pods."""
    columns = nodes.columns()
    reserved = columns.node_reserved.column(main, columns.size)
    free = columns.availables.column(main, columns.size)
    if reserved is None or free is None:
        return 0
    return int(np.clip(free, 0, reserved).sum())
