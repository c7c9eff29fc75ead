"""The set of nodes that is reserved for a starving gang: when it is chosen, kept and released.

One gang per partition has such a set. It is kept until the gang is complete or ends, a node of it leaves, or it gives
way. If none of the pods of others that were there at the beginning has ended for `gang.starvationAge`, or for
as long as some had ended before, it is released, because they may never end: otherwise a gang that waits for them would
keep free resources from everybody. The gangs of its user in its queue get another set only after a pause, which doubles
each time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from muster_core.gangs import node_sets
from muster_core.model import messages
from muster_core.model.events import TimerKind
from muster_core.model.ids import QueuePath
from muster_core.model.limits import NODE_SET_PAUSES
from muster_core.model.records import Notice
from muster_core.placement import node_search
from muster_core.scheduling import requeue
from muster_core.state.applications import Application
from muster_core.state.request_classes import AskClass
from muster_core.state.reservations import NodeSet
from muster_core.state.scheduler_state import Partition
from muster_core.state.snapshot import Snapshot, shape_of

#: Shortest time between two searches for a set in a partition. A search reads all pods.
_SEARCH_NS: Final = 10_000_000_000

#: How often the pause after a set without effect doubles, starting at `gang.starvationAge`.
_DOUBLED: Final = 6


def consider(partition: Partition, app: Application, now_ns: int) -> None:
    """Reserves a set of nodes for a gang that starves because free nodes do not suffice. Called after a failed plan.

    No other gang may have a set.
    """
    age_ns, contention = partition.timing.starvation_age_ns, partition.contention
    if not app.spec.is_all_or_nothing or app.gang.exceeds_nodes or now_ns - app.submitted_ns < age_ns:
        return
    known = contention.node_set
    if known is not None and known.application == app.id and now_ns - known.since_ns >= age_ns:
        _keep_or_release(partition, app, known, now_ns)
    elif known is None and app.id not in contention.open:
        paused_ns, _ = contention.node_set_pauses.get(_payer(app), (0, 0))
        from_ns = max(paused_ns, contention.node_set_search_ns)
        if now_ns < from_ns:
            _look_again(partition, app, from_ns)
            return
        contention.node_set_search_ns = now_ns + _SEARCH_NS
        nodes = node_sets.choose(partition, app, now_ns)
        if nodes is None:
            _pause(partition, app, now_ns)
            return
        _look_again(partition, app, now_ns + age_ns)
        others = node_sets.others_on(partition, app, nodes)
        contention.node_set = NodeSet(app.id, nodes, now_ns, now_ns, others)
        for node, amount in nodes.items():
            partition.nodes.reserve(node, amount, 1)
        message = messages.nodes_reserved_for_gang(len(nodes), (now_ns - app.submitted_ns) // 60_000_000_000)
        partition.note(Notice.APPLICATION, app.id, message=message)


def give_way(partition: Partition, app: Application, kinds: Iterable[AskClass], now_ns: int, *, always: bool) -> None:
    """Releases the set if a request of the application with a higher priority fits only without it.

    Called with the classes that fit on no node. `always`: for requests of the same priority too.
    """
    found = partition.contention.node_set
    owner = partition.applications[found.application] if found is not None else None
    if found is None or owner is None or owner is app:
        return
    least = max((kind.priority for kind in owner.waiting if kind.placeholder), default=0) + (not always)
    urgent = [kind for kind in dict.fromkeys(kinds) if kind.priority >= least]
    if not urgent:
        return
    snapshot = Snapshot(partition.nodes)
    for node, amount in found.nodes.items():
        snapshot.free(node, amount)
    if any(node_search.place(snapshot, shape_of(kind), 1, partition.config.node_sort) for kind in urgent):
        requeue.release_node_set(partition, owner)
        _pause(partition, owner, now_ns)


def _keep_or_release(partition: Partition, app: Application, known: NodeSet, now_ns: int) -> None:
    age_ns = partition.timing.starvation_age_ns
    left = known.others & node_sets.others_on(partition, app, known.nodes)
    if left != known.others:
        partition.contention.node_set = replace(known, since_ns=now_ns, others=left)
        _look_again(partition, app, now_ns + age_ns)
        return
    until_ns = known.since_ns + max(age_ns, known.since_ns - known.chosen_ns)
    if now_ns < until_ns:
        _look_again(partition, app, until_ns)
        return
    requeue.release_node_set(partition, app)
    _pause(partition, app, now_ns)
    partition.note(Notice.APPLICATION, app.id, message=messages.nodes_not_freed_for_gang(len(known.nodes)))


def _payer(app: Application) -> tuple[QueuePath, str]:
    """Whose gangs pause together: deleting a gang and creating another one must not end the pause."""
    return app.queue.path, app.spec.user


def _pause(partition: Partition, app: Application, now_ns: int) -> None:
    pauses, payer = partition.contention.node_set_pauses, _payer(app)
    ended_ns, times = pauses.pop(payer, (0, 0))
    age_ns = partition.timing.starvation_age_ns
    times = 0 if now_ns >= ended_ns + (age_ns << _DOUBLED) else times  # such sets are long ago
    from_ns = now_ns + (age_ns << min(times, _DOUBLED))
    pauses[payer] = from_ns, times + 1
    if len(pauses) > NODE_SET_PAUSES:
        del pauses[next(iter(pauses))]
    _look_again(partition, app, from_ns)


def _look_again(partition: Partition, app: Application, at_ns: int) -> None:
    partition.set_timer(TimerKind.STARVATION, app.sequence, at_ns, app.id)
