"""Filters VolumeRestrictions, NodeVolumeLimits and VolumeZone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from muster_core.model.specs import Disk, Volumes
from muster_core.model.storage import ONE_POD, Volume, VolumeHandle
from muster_core.placement.plugins.hooks import RefusedRows
from muster_core.placement.volumes.binding import AlwaysUnschedulable, memoized_reach, missing_claim, vanished
from muster_core.state import node_pods
from muster_core.state.columns import BoolColumn, IntColumn, LabelColumn
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot

DISK: Final = "node(s) had no available disk"

IN_USE: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


class VolumeRestrictionsFilter:
    """Filter by disks and ReadWriteOncePod claims that other pods use.

    `_users`: number of conflicting disks per row. `_elsewhere`: uses of the shape's ReadWriteOncePod claims by other
    pods.
    """

    def __init__(self, snapshot: Snapshot, volumes: Volumes) -> None:
        attachments = snapshot.nodes.pods_on_nodes.attachments
        own = {name for name, _ in volumes.ephemeral}
        claims = attachments.storage.claims
        one_pod = {name for name in volumes.claims if name not in own and ONE_POD in claims[name].demand.access_modes}
        self._single = bool(one_pod)
        self._elsewhere = sum(sum(attachments.claims.get(name, {}).values()) for name in one_pod)
        self._users = np.zeros(snapshot.size, dtype=np.int64)
        if volumes.disks:
            for disk, rows in attachments.disks.items():
                if _clash(volumes.disks, (disk,)):
                    for row, count in rows.items():
                        self._users[row] += count
        for pod_on_node, rows_of_it in snapshot.came():
            theirs = pod_on_node.facts.volumes
            self._elsewhere += sum(rows_of_it.values()) * len(one_pod.intersection(theirs.claims))
            clashing = sum(_clash(volumes.disks, (disk,)) for disk in dict.fromkeys(theirs.disks))
            if clashing:
                for row, count in rows_of_it.items():
                    self._users[row] += count * clashing
        self._clashes = sum(_clash(volumes.disks, (disk,)) for disk in dict.fromkeys(volumes.disks))

    def allows(self) -> BoolColumn:
        """Rows without a conflicting disk. No row while another pod uses a ReadWriteOncePod claim of the shape."""
        return (self._users <= 0) & (self._elsewhere <= 0)

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """Like `allows`, for some rows."""
        return (self._users[rows] <= 0) & (self._elsewhere <= 0)

    def refusals(self) -> Sequence[tuple[str, BoolColumn]]:
        """Rows with a conflicting disk, and all other rows if a claim is in use."""
        free = self._users <= 0
        return (DISK, ~free), (IN_USE, free & (self._elsewhere > 0))

    def add(self, row: int) -> IntColumn | None:
        """Marks the disks of the row and the claims as used."""
        self._users[row] += self._clashes
        self._elsewhere += int(self._single)
        return np.arange(len(self._users)) if self._single else np.array([row], dtype=np.int64)


def restrictions_filter(snapshot: Snapshot, shape: RequestShape) -> VolumeRestrictionsFilter | RefusedRows | None:
    """Creates the filter if the shape has disks or claims."""
    volumes = shape.pod_on_node.facts.volumes
    if not volumes.claims and not volumes.disks:
        return None
    why = missing_claim(snapshot, shape)
    return AlwaysUnschedulable(snapshot, why) if why else VolumeRestrictionsFilter(snapshot, volumes)


def _clash(ours: Sequence[Disk], theirs: Sequence[Disk]) -> bool:
    return any(_is_in_the_way(one, other) for one in ours for other in theirs)


def _is_in_the_way(one: Disk, other: Disk) -> bool:
    if (one.kind, one.id) != (other.kind, other.id):
        return False
    if one.kind == "rbd" and not set(one.monitors) & set(other.monitors):
        return False
    return one.kind == "aws" or not (one.read_only and other.read_only)


TOO_MANY: Final = "node(s) exceed max volume count"

#: Follows the name of the driver.
NOT_INSTALLED: Final = " CSI driver is not installed on the node"


class NodeVolumeLimitsFilter:
    """Filter by drivers that are not installed, and by the number of volumes that a driver can attach to a node.

    `wanted`: the volumes of the shape; `in_tree`: those that only nodes with a CSINode attach.
    """

    def __init__(
        self, snapshot: Snapshot, wanted: frozenset[VolumeHandle], in_tree: frozenset[VolumeHandle] = frozenset()
    ) -> None:
        attachments = snapshot.nodes.pods_on_nodes.attachments
        self._full = np.zeros(snapshot.size, dtype=np.bool_)
        self._without = _without_drivers(snapshot, wanted, in_tree)
        planned = _planned(snapshot)
        for driver, ours in _by_driver(wanted).items():
            limits = attachments.limits(driver, snapshot.size)
            if limits is None:
                continue
            more = np.full(snapshot.size, len(ours), dtype=np.int64)
            for row, shared in attachments.rows_with(ours).items():
                more[row] -= shared
            used = attachments.used(driver, snapshot.size)
            for row, volumes in planned.items():
                by_pods, counts = attachments.on_with(row, volumes)
                more[row], used[row] = len(ours - by_pods), counts.get(driver, 0)
            self._full |= (more > 0) & (used + more > limits)

    def allows(self) -> BoolColumn:
        """Rows that can attach the volumes."""
        found = ~self._full
        for _, rows in self._without:
            found &= ~rows
        return found

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """Like `allows`, for some rows."""
        found = ~self._full[rows]
        for _, without in self._without:
            found &= ~without[rows]
        return found

    def refusals(self) -> Sequence[tuple[str, BoolColumn]]:
        """Rows that cannot attach the volumes. Each row has one reason, as in kube-scheduler."""
        found, named = [], np.zeros_like(self._full)
        for driver, rows in self._without:
            found.append((driver + NOT_INSTALLED, rows & ~named))
            named |= rows
        return (*found, (TOO_MANY, self._full & ~named))

    def add(self, row: int) -> IntColumn | None:
        """Opens the row: further pods of the shape share the attached volumes."""
        self._full[row] = False
        return np.array([row], dtype=np.int64)


def limits_filter(snapshot: Snapshot, shape: RequestShape) -> NodeVolumeLimitsFilter | None:
    """Creates the filter if the shape has volumes with an attach limit."""
    volumes = shape.pod_on_node.facts.volumes
    if not volumes.claims and not volumes.attached:
        return None
    storage = snapshot.nodes.pods_on_nodes.attachments.storage
    found = {claim: handle for claim in volumes.claims if (handle := storage.handle(claim)) is not None}
    wanted = frozenset((*volumes.attached, *found.values()))
    if not wanted:
        return None
    elsewhere = {handle for claim, handle in found.items() if not storage.is_in_tree(claim)}
    return NodeVolumeLimitsFilter(snapshot, wanted, wanted - elsewhere)


def _without_drivers(
    snapshot: Snapshot, wanted: frozenset[VolumeHandle], in_tree: frozenset[VolumeHandle]
) -> list[tuple[str, BoolColumn]]:
    """The required drivers of the volumes, sorted, and the rows where each is not installed.

    As in kube-scheduler, a volume of an in-tree source requires nothing of a node without a CSINode.
    """
    attachments = snapshot.nodes.pods_on_nodes.attachments
    drivers = attachments.storage.drivers
    required = {one.driver for one in wanted if one.driver in drivers and drivers[one.driver].is_required}
    found = []
    for driver in sorted(required):
        limits = attachments.limits(driver, snapshot.size)
        rows = np.ones(snapshot.size, dtype=np.bool_) if limits is None else limits == node_pods.NOT_INSTALLED
        if all(handle in in_tree for handle in wanted if handle.driver == driver):
            with_csi_node = np.zeros(snapshot.size, dtype=np.bool_)
            with_csi_node[list(attachments.csi_nodes)] = True
            rows &= with_csi_node
        found.append((driver, rows))
    return found


def _by_driver(handles: frozenset[VolumeHandle]) -> dict[str, set[VolumeHandle]]:
    found: dict[str, set[VolumeHandle]] = {}
    for handle in handles:
        found.setdefault(handle.driver, set()).add(handle)
    return found


def _planned(snapshot: Snapshot) -> dict[int, list[tuple[Volumes, int]]]:
    """Returns the volumes of planned pods per row, and how many pods have them; a negative number is a removal."""
    found: dict[int, list[tuple[Volumes, int]]] = {}
    for pod_on_node, rows in snapshot.came():
        volumes = pod_on_node.facts.volumes
        if volumes.claims or volumes.attached:
            for row, count in rows.items():
                found.setdefault(row, []).append((volumes, count))
    return found


ZONE_CONFLICT: Final = "node(s) had no available volume zone"
_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"

#: Current name of each label; deprecated names first.
_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
    _ZONE: _ZONE,
    _REGION: _REGION,
}

_BETWEEN: Final = "__"

#: A label and its allowed values.
_Topology = tuple[str, tuple[str, ...]]


def zone_filter(snapshot: Snapshot, shape: RequestShape) -> RefusedRows | None:
    """Creates the filter if the shape has bound volumes with zone or region labels.

    It allows the nodes in the zones and regions of all volumes, and those without any zone or region label.
    """
    volumes = shape.pod_on_node.facts.volumes
    if not volumes.claims:
        return None
    why = vanished(snapshot, shape)
    if why:
        return AlwaysUnschedulable(snapshot, why)
    storage, own = snapshot.nodes.pods_on_nodes.attachments.storage, {name for name, _ in volumes.ephemeral}
    claims = (storage.claims.get(name) for name in volumes.claims if name not in own)
    named = (storage.volumes[claim.volume] for claim in claims if claim is not None and claim.volume)
    topologies = tuple(dict.fromkeys(one for volume in named for one in _topologies(volume)))
    if not topologies:
        return None
    allowed = memoized_reach(snapshot.nodes, topologies, lambda: _rows(snapshot.nodes, topologies))
    return RefusedRows(snapshot, [(ZONE_CONFLICT, ~allowed)])


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
    is_absent = np.logical_and.reduce([~column.exists(size) for column in columns.values()])
    found: BoolColumn = met | is_absent
    return found
