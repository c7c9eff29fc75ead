"""An ask comes that looks at other allocations' tags: from then on these are counted (seed 001).

Each tag key costs one walk over everything, when the first constraint names
it; what comes later is counted as it comes.
"""

from __future__ import annotations

from muster_core.model.placement import Target
from muster_core.model.specs import AskSpec
from muster_core.world.applications import Application
from muster_core.world.tags import MOST_KEYS
from muster_core.world.world import Partition


def read(partition: Partition, spec: AskSpec) -> str:
    """Begin to count what the ask's constraint reads. Returns why that cannot be; empty = it can."""
    affinity = spec.placement.allocations if spec.placement is not None else None
    if affinity is None:
        return ""
    tags = partition.nodes.tags
    keys = _with(tags.keys, affinity.targets)
    if len(keys) > MOST_KEYS:
        return f"placement constraints of the partition read {MOST_KEYS} tags already, and this one reads another"
    if not tags.is_on or len(keys) > len(tags.keys):
        tags.clear(keys)
        for app in partition.applications.values():
            _count(partition, app)
        partition.misfits.clear()
        partition.stir_all()
    if affinity.required and affinity.at_least > 0:
        tags.want(affinity.targets)
    return ""


def _with(keys: tuple[str, ...], targets: tuple[Target, ...]) -> frozenset[str]:
    return frozenset(keys) | {target.key for target in targets}


def _count(partition: Partition, app: Application) -> None:
    """All that the application has, and its asks in classes that say what is read of them now."""
    rows, project, add = partition.nodes.rows, partition.nodes.tags.project, partition.nodes.tags.add
    for allocation in app.allocations.values():
        if allocation.successor is None:
            add(rows.row(allocation.node), project(allocation.spec.tags))
    moved = [ask for ask in app.asks.values() if project(ask.spec.tags) != ask.kind.tags]
    for ask in moved:
        app.put_in_class(ask, project(ask.spec.tags))
    for ask in app.asks.values():
        if ask.swap is not None:
            add(rows.row(ask.swap.node), ask.kind.tags)
