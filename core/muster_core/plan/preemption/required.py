"""Victims for an ask that may run on one node only, as a DaemonSet's pod (contract 10.2).

Guarantees of queues do not count, nor do fences: the node has no other that
could take the pod. Regular pods first, then those that opted out, then
originators; among them the lower priority, the younger, the smaller.

Differs: a pod that requires a node takes nothing from its own application; YuniKorn does.
"""

from __future__ import annotations

from typing import Final

from muster_core.model.decisions import Preemption
from muster_core.model.resources import NOTHING, Resources
from muster_core.plan import fit, headroom
from muster_core.plan.draft import Draft
from muster_core.plan.outline import shape_of
from muster_core.plan.preemption.candidates import Candidate, Ranking, is_eligible
from muster_core.plan.preemption.guarantee import positive
from muster_core.plan.reserving import lift
from muster_core.world.applications import Application, Ask
from muster_core.world.world import Partition

#: The words of YuniKorn's allocation log (contract 4.1).
NO_HELP: Final = "No fit on required node, preemption does not help"


def plan(partition: Partition, app: Application, ask: Ask) -> Preemption | str:
    """Who has to go from the node, or why that would not help."""
    node, asked = ask.spec.required_node, ask.spec.resources
    draft = Draft(partition.nodes)
    if node not in partition.nodes or not fit.allowed(draft, shape_of(ask.kind))[partition.nodes.rows.row(node)]:
        return NO_HELP
    if headroom.refusal(partition, app, asked) is not None:
        return NO_HELP  # queues and limits bind it as any other ask
    lift(partition, draft, ask.kind, 1)
    row = partition.nodes.rows.row(node)
    room = {name: column.item(row) for name in asked if (column := draft.available(name)) is not None}
    there = list(reversed(partition.placed.get(node, {}).values()))
    going = sum((one.spec.resources for one in there if one.releasing is not None and one.successor is None), NOTHING)
    lacking = positive(asked - Resources(room) - going)
    pairs = ((partition.applications[one.spec.application], one) for one in there)
    ranking = Ranking(partition)
    candidates = (
        ranking.candidate(owner, one, one.spec.priority)
        for owner, one in pairs
        if owner is not app and is_eligible(one, asked) and one.spec.priority <= ask.spec.priority
    )
    victims: list[Candidate] = []
    for candidate in sorted(candidates, key=_order):
        if not lacking:
            break
        if any(candidate.resources[name] for name in lacking):
            victims.append(candidate)
            lacking = positive(lacking - candidate.resources)
    if lacking or not victims:
        return NO_HELP
    return Preemption(partition.id, app.id, ((ask.spec.key, node),), tuple(victim.id for victim in victims))


def _order(candidate: Candidate) -> tuple[bool, bool, int, int, float, int]:
    spec = candidate.allocation.spec
    since = -candidate.allocation.allocated_ns
    opted_out = not spec.allow_preempt_self
    return spec.originator, opted_out, spec.priority, since, candidate.cost, candidate.key[-1]
