"""Victims for an ask that may run on one node only, as a DaemonSet's pod (contract 10.2).

Guarantees of queues do not count, nor do fences: the node has no other that
could take the pod. Regular pods first, then those that opted out, then
originators; among them the lower priority, the younger, the smaller.

Differs: a pod that requires a node takes nothing from its own application; YuniKorn does.
"""

from __future__ import annotations

from typing import Final

from muster_core.model.decisions import Preemption
from muster_core.model.resources import Resources
from muster_core.plan import headroom
from muster_core.plan.draft import Draft
from muster_core.plan.outline import shape_of
from muster_core.plan.preemption.candidates import Candidate, Ranking, is_eligible
from muster_core.plan.preemption.clearing import going, in_the_way, may_run_without
from muster_core.plan.preemption.guarantee import positive
from muster_core.plan.reserving import lift
from muster_core.world.applications import Application, Ask
from muster_core.world.world import Partition

#: The words of YuniKorn's allocation log (contract 4.1).
NO_HELP: Final = "No fit on required node, preemption does not help"


def plan(partition: Partition, app: Application, ask: Ask, now_ns: int) -> Preemption | str:
    """Who has to go from the node, or why that would not help."""
    node, asked = ask.spec.required_node, ask.spec.resources
    if node not in partition.nodes or headroom.refusal(partition, app, asked) is not None:
        return NO_HELP  # queues and limits bind it as any other ask
    draft, shape = Draft(partition.nodes), shape_of(ask.kind)
    lift(partition, draft, ask.kind, 1)
    own = partition.reservations.by_ask.get((app.id, ask.spec.key))
    if own is not None and own.required:
        draft.free(own.node, own.resources)
    candidates = _candidates(partition, app, ask)
    victims = in_the_way(draft, shape, node, candidates)
    if victims is None:
        return NO_HELP
    row = partition.nodes.rows.row(node)
    room = {name: column.item(row) for name in asked if (column := draft.available(name)) is not None}
    freed = sum((one.resources for one in victims), going(partition, node, now_ns))
    lacking = positive(asked - Resources(room) - freed)
    for candidate in candidates:
        if not lacking:
            break
        if candidate not in victims and any(candidate.resources[name] for name in lacking):
            victims.append(candidate)
            lacking = positive(lacking - candidate.resources)
    if lacking or not victims or not may_run_without(draft, shape, node, victims):
        return NO_HELP
    return Preemption(partition.id, app.id, ((ask.spec.key, node),), tuple(victim.id for victim in victims))


def _candidates(partition: Partition, app: Application, ask: Ask) -> list[Candidate]:
    """Those on its node that may go for it, the first to go first."""
    there = list(reversed(partition.placed.get(ask.spec.required_node, {}).values()))
    ranking = Ranking(partition)
    pairs = ((partition.applications[one.spec.application], one) for one in there)
    found = (
        ranking.candidate(owner, one, one.spec.priority)
        for owner, one in pairs
        if owner is not app and is_eligible(one, ask.spec.resources) and one.spec.priority <= ask.spec.priority
    )
    return sorted(found, key=_order)


def _order(candidate: Candidate) -> tuple[bool, bool, int, bool, int, float, int]:
    spec = candidate.allocation.spec
    since = -candidate.allocation.allocated_ns
    opted_out = not spec.allow_preempt_self
    return spec.originator, opted_out, spec.priority, not spec.podless, since, candidate.cost, candidate.key[-1]
