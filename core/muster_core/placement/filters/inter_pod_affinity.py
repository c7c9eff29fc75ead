"""Filter InterPodAffinity, and counts per topology domain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np

from muster_core.model.constraints import PodTerm, Target, matches
from muster_core.placement.snapshot import RequestShape, Snapshot
from muster_core.state.columns import BoolColumn, IntColumn, LabelColumn
from muster_core.state.node_pods import NodePods
from muster_core.state.nodes import Cells, Domains, NodeTable

#: Row → how many: a part of what is counted.
Part = Mapping[int, int]

#: Topology keys that are remembered between two changes of facts, and combinations of them: pods name what they like.
MOST_KEYS: Final = 64


def domains(nodes: NodeTable, key: str) -> Domains:
    """The nodes by a label, until a fact of theirs changes."""
    known = nodes.domains.get(key)
    if known is None:
        if len(nodes.domains) >= MOST_KEYS:
            nodes.domains.clear()
        column = nodes.labels.column(key) or LabelColumn()
        known = nodes.domains[key] = Domains(column.codes(nodes.rows.size))
    return known


def cells(nodes: NodeTable, keys: Iterable[str], *, by_row: bool = False) -> Cells:
    """The nodes by several labels at once, until a fact of theirs changes; `by_row`: and each for itself."""
    wanted = tuple(sorted(set(keys)))
    known = nodes.cells.get((by_row, wanted))
    if known is None:
        if len(nodes.cells) >= MOST_KEYS:
            nodes.cells.clear()
        parts = {key: domains(nodes, key) for key in wanted}
        known = nodes.cells[by_row, wanted] = Cells(parts, nodes.rows.size, by_row=by_row)
    return known


class DomainCounts:
    """Amounts by domain; what lies on nodes that are in none counts for nothing."""

    __slots__ = ("_amounts", "_domains")

    def __init__(self, where: Domains) -> None:
        self._domains = where
        #: By number of the domain; the last, of nodes in none (-1), stays 0.
        self._amounts = np.zeros(where.count + 1, dtype=np.int64)

    def count(self, parts: Iterable[Part], weight: int = 1) -> None:
        """So many times the parts."""
        found = list(parts)
        size = sum(map(len, found))
        rows = np.fromiter(chain.from_iterable(found), dtype=np.int64, count=size)
        amounts = np.fromiter(chain.from_iterable(part.values() for part in found), dtype=np.int64, count=size)
        np.add.at(self._amounts, self._domains.codes[rows], amounts * weight)
        self._amounts[-1] = 0

    def total(self) -> int:
        """In all domains together."""
        return int(self._amounts.sum())

    def add(self, row: int, weight: int = 1) -> int:
        """So much more on a row. Returns what was in its domain before; -1 = it is in none."""
        code = self._domains.codes.item(row)
        if code < 0:
            return -1
        before = self._amounts.item(code)
        self._amounts[code] = before + weight
        return before

    def beside(self, row: int) -> IntColumn:
        """The rows of its domain, which is one."""
        return self._domains.members(self._domains.codes.item(row))

    def at(self, rows: IntColumn | None = None) -> IntColumn:
        """What is in the domain of each of the rows, 0 where it is in none; None = all rows."""
        return self._amounts[self._codes(rows)]

    def of(self, codes: IntColumn) -> IntColumn:
        """What is in domains, by their numbers."""
        return self._amounts[codes]

    def is_in_one(self, rows: IntColumn | None = None) -> BoolColumn:
        """Which of the rows are in a domain."""
        return self._codes(rows) >= 0

    def _codes(self, rows: IntColumn | None) -> IntColumn:
        return self._domains.codes if rows is None else self._domains.codes[rows]


AFFINITY_NOT_MET: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY_NOT_MET: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY_NOT_MET: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


class InterPodAffinityFilter:
    """All three, as one shape meets them. `_near`: pods that match all terms, per topology key, `_found` of them in a
    domain; `_apart`: pods that match a term, per key of one; `_unwanted`: pods with a term that means the shape.
    """

    __slots__ = ("_apart", "_found", "_is_found", "_near", "_repelled", "_size", "_unwanted")

    def __init__(self, snapshot: Snapshot, shape: RequestShape, unwanted: dict[str, DomainCounts]) -> None:
        inter_pod, tags = shape.pod_on_node.facts.inter_pod, dict(shape.pod_on_node.tags)
        pods_on_nodes = snapshot.nodes.pods_on_nodes
        self._size = snapshot.size
        self._unwanted = list(unwanted.values())
        joint = _joint(pods_on_nodes, inter_pod.near)
        self._near = _tallies(snapshot, inter_pod.near)
        for tally in self._near.values():
            tally.count(snapshot.tagged(joint) if joint is not None else ())
        self._found = sum(tally.total() for tally in self._near.values())
        #: One of the shape is what its own affinity asks for; keys of those of its terms against itself.
        self._is_found = bool(inter_pod.near) and joint is not None and matches(joint, tags)
        self._apart = _tallies(snapshot, inter_pod.apart)
        for term in inter_pod.apart:
            targets = pods_on_nodes.targets(term)
            self._apart[term.topology].count(snapshot.tagged(targets) if targets is not None else ())
        against = dict.fromkeys(term.topology for term in inter_pod.apart if selects_itself(pods_on_nodes, term, tags))
        self._repelled = [self._apart[key] for key in against]

    def allows(self) -> BoolColumn:
        """Rows where no rule is broken."""
        return self._is_near() & self._is_apart() & self._is_wanted()

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """The same of some rows."""
        return self._is_near(rows) & self._is_apart(rows) & self._is_wanted(rows)

    def refusals(self) -> Sequence[tuple[str, BoolColumn]]:
        """Each row under the first rule that it breaks."""
        near, apart = self._is_near(), self._is_apart()
        return (
            (AFFINITY_NOT_MET, ~near),
            (ANTI_AFFINITY_NOT_MET, near & ~apart),
            (EXISTING_ANTI_AFFINITY_NOT_MET, near & apart & ~self._is_wanted()),
        )

    def add(self, row: int) -> IntColumn | None:
        """One more of the shape: where it is the first in its domain, answers there are others.

        That it keeps others of the shape away is counted once: as what these want, not as what it wants, too.
        """
        changed = [tally.beside(row) for tally in self._repelled if tally.add(row) == 0]
        if self._is_found:
            began = not self._found
            for tally in self._near.values():
                before = tally.add(row)
                self._found += before >= 0
                if before == 0:
                    changed.append(tally.beside(row))
            if began and self._found:
                return np.arange(self._size)
        return np.concatenate(changed) if changed else None

    def _is_near(self, rows: IntColumn | None = None) -> BoolColumn:
        passed = np.ones(self._size if rows is None else len(rows), dtype=np.bool_)
        begins = self._is_found and not self._found
        for tally in self._near.values():
            passed &= tally.is_in_one(rows) if begins else tally.at(rows) > 0
        return passed

    def _is_apart(self, rows: IntColumn | None = None) -> BoolColumn:
        passed = np.ones(self._size if rows is None else len(rows), dtype=np.bool_)
        for tally in self._apart.values():
            passed &= tally.at(rows) <= 0
        return passed

    def _is_wanted(self, rows: IntColumn | None = None) -> BoolColumn:
        passed = np.ones(self._size if rows is None else len(rows), dtype=np.bool_)
        for tally in self._unwanted:
            passed &= tally.at(rows) <= 0
        return passed


def affinity_filter(snapshot: Snapshot, shape: RequestShape) -> InterPodAffinityFilter | None:
    """Of a shape with required terms, or one that terms of others mean."""
    unwanted = _unwanting(snapshot, shape)
    inter_pod = shape.pod_on_node.facts.inter_pod
    if not (inter_pod.near or inter_pod.apart or unwanted):
        return None
    return InterPodAffinityFilter(snapshot, shape, unwanted)


def _unwanting(snapshot: Snapshot, shape: RequestShape) -> dict[str, DomainCounts]:
    """Per topology key the allocations that a shape has to stay away from, by their own terms."""
    pods_on_nodes, tags = snapshot.nodes.pods_on_nodes, dict(shape.pod_on_node.tags)
    parts: dict[str, list[Part]] = {}
    for term, rows in _terms_against(snapshot, tags):
        if pods_on_nodes.means(term, tags):
            parts.setdefault(term.topology, []).append(rows)
    found = {key: DomainCounts(domains(snapshot.nodes, key)) for key in parts}
    for key, tally in found.items():
        tally.count(parts[key])
    return found


def _terms_against(snapshot: Snapshot, tags: Mapping[str, str]) -> Iterable[tuple[PodTerm, Part]]:
    """Terms of those that are there, or are supposed to be, which may mean a pod with these tags."""
    if not snapshot.is_deserted:
        yield from snapshot.nodes.pods_on_nodes.apart.that_may_mean(tags)
    for pod_on_node, rows in snapshot.came():
        for term in pod_on_node.facts.inter_pod.apart:
            yield term, rows


def _tallies(snapshot: Snapshot, terms: Iterable[PodTerm]) -> dict[str, DomainCounts]:
    return {key: DomainCounts(domains(snapshot.nodes, key)) for key in dict.fromkeys(term.topology for term in terms)}


def selects_itself(pods_on_nodes: NodePods, term: PodTerm, tags: Mapping[str, str]) -> bool:
    """Whether a pod with these tags means its like by a term of its own, where it is to be placed."""
    targets = pods_on_nodes.targets(term)
    return targets is not None and matches(targets, tags)


def _joint(pods_on_nodes: NodePods, terms: Iterable[PodTerm]) -> tuple[Target, ...] | None:
    """The tags of pods that all of the terms mean; None = these mean none."""
    joint: list[Target] = []
    for term in terms:
        targets = pods_on_nodes.targets(term)
        if targets is None:
            return None
        joint += targets
    return tuple(dict.fromkeys(joint))
