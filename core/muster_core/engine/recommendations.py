"""What the resource manager might do about a node (seed 001, NodeRecommendation).

A node that keeps refusing binds should be looked at (semantics 5): the asks
that come back name it. A node that could be emptied may be given up; that is
looked for only where `service.emptyNodeInterval` says how often, when nothing
waits, and among a few nodes that run little.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import Final

from muster_core.model.effects import NodeRecommended
from muster_core.model.ids import NodeId
from muster_core.model.resources import NOTHING
from muster_core.model.specs import AskSpec
from muster_core.model.states import NodeState
from muster_core.plan.draft import Draft
from muster_core.plan.search.demand import Places
from muster_core.plan.shape import Shape
from muster_core.plan.together import place_all
from muster_core.world.applications import Allocation
from muster_core.world.classes import occupant_of
from muster_core.world.world import Partition

#: So many asks have to come back from a node, within so long.
REFUSALS: Final = 3
WINDOW_NS: Final = 600 * 1_000_000_000
#: Nodes that are looked at, and allocations on each, when one to be emptied is sought.
_MOST_NODES: Final = 8
_MOST_ALLOCATIONS: Final = 32


def note_refusals(partition: Partition, spec: AskSpec, now_ns: int) -> None:
    """An ask came that keeps off nodes where its pod could not be bound; each counts once for each node."""
    for node in sorted(spec.avoid):
        if node not in partition.nodes:
            continue
        refused = partition.nodes.record(node).refused
        while refused and refused[0][0] <= now_ns - WINDOW_NS:
            refused.popleft()
        if all(key != spec.key for _, key in refused):
            refused.append((now_ns, spec.key))
        if len(refused) >= REFUSALS:
            text = f"{len(refused)} pods could not be bound to it within {WINDOW_NS // 60_000_000_000} minutes"
            refused.clear()
            partition.outbox.put(NodeRecommended(partition.rm, node, f"{text}: it should be looked at", NOTHING))


def node_to_empty(partition: Partition, now_ns: int) -> None:
    """A node whose allocations would all fit elsewhere, sought at most once an interval, while nothing waits."""
    interval_ns = partition.timing.empty_node_interval_ns
    if not interval_ns or partition.waiting or now_ns - partition.sought_ns < interval_ns:
        return
    partition.sought_ns = now_ns
    for node in nsmallest(_MOST_NODES, partition.placed, key=lambda name: (len(partition.placed[name]), name)):
        movable = _movable(partition, node)
        if movable and _fit_elsewhere(partition, node, movable):
            text = f"it could be emptied: its {len(movable)} allocations would fit on the other nodes"
            partition.outbox.put(NodeRecommended(partition.rm, node, text, NOTHING))
            return


def _movable(partition: Partition, node: NodeId) -> list[Allocation]:
    """What would have to go elsewhere; nothing where that is not to be asked, or cannot be."""
    record, here = partition.nodes.record(node), partition.placed[node].values()
    is_busy = node in partition.targets or record.state is not NodeState.SCHEDULABLE
    if is_busy or any(one.spec.placeholder or one.releasing is not None for one in here):
        return []
    # What may run on this node alone (a DaemonSet's) goes with it.
    movable = [one for one in here if node not in (one.spec.required_node, one.spec.constraints.node_name)]
    return movable if len(movable) <= _MOST_ALLOCATIONS else []


def _fit_elsewhere(partition: Partition, node: NodeId, movable: list[Allocation]) -> bool:
    counts: dict[Shape, int] = {}
    for one in movable:
        spec = one.spec
        occupant = occupant_of(spec.facts, partition.nodes.occupants.tags.project(spec.tags))
        shape = Shape(spec.resources, spec.constraints, spec.avoid | {node}, spec.placement, occupant)
        counts[shape] = counts.get(shape, 0) + 1
    answer = place_all(Draft(partition.nodes), list(counts.items()), partition.config.node_sort)
    return isinstance(answer, Places)
