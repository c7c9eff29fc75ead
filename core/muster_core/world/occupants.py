"""Who is on which row, as filters and scores read it: tags, terms, host ports; and labels of namespaces.

An allocation is counted with its tags (world/tags.py) and, where it has any,
with its facts; allocations with equal facts are counted together. Written by
engine/ledger.py and engine/affinity.py; read by plan/ through a Draft.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from muster_core.model.company import NAMESPACE, PodTerm, Selector, WeighedTerm
from muster_core.model.errors import UnknownSubject
from muster_core.model.facts import NO_VOLUMES, HostPort, Occupant, PodFacts
from muster_core.model.placement import Target, TargetOperator, matches
from muster_core.world.attachments import Attachments
from muster_core.world.tags import TagCounts
from muster_core.world.terms import Counted, Terms

Key = TypeVar("Key")
#: Every namespace has it, with its name.
_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_NO_LABELS: Final[Mapping[str, str]] = {}
#: Terms whose tags are remembered between two changes of namespaces.
_MEMORY: Final = 65_536


class Occupants:
    """Everything that is on the nodes of a partition."""

    __slots__ = ("_facts", "_labels", "_resolved", "apart", "attachments", "drawn", "near", "ports", "tags")

    def __init__(self) -> None:
        self.tags = TagCounts()
        #: Volumes in use, by row.
        self.attachments = Attachments()
        #: Terms of allocations that are there: required ones against and for others, preferred ones; by row.
        self.apart: Terms[PodTerm] = Terms(_itself)
        self.near: Terms[PodTerm] = Terms(_itself)
        self.drawn: Terms[WeighedTerm] = Terms(_weighed)
        #: Host ports in use, by row.
        self.ports: dict[HostPort, Counted] = {}
        self._facts: dict[PodFacts, Counted] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        self._resolved: dict[PodTerm, tuple[Target, ...] | None] = {}

    def is_noted(self, facts: PodFacts) -> bool:
        """Whether an allocation with these facts counts at all."""
        return self.tags.is_on or facts.concerns_others

    def add(self, row: int, occupant: Occupant, count: int = 1) -> None:
        """So many more are on the row."""
        if self.tags.is_on:
            for _ in range(count):
                self.tags.add(row, occupant.tags)
        if occupant.facts.concerns_others:
            self._count(row, occupant.facts, count)

    def remove(self, row: int, occupant: Occupant) -> None:
        """One less. Raises UnknownSubject where none was."""
        if self.tags.is_on:
            self.tags.remove(row, occupant.tags)
        if occupant.facts.concerns_others:
            if row not in self._facts.get(occupant.facts, ()):
                raise UnknownSubject("allocation with facts on row", str(row))
            self._count(row, occupant.facts, -1)

    def facts(self) -> dict[PodFacts, Counted]:
        """Everything but tags, for those who count anew."""
        return {facts: dict(rows) for facts, rows in self._facts.items()}

    def namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """A namespace has these labels; None = it is gone."""
        self._resolved.clear()
        if labels is None:
            self._labels.pop(name, None)
        else:
            self._labels[name] = {_NAME_LABEL: name, **labels}

    def namespaces(self) -> Iterator[str]:
        """Those that are known."""
        return iter(self._labels)

    def targets(self, term: PodTerm) -> tuple[Target, ...] | None:
        """The tags of the pods that a pod's own term means where it is to be placed, as the namespaces are now;
        None = it means none. A namespace selector that somebody without any labels would meet (`NotIn`, say) means
        every namespace there: no document says so, kube-scheduler 1.36 does it.
        """
        if term not in self._resolved:
            if len(self._resolved) >= _MEMORY:
                self._resolved.clear()
            self._resolved[term] = self._resolve(term)
        return self._resolved[term]

    def means(self, term: PodTerm, tags: Mapping[str, str]) -> bool:
        """Whether a term of a pod that is there means one with these tags."""
        if term.selector is None or not matches(term.selector, tags):
            return False
        name = tags.get(NAMESPACE, "")
        return name in term.namespaces or _selects(term.among, self._labels.get(name, _NO_LABELS))

    def is_meant(self, term: PodTerm, occupant: Occupant) -> bool:
        """The same of an allocation."""
        return self.means(term, dict(occupant.tags))

    def _resolve(self, term: PodTerm) -> tuple[Target, ...] | None:
        if term.selector is None:
            return None
        if _selects(term.among, _NO_LABELS):
            return term.selector
        names = dict.fromkeys(term.namespaces)
        names.update((name, None) for name, labels in self._labels.items() if _selects(term.among, labels))
        if not names:
            return None
        return (*term.selector, Target(NAMESPACE, TargetOperator.IN, tuple(names)))

    def _count(self, row: int, facts: PodFacts, count: int) -> None:
        _change(self._facts, facts, row, count)
        for term in facts.company.apart:
            self.apart.change(term, row, count)
        for term in facts.company.near:
            self.near.change(term, row, count)
        for weighed in facts.company.preferred:
            self.drawn.change(weighed, row, count)
        for port in facts.ports:
            _change(self.ports, port, row, count)
        if facts.volumes != NO_VOLUMES:
            self.attachments.use(row, facts.volumes, count)


def _itself(term: PodTerm) -> PodTerm:
    return term


def _weighed(weighed: WeighedTerm) -> PodTerm:
    return weighed.term


def _selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    return selector is not None and matches(selector, labels)


def _change(counts: dict[Key, Counted], key: Key, row: int, count: int) -> None:
    rows = counts.setdefault(key, {})
    rows[row] = rows.get(row, 0) + count
    if not rows[row]:
        del rows[row]
    if not rows:
        del counts[key]
