"""VolumeZone: a node that says in which zone or region it is has to be in one that the volume names.

Labels of volumes may name several, joined by "__"; a node that has none of
the labels is in a cluster of one zone. What a volume calls by the old name of
a label the node may call by the new one. Source: Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from muster_core.model.storage import Volume
from muster_core.plan.draft import Draft
from muster_core.plan.feasibility.volumes.claims import Nowhere, vanished
from muster_core.plan.feasibility.volumes.reach import remembered
from muster_core.plan.shape import Shape
from muster_core.world.columns import BoolColumn, IntColumn
from muster_core.world.labels import LabelColumn
from muster_core.world.nodes import NodeTable

CONFLICT: Final = "node(s) had no available volume zone"
_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
#: Each label by its name of now; the old names first.
_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
    _ZONE: _ZONE,
    _REGION: _REGION,
}
_BETWEEN: Final = "__"

#: A label and its values.
_Topology = tuple[str, tuple[str, ...]]


class InZone:
    """The zones of a shape's volumes, as a guard; nothing that is placed changes them."""

    __slots__ = ("_allowed",)

    def __init__(self, allowed: BoolColumn) -> None:
        self._allowed = allowed

    def allows(self) -> BoolColumn:
        """Rows in all of them, or in none that is known."""
        return self._allowed

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """The same of some rows."""
        return self._allowed[rows]

    def refusals(self) -> Sequence[tuple[str, BoolColumn]]:
        """The others."""
        return ((CONFLICT, ~self._allowed),)

    def add(self, row: int) -> IntColumn | None:
        """No matter."""
        return None


def guard(draft: Draft, shape: Shape) -> InZone | Nowhere | None:
    """Of a shape with volumes that say where they are."""
    volumes = shape.occupant.facts.volumes
    if not volumes.claims:
        return None
    why = vanished(draft, shape)
    if why:
        return Nowhere(draft, why)
    storage, own = draft.nodes.occupants.attachments.storage, {name for name, _ in volumes.ephemeral}
    claims = (storage.claims.get(name) for name in volumes.claims if name not in own)
    named = (storage.volumes[claim.volume] for claim in claims if claim is not None and claim.volume)
    topologies = tuple(dict.fromkeys(one for volume in named for one in _topologies(volume)))
    if not topologies:
        return None
    return InZone(remembered(draft.nodes, topologies, lambda: _rows(draft.nodes, topologies)))


def _topologies(volume: Volume) -> Iterator[_Topology]:
    labels = dict(volume.labels)
    for label in _LABELS:
        values = [value.strip() for value in labels[label].split(_BETWEEN)] if label in labels else []
        if values and all(values):
            yield label, tuple(sorted(values))


def _rows(nodes: NodeTable, topologies: tuple[_Topology, ...]) -> BoolColumn:
    size = nodes.rows.size
    columns = {label: nodes.labels.column(label) or LabelColumn() for label in _LABELS}
    met = np.ones(size, dtype=np.bool_)
    for label, values in topologies:
        column, of_now = columns[label], columns[_LABELS[label]]
        met &= np.where(column.exists(size), column.has_any(values, size), of_now.has_any(values, size))
    is_nowhere = np.logical_and.reduce([~column.exists(size) for column in columns.values()])
    found: BoolColumn = met | is_nowhere
    return found
