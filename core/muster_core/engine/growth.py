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
from muster_core.world.obstacles import NoSlot, NoStart, NoTurn
from muster_core.world.queues import Queue
from muster_core.world.users import Account, Holder, HolderKind
from muster_core.world.world import Partition

#: More nodes than this at once are not looked at one by one, but class by class; if there are not too many of these.
_MANY: Final = 32
_MANY_CLASSES: Final = 1000
_ANY: Final = 1 << 40


def absorb(partition: Partition) -> None:
    """Nodes gained: open the lines of the classes that may have room there now."""
    company, partition.nodes.gains.company = partition.nodes.gains.company, False
    claims, partition.nodes.gains.claims = partition.nodes.gains.claims, {}
    gains = partition.nodes.gains.take(partition.nodes.epoch)
    if gains is None or (len(gains) > _MANY and len(partition.misfits) > _MANY_CLASSES):
        _open_all(partition)
        return
    if len(gains) > _MANY:
        _absorb_nodes(partition, gains)
    else:
        for node in gains:
            _absorb_node(partition, node)
    lines = [line for node in gains for line in partition.obstacles.by_node.get(node, {}).values()]
    if company or claims:
        for kind in dict.fromkeys((*partition.misfits, *partition.obstacles.by_kind)):
            if (company and kind.depends_on_others) or _is_concerned(kind, claims):
                _look_anew(partition, kind)
    if gains or company or claims:
        lines += partition.obstacles.together.values()
    for line in lines:
        partition.open(line)
    narrow(partition)


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
    partition.open(partition.obstacles.lines.get(NoStart(holder)))


def slot_freed(partition: Partition) -> None:
    """No gang holds a part of its places any more."""
    partition.partial = None
    partition.open(partition.obstacles.lines.get(NoSlot()))


def set_blocking(partition: Partition, app: Application, *, blocks: bool) -> None:
    """Whether the application keeps those behind it in its leaf from starting."""
    app.blocks = blocks
    blockers = app.queue.agenda.blockers
    if blocks:
        blockers[app.id] = None
    elif app.id in blockers:
        del blockers[app.id]
        turn_freed(partition, app.queue)


def turn_freed(partition: Partition, leaf: Queue) -> None:
    """Those who stood behind a gang of the leaf may not stand behind one now."""
    partition.open(partition.obstacles.lines.get(NoTurn(leaf.path)))


def _absorb_node(partition: Partition, node: NodeId) -> None:
    nodes, misfits = partition.nodes, partition.misfits
    if not len(misfits) or node not in nodes:
        return
    row = nodes.rows.row(node)
    for kind in misfits.within(nodes.available(node)):
        if kind not in partition.obstacles.by_kind:  # nobody waits for it: it is not worth remembering
            misfits.drop(kind)
        elif node not in kind.avoid and filters.allowed(kind.constraints, nodes)[row]:
            if kind.depends_on_others:  # one that finds a place here may open others
                _look_anew(partition, kind)
            else:
                misfits.grow(kind, node)


def _absorb_nodes(partition: Partition, gains: list[NodeId]) -> None:
    """The same of many nodes at once: each class looks at all of them."""
    nodes, misfits = partition.nodes, partition.misfits
    there = [node for node in gains if node in nodes]
    rows = np.array([nodes.rows.row(node) for node in there], dtype=np.int64)
    for kind in misfits:
        if kind not in partition.obstacles.by_kind:
            misfits.drop(kind)
            continue
        fitting = (_counts(nodes, rows, kind) > 0) & filters.allowed(kind.constraints, nodes)[rows]
        found = [there[at] for at in np.flatnonzero(fitting).tolist() if there[at] not in kind.avoid]
        if found and kind.depends_on_others:
            _look_anew(partition, kind)
            continue
        for node in found:
            misfits.grow(kind, node)


def _is_concerned(kind: AskClass, claims: Container[str]) -> bool:
    """Whether asks of the class use one of the claims; or any, where anything may have changed."""
    used = kind.occupant.facts.volumes.claims
    return bool(used) and (ANY_CLAIM in claims or any(claim in claims for claim in used))


def _look_anew(partition: Partition, kind: AskClass) -> None:
    partition.misfits.drop(kind)
    for line in list(partition.obstacles.by_kind.get(kind, {}).values()):
        partition.open(line)


def narrow(partition: Partition) -> None:
    """What gained may be taken again: count what the classes that grew may have there now, and open or close
    the lines before it.
    """
    misfits = partition.misfits
    for kind, misfit in list(misfits.grown.items()):
        misfit.room = misfit.known + _count_again(partition.nodes, kind, misfit)
        if not misfit.where:
            del misfits.grown[kind]
        for count, line in partition.obstacles.by_kind.get(kind, {}).items():
            if count > misfit.room:
                partition.obstacles.close(line)
            elif not line.is_open:
                partition.open(line)


def _count_again(nodes: NodeTable, kind: AskClass, misfit: Misfit) -> int:
    """How many more the nodes that gained hold than when places were looked for; those that hold no more are
    forgotten until they gain again.
    """
    there = [node for node in misfit.where if node in nodes]
    rows = np.array([nodes.rows.row(node) for node in there], dtype=np.int64)
    more = np.maximum(_counts(nodes, rows, kind), 0)
    if misfit.then is not None:
        known = rows < len(misfit.then)
        more[known] -= misfit.then[rows[known]]
    gained = np.flatnonzero(more > 0)
    if len(gained) < len(misfit.where):
        misfit.where = {there[at]: None for at in gained.tolist()}
    return int(more[gained].sum())


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
