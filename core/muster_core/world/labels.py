"""Labels, taints and features of all nodes as columns, so that a selector is a comparison of integers.

Every label key is a column of codes: each distinct value has a small number,
-1 says that the node lacks the label. Values that no node has any more give
their number back, so nodes that come and go for months leave nothing behind.
Written by world/nodes.py; read by plan/feasibility/.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import numpy as np

from muster_core.world.columns import BoolColumn, CodeColumn, Flags, room_for

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
        """A number per row: equal values have equal numbers, -1 = it lacks the label."""
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
        """Rows with this one; none where nobody has it."""
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
