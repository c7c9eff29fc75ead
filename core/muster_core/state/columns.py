"""Columns: one value per node row as NumPy arrays. Resources, labels, taints and attributes of nodes.

A query over all nodes is one pass over a column instead of a loop over nodes. Rows are reused after a node is
removed; a row without a node holds zeros. Each distinct label value has a small integer code, -1 if the node does not
have the label. `nodes` writes the columns, plans only read them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from muster_core.model.errors import DuplicateSubject, UnknownSubject
from muster_core.model.ids import NodeId
from muster_core.model.resources import Resources
from muster_core.model.specs import NodeSpec
from muster_core.state import indexes

IntColumn = npt.NDArray[np.int64]
FloatColumn = npt.NDArray[np.float64]
BoolColumn = npt.NDArray[np.bool_]
CodeColumn = npt.NDArray[np.int32]
_FIRST_SIZE = 16
Number = TypeVar("Number", np.int64, np.int32, np.bool_)

#: Maximum number of columns in a cache, and maximum of their total size in bytes.
_MOST_KEPT = 4096
_KEPT_BYTES = 1 << 27


def most_kept(rows: int, each: int) -> int:
    """Returns how many columns with `each` bytes per row a cache may have. Users control the number of keys."""
    return min(_MOST_KEPT, _KEPT_BYTES // max(rows * each, 1))


def room_for(length: int, rows: int) -> int:
    """Returns the next length of a column, doubled until it holds `rows`."""
    length = max(length, _FIRST_SIZE)
    while length < rows:
        length *= 2
    return length


def extended(column: npt.NDArray[Number], row: int, filler: int) -> npt.NDArray[Number]:
    """Returns the column, or a longer one that has the row. New rows have the value `filler`."""
    if row < len(column):
        return column
    longer = np.full(room_for(len(column), row + 1), filler, dtype=column.dtype)
    longer[: len(column)] = column
    return longer


class Rows:
    """Assigns a row to each node. Free rows are reused, the one freed last first."""

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
        """Length of every column: the largest number of rows ever in use."""
        return len(self._ids)

    def add(self, node: NodeId) -> int:
        """Assigns a row to the node. Raises DuplicateSubject if it has one."""
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
        """Frees the row of the node. Raises UnknownSubject."""
        row = self.row(node)
        del self._rows[node]
        self._ids[row] = None
        self._free.append(row)
        self._ranks = self._order = None
        return row

    def row(self, node: NodeId) -> int:
        """Returns the row of the node. Raises UnknownSubject."""
        row = self._rows.get(node)
        if row is None:
            raise UnknownSubject("node", node)
        return row

    def find(self, nodes: Iterable[NodeId]) -> list[int] | None:
        """Returns the rows of these nodes, in their order. None = a node is unknown."""
        known = self._rows
        try:
            return [known[node] for node in nodes]
        except KeyError:
            return None

    def at(self, row: int) -> NodeId:
        """Returns the node of the row. Raises UnknownSubject for a free row."""
        node = self._ids[row]
        if node is None:
            raise UnknownSubject("node row", str(row))
        return node

    def ranks(self) -> IntColumn:
        """Rank of each row in the order of node IDs. It decides every tie, so that results are deterministic."""
        if self._ranks is None:
            ranks = np.full(self.size, self.size, dtype=np.int64)
            ranks[[self._rows[node] for node in sorted(self._rows)]] = np.arange(len(self._rows))
            self._ranks = ranks
        return self._ranks

    def order(self) -> tuple[IntColumn, IntColumn]:
        """Rows sorted by node ID, free rows last; and for each row its position in that order."""
        if self._order is None:
            rows = np.argsort(self.ranks(), kind="stable")
            positions = np.empty_like(rows)
            positions[rows] = np.arange(len(rows))
            self._order = rows, positions
        return self._order


class Flags:
    """One bool per row."""

    def __init__(self) -> None:
        self._values: BoolColumn = np.zeros(_FIRST_SIZE, dtype=np.bool_)

    def set(self, row: int, *, value: bool) -> None:
        """Sets the value of one row."""
        self._values = extended(self._values, row, filler=False)
        self._values[row] = value

    def view(self, size: int) -> BoolColumn:
        """The first `size` rows."""
        return self._values[:size]


class ResourceColumns:
    """One int64 column per resource name.

    A column is created for the first row with an amount of the resource, and removed when all its values are 0.
    Resources that are not in `offered` have no column, because users invent their names.
    """

    def __init__(self, offered: ResourceColumns | None = None) -> None:
        self._columns: dict[str, IntColumn] = {}
        self._length = _FIRST_SIZE
        self._offered = offered
        #: Amounts without a column by row.
        self._unoffered: dict[int, dict[str, int]] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __bool__(self) -> bool:
        """Whether some row may have an amount."""
        return bool(self._columns or self._unoffered)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def reach(self, rows: int) -> None:
        """Extends the columns to at least this number of rows."""
        if rows <= self._length:
            return
        self._length = room_for(self._length, rows)
        self._columns = {name: extended(column, rows - 1, 0) for name, column in self._columns.items()}

    def column(self, name: str, size: int) -> IntColumn | None:
        """The first `size` rows of one resource; None = no row has it."""
        column = self._columns.get(name)
        if column is None and self._unoffered:
            column = self._with_unoffered(name)
        return None if column is None else column[:size]

    def _with_unoffered(self, name: str) -> IntColumn | None:
        amounts = {row: found[name] for row, found in self._unoffered.items() if name in found}
        if not amounts:
            return None
        column = np.zeros(self._length, dtype=np.int64)
        column[list(amounts)] = list(amounts.values())
        return column

    def _column_to_change(self, name: str) -> IntColumn | None:
        """Returns the column of a resource, and creates it if some node offers the resource. None = none does."""
        column = self._columns.get(name)
        if column is None and (self._offered is None or name in self._offered):
            column = self._with_unoffered(name)
            if column is None:
                column = np.zeros(self._length, dtype=np.int64)
            else:
                for row in np.flatnonzero(column).tolist():
                    self._change_unoffered(row, name, -column.item(row))
            self._columns[name] = column
        return column

    def _change_unoffered(self, row: int, name: str, amount: int) -> None:
        amounts = self._unoffered.setdefault(row, {})
        total = amounts.pop(name, 0) + amount
        if total:
            amounts[name] = total
        elif not amounts:
            del self._unoffered[row]

    def change(self, row: int, amounts: Resources, times: int) -> None:
        """Adds `times` the amounts to a row. A negative `times` subtracts."""
        for name, amount in amounts.items():
            column = self._columns.get(name)
            if column is None:
                column = self._column_to_change(name)
            if column is None:
                self._change_unoffered(row, name, times * amount)
            else:
                column[row] = column.item(row) + times * amount

    def change_all(self, rows: IntColumn, amounts: Resources, times: IntColumn) -> None:
        """Like `change`, for several different rows; `times` has one factor per row."""
        for name, amount in amounts.items():
            column = self._column_to_change(name)
            if column is not None:
                column[rows] += times * amount
                continue
            for row, count in zip(rows.tolist(), times.tolist(), strict=True):
                self._change_unoffered(row, name, count * amount)

    def first_below(self, rows: IntColumn, amounts: Resources, times: IntColumn) -> int | None:
        """Returns the position of the first row with less than `times` the amounts. None = every row has enough."""
        positions: list[int] = []
        for name, amount in amounts.items():
            column = self._columns.get(name)
            below = times * amount > (0 if column is None else column[rows])
            if below.any():
                positions.append(int(below.argmax()))
        return min(positions, default=None)

    def holds(self, row: int, amounts: Resources, times: int) -> bool:
        """Whether a row has `times` the amounts."""
        for name, amount in amounts.items():
            column = self._columns.get(name)
            if (0 if column is None else column.item(row)) < times * amount:
                return False
        return True

    def forget_empty(self, names: Iterable[str]) -> None:
        """Removes those of these columns whose values are all 0."""
        for name in names:
            column = self._columns.get(name)
            if column is not None and not column.any():
                del self._columns[name]

    def at(self, row: int) -> Resources:
        """Returns all amounts of one row."""
        amounts = {name: column.item(row) for name, column in self._columns.items()}
        return Resources(amounts | self._unoffered[row] if row in self._unoffered else amounts)

    def clear(self, row: int) -> None:
        """Sets all amounts of a row to 0. Removes columns whose values are all 0 then."""
        self._unoffered.pop(row, None)
        for name, column in list(self._columns.items()):
            if column.item(row):
                column[row] = 0
                if not column.any():
                    del self._columns[name]


_ABSENT = -1
Mark = TypeVar("Mark", bound=Hashable)


class LabelColumn:
    """Values of one label: one code per row."""

    __slots__ = ("_codes", "_counts", "_free", "_values")

    def __init__(self) -> None:
        self._codes: CodeColumn = np.full(0, _ABSENT, dtype=np.int32)
        self._values: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._free: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._values)

    def put(self, row: int, value: str) -> None:
        """Sets the value of a row that has none."""
        code = self._values.get(value)
        if code is None:
            code = self._free.pop() if self._free else len(self._values)
            self._values[value] = code
            self._counts[value] = 0
        self._counts[value] += 1
        self._codes = extended(self._codes, row, _ABSENT)
        self._codes[row] = code

    def drop(self, row: int, value: str) -> None:
        """Removes the value of a row."""
        self._codes[row] = _ABSENT
        self._counts[value] -= 1
        if self._counts[value] == 0:
            del self._counts[value]
            self._free.append(self._values.pop(value))

    def values(self) -> Iterator[str]:
        """The distinct values of all nodes."""
        return iter(self._values)

    def has_any(self, values: Iterable[str], size: int) -> BoolColumn:
        """Rows with one of these values."""
        wanted = [self._values[value] for value in values if value in self._values]
        found = np.zeros(size, dtype=np.bool_)
        if wanted:
            codes = self._codes[:size]
            found[: len(codes)] = codes == wanted[0] if len(wanted) == 1 else np.isin(codes, wanted)
        return found

    def codes(self, size: int) -> CodeColumn:
        """One number per row: equal values have equal numbers, -1 = no value."""
        codes = self._codes[:size]
        if len(codes) == size:
            return codes
        padded = np.full(size, _ABSENT, dtype=np.int32)
        padded[: len(codes)] = codes
        return padded

    def exists(self, size: int) -> BoolColumn:
        """Rows with any value."""
        found = np.zeros(size, dtype=np.bool_)
        codes = self._codes[:size]
        found[: len(codes)] = codes != _ABSENT
        return found


class Labels(Generic[Mark]):
    """The columns of all labels, or of all marks without a value, such as taints."""

    def __init__(self) -> None:
        self._columns: dict[Mark, LabelColumn] = {}

    def __iter__(self) -> Iterator[Mark]:
        return iter(self._columns)

    def __bool__(self) -> bool:
        return bool(self._columns)

    def column(self, key: Mark) -> LabelColumn | None:
        """Returns the column of a label key; None = no node has it."""
        return self._columns.get(key)

    def rows(self, key: Mark, size: int) -> BoolColumn:
        """Rows with this label or mark."""
        column = self._columns.get(key)
        return np.zeros(size, dtype=np.bool_) if column is None else column.exists(size)

    def add(self, row: int, labels: Mapping[Mark, str]) -> None:
        """Sets the labels of a row that has none."""
        for key, value in labels.items():
            column = self._columns.get(key)
            if column is None:
                column = self._columns[key] = LabelColumn()
            column.put(row, value)

    def remove(self, row: int, labels: Mapping[Mark, str]) -> None:
        """Removes the labels of a row."""
        for key, value in labels.items():
            column = self._columns[key]
            column.drop(row, value)
            if not column:
                del self._columns[key]


#: Maximum number of attribute columns. When it is exceeded, all columns are dropped, which removes unused ones.
_MOST_COLUMNS: Final = 256
_HOST_NAMES: Final = frozenset({"si/hostname", "hostname"})


def value_of(spec: NodeSpec, key: str) -> str | None:
    """Returns the node's value of the attribute or label. None = not set."""
    value = spec.attributes.get(key)
    if value is None:
        value = spec.labels.get(key)
    return spec.id if value is None and key in _HOST_NAMES else value


class Attributes:
    """Columns of node attributes, created when a constraint reads them."""

    def __init__(self) -> None:
        self._columns: dict[str, LabelColumn] = {}

    def column(self, key: str, nodes: Iterable[tuple[int, NodeSpec]]) -> LabelColumn:
        """Returns the column of a key. Creates it from all nodes (row, node) if needed."""
        return indexes.cached(self._columns, key, _MOST_COLUMNS, lambda: _column_of(key, nodes))

    def add(self, row: int, spec: NodeSpec) -> None:
        """Adds the node of a row."""
        for key, column in self._columns.items():
            _put(column, key, row, spec)

    def remove(self, row: int, spec: NodeSpec) -> None:
        """Removes the node of a row."""
        for key, column in self._columns.items():
            value = value_of(spec, key)
            if value is not None:
                column.drop(row, value)

    def differ(self, one: NodeSpec, other: NodeSpec) -> bool:
        """Whether two versions of a node differ in an attribute that has a column."""
        return any(value_of(one, key) != value_of(other, key) for key in self._columns)


def _column_of(key: str, nodes: Iterable[tuple[int, NodeSpec]]) -> LabelColumn:
    column = LabelColumn()
    for row, spec in nodes:
        _put(column, key, row, spec)
    return column


def _put(column: LabelColumn, key: str, row: int, spec: NodeSpec) -> None:
    value = value_of(spec, key)
    if value is not None:
        column.put(row, value)


_IndexKey = TypeVar("_IndexKey", bound=Hashable)


class AmountIndex(Generic[_IndexKey]):
    """Keys with an amount and a mark each, some of which are woken. Nothing walks all keys."""

    def __init__(self) -> None:
        self.clear()

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def clear(self) -> None:
        """Removes all keys."""
        self._rows: dict[_IndexKey, int] = {}
        self._keys: list[_IndexKey | None] = []
        self._free: list[int] = []
        self._amounts = ResourceColumns()
        self._marks: IntColumn = np.zeros(_FIRST_SIZE, dtype=np.int64)
        self._used, self._woken = Flags(), Flags()
        #: Row after the last one that was taken.
        self._cursor = 0

    def put(self, key: _IndexKey, amounts: Resources, mark: int = 0) -> None:
        """Adds a key, or has it sleep. `mark`: 0 = none."""
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self._free.pop() if self._free else len(self._keys)
            if row == len(self._keys):
                self._keys.append(key)
            self._keys[row] = key
            self._amounts.reach(row + 1)
            self._amounts.change(row, amounts, 1)
            self._marks = extended(self._marks, row, 0)
            self._marks[row] = mark
            self._used.set(row, value=True)
        self._woken.set(row, value=False)

    def drop(self, key: _IndexKey) -> None:
        """Removes a key if it exists."""
        row = self._rows.pop(key, None)
        if row is None:
            return
        self._keys[row] = None
        self._free.append(row)
        self._used.set(row, value=False)
        self._woken.set(row, value=False)
        self._amounts.clear(row)

    def wake(self, most: Callable[[str], int | None], marks: Sequence[int] | None = None) -> None:
        """Wakes the keys whose amount of each resource is at most `most`; None = no bound.

        `marks`: only keys with one of these marks, and those without.
        """
        size = len(self._keys)
        found = self._used.view(size).copy()
        if marks is not None:
            found &= np.isin(self._marks[:size], (0, *marks))
        for name in self._amounts:
            column, bound = self._amounts.column(name, size), most(name)
            if column is not None and bound is not None:
                found &= column <= max(bound, 0)
        self._woken.view(size)[found] = True

    def set_woken(self, key: _IndexKey, *, value: bool) -> None:
        """Wakes one key if it exists, or has it sleep."""
        if key in self._rows:
            self._woken.set(self._rows[key], value=value)

    def is_woken(self, key: _IndexKey) -> bool:
        """Whether the key is woken."""
        row = self._rows.get(key)
        return row is not None and self._woken.view(row + 1).item(row)

    @property
    def is_any_woken(self) -> bool:
        """Whether some key is woken."""
        return bool(self._woken.view(len(self._keys)).any())

    def take(self, count: int) -> list[_IndexKey]:
        """Returns up to `count` woken keys, and has them sleep. A key that is woken again follows all others."""
        rows = np.flatnonzero(self._woken.view(len(self._keys)))
        rows = np.concatenate((rows[rows >= self._cursor], rows[rows < self._cursor]))[:count]
        self._woken.view(len(self._keys))[rows] = False
        if len(rows):
            self._cursor = int(rows[-1]) + 1
        return [key for row in rows.tolist() if (key := self._keys[row]) is not None]
