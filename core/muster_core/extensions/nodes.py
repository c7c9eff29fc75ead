"""Two features for nodes: utilization reports, and recommendations.

Utilization reports are stored for the node order `utilization` (`placement/node_search`) and for REST. Muster's
operator sends none. It shows recommendations (message NodeRecommendation) as events of the node.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import Final

from muster_core.model import messages
from muster_core.model.effects import NodeRecommended
from muster_core.model.events import UtilizationReported
from muster_core.model.ids import NodeId
from muster_core.model.resources import NOTHING
from muster_core.model.specs import AskSpec
from muster_core.model.states import NodeState
from muster_core.placement.search.backtracking import place_all
from muster_core.placement.search.requests import Places
from muster_core.state.applications import Allocation
from muster_core.state.request_classes import pod_on_node_of
from muster_core.state.scheduler_state import Partition, SchedulerState
from muster_core.state.snapshot import RequestShape, Snapshot

#: Number of failed requests and time window that cause a recommendation.
REFUSALS: Final = 3
WINDOW_NS: Final = 600 * 1_000_000_000

#: Nodes, and allocations per node, that are examined when searching for a node to empty.
_MOST_NODES: Final = 8
_MOST_ALLOCATIONS: Final = 32


def report_utilization(scheduler_state: SchedulerState, partition: Partition, event: UtilizationReported) -> None:
    """Stores the newest report. A report about an unknown object is counted and ignored."""
    if event.node is not None:
        if event.node in partition.nodes:
            partition.nodes.report(event.node, event.used)
        else:
            scheduler_state.ignore("utilization of an unknown node")
        return
    app = partition.applications.get(event.application)
    allocation = app.allocations.get(event.allocation) if app is not None else None
    if allocation is None:
        scheduler_state.ignore("utilization of an unknown allocation")
    else:
        allocation.utilization = event.used


def bind_failed(partition: Partition, spec: AskSpec, now_ns: int) -> None:
    """Counts failed binds of the nodes that a request avoids, once per request and node, and recommends a check."""
    for node in sorted(spec.avoid):
        if node not in partition.nodes:
            continue
        refused = partition.nodes.record(node).refused
        while refused and refused[0][0] <= now_ns - WINDOW_NS:
            refused.popleft()
        if all(key != spec.key for _, key in refused):
            refused.append((now_ns, spec.key))
        if len(refused) >= REFUSALS:
            text = messages.check_node(len(refused), WINDOW_NS // 60_000_000_000)
            refused.clear()
            partition.outbox.put(NodeRecommended(partition.rm, node, text, NOTHING))


def node_to_empty(partition: Partition, now_ns: int) -> None:
    """Recommends a node whose allocations all fit elsewhere.

    Searches at most once per interval, and only while nothing is pending.
    """
    interval_ns = partition.timing.empty_node_interval_ns
    if not interval_ns or partition.waiting or now_ns - partition.searched_ns < interval_ns:
        return
    partition.searched_ns = now_ns
    for node in nsmallest(_MOST_NODES, partition.placed, key=lambda name: (len(partition.placed[name]), name)):
        movable = _movable(partition, node)
        if movable and _fit_elsewhere(partition, node, movable):
            text = messages.node_can_be_emptied(len(movable))
            partition.outbox.put(NodeRecommended(partition.rm, node, text, NOTHING))
            return


def _movable(partition: Partition, node: NodeId) -> list[Allocation]:
    """Returns the allocations that would have to move. Empty if the node cannot or should not be emptied."""
    record, here = partition.nodes.record(node), partition.placed[node].values()
    is_busy = node in partition.targets or record.state is not NodeState.SCHEDULABLE
    if is_busy or any(one.spec.placeholder or one.releasing is not None for one in here):
        return []
    # Pods that can run on this node only, as those of a DaemonSet, end with it.
    movable = [one for one in here if node not in (one.spec.required_node, one.spec.constraints.node_name)]
    return movable if len(movable) <= _MOST_ALLOCATIONS else []


def _fit_elsewhere(partition: Partition, node: NodeId, movable: list[Allocation]) -> bool:
    counts: dict[RequestShape, int] = {}
    for one in movable:
        spec = one.spec
        pod_on_node = pod_on_node_of(spec.facts, partition.nodes.pods_on_nodes.tags.project(spec.tags))
        shape = RequestShape(
            spec.resources.on_nodes, spec.constraints, spec.avoid | {node}, spec.placement, pod_on_node
        )
        counts[shape] = counts.get(shape, 0) + 1
    answer = place_all(Snapshot(partition.nodes), list(counts.items()), partition.config.node_sort)
    return isinstance(answer, Places)
