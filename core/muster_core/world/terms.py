"""Terms of the allocations that are there, and where these are; found by the labels of a pod that they may mean.

Of thousands of terms a pod is meant by few: those whose selector asks for one
of its labels' values first, and those that ask for none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from muster_core.model.company import PodTerm
from muster_core.model.placement import TargetOperator

Key = TypeVar("Key")
#: Row → how many.
Counted = dict[int, int]
_Pair = tuple[str, str]
#: Where the terms are that ask for no value.
_ANY: Final[_Pair] = ("", "")


class Terms(Generic[Key]):
    """Allocations by a term of theirs, or what else holds one (`term_of`)."""

    __slots__ = ("_by_pair", "_rows", "_term_of")

    def __init__(self, term_of: Callable[[Key], PodTerm]) -> None:
        self._term_of = term_of
        self._rows: dict[Key, Counted] = {}
        self._by_pair: dict[_Pair, dict[Key, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def change(self, key: Key, row: int, count: int) -> None:
        """So many more on the row; less than 0 = less."""
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = {}
            for pair in _pairs(self._term_of(key)):
                self._by_pair.setdefault(pair, {})[key] = None
        rows[row] = rows.get(row, 0) + count
        if not rows[row]:
            del rows[row]
        if not rows:
            del self._rows[key]
            for pair in _pairs(self._term_of(key)):
                del self._by_pair[pair][key]
                if not self._by_pair[pair]:
                    del self._by_pair[pair]

    def that_may_mean(self, tags: Mapping[str, str]) -> Iterator[tuple[Key, Counted]]:
        """All that mean a pod with these tags, and a few others."""
        for pair in (_ANY, *tags.items()):
            for key in self._by_pair.get(pair, ()):
                yield key, self._rows[key]


def _pairs(term: PodTerm) -> tuple[_Pair, ...]:
    """A pod that the term means has one of these."""
    for target in term.selector or ():
        if target.operator is TargetOperator.IN:
            return tuple(dict.fromkeys((target.key, value) for value in target.values))
    return (_ANY,)
