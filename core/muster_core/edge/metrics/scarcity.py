"""What is short and what is done about it: requests that no node has room for, holds, preemptions, livelocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client.core import Metric

from muster_core.edge.metrics.family import PAUSE, counter, gauge
from muster_core.plan.autoscaling import outstanding_by_leaf
from muster_core.world.world import Partition


def families(partitions: Iterable[Partition]) -> Iterator[Metric]:
    """All metrics about scarcity."""
    partitions = list(partitions)
    requests = 0
    amounts: Counter[str] = Counter()
    for partition in partitions:
        for found in outstanding_by_leaf(partition):
            yield PAUSE
            for one in found or ():
                requests += one.count
                amounts.update(dict(one.resources.times(one.count).items()))
    yield gauge(
        "muster_core_outstanding_requests",
        "Places asked for that only more nodes would give: what an autoscaler may help with.",
        [({}, requests)],
    )
    yield gauge(
        "muster_core_outstanding_resource",
        "The resources of those places.",
        [({"resource": name}, amount) for name, amount in sorted(amounts.items())],
    )
    holds = sum(len(partition.reservations.by_ask) for partition in partitions)
    yield gauge("muster_core_reservations", "Asks for which room is held on a node.", [({}, holds)])
    yield from _preemptions(partitions)


def _preemptions(partitions: list[Partition]) -> Iterator[Metric]:
    preemptions = [partition.preemptions for partition in partitions]
    running = sum(len(each.running) for each in preemptions)
    yield gauge("muster_core_preemptions_running", "Preemptions whose victims are not gone yet.", [({}, running)])
    yield counter(
        "muster_core_preemptions_total", "Preemptions since the start.", [({}, sum(each.count for each in preemptions))]
    )
    victims = sum(each.victims for each in preemptions)
    yield counter("muster_core_preemption_victims_total", "Allocations told to go for others.", [({}, victims)])
    pairs = sum(len(each.rivalries) for each in preemptions)
    yield gauge("muster_core_livelock_pairs", "Pairs of queues that took from each other lately.", [({}, pairs)])
    stopped = sum(each.livelocks for each in preemptions)
    yield counter("muster_core_livelocks_total", "How often such a pair was stopped for a while.", [({}, stopped)])
