"""An ask or an allocation comes that looks at other allocations' tags: from then on these are counted.

Each tag key costs one look at everybody, when the first selector names it, and
who has it is counted anew; what comes later is counted as it comes. Source: seed 001's constraints,
inter-pod affinity and topology spread (model/company.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from muster_core.model.company import ANY_COMPANY, NAMESPACE, TERMINATING, PodTerm
from muster_core.model.ids import NodeId
from muster_core.model.placement import Target
from muster_core.model.specs import AllocationSpec, AskSpec, Member
from muster_core.world.tags import MOST_KEYS
from muster_core.world.world import Partition


def read(partition: Partition, spec: AskSpec | AllocationSpec) -> str:
    """Begin to count what its constraints read. Returns why an ask's cannot be; empty = they can.
    What is there already counts whatever it reads.
    """
    if spec.facts.company is ANY_COMPANY and (not isinstance(spec, AskSpec) or spec.placement is None):
        return ""
    read = {key for targets in _read(spec) for key in targets}
    if not read:
        return ""
    tags = partition.nodes.occupants.tags
    if len(frozenset(tags.keys) | read) > MOST_KEYS and isinstance(spec, AskSpec):
        return f"selectors of the partition read {MOST_KEYS} labels of pods already, and this one reads another"
    _begin(partition, read)
    if isinstance(spec, AskSpec):
        for targets in _wanted(spec):
            tags.want(targets)
    return ""


def announce(partition: Partition, members: Iterable[Member]) -> None:
    """The same of what a gang's members want near them, so that the first to come are planned for with the others."""
    read = {key for member in members for targets in _of_terms(member.facts.company.near) for key in targets}
    if read and len(frozenset(partition.nodes.occupants.tags.keys) | read) <= MOST_KEYS:
        _begin(partition, read)


def _begin(partition: Partition, read: set[str]) -> None:
    """Count by these keys, too: only those who have one are counted anew, but the first time all."""
    tags = partition.nodes.occupants.tags
    new = read.difference(tags.keys)
    if tags.is_on and not new:
        return
    row_of = partition.nodes.rows.row
    meant = ((node, told) for node, told in _there(partition) if not tags.is_on or not new.isdisjoint(told))
    there = [(row_of(node), told) for node, told in meant]
    if tags.is_on:
        for row, told in there:
            tags.remove(row, tags.project(told))
    tags.widen(new)
    for row, told in there:
        tags.add(row, tags.project(told))
    for app in partition.applications.values():
        for ask in [ask for ask in app.asks.values() if not new.isdisjoint(ask.spec.tags)]:
            app.put_in_class(ask, tags.project(ask.spec.tags))
    partition.misfits.clear()
    partition.stir_all()


def _there(partition: Partition) -> Iterator[tuple[NodeId, Mapping[str, str]]]:
    """Node and tags of all who count: a placeholder that hands over does not, the ask that its swap is for does."""
    for app in partition.applications.values():
        for allocation in app.allocations.values():
            if allocation.successor is None:
                yield allocation.node, allocation.spec.tags
        for ask in app.asks.values():
            if ask.swap is not None:
                yield ask.swap.node, ask.spec.tags
    for foreign in partition.foreign.values():
        yield foreign.node, foreign.tags


def _read(spec: AskSpec | AllocationSpec) -> Iterator[frozenset[str]]:
    """The tag keys of every selector."""
    if isinstance(spec, AskSpec) and spec.placement is not None and spec.placement.allocations is not None:
        yield frozenset(target.key for target in spec.placement.allocations.targets)
    company = spec.facts.company
    yield from _of_terms((*company.near, *company.apart, *(one.term for one in company.preferred)))
    for spread in company.spread:
        yield frozenset({NAMESPACE, TERMINATING, *(target.key for target in spread.selector or ())})


def _of_terms(terms: Iterable[PodTerm]) -> Iterator[frozenset[str]]:
    return (frozenset({NAMESPACE, *(target.key for target in term.selector or ())}) for term in terms)


def _wanted(spec: AskSpec) -> Iterator[tuple[Target, ...]]:
    """What an ask may wait for: that more of these come."""
    affinity = spec.placement.allocations if spec.placement is not None else None
    if affinity is not None and affinity.required and affinity.at_least > 0:
        yield affinity.targets
    company = spec.facts.company
    yield from (term.selector for term in company.near if term.selector is not None)
    # More of them where there are fewest: an empty selector counts none.
    yield from (spread.selector for spread in company.spread if spread.required and spread.selector)
