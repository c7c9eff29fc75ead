"""Selects victims on the node that a DaemonSet pod requires. The pod needs no guarantee of its own.

Differs: a pod that requires a node never preempts pods of its own application, and respects fences, guarantees,
`preemption.policy: disabled` and the opt-out of pods unless its queue has `preemption.daemonsets`; YuniKorn does not.
"""

from __future__ import annotations

from typing import Final

from muster_core.model import messages
from muster_core.model.decisions import Preemption
from muster_core.model.resources import Resources
from muster_core.placement.node_reservations import lift
from muster_core.preemption.candidates import (
    Candidate,
    NodePool,
    fewest,
    in_the_way,
    may_run_without,
    permitted_by_guarantees,
    positive,
    releasing_on,
)
from muster_core.queues import quota
from muster_core.state.applications import Application, Ask
from muster_core.state.scheduler_state import Partition
from muster_core.state.snapshot import Snapshot, shape_of

#: Text of YuniKorn's allocation log.
NO_HELP_ON_NODE: Final = messages.preemption_on_node_without_help()


def plan_for_required_node(partition: Partition, app: Application, ask: Ask, now_ns: int) -> Preemption | str:
    """Selects victims on the required node of a DaemonSet pod. Returns the decision, or why there is none."""
    node, asked = ask.spec.required_node, ask.spec.resources
    if node not in partition.nodes or quota.quota_refusal(partition, app, asked) is not None:
        return NO_HELP_ON_NODE  # quotas and limits apply to it like to any other request
    snapshot, shape = Snapshot(partition.nodes), shape_of(ask.kind)
    lift(partition, snapshot, ask.kind, 1)
    own = partition.reservations.by_ask.get((app.id, ask.spec.key))
    if own is not None and own.required:
        snapshot.free(own.node, own.resources)
    pool = NodePool(partition, app, ask)
    candidates = sorted(map(pool.candidate, pool.eligible_on(node)), key=_node_victim_order)
    victims = in_the_way(snapshot, shape, node, permitted_by_guarantees(candidates, pool.balance))
    if victims is None:
        return NO_HELP_ON_NODE
    row = partition.nodes.rows.row(node)
    asked = asked.on_nodes
    room = {name: column.item(row) for name in asked if (column := snapshot.available(name)) is not None}
    freed = sum((one.resources for one in victims), releasing_on(partition, node, now_ns))
    for victim in victims:
        pool.balance.lose(victim.app.queue, victim.resources)
    left = [one for one in candidates if one not in victims]
    more = fewest(left, positive(asked - Resources(room) - freed), pool.balance)
    if more is None or not (victims := [*victims, *more]) or not may_run_without(snapshot, shape, node, victims):
        return NO_HELP_ON_NODE
    return Preemption(partition.id, app.id, ((ask.spec.key, node),), tuple(victim.id for victim in victims))


def _node_victim_order(candidate: Candidate) -> tuple[bool, bool, bool, int, bool, int, float, int]:
    spec = candidate.allocation.spec
    since = -candidate.allocation.allocated_ns
    first = not candidate.is_earlier_victim, spec.originator, not spec.allow_preempt_self, spec.priority
    return *first, not spec.is_virtual, since, candidate.cost, -candidate.allocation.sequence
