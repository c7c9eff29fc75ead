"""Where allocations with which tags are: what affinity to other allocations counts (seed 001).

Only those tags are kept that some selector reads, in every allocation's
`projection` (selector_labels.py); allocations with equal projections are counted
together, per node row. Off until the first constraint comes, so that a cluster
without any pays nothing (semantics 21).

Written by engine/ledger.py and engine/affinity.py; read by plan/.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from muster_core.model import limits
from muster_core.model.errors import UnknownSubject
from muster_core.model.placement import Tags, Target, TargetOperator, matches
from muster_core.world.selector_labels import SelectorLabels

#: Pairs of key and value whose coming is told apart from that of others.
_MOST_WANTED: Final = 65_536


class TagCounts:
    """How many allocations of each projection are on each row."""

    __slots__ = ("_counts", "_having", "_most_wanted", "_wanted_keys", "_wanted_pairs", "labels", "wants_any")

    def __init__(self) -> None:
        self.labels = SelectorLabels()
        #: Any allocation that comes may be what an ask waits for.
        self.wants_any = False
        self._wanted_pairs: dict[tuple[str, str], None] = {}
        self._wanted_keys: dict[str, None] = {}
        #: More pairs than this are looked through for those that nobody waits for any more.
        self._most_wanted = limits.IDLE_SELECTOR_VALUES
        self._counts: dict[Tags, dict[int, int]] = {}
        #: Projections by one pair of theirs.
        self._having: dict[str, dict[str, dict[Tags, None]]] = {}

    def project(self, tags: Mapping[str, str]) -> Tags:
        """What of these tags is kept."""
        return self.labels.project(tags)

    @property
    def is_on(self) -> bool:
        """Whether anything is counted."""
        return self.labels.is_on

    def add(self, row: int, projection: Tags) -> None:
        """One more of these on the row."""
        rows = self._counts.get(projection)
        if rows is None:
            rows = self._counts[projection] = {}
            for key, value in projection:
                self._having.setdefault(key, {}).setdefault(value, {})[projection] = None
        rows[row] = rows.get(row, 0) + 1

    def remove(self, row: int, projection: Tags) -> None:
        """One less. Raises UnknownSubject where none was."""
        rows = self._counts.get(projection, {})
        if row not in rows:
            raise UnknownSubject("tagged allocation on row", str(row))
        rows[row] -= 1
        if rows[row] == 0:
            del rows[row]
        if not rows:
            del self._counts[projection]
            for key, value in projection:
                self._forget(key, value, projection)

    def counts(self) -> dict[Tags, dict[int, int]]:
        """Everything, for those who count anew."""
        return {projection: dict(rows) for projection, rows in self._counts.items()}

    def matching(self, targets: tuple[Target, ...]) -> Iterator[Mapping[int, int]]:
        """Rows and how many are there, for each projection that meets the targets."""
        for projection in self._candidates(targets):
            if matches(targets, dict(projection)):
                yield self._counts[projection]

    def want(self, targets: tuple[Target, ...]) -> None:
        """Some ask may wait until some of these are there."""
        for target in targets:
            if target.operator is TargetOperator.IN and len(self._wanted_pairs) < _MOST_WANTED:
                self._wanted_pairs.update(dict.fromkeys((target.key, value) for value in target.values))
                return
            if target.operator is TargetOperator.EXIST:
                self._wanted_keys[target.key] = None
                return
        self.wants_any = True

    def wants_many(self) -> bool:
        """Whether `want_only` is worth looking at all asks."""
        return self.wants_any or len(self._wanted_pairs) > self._most_wanted

    def want_only(self, wanted: Iterable[tuple[Target, ...]]) -> None:
        """Only these may be what asks wait for."""
        self.wants_any = False
        self._wanted_pairs.clear()
        self._wanted_keys.clear()
        for targets in wanted:
            self.want(targets)
        self._most_wanted = 2 * len(self._wanted_pairs) + limits.IDLE_SELECTOR_VALUES

    def is_wanted(self, projection: Tags) -> bool:
        """Whether one more of these may be what an ask waits for."""
        return self.wants_any or any(pair in self._wanted_pairs or pair[0] in self._wanted_keys for pair in projection)

    def _candidates(self, targets: tuple[Target, ...]) -> Iterable[Tags]:
        """Few projections that hold all that meet the targets: by the first target that names values or a key."""
        for target in targets:
            having = self._having.get(target.key, {})
            if target.operator is TargetOperator.IN:
                return [found for value in dict.fromkeys(target.values) for found in having.get(value, ())]
            if target.operator is TargetOperator.EXIST:
                return [found for projections in having.values() for found in projections]
        return self._counts

    def _forget(self, key: str, value: str, projection: Tags) -> None:
        values = self._having[key]
        del values[value][projection]
        if not values[value]:
            del values[value]
        if not values:
            del self._having[key]
