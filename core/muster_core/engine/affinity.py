"""An ask or an allocation comes that looks at other allocations' tags: from then on these are counted.

Each tag key costs one walk over everything, when the first selector names it;
what comes later is counted as it comes. Source: seed 001's constraints,
inter-pod affinity and topology spread (model/company.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster_core.model.company import NAMESPACE, TERMINATING, PodTerm
from muster_core.model.placement import Target
from muster_core.model.specs import AllocationSpec, AskSpec, Member
from muster_core.world.applications import Application
from muster_core.world.tags import MOST_KEYS
from muster_core.world.world import Partition


def read(partition: Partition, spec: AskSpec | AllocationSpec) -> str:
    """Begin to count what its constraints read. Returns why an ask's cannot be; empty = they can.
    What is there already counts whatever it reads.
    """
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
    read = {key for member in members for targets in _of_terms(member.near) for key in targets}
    if read and len(frozenset(partition.nodes.occupants.tags.keys) | read) <= MOST_KEYS:
        _begin(partition, read)


def _begin(partition: Partition, read: set[str]) -> None:
    tags = partition.nodes.occupants.tags
    keys = frozenset(tags.keys) | read
    if not tags.is_on or len(keys) > len(tags.keys):
        tags.clear(keys)
        for app in partition.applications.values():
            _count(partition, app)
        for foreign in partition.foreign.values():
            tags.add(partition.nodes.rows.row(foreign.node), tags.project(foreign.tags))
        partition.misfits.clear()
        partition.stir_all()


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


def _count(partition: Partition, app: Application) -> None:
    """All that the application has, and its asks in classes that say what is read of them now."""
    rows, project, add = (
        partition.nodes.rows,
        partition.nodes.occupants.tags.project,
        partition.nodes.occupants.tags.add,
    )
    for allocation in app.allocations.values():
        if allocation.successor is None:
            add(rows.row(allocation.node), project(allocation.spec.tags))
    moved = [ask for ask in app.asks.values() if project(ask.spec.tags) != ask.kind.occupant.tags]
    for ask in moved:
        app.put_in_class(ask, project(ask.spec.tags))
    for ask in app.asks.values():
        if ask.swap is not None:
            add(rows.row(ask.swap.node), ask.kind.occupant.tags)
