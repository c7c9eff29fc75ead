"""The set of nodes that is reserved for a starving gang: when it is chosen, kept and released.

One gang per partition has such a set. It is kept until the gang is complete or ends, or until a node of it leaves. If
no pod of others on it has ended for `gang.starvationAge`, or for as long as pods there had ended before, it is
released, because these pods may never end: otherwise a gang that waits for them would keep free resources from
everybody. The gang gets another set only after a pause, which doubles each time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from muster_core.gangs import node_sets
from muster_core.model import messages
from muster_core.model.events import TimerKind
from muster_core.model.records import Notice
from muster_core.scheduling import lifecycle, requeue
from muster_core.state.applications import Application
from muster_core.state.reservations import NodeSet
from muster_core.state.scheduler_state import Partition

#: How long a gang for which no set was found is not tried again.
_AGAIN_NS: Final = 10_000_000_000

#: How often the pause after a set without effect doubles, starting at `gang.starvationAge`.
_DOUBLED: Final = 6


def consider(partition: Partition, app: Application, now_ns: int) -> None:
    """Reserves a set of nodes for a gang that starves because free nodes do not suffice. Called after a failed plan.

    No other gang may have a set.
    """
    age_ns = partition.timing.starvation_age_ns
    if not app.spec.is_all_or_nothing or app.gang.exceeds_nodes or now_ns - app.submitted_ns < age_ns:
        return
    known, gang = partition.contention.node_set, app.gang
    if known is not None and known.application == app.id and now_ns - known.since_ns >= age_ns:
        _keep_or_release(partition, app, known, now_ns)
    elif known is None and now_ns >= gang.node_set_from_ns and app.id not in partition.contention.open:
        gang.node_set_from_ns = now_ns + _AGAIN_NS
        nodes = node_sets.choose(partition, app, now_ns)
        if nodes is not None:
            _look_again(partition, app, now_ns + age_ns)
            partition.contention.node_set = NodeSet(
                app.id, nodes, now_ns, now_ns, node_sets.others_on(partition, app, nodes)
            )
            for node, amount in nodes.items():
                partition.nodes.reserve(node, amount, 1)
            message = messages.nodes_reserved_for_gang(len(nodes), (now_ns - app.submitted_ns) // 60_000_000_000)
            partition.note(Notice.APPLICATION, app.id, message=message)


def _keep_or_release(partition: Partition, app: Application, known: NodeSet, now_ns: int) -> None:
    age_ns, gang = partition.timing.starvation_age_ns, app.gang
    others = node_sets.others_on(partition, app, known.nodes)
    if known.others - others:
        partition.contention.node_set = replace(known, since_ns=now_ns, others=others)
        _look_again(partition, app, now_ns + age_ns)
        return
    until_ns = known.since_ns + max(age_ns, known.since_ns - known.chosen_ns)
    if now_ns < until_ns:
        _look_again(partition, app, until_ns)
        return
    requeue.release_node_set(partition, app)
    gang.node_set_from_ns = now_ns + (age_ns << min(gang.node_sets_in_vain, _DOUBLED))
    gang.node_sets_in_vain += 1
    _look_again(partition, app, gang.node_set_from_ns)
    partition.note(Notice.APPLICATION, app.id, message=messages.nodes_not_freed_for_gang(len(known.nodes)))


def _look_again(partition: Partition, app: Application, at_ns: int) -> None:
    lifecycle.set_timer(partition, app, TimerKind.STARVATION, app.sequence, at_ns)
