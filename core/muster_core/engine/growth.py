"""Opens the lines of those who may go on: called wherever something grew, was given back, or was let go.

It only says that it is worth asking again. Opening a line too often costs one
plan; not opening it leaves somebody waiting for ever, so in doubt it is opened.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

import numpy as np

from muster_core.model.ids import NodeId
from muster_core.model.resources import Limit
from muster_core.plan import fit
from muster_core.plan.draft import Draft
from muster_core.plan.feasibility import filters, resources_fit
from muster_core.plan.outline import shape_of
from muster_core.world.applications import Application
from muster_core.world.classes import AskClass
from muster_core.world.columns import IntColumn
from muster_core.world.gains import ANY_CLAIM
from muster_core.world.misfits import Misfit
from muster_core.world.nodes import NodeTable
from muster_core.world.obstacles import NoStart, NoTurn
from muster_core.world.queues import Queue
from muster_core.world.users import Account, Holder, HolderKind
from muster_core.world.world import Partition

_ANY: Final = 1 << 40


def absorb(partition: Partition) -> None:
    """Nodes gained: open the lines of the classes that may have room there now."""
    company, partition.nodes.gains.company = partition.nodes.gains.company, False
    claims, partition.nodes.gains.claims = partition.nodes.gains.claims, {}
    gains = partition.nodes.gains.take(partition.nodes.epoch)
    if gains is None:
        _open_all(partition)
        return
    if gains:
        _absorb_nodes(partition, gains)
    lines = [line for node in gains for line in partition.obstacles.by_node.get(node, {}).values()]
    if company or claims:
        for kind in dict.fromkeys((*partition.misfits, *partition.obstacles.by_kind)):
            if (company and kind.depends_on_others) or _is_concerned(kind, claims):
                _look_anew(partition, kind)
    if gains or company or claims:
        lines += partition.obstacles.together.values()
    for line in lines:
        partition.open(line)


def room_grew(partition: Partition, holder: Holder, limit: Limit, taken: Queue | Account) -> None:
    """A holder has more room: promises of others are not looked at, whoever plans does that."""
    lines = partition.obstacles.by_holder.get(holder)
    if not lines:
        return
    left = limit.room(taken.allocated)
    for obstacle, line in lines.items():
        if not line.is_open and left.allows(obstacle.amount):
            partition.open(line)


def path_grew(partition: Partition, app: Application) -> None:
    """The application gave something back, or was promised less: its queues, its user and its group have more room."""
    partition.contention.growths += 1
    if not partition.obstacles.by_holder:
        return
    for queue in app.queue.path_up():
        room_grew(partition, Holder(HolderKind.QUEUE, "", queue.path), queue.max, queue)
    for holder, limit, account in partition.users.limits(app):
        room_grew(partition, holder, limit.max, account)


def path_shrank(partition: Partition, app: Application) -> None:
    """What is there already has more of the application's queues than before, and took it without asking: gangs to
    whom it was promised look again.
    """
    if any(queue.pledged for queue in app.queue.path_up()):
        for other in partition.applications.values():
            if other.gang.backed:
                partition.stir_one(other)


def start_freed(partition: Partition, holder: Holder) -> None:
    """One application less counts as running."""
    partition.contention.growths += 1
    partition.open(partition.obstacles.lines.get(NoStart(holder)))


def set_blocking(partition: Partition, app: Application, *, blocks: bool) -> None:
    """Whether the application keeps those behind it in its leaf from starting."""
    app.blocks = blocks
    blockers = app.queue.blockers
    if blocks:
        blockers[app.id] = None
    elif app.id in blockers:
        del blockers[app.id]
        turn_freed(partition, app.queue)


def turn_freed(partition: Partition, leaf: Queue) -> None:
    """Those who stood behind a gang of the leaf may not stand behind one now."""
    partition.open(partition.obstacles.lines.get(NoTurn(leaf.path)))


def _absorb_nodes(partition: Partition, gains: list[NodeId]) -> None:
    """Open the lines of classes of which one may fit into what some of the nodes have left. How many really do is
    counted when the first who stands there is next (`is_worth_trying`).
    """
    nodes, misfits = partition.nodes, partition.misfits
    rows = np.array([nodes.rows.row(node) for node in gains if node in nodes], dtype=np.int64)
    if not len(misfits) or not len(rows):
        return
    columns = nodes.columns()
    misfits.gained(rows, columns.size)

    def most(name: str) -> int:
        column = columns.availables.column(name, columns.size)
        return 0 if column is None else int(column[rows].max())

    for kind in misfits.within(most):
        lines = partition.obstacles.by_kind.get(kind)
        if lines is None:  # nobody waits for it: it is not worth remembering
            misfits.drop(kind)
        elif not kind.depends_on_others:
            misfits.grow(kind)
            for line in lines.values():
                partition.open(line)
        elif len(_possible(nodes, rows, kind)):  # one that finds a place here may open others
            _look_anew(partition, kind)


def is_worth_trying(partition: Partition, app: Application) -> bool:
    """Count what the classes of the application that gained may have now, and close the lines before those that still
    have too little. Returns whether anything is left to try the application for.
    """
    misfits = partition.misfits
    for kind in app.waiting if misfits.grown else ():
        misfit = misfits.grown.get(kind)
        if misfit is None:
            continue
        more = _count_again(partition, kind, misfit)
        misfit.room = misfit.known + more
        if not more:
            del misfits.grown[kind]
        for count, line in partition.obstacles.by_kind.get(kind, {}).items():
            if count > misfit.room:
                partition.scheduling.close(line)
    return partition.scheduling.active.has(app)


def _is_concerned(kind: AskClass, claims: Container[str]) -> bool:
    """Whether asks of the class use one of the claims; or any, where anything may have changed."""
    used = kind.occupant.facts.volumes.claims
    return bool(used) and (ANY_CLAIM in claims or any(claim in claims for claim in used))


def _look_anew(partition: Partition, kind: AskClass) -> None:
    partition.misfits.drop(kind)
    for line in list(partition.obstacles.by_kind.get(kind, {}).values()):
        partition.open(line)


def _count_again(partition: Partition, kind: AskClass, misfit: Misfit) -> int:
    """How many more the nodes that gained hold than when places were looked for."""
    nodes = partition.nodes
    rows = _possible(nodes, partition.misfits.since(misfit), kind)
    more = np.maximum(_counts(nodes, rows, kind), 0)
    if misfit.then is not None:
        known = rows < len(misfit.then)
        more[known] = np.maximum(more[known] - misfit.then[rows[known]], 0)
    return int(more.sum())


def _possible(nodes: NodeTable, rows: IntColumn, kind: AskClass) -> IntColumn:
    """Those of the rows on which the class may run."""
    rows = rows[rows < nodes.columns().size]
    found = rows[filters.allowed(kind.constraints, nodes)[rows]]
    avoided = [nodes.rows.row(node) for node in kind.avoid if node in nodes]
    return found[~np.isin(found, avoided)] if avoided else found


def _counts(nodes: NodeTable, rows: IntColumn, kind: AskClass) -> IntColumn:
    """How many of a class each of the rows holds; 0 or less = none."""
    found = np.full(len(rows), _ANY, dtype=np.int64)
    columns = nodes.columns()
    for name, amount in kind.resources.items():
        column = columns.availables.column(name, columns.size)
        np.minimum(found, 0 if column is None else column[rows] // amount, out=found)
    return found


def held_by_nodes(partition: Partition, app: Application, kind: AskClass) -> IntColumn | None:
    """How many of the class each row holds now, none too many; None where more than room decides, or other ways of
    counting do. So a gang that many nodes hold a part of is asked again when they hold more, and not whenever
    something comes and goes there.
    """
    if kind.depends_on_others or app.spec.topology is not None or partition.inquiries.places:
        return None
    draft, shape = Draft(partition.nodes), shape_of(kind)
    return resources_fit.counts(draft.available, kind.resources, fit.on_facts(draft, shape), _ANY)


def _open_all(partition: Partition) -> None:
    partition.misfits.clear()
    for line in list(partition.obstacles.before_nodes()):
        partition.open(line)
