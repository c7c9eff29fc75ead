"""Where a volume can be made for a claim: the class has a provisioner, it reaches the node, and has room for it.

Source: Kubernetes 1.36, checkVolumeProvisions and hasEnoughCapacity.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from muster_core.model.placement import Target, TargetOperator
from muster_core.model.storage import Claim, StorageClass
from muster_core.plan.feasibility.volumes.reach import remembered
from muster_core.world.columns import BoolColumn, IntColumn
from muster_core.world.labels import LabelColumn
from muster_core.world.nodes import NodeTable

#: A class that makes no volumes.
_NONE: Final = "kubernetes.io/no-provisioner"
#: Sizes that are remembered, of all classes.
_MOST_SIZES: Final = 1024


def reached(nodes: NodeTable, claim: Claim) -> BoolColumn:
    """Rows that the claim's class makes volumes for, whatever their size."""
    of_class = nodes.occupants.attachments.storage.classes.get(claim.demand.storage_class)
    if of_class is None or of_class.provisioner in ("", _NONE):
        return np.zeros(nodes.rows.size, dtype=np.bool_)
    return remembered(nodes, ("topologies", of_class.topologies), lambda: _allowed(nodes, of_class))


def has_room(nodes: NodeTable, claim: Claim) -> BoolColumn:
    """Rows for which a volume of the claim's size can be made, as far as the driver tells."""
    storage = nodes.occupants.attachments.storage
    of_class = storage.classes.get(claim.demand.storage_class)
    driver = storage.drivers.get(of_class.provisioner) if of_class is not None else None
    size = claim.request
    if of_class is None or driver is None or not driver.tells_capacity or size is None:
        return np.ones(nodes.rows.size, dtype=np.bool_)
    epochs = (nodes.facts_epoch, storage.epoch)
    if storage.rooms[0] != epochs:
        storage.rooms = (epochs, {})
    known = storage.rooms[1].get((of_class.name, size))
    if known is None:
        if len(storage.rooms[1]) >= _MOST_SIZES:
            storage.rooms[1].clear()
        known = storage.rooms[1][of_class.name, size] = _roomy(nodes, of_class.name, size)
    return known


def _allowed(nodes: NodeTable, of_class: StorageClass) -> BoolColumn:
    size = nodes.rows.size
    if not of_class.topologies:
        return np.ones(size, dtype=np.bool_)
    found = np.zeros(size, dtype=np.bool_)
    for topology in of_class.topologies:
        if topology:
            columns = ((nodes.labels.column(label) or LabelColumn(), values) for label, values in topology)
            found |= np.logical_and.reduce([column.has_any(values, size) for column, values in columns])
    return found


def _roomy(nodes: NodeTable, of_class: str, size: int) -> BoolColumn:
    found = np.zeros(nodes.rows.size, dtype=np.bool_)
    for capacity in nodes.occupants.attachments.storage.capacities(of_class):
        if capacity.nodes is not None and capacity.limit is not None and capacity.limit >= size:
            found[_selected(nodes, capacity.nodes)] = True
    return found


def _selected(nodes: NodeTable, selector: tuple[Target, ...]) -> IntColumn:
    """Often one capacity is one node's: its rows are few, and remembered."""
    storage = nodes.occupants.attachments.storage
    if storage.selected[0] != nodes.facts_epoch:
        storage.selected = (nodes.facts_epoch, {})
    known = storage.selected[1].get(selector)
    if known is None:
        known = storage.selected[1][selector] = np.flatnonzero(_matches(nodes, selector))
    return known


def _matches(nodes: NodeTable, selector: tuple[Target, ...]) -> BoolColumn:
    size = nodes.rows.size
    found = np.ones(size, dtype=np.bool_)
    for target in selector:
        column = nodes.labels.column(target.key) or LabelColumn()
        is_named = target.operator in (TargetOperator.IN, TargetOperator.NOT_IN)
        holds = column.has_any(target.values, size) if is_named else column.exists(size)
        found &= holds if target.operator in (TargetOperator.IN, TargetOperator.EXIST) else ~holds
    return found
