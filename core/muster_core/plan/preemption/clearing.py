"""Who has to leave a node so that filters that look at others let a pod run there: ports, terms, spread, disks.

Everybody who may go is supposed to be gone; if the filters let the pod in
then, they come back one by one, those that would go last first, as long as it
still may run. kube-scheduler looks for victims so, on the node alone.
"""

from __future__ import annotations

from muster_core.model.ids import NodeId
from muster_core.model.resources import NOTHING, Resources
from muster_core.plan import fit
from muster_core.plan.draft import Draft
from muster_core.plan.preemption.candidates import Candidate
from muster_core.plan.preemption.rights import Balance
from muster_core.plan.shape import Shape
from muster_core.world.classes import occupant_of
from muster_core.world.world import Partition


def in_the_way(draft: Draft, shape: Shape, node: NodeId, leaving: list[Candidate]) -> list[Candidate] | None:
    """Those of the candidates on the node, the first to go first, without whom one of the shape may run there, room
    aside; none where it may already, None where their leaving does not help. The draft is left as it was.
    """
    row = draft.nodes.rows.row(node)
    if fit.allowed(draft, shape)[row]:
        return []
    for one in leaving:
        move(draft, one, -1)
    away = list(leaving)
    helps = bool(fit.allowed(draft, shape)[row])
    for one in reversed(leaving):
        move(draft, one, 1)
        away.remove(one)
        if helps and not fit.allowed(draft, shape)[row]:
            move(draft, one, -1)
            away.insert(0, one)
    for one in away:
        move(draft, one, 1)
    return away if helps else None


def that_may_go(candidates: list[Candidate], balance: Balance) -> list[Candidate]:
    """As many of them, the first to go first, as no guarantee forbids."""
    found: list[Candidate] = []
    for one in candidates:
        if balance.may_lose(one.app.queue, one.resources):
            balance.lose(one.app.queue, one.resources)
            found.append(one)
    for one in found:
        balance.lose(one.app.queue, one.resources, -1)
    return found


def may_run_without(draft: Draft, shape: Shape, node: NodeId, victims: list[Candidate]) -> bool:
    """Whether filters let one of the shape there once these are gone: it may have to be near one of them."""
    for one in victims:
        move(draft, one, -1)
    may = bool(fit.allowed(draft, shape)[draft.nodes.rows.row(node)])
    for one in victims:
        move(draft, one, 1)
    return may


def going(partition: Partition, node: NodeId, now_ns: int) -> Resources:
    """What is about to be freed on a node: of those that were told to go and that no ask takes over from. What was told
    longer ago than a release may take may never go, so it is no room.
    """
    since_ns = now_ns - partition.timing.release_timeout_ns
    there = partition.placed.get(node, {}).values()
    leaving = (one for one in there if one.releasing is not None and one.successor is None)
    return sum((one.spec.resources for one in leaving if one.released_ns > since_ns), NOTHING)


def move(draft: Draft, candidate: Candidate, count: int) -> None:
    """Suppose that filters see it no more (-1), or again."""
    spec, nodes = candidate.allocation.spec, draft.nodes
    tags = nodes.occupants.tags.project(spec.tags)
    draft.enter(nodes.rows.row(candidate.allocation.node), occupant_of(spec.facts, tags), count)
