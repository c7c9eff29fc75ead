"""From which nodes a volume is reached; remembered until a fact of nodes changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from muster_core.model.constraints import Term
from muster_core.model.storage import Volume
from muster_core.plan.feasibility.node_affinity import term_holds
from muster_core.world.columns import BoolColumn
from muster_core.world.nodes import NodeTable
from muster_core.world.pools import Affinity

#: So many answers are remembered.
_MEMORY: Final = 8192


def remembered(nodes: NodeTable, about: object, find: Callable[[], BoolColumn]) -> BoolColumn:
    """The answer about something, found out once; to be read only."""
    storage = nodes.occupants.attachments.storage
    if storage.memory[0] != nodes.facts_epoch:
        storage.memory = (nodes.facts_epoch, {})
    known = storage.memory[1].get(about)
    if known is None:
        known = find()
        known.flags.writeable = False
        if len(storage.memory[1]) >= _MEMORY:
            storage.memory[1].clear()
        storage.memory[1][about] = known
    return known


def reach(nodes: NodeTable, affinity: Affinity) -> BoolColumn:
    """Rows that a volume's node affinity allows."""
    return remembered(nodes, affinity, lambda: _reach(nodes, affinity))


def reach_bound(nodes: NodeTable, volume: Volume) -> BoolColumn:
    """The same of a volume that is bound; a CSI driver that took its plugin over may know nodes by other labels."""
    migrated = volume.migrated
    rows = nodes.occupants.attachments.migrated.get(migrated.plugin) if migrated is not None else None
    if migrated is None or not rows:
        return reach(nodes, volume.affinity)
    found = reach(nodes, volume.affinity).copy()
    where = np.fromiter(rows, dtype=np.int64, count=len(rows))
    found[where] = reach(nodes, migrated.affinity)[where]
    return found


def _reach(nodes: NodeTable, affinity: Affinity) -> BoolColumn:
    if affinity is None:
        return np.ones(nodes.rows.size, dtype=np.bool_)
    found = np.zeros(nodes.rows.size, dtype=np.bool_)
    for term in affinity:
        # kube-scheduler shows a volume's terms the node's labels and no fields, and then fields refuse nothing.
        if term.expressions:
            found |= term_holds(Term(term.expressions), nodes)
        elif term.fields:
            found[:] = True
    return found
