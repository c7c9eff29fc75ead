"""What is true of holds on nodes and of preemptions that are on their way; a part of invariants.py.

Counted anew from holds and allocations, so that no arithmetic is shared with
what is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from muster_core.model.ids import ApplicationId, NodeId, QueuePath
from muster_core.model.release import Termination
from muster_core.model.resources import Resources
from muster_core.world.preemptions import Running
from muster_core.world.reservations import Hold
from muster_core.world.world import Partition

_PREEMPTED = Termination.PREEMPTED_BY_SCHEDULER


def check(partition: Partition) -> Iterator[str]:
    """Every sentence that does not hold."""
    yield from _permanent(partition)
    holds = list(partition.reservations.by_ask.values())
    for hold in holds:
        yield from _hold(partition, hold)
    yield from _held(partition, holds)
    yield from _queues(partition, holds)
    yield from _asks(partition)
    for running in partition.preemptions.running.values():
        yield from _running(partition, running)


def _permanent(partition: Partition) -> Iterator[str]:
    counted: dict[NodeId, Counter[str]] = {}
    kept = (one for there in partition.placed.values() for one in there.values() if one.spec.required_node)
    for node, amount in (
        *((one.node, one.spec.resources) for one in kept),
        *((spec.node, spec.resources) for spec in partition.foreign.values()),
    ):
        counted.setdefault(node, Counter()).update(dict(amount.items()))
    for node in partition.nodes:
        known, found = partition.nodes.permanent(node), Resources(counted.get(node, Counter()))
        if known != found:
            yield f"node {node}: what is never freed is kept as {known}, counted as {found}"


def _hold(partition: Partition, hold: Hold) -> Iterator[str]:
    app = partition.applications.get(hold.application)
    ask = app.asks.get(hold.key) if app is not None else None
    if ask is None or ask.swap is not None or ask.spec.resources != hold.resources:
        yield f"room is held for ask {hold.key}, which does not wait for it"
    if hold.node not in partition.nodes:
        yield f"room is held for ask {hold.key} on node {hold.node}, which is gone"
    index = partition.reservations
    if hold.ask not in index.by_node.get(hold.node, {}) or hold.key not in index.by_application.get(
        hold.application, {}
    ):
        yield f"the hold of ask {hold.key} is missing in an index"


def _asks(partition: Partition) -> Iterator[str]:
    for app in partition.applications.values():
        for ask in app.asks.values():
            running = partition.preemptions.running.get(ask.preemption)
            if ask.preemption and (running is None or (app.id, ask.spec.key) not in running.asks):
                yield f"ask {ask.spec.key} waits for victims of a preemption that is over"


def _held(partition: Partition, holds: list[Hold]) -> Iterator[str]:
    held: dict[NodeId, Counter[str]] = {}
    others: Counter[NodeId] = Counter()
    for hold in holds:
        held.setdefault(hold.node, Counter()).update(dict(hold.resources.items()))
        others[hold.node] += not (hold.required or hold.preempted)
    for takeover in partition.contention.open.values():
        for node, amount in takeover.nodes.items():
            held.setdefault(node, Counter()).update(dict(amount.items()))
    for node in partition.nodes:
        counted = Resources(held.get(node, Counter()))
        if partition.nodes.claimed(node) != counted:
            yield f"node {node}: held is kept as {partition.nodes.claimed(node)}, counted as {counted}"
        if others[node] > 1:
            yield f"node {node} has {others[node]} ordinary holds, it may have one"
    indexed = sum(map(len, partition.reservations.by_node.values()))
    if not indexed == sum(map(len, partition.reservations.by_application.values())) == len(holds):
        yield "an index of holds has more than there are"


def _queues(partition: Partition, holds: list[Hold]) -> Iterator[str]:
    claimed: dict[QueuePath, Counter[str]] = {}
    going: dict[QueuePath, Counter[str]] = {}
    for hold in holds:
        if hold.preempted:
            _count(partition, claimed, hold.application, hold.resources)
    for app in partition.applications.values():
        for allocation in app.allocations.values():
            running = partition.preemptions.running.get(allocation.preemption)
            is_victim = running is not None and (app.id, allocation.id) in running.victims
            if is_victim != bool(allocation.preemption) or (is_victim and allocation.releasing is not _PREEMPTED):
                yield f"allocation {allocation.id} counts as a victim of preemption {allocation.preemption}, wrongly"
            if allocation.preemption:
                _count(partition, going, app.id, allocation.spec.resources)
    ordinary = Counter(partition.applications[hold.application].queue.path for hold in holds if not hold.preempted)
    for path, queue in partition.queues.by_path.items():
        if queue.node_reservations != ordinary[path]:
            yield f"queue {path}: {queue.node_reservations} node reservations are kept, {ordinary[path]} counted"
        for name, kept, counted in (
            ("claimed", queue.claimed, Resources(claimed.get(path, Counter()))),
            ("preempting", queue.preempting, Resources(going.get(path, Counter()))),
        ):
            if kept != counted:
                yield f"queue {path}: {name} is kept as {kept}, counted as {counted}"


def _count(partition: Partition, sums: dict[QueuePath, Counter[str]], name: ApplicationId, amount: Resources) -> None:
    for queue in partition.applications[name].queue.path_up():
        sums.setdefault(queue.path, Counter()).update(dict(amount.items()))


def _running(partition: Partition, running: Running) -> Iterator[str]:
    if not running.victims:
        yield f"preemption {running.number} is over and still there"
    for name, identity in running.victims:
        app = partition.applications.get(name)
        victim = app.allocations.get(identity) if app is not None else None
        if victim is None or victim.preemption != running.number:
            yield f"preemption {running.number} waits for {identity}, which it did not tell to go"
