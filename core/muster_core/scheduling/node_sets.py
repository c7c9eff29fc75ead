"""The set of nodes that is reserved for a starving gang: when it is chosen, kept and released.

One gang per partition has such a set. It is kept until the gang is complete or ends, until a node of it leaves, or
until it has been kept for `gang.starvationAge`. It is then chosen again, because some pods on it did not end.
"""

from __future__ import annotations

from typing import Final

from muster_core.gangs import node_sets
from muster_core.model import messages
from muster_core.model.records import Notice
from muster_core.scheduling import requeue
from muster_core.state.applications import Application
from muster_core.state.reservations import NodeSet
from muster_core.state.scheduler_state import Partition

#: How long a gang for which no set was found is not tried again.
_AGAIN_NS: Final = 10_000_000_000


def consider(partition: Partition, app: Application, now_ns: int) -> None:
    """Reserves a set of nodes for a gang that starves because free nodes do not suffice. Called after a failed plan.

    The gang must be the first one that starves: no other gang has a set.
    """
    age_ns = partition.timing.starvation_age_ns
    if not app.spec.is_all_or_nothing or app.gang.exceeds_nodes or now_ns - app.submitted_ns < age_ns:
        return
    known, gang = partition.contention.node_set, app.gang
    is_due = known is None or (known.application == app.id and now_ns - known.since_ns >= age_ns)
    if not is_due or now_ns < gang.node_set_from_ns or app.id in partition.contention.open:
        return
    gang.node_set_from_ns = now_ns + _AGAIN_NS
    nodes = node_sets.choose(partition, app, now_ns)
    if nodes is None:
        return
    requeue.release_node_set(partition, app)
    partition.contention.node_set = NodeSet(app.id, nodes, now_ns)
    for node, amount in nodes.items():
        partition.nodes.reserve(node, amount, 1)
    message = messages.nodes_reserved_for_gang(len(nodes), (now_ns - app.submitted_ns) // 60_000_000_000)
    partition.note(Notice.APPLICATION, app.id, message=message)
