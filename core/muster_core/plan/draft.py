"""A draft: the node table as it would be if what is planned so far were committed.

Plans charge the draft and never the table; throwing the draft away is the
undo. A draft copies a column when it first writes to it and reads the table's
own otherwise, so an empty draft costs nothing. Room that is held for asks
that wait counts as taken: who plans for its own hold frees that first. It is void when a node comes,
goes or changes: drafts live within one cycle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from muster_core.model.facts import Occupant
from muster_core.model.ids import NodeId
from muster_core.model.placement import Target, matches
from muster_core.model.resources import Resources
from muster_core.plan.assumptions import Assumptions
from muster_core.world.columns import BoolColumn, IntColumn
from muster_core.world.nodes import NodeTable

#: Fewer rows than this are quicker charged one by one.
_FEW: Final = 6


def emptied(nodes: NodeTable) -> Draft:
    """The draft in which nobody but `occupied` uses the nodes, and nobody is there to stay away from."""
    draft = Draft(nodes)
    draft.empty()
    draft.is_deserted = True
    return draft


class Draft:  # long: everything that is supposed goes through here
    """What-ifs over a node table."""

    __slots__ = ("_came", "_columns", "_written", "assumptions", "is_deserted", "nodes", "within")

    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        #: Rows that the plan keeps to (a gang's topology domain); None = all.
        self.within: BoolColumn | None = None
        #: Only those that are supposed to have come are there.
        self.is_deserted = False
        self._columns = nodes.columns()
        self._written: dict[str, IntColumn] = {}
        #: What came, less what went, of allocations that filters look at, per row.
        self._came: dict[Occupant, dict[int, int]] = {}
        #: Which volumes claims would get.
        self.assumptions = Assumptions(nodes.occupants.attachments.storage)

    @property
    def size(self) -> int:
        """Rows of every column."""
        return self._columns.size

    @property
    def is_bare(self) -> bool:
        """Whether what is left is what the table says: nothing is supposed, and nothing held."""
        return not self._written and not any(self._columns.claimed)

    def available(self, resource: str) -> IntColumn | None:
        """What is left on every node, to be read only; None where no node has the resource."""
        written = self._written.get(resource)
        if written is not None:
            return written
        left = self._columns.availables.column(resource, self.size)
        held = self._columns.claimed.column(resource, self.size)
        if held is None:
            return left
        # A column goes when there is nothing but zeros left in it: what is held counts all the same.
        self._written[resource] = left = -held if left is None else left - held
        return left

    def capacity(self, resource: str) -> IntColumn | None:
        """What every node has; None where no node has the resource."""
        return self._columns.capacities.column(resource, self.size)

    def take(self, node: NodeId, resources: Resources, count: int = 1) -> None:
        """Suppose that `count` of these amounts are taken. Raises UnknownSubject."""
        self.charge(self.nodes.rows.row(node), resources, count)

    def free(self, node: NodeId, resources: Resources, count: int = 1) -> None:
        """Suppose that `count` of these amounts are given back. Raises UnknownSubject."""
        self.charge(self.nodes.rows.row(node), resources, -count)

    def charge(self, row: int, resources: Resources, count: int) -> None:
        """`take` by row; a negative count frees."""
        for name, amount in resources.items():
            column = self._own(name)
            column[row] = column.item(row) - count * amount

    def charge_all(self, charges: Sequence[tuple[int, int]], resources: Resources) -> None:
        """The same of many rows, all different, with their counts."""
        if len(charges) < _FEW:
            for row, count in charges:
                self.charge(row, resources, count)
            return
        rows, counts = np.array(charges, dtype=np.int64).T
        for name, amount in resources.items():
            self._own(name)[rows] -= counts * amount

    def enter(self, row: int, occupant: Occupant, count: int = 1) -> None:
        """Suppose that so many of these came to a row, as filters see them; negative = went. Room is `charge`'s."""
        if self.nodes.occupants.is_noted(occupant.facts):
            rows = self._came.setdefault(occupant, {})
            rows[row] = rows.get(row, 0) + count

    def came(self) -> Iterator[tuple[Occupant, Mapping[int, int]]]:
        """What is supposed to have come, or gone (less than 0), per row."""
        return iter(self._came.items())

    def tagged(self, targets: tuple[Target, ...]) -> Iterator[Mapping[int, int]]:
        """Rows and how many allocations, for part after part of those that meet the targets."""
        if not self.is_deserted:
            yield from self.nodes.occupants.tags.matching(targets)
        for occupant, rows in self._came.items():
            if matches(targets, dict(occupant.tags)):
                yield rows

    def at_best(self, resource: str) -> IntColumn | None:
        """What every node could give once all have ended that may end; None where no node has the resource."""
        most = self.capacity(resource)
        for kept in (self._columns.occupied, self._columns.permanent):
            column = kept.column(resource, self.size)
            if most is not None and column is not None:
                most = most - column
        return most

    @property
    def schedulable(self) -> BoolColumn:
        """Nodes that are neither drained nor cordoned."""
        return self._columns.open

    def empty(self) -> None:
        """Suppose that nothing is taken but what others occupy."""
        for name in self._columns.capacities:
            capacity, occupied = self.capacity(name), self._columns.occupied.column(name, self.size)
            if capacity is not None:
                self._written[name] = capacity.copy() if occupied is None else capacity - occupied

    def _own(self, name: str) -> IntColumn:
        """The column of what is left, to be written to."""
        column = self._written.get(name)
        if column is None:
            current = self.available(name)
            column = np.zeros(self.size, dtype=np.int64) if current is None else current.copy()
            self._written[name] = column
        return column

    def fork(self) -> Draft:
        """A draft that starts from this one and leaves it alone."""
        twin = Draft(self.nodes)
        twin.within = self.within
        twin.is_deserted = self.is_deserted
        twin._written = {name: column.copy() for name, column in self._written.items()}
        twin._came = {occupant: dict(rows) for occupant, rows in self._came.items()}
        twin.assumptions = self.assumptions.fork()
        return twin

    def absorb(self, fork: Draft) -> None:
        """Go on from where a fork of this draft arrived."""
        self._written = fork._written
        self._came = fork._came
        self.assumptions = fork.assumptions
