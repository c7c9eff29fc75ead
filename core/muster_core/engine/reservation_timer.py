"""The reservation delay of a leaf queue is over: nodes are reserved for requests that waited for long enough.

Above commit.py, which carries the reservations out; reservations.py sets the timer.
"""

from __future__ import annotations

from typing import Final

from muster_core.engine import notes, reservations
from muster_core.engine.commit import commit
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import Clock
from muster_core.plan import reserving
from muster_core.world.classes import AskClass
from muster_core.world.queues import Queue
from muster_core.world.world import Partition

#: Scheduling classes without a node to reserve after which a leaf is left for later: each costs a look at all nodes.
_HOPELESS: Final = 16


def on_timeout(partition: Partition, clock: Clock, now_ns: int) -> None:
    """The reservation delay of a leaf is over."""
    leaf = partition.queues.get(clock.queue)
    if leaf is None or leaf.reservation_clock != clock.generation:
        return
    leaf.reservation_clock = 0
    try:
        _reserve(partition, leaf, now_ns)
    except Exception:
        leaf.reservation_clock = clock.generation  # it fires again
        raise


def _reserve(partition: Partition, leaf: Queue, now_ns: int) -> None:
    hopeless: set[AskClass] = set()
    for ask in reserving.candidates(partition, leaf):
        due_ns = ask.asked_ns + partition.timing.reservation_delay_ns
        if now_ns < due_ns:
            reservations.look_again(partition, leaf, due_ns)
            return
        if ask.kind in hopeless:
            continue
        decision = reserving.choose(partition, ask)
        if decision is None:
            hopeless.add(ask.kind)
            _wait_for_nodes(partition, leaf)
            if len(hopeless) == _HOPELESS:
                return
            continue
        try:
            commit(partition, decision, now_ns)
        except BrokenDecision as broken:
            notes.broken(partition, leaf.path, broken)
        if leaf.node_reservations >= reserving.allowed(partition):
            return


def _wait_for_nodes(partition: Partition, leaf: Queue) -> None:
    known = partition.reservations
    if not known.without_node:
        known.without_node_since = partition.nodes.facts_epoch
    known.without_node[leaf.path] = None


def watch_nodes(partition: Partition, now_ns: int) -> None:
    """Nodes came, opened or changed: leaves without a node to reserve look again."""
    known = partition.reservations
    if not known.without_node or known.without_node_since == partition.nodes.facts_epoch:
        return
    leaves, known.without_node = known.without_node, {}
    for path in leaves:
        leaf = partition.queues.get(path)
        if leaf is not None and leaf.waiting and not leaf.reservation_clock:
            reservations.look_again(partition, leaf, now_ns + partition.timing.reservation_delay_ns)
