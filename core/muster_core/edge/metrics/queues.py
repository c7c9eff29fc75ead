"""What queues have, use and want: read from their ledgers when scraped. A queue that is gone has no series.

Partitions that have a queue of the same path are counted together: the label
has no room for a partition (contract 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import Metric

from muster_core.edge.metrics.family import PAUSE, counter, gauge, word
from muster_core.model.ids import QueuePath
from muster_core.world.queues import Queue
from muster_core.world.world import Partition

#: Queues between two moments at which others may run.
_AT_ONCE: Final = 50

_Amounts = dict[tuple[str, str, str], int]


def families(partitions: Iterable[Partition]) -> Iterator[Metric]:
    """All metrics about queues."""
    amounts: _Amounts = {}
    containers: dict[QueuePath, tuple[int, int]] = {}
    pledged = 0
    for partition in partitions:
        for count, (path, queue) in enumerate(list(partition.queues.by_path.items())):
            if count % _AT_ONCE == 0:
                yield PAUSE
            _add(amounts, path, queue)
            if queue.is_leaf:
                made, gone = containers.get(path, (0, 0))
                containers[path] = (made + queue.made, gone + queue.gone)
                pledged += bool(queue.pledged or queue.awaited)
    yield gauge(
        "yunikorn_queue_resource",
        "Resources of a queue, by what they are: guaranteed, max, allocated, pending, preempting, maxRunningApps.",
        [
            ({"queue": path, "state": state, "resource": resource}, amount)
            for (path, state, resource), amount in amounts.items()
        ],
    )
    yield gauge("muster_core_pledging_queues", "Leaf queues in which a gang was promised head room.", [({}, pledged)])
    for path, (made, gone) in containers.items():
        yield counter(
            f"yunikorn_{word(path)}_queue_container",
            "Allocations of the queue, made and gone.",
            [({"state": "allocated"}, made), ({"state": "released"}, gone)],
        )


def _add(amounts: _Amounts, path: QueuePath, queue: Queue) -> None:
    """One queue. What it uses and wants is shown as 0 too, of resources that it is bound or promised to have."""
    named = dict.fromkeys([*queue.guaranteed, *(name for name, _ in queue.max.items())], 0)
    for state, found in (
        ("guaranteed", dict(queue.guaranteed.items())),
        ("max", dict(queue.max.items())),
        ("allocated", {**named, **dict(queue.allocated.items())}),
        ("pending", {**named, **dict(queue.pending.items())}),
        ("preempting", dict(queue.preempting.items())),
    ):
        for resource, amount in found.items():
            key = (path, state, resource)
            amounts[key] = amounts.get(key, 0) + amount
    if queue.max_applications:
        key = (path, "maxRunningApps", "apps")
        amounts[key] = amounts.get(key, 0) + queue.max_applications
