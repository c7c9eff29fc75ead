"""InterPodAffinity: pods that have to be near others, or apart from them.

In kube-scheduler's order: the pod's own required affinity, its own required
anti-affinity, then that of the pods that are there (symmetry). A topology key
that a node lacks: an affinity refuses the node, no anti-affinity is about it.

Affinity looks for pods that match *all* of its terms. While there is none on
any node with one of the topology keys, a pod that matches all its terms itself
may begin, on nodes with all the keys (else a series of such pods would never).
Source: Kubernetes 1.36, "Inter-pod affinity and anti-affinity".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from muster_core.model.company import PodTerm
from muster_core.model.placement import Target, matches
from muster_core.plan.draft import Draft
from muster_core.plan.feasibility.topology import Part, Tally, domains
from muster_core.plan.shape import Shape
from muster_core.world.columns import BoolColumn, IntColumn
from muster_core.world.occupants import Occupants

NOT_NEAR: Final = "node(s) didn't match pod affinity rules"
NOT_APART: Final = "node(s) didn't match pod anti-affinity rules"
UNWANTED: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


class InterPodAffinity:
    """All three, as one shape meets them. `_near`: pods that match all terms, per topology key, `_found` of them in a
    domain; `_apart`: pods that match a term, per key of one; `_unwanted`: pods with a term that means the shape.
    """

    __slots__ = ("_apart", "_found", "_is_found", "_near", "_repelled", "_size", "_unwanted")

    def __init__(self, draft: Draft, shape: Shape, unwanted: dict[str, Tally]) -> None:
        company, tags = shape.occupant.facts.company, dict(shape.occupant.tags)
        occupants = draft.nodes.occupants
        self._size = draft.size
        self._unwanted = list(unwanted.values())
        joint = _joint(occupants, company.near)
        self._near = _tallies(draft, company.near)
        for tally in self._near.values():
            tally.count(draft.tagged(joint) if joint is not None else ())
        self._found = sum(tally.total() for tally in self._near.values())
        #: One of the shape is what its own affinity asks for; keys of those of its terms against itself.
        self._is_found = bool(company.near) and joint is not None and matches(joint, tags)
        self._apart = _tallies(draft, company.apart)
        for term in company.apart:
            targets = occupants.targets(term)
            self._apart[term.topology].count(draft.tagged(targets) if targets is not None else ())
        against = dict.fromkeys(term.topology for term in company.apart if means_itself(occupants, term, tags))
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
        return (NOT_NEAR, ~near), (NOT_APART, near & ~apart), (UNWANTED, near & apart & ~self._is_wanted())

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


def guard(draft: Draft, shape: Shape) -> InterPodAffinity | None:
    """Of a shape with required terms, or one that terms of others mean."""
    unwanted = _unwanting(draft, shape)
    company = shape.occupant.facts.company
    if not (company.near or company.apart or unwanted):
        return None
    return InterPodAffinity(draft, shape, unwanted)


def _unwanting(draft: Draft, shape: Shape) -> dict[str, Tally]:
    """Per topology key the allocations that a shape has to stay away from, by their own terms."""
    occupants, tags = draft.nodes.occupants, dict(shape.occupant.tags)
    parts: dict[str, list[Part]] = {}
    for term, rows in _terms_against(draft, tags):
        if occupants.means(term, tags):
            parts.setdefault(term.topology, []).append(rows)
    found = {key: Tally(domains(draft.nodes, key)) for key in parts}
    for key, tally in found.items():
        tally.count(parts[key])
    return found


def _terms_against(draft: Draft, tags: Mapping[str, str]) -> Iterable[tuple[PodTerm, Part]]:
    """Terms of those that are there, or are supposed to be, which may mean a pod with these tags."""
    if not draft.is_deserted:
        yield from draft.nodes.occupants.apart.that_may_mean(tags)
    for occupant, rows in draft.came():
        for term in occupant.facts.company.apart:
            yield term, rows


def _tallies(draft: Draft, terms: Iterable[PodTerm]) -> dict[str, Tally]:
    return {key: Tally(domains(draft.nodes, key)) for key in dict.fromkeys(term.topology for term in terms)}


def means_itself(occupants: Occupants, term: PodTerm, tags: Mapping[str, str]) -> bool:
    """Whether a pod with these tags means its like by a term of its own, where it is to be placed."""
    targets = occupants.targets(term)
    return targets is not None and matches(targets, tags)


def _joint(occupants: Occupants, terms: Iterable[PodTerm]) -> tuple[Target, ...] | None:
    """The tags of pods that all of the terms mean; None = these mean none."""
    joint: list[Target] = []
    for term in terms:
        targets = occupants.targets(term)
        if targets is None:
            return None
        joint += targets
    return tuple(dict.fromkeys(joint))
