"""Attributes of nodes as columns, for those keys that some placement constraint names (seed 001).

A column is made when it is first asked for and kept in line from then on. A
key names an attribute as it was sent, or else a label. `si/hostname` and
`hostname` are the node's id where it was not sent.
Written by world/nodes.py; read by plan/feasibility/placement.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster_core.model.specs import NodeSpec
from muster_core.world.labels import LabelColumn

#: Keys that have a column; one more, and those that nobody asks for any more go with the others.
_MOST_COLUMNS: Final = 256
_HOST_NAMES: Final = frozenset({"si/hostname", "hostname"})


def value_of(spec: NodeSpec, key: str) -> str | None:
    """The node's value of the attribute; None = it has none."""
    value = spec.attributes.get(key)
    if value is None:
        value = spec.labels.get(key)
    return spec.id if value is None and key in _HOST_NAMES else value


class Attributes:
    """Columns by key."""

    __slots__ = ("_columns",)

    def __init__(self) -> None:
        self._columns: dict[str, LabelColumn] = {}

    def column(self, key: str, nodes: Iterable[tuple[int, NodeSpec]]) -> LabelColumn:
        """The column of a key; made from all nodes, by row, where it is not kept yet."""
        known = self._columns.get(key)
        if known is not None:
            return known
        if len(self._columns) >= _MOST_COLUMNS:
            self._columns.clear()
        column = self._columns[key] = LabelColumn()
        for row, spec in nodes:
            _put(column, key, row, spec)
        return column

    def add(self, row: int, spec: NodeSpec) -> None:
        """A row has a node now; it had none."""
        for key, column in self._columns.items():
            _put(column, key, row, spec)

    def remove(self, row: int, spec: NodeSpec) -> None:
        """The row's node goes."""
        for key, column in self._columns.items():
            value = value_of(spec, key)
            if value is not None:
                column.drop(row, value)

    def differ(self, one: NodeSpec, other: NodeSpec) -> bool:
        """Whether two of the same node differ in something that has a column."""
        return any(value_of(one, key) != value_of(other, key) for key in self._columns)


def _put(column: LabelColumn, key: str, row: int, spec: NodeSpec) -> None:
    value = value_of(spec, key)
    if value is not None:
        column.put(row, value)
