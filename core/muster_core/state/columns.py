"""Columns: one value per node row as numpy arrays. Labels, taints and attributes of nodes.

A question about all nodes is one pass over a column instead of a loop over nodes. Rows are reused after a node is
removed; a row without a node holds zeros. Each distinct label value has a small integer code, -1 if the node does not
have the label. `nodes` writes the columns, plans only read them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from muster_core.model.errors import DuplicateSubject, UnknownSubject
from muster_core.model.ids import NodeId
from muster_core.model.resources import Resources
from muster_core.model.specs import NodeSpec

IntColumn = npt.NDArray[np.int64]
FloatColumn = npt.NDArray[np.float64]
BoolColumn = npt.NDArray[np.bool_]
CodeColumn = npt.NDArray[np.int32]
_FIRST_SIZE = 16

#: Answers about all rows that a memory keeps: so many, or fewer where they would take more bytes than this together.
_MOST_KEPT = 4096
_KEPT_BYTES = 1 << 27


def most_kept(rows: int, each: int) -> int:
    """How many answers of `each` bytes a row a memory keeps: what pods ask for is up to their users."""
    return min(_MOST_KEPT, _KEPT_BYTES // max(rows * each, 1))


def room_for(length: int, rows: int) -> int:
    """The length a column of `length` gets so that it holds `rows`: doubled until it does."""
    length = max(length, _FIRST_SIZE)
    while length < rows:
        length *= 2
    return length


class Rows:
    """Which node has which row. Free rows are used again, the lowest last freed first."""

    __slots__ = ("_free", "_ids", "_order", "_ranks", "_rows")

    def __init__(self) -> None:
        self._rows: dict[NodeId, int] = {}
        self._ids: list[NodeId | None] = []
        self._free: list[int] = []
        self._ranks: IntColumn | None = None
        self._order: tuple[IntColumn, IntColumn] | None = None

    def __contains__(self, node: object) -> bool:
        return node in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._rows)

    @property
    def size(self) -> int:
        """Length of every column: the number of rows ever in use at once."""
        return len(self._ids)

    def add(self, node: NodeId) -> int:
        """Give the node a row. Raises DuplicateSubject if it has one."""
        if node in self._rows:
            raise DuplicateSubject("node", node)
        if self._free:
            row = self._free.pop()
            self._ids[row] = node
        else:
            row = len(self._ids)
            self._ids.append(node)
        self._rows[node] = row
        self._ranks = self._order = None
        return row

    def remove(self, node: NodeId) -> int:
        """Free the node's row. Raises UnknownSubject."""
        row = self.row(node)
        del self._rows[node]
        self._ids[row] = None
        self._free.append(row)
        self._ranks = self._order = None
        return row

    def row(self, node: NodeId) -> int:
        """The node's row. Raises UnknownSubject."""
        row = self._rows.get(node)
        if row is None:
            raise UnknownSubject("node", node)
        return row

    def find(self, nodes: Iterable[NodeId]) -> list[int] | None:
        """The rows of these nodes, in their order; None where one of them is not there."""
        known = self._rows
        try:
            return [known[node] for node in nodes]
        except KeyError:
            return None

    def at(self, row: int) -> NodeId:
        """The node of that row. Raises UnknownSubject for a free row."""
        node = self._ids[row]
        if node is None:
            raise UnknownSubject("node row", str(row))
        return node

    def ranks(self) -> IntColumn:
        """Each row's place when nodes are sorted by id; the last word in every tie (style 18)."""
        if self._ranks is None:
            ranks = np.full(self.size, self.size, dtype=np.int64)
            ranks[[self._rows[node] for node in sorted(self._rows)]] = np.arange(len(self._rows))
            self._ranks = ranks
        return self._ranks

    def order(self) -> tuple[IntColumn, IntColumn]:
        """The rows sorted by their nodes' ids, free ones last, and for each row its position there."""
        if self._order is None:
            rows = np.argsort(self.ranks(), kind="stable")
            positions = np.empty_like(rows)
            positions[rows] = np.arange(len(rows))
            self._order = rows, positions
        return self._order


class Flags:
    """One truth per row."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: BoolColumn = np.zeros(_FIRST_SIZE, dtype=np.bool_)

    def set(self, row: int, *, value: bool) -> None:
        """Write one row."""
        if row >= len(self._values):
            values = np.zeros(room_for(len(self._values), row + 1), dtype=np.bool_)
            values[: len(self._values)] = self._values
            self._values = values
        self._values[row] = value

    def view(self, size: int) -> BoolColumn:
        """The first `size` rows."""
        return self._values[:size]


class Amounts:
    """One int64 column per resource name (semantics 23).

    A column comes with the first row that has a nonzero amount of its name and
    goes when `clear` finds none left, so an ask can never make one.
    """

    __slots__ = ("_columns", "_length")

    def __init__(self) -> None:
        self._columns: dict[str, IntColumn] = {}
        self._length = _FIRST_SIZE

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def reach(self, rows: int) -> None:
        """Have room for that many rows."""
        if rows <= self._length:
            return
        self._length = room_for(self._length, rows)
        for name, old in self._columns.items():
            column = np.zeros(self._length, dtype=np.int64)
            column[: len(old)] = old
            self._columns[name] = column

    def column(self, name: str, size: int) -> IntColumn | None:
        """The first `size` rows of one resource; None if no row has it."""
        column = self._columns.get(name)
        return None if column is None else column[:size]

    def change(self, row: int, amounts: Resources, times: int) -> None:
        """Add `times` the amounts to a row (negative `times` takes away)."""
        for name, amount in amounts.items():
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = np.zeros(self._length, dtype=np.int64)
            column[row] = column.item(row) + times * amount

    def change_all(self, rows: IntColumn, amounts: Resources, times: IntColumn) -> None:
        """The same of rows that are all different, each as often as `times` says at its place."""
        for name, amount in amounts.items():
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = np.zeros(self._length, dtype=np.int64)
            column[rows] += times * amount

    def first_below(self, rows: IntColumn, amounts: Resources, times: IntColumn) -> int | None:
        """The position of the first of the rows that has less than so many times the amounts; None = none has."""
        positions: list[int] = []
        for name, amount in amounts.items():
            column = self._columns.get(name)
            below = times * amount > (0 if column is None else column[rows])
            if below.any():
                positions.append(int(below.argmax()))
        return min(positions, default=None)

    def forget_empty(self, names: Iterable[str]) -> None:
        """Drop those of the columns that have nothing but zeros."""
        for name in names:
            column = self._columns.get(name)
            if column is not None and not column.any():
                del self._columns[name]

    def at(self, row: int) -> Resources:
        """All amounts of one row."""
        return Resources({name: column.item(row) for name, column in self._columns.items()})

    def clear(self, row: int) -> None:
        """Make every amount of a row 0, and forget what then has nothing but zeros."""
        for name, column in list(self._columns.items()):
            if column.item(row):
                column[row] = 0
                if not column.any():
                    del self._columns[name]


_ABSENT = -1
Mark = TypeVar("Mark", bound=Hashable)


class LabelColumn:
    """One label key: per row the code of its value."""

    __slots__ = ("_codes", "_counts", "_free", "_values")

    def __init__(self) -> None:
        self._codes: CodeColumn = np.full(0, _ABSENT, dtype=np.int32)
        self._values: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._free: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._values)

    def put(self, row: int, value: str) -> None:
        """The row has this value now; it had none."""
        code = self._values.get(value)
        if code is None:
            code = self._free.pop() if self._free else len(self._values)
            self._values[value] = code
            self._counts[value] = 0
        self._counts[value] += 1
        if row >= len(self._codes):
            codes = np.full(room_for(len(self._codes), row + 1), _ABSENT, dtype=np.int32)
            codes[: len(self._codes)] = self._codes
            self._codes = codes
        self._codes[row] = code

    def drop(self, row: int, value: str) -> None:
        """The row does not have this value any more."""
        self._codes[row] = _ABSENT
        self._counts[value] -= 1
        if self._counts[value] == 0:
            del self._counts[value]
            self._free.append(self._values.pop(value))

    def values(self) -> Iterator[str]:
        """The distinct values that nodes have."""
        return iter(self._values)

    def has_any(self, values: Iterable[str], size: int) -> BoolColumn:
        """Rows whose value is one of these."""
        wanted = [self._values[value] for value in values if value in self._values]
        found = np.zeros(size, dtype=np.bool_)
        if wanted:
            codes = self._codes[:size]
            found[: len(codes)] = codes == wanted[0] if len(wanted) == 1 else np.isin(codes, wanted)
        return found

    def codes(self, size: int) -> CodeColumn:
        """A number per row: equal values have equal numbers, -1 = it has no such label."""
        codes = self._codes[:size]
        if len(codes) == size:
            return codes
        padded = np.full(size, _ABSENT, dtype=np.int32)
        padded[: len(codes)] = codes
        return padded

    def exists(self, size: int) -> BoolColumn:
        """Rows that have the label, whatever its value."""
        found = np.zeros(size, dtype=np.bool_)
        codes = self._codes[:size]
        found[: len(codes)] = codes != _ABSENT
        return found


class Labels:
    """All label keys that nodes have."""

    __slots__ = ("_columns",)

    def __init__(self) -> None:
        self._columns: dict[str, LabelColumn] = {}

    def column(self, key: str) -> LabelColumn | None:
        """The column of a key; None if no node has it."""
        return self._columns.get(key)

    def add(self, row: int, labels: Mapping[str, str]) -> None:
        """A row gets its labels; it had none."""
        for key, value in labels.items():
            column = self._columns.get(key)
            if column is None:
                column = self._columns[key] = LabelColumn()
            column.put(row, value)

    def remove(self, row: int, labels: Mapping[str, str]) -> None:
        """A row loses the labels that `add` gave it."""
        for key, value in labels.items():
            column = self._columns[key]
            column.drop(row, value)
            if not column:
                del self._columns[key]


class Marks(Generic[Mark]):
    """Which rows carry which of things that are there or not: taints, declared features."""

    __slots__ = ("_counts", "_flags")

    def __init__(self) -> None:
        self._flags: dict[Mark, Flags] = {}
        self._counts: dict[Mark, int] = {}

    def __iter__(self) -> Iterator[Mark]:
        return iter(self._flags)

    def __bool__(self) -> bool:
        return bool(self._flags)

    def rows(self, mark: Mark, size: int) -> BoolColumn:
        """Rows with this one; none where no row has it."""
        found = np.zeros(size, dtype=np.bool_)
        if mark in self._flags:
            flags = self._flags[mark].view(size)
            found[: len(flags)] = flags
        return found

    def add(self, row: int, marks: Iterable[Mark]) -> None:
        """A row gets its marks; it had none."""
        for mark in set(marks):
            flags = self._flags.get(mark)
            if flags is None:
                flags = self._flags[mark] = Flags()
                self._counts[mark] = 0
            flags.set(row, value=True)
            self._counts[mark] += 1

    def remove(self, row: int, marks: Iterable[Mark]) -> None:
        """A row loses the marks that `add` gave it."""
        for mark in set(marks):
            self._flags[mark].set(row, value=False)
            self._counts[mark] -= 1
            if self._counts[mark] == 0:
                del self._flags[mark], self._counts[mark]


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
