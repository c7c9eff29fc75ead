"""Whose turn it is: leaves with something on their agenda, in the order of their shares.

A heap per parent, made anew for each pass of the leaves that are stirred then;
after a turn only the queues of that leaf's path take their new places. So the
next leaf costs a few comparisons, however many wait. Nothing here outlives a
pass, and a place that was right when it was taken may be a little old.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush, heapreplace

from muster_core.model.ids import QueuePath
from muster_core.plan import ordering
from muster_core.plan.ordering import Key
from muster_core.plan.pace import FREELY, Pace, Rival
from muster_core.world.queues import Queue
from muster_core.world.world import Partition

#: (key, path) and the queue; no two of a heap are equal before the queue is looked at.
_Entry = tuple[tuple[Key, str], Queue]


class Turns:
    """The order of one pass."""

    __slots__ = ("_heaps", "_partition", "_within")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._heaps: dict[QueuePath, list[_Entry]] = {}
        self._within: set[QueuePath] = set()

    def next_leaf(self) -> Queue | None:
        """The leaf whose turn it is: down from the root, the lowest place first."""
        if not self._partition.due and not self._partition.obstacles.opened:
            self._partition.stirred.clear()
            return None
        self._take_in()
        queue = root = self._partition.queues.root
        while True:
            heap = self._heaps.get(queue.path)
            if heap:
                queue = heap[0][1]
            elif queue is root:
                return None
            elif queue.path in self._partition.stirred and queue.agenda.has_candidates(queue.path):
                return queue
            else:
                self._drop(queue)
                queue = root

    def pace(self, leaf: Queue) -> Pace:
        """How much the leaf whose turn it is may get before another is due, on any level of its path."""
        rivals = [rival for queue in leaf.path_up() if (rival := self._rival(queue)) is not None]
        return Pace(tuple(rivals)) if rivals else FREELY

    def moved(self, leaf: Queue) -> None:
        """The leaf had its turn: it and those above it take their new places."""
        for queue in leaf.path_up():
            if queue.parent is not None:
                heap = self._heaps[queue.parent.path]
                heapreplace(heap, (ordering.queue_key(self._partition, queue), queue))

    def _take_in(self) -> None:
        """Leaves that were stirred since: they came last."""
        for path in reversed(list(self._new())):
            queue = self._partition.queues.by_path[path]
            while queue.parent is not None and queue.path not in self._within:
                self._within.add(queue.path)
                heap = self._heaps.setdefault(queue.parent.path, [])
                heappush(heap, (ordering.queue_key(self._partition, queue), queue))
                queue = queue.parent

    def _new(self) -> Iterator[QueuePath]:
        """Newest first, up to the first that is known; a leaf only leaves the agenda by `_drop`, so the rest is too."""
        for path in reversed(self._partition.stirred):
            if path in self._within:
                return
            yield path

    def _drop(self, queue: Queue) -> None:
        """Nothing is left to do there; it is the first of its heap."""
        self._partition.stirred.pop(queue.path, None)
        self._within.discard(queue.path)
        if queue.parent is not None:
            heappop(self._heaps[queue.parent.path])

    def _rival(self, queue: Queue) -> Rival | None:
        """The next in order beside the first of a heap."""
        parent = queue.parent
        heap = self._heaps[parent.path] if parent is not None else []
        if parent is None or len(heap) < 2:
            return None
        (key, _), other = min(heap[1:3])
        (mine, _), _ = heap[0]
        if parent.policies.sorts_by_priority and key[0] != mine[0]:
            return None  # of a lower priority: it waits for as long as there is anything
        partition = self._partition
        return Rival(
            lambda: queue.allocated,
            lambda name: ordering.due(partition, queue, name),
            ordering.share(partition, other),
        )
