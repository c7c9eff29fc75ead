"""Filter VolumeBinding: claims that are bound, and volumes for claims with delayed binding."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np

from muster_core.model.constraints import Target, TargetOperator, Term
from muster_core.model.ids import NodeId
from muster_core.model.specs import Volumes
from muster_core.model.storage import LOST, Bytes, Claim, ClaimDemand, StorageClass, Volume
from muster_core.placement.plugins.hooks import RefusedRows
from muster_core.placement.plugins.node_properties import term_holds
from muster_core.state.columns import BoolColumn, IntColumn, LabelColumn
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import Assumptions, RequestShape, Snapshot
from muster_core.state.storage import Affinity, Assumed, Storage


def memoized_reach(nodes: NodeTable, about: object, find: Callable[[], BoolColumn]) -> BoolColumn:
    """Returns `find()`, cached by `about` until a node property changes. The column is read-only."""
    known = nodes.pods_on_nodes.attachments.storage.memory.get(nodes.facts_epoch, about, find)
    known.flags.writeable = False
    return known


def reach(nodes: NodeTable, affinity: Affinity) -> BoolColumn:
    """Rows that a volume's node affinity allows."""
    return memoized_reach(nodes, affinity, lambda: _reach(nodes, affinity))


def reach_bound(nodes: NodeTable, volume: Volume) -> BoolColumn:
    """Like `reach`, for a bound volume.

    Nodes that run the CSI driver to which an in-tree plugin migrated may have other labels than the in-tree volume
    names.
    """
    migrated = volume.migrated
    rows = nodes.pods_on_nodes.attachments.migrated.get(migrated.plugin) if migrated is not None else None
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
        # As in kube-scheduler, `matchFields` of a volume are ignored and therefore match every node.
        if term.expressions:
            found |= term_holds(Term(term.expressions), nodes)
        elif term.fields:
            found[:] = True
    return found


NOT_BOUND: Final = "pod has unbound immediate PersistentVolumeClaims"


@dataclass(frozen=True, slots=True)
class SortedClaims:
    """Claims of a pod by binding state, in the order of the pod spec, with duplicates."""

    bound: tuple[Claim, ...]
    #: A volume is selected for them together with the node.
    delayed: tuple[Claim, ...]


def own_name(claim: str) -> str:
    """Name of the claim without its namespace."""
    return claim.partition("/")[2]


def sorted_claims(storage: Storage, volumes: Volumes) -> SortedClaims:
    """Sorts the claims of a pod. Requires that `unusable` returns no reason for it."""
    claims = [storage.claims[name] for name in volumes.claims]
    return SortedClaims(
        tuple(claim for claim in claims if claim.is_bound), tuple(claim for claim in claims if not claim.is_bound)
    )


def missing_claim(snapshot: Snapshot, shape: RequestShape) -> str:
    """Returns the reason if a claim of the pod spec does not exist, else an empty string (VolumeRestrictions)."""
    volumes, storage = shape.pod_on_node.facts.volumes, _storage(snapshot)
    own = {name for name, _ in volumes.ephemeral}
    gone = next((name for name in volumes.claims if name not in storage.claims and name not in own), None)
    return "" if gone is None else f'persistentvolumeclaim "{own_name(gone)}" not found'


def unusable(snapshot: Snapshot, shape: RequestShape) -> str:
    """Returns the reason if a claim makes the pod unschedulable on every node, else an empty string (VolumeBinding)."""
    volumes, storage = shape.pod_on_node.facts.volumes, _storage(snapshot)
    own = dict(volumes.ephemeral)
    for name in volumes.claims:
        claim = storage.claims.get(name)
        if claim is None and name in own:
            wanted = own_name(name)
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{wanted}"'
        why = f'persistentvolumeclaim "{own_name(name)}" not found' if claim is None else _why_not(claim)
        if why:
            return why
        if claim is not None and name in own and claim.owner != own[name]:
            return f"PVC {name} was not created for pod {volumes.pod} (pod is not owner)"
    return NOT_BOUND if any(_is_early(storage, name) for name in volumes.claims) else ""


def vanished(snapshot: Snapshot, shape: RequestShape) -> str:
    """Returns the reason if a bound claim refers to a volume that does not exist, else an empty string (VolumeZone)."""
    volumes, storage = shape.pod_on_node.facts.volumes, _storage(snapshot)
    own = {name for name, _ in volumes.ephemeral}
    for name in volumes.claims:
        claim = storage.claims.get(name)
        if claim is not None and name not in own and claim.volume and claim.volume not in storage.volumes:
            return f'persistentvolume "{claim.volume}" not found'
    return ""


def _why_not(claim: Claim) -> str:
    if claim.phase == LOST:
        return f'persistentvolumeclaim "{own_name(claim.name)}" bound to non-existent persistentvolume "{claim.volume}"'
    return f'persistentvolumeclaim "{own_name(claim.name)}" is being deleted' if claim.deleting else ""


def _is_early(storage: Storage, name: str) -> bool:
    """Whether the claim is unbound although its class binds immediately."""
    claim = storage.claims[name]
    of_class = storage.classes.get(claim.demand.storage_class)
    is_delayed = of_class is not None and of_class.delayed and not claim.volume
    return not claim.is_bound and not is_delayed


def _storage(snapshot: Snapshot) -> Storage:
    return snapshot.nodes.pods_on_nodes.attachments.storage


class AlwaysUnschedulable(RefusedRows):
    """Filter of a pod that no node can run."""

    def __init__(self, snapshot: Snapshot, why: str) -> None:
        super().__init__(snapshot, [(why, np.ones(snapshot.size, dtype=np.bool_))])


class Matching:
    """Matches the unbound claims of one pod with available volumes, as kube-scheduler's volume binder does."""

    def __init__(self, nodes: NodeTable, assumptions: Assumptions, claims: Sequence[Claim]) -> None:
        self._nodes, self._assumptions = nodes, assumptions
        self._storage: Storage = nodes.pods_on_nodes.attachments.storage
        self.claims = sorted(claims, key=lambda claim: claim.request or 0)

    def rows(self) -> list[BoolColumn]:
        """Returns the rows where each claim finds a volume, in the order of `claims`."""
        if self._is_mixed():
            return self._rows_one_by_one()
        covers: dict[ClaimDemand, dict[Bytes, IntColumn]] = {}
        return [self._rows_of(claim, covers) for claim in self.claims]

    def at(self, row: int) -> list[str]:
        """Returns the volume that each claim gets on the row; empty = none is available."""
        taken: dict[str, None] = {}
        found = []
        for claim in self.claims:
            volume = self._volume_at(claim, row, taken)
            taken.update({volume: None} if volume else {})
            found.append(volume)
        return found

    def _is_mixed(self) -> bool:
        """Whether claims with different demands may need the same volume, so that each row must be evaluated
        separately.
        """
        demands = {claim.demand for claim in self.claims}
        classes = {demand.storage_class for demand in demands}
        return len(classes) < len(demands) or len({claim.name for claim in self.claims}) < len(self.claims)

    def _rows_one_by_one(self) -> list[BoolColumn]:
        found = [np.zeros(self._nodes.rows.size, dtype=np.bool_) for _ in self.claims]
        for node in self._nodes:
            row = self._nodes.rows.row(node)
            for column, volume in zip(found, self.at(row), strict=True):
                column[row] = bool(volume)
        return found

    def _rows_of(self, claim: Claim, covers: dict[ClaimDemand, dict[Bytes, IntColumn]]) -> BoolColumn:
        own = self._own(claim, ())
        if own is not None:
            return reach(self._nodes, own.affinity)
        sizes = covers.get(claim.demand)
        if sizes is None:
            requests = {one.request or 0 for one in self.claims if one.demand == claim.demand}
            sizes = covers[claim.demand] = {size: self._cover(claim.demand, size) for size in sorted(requests)}
        found = sizes[claim.request or 0] > 0
        _take_smallest(sizes, claim.request or 0, found)
        return found

    def _cover(self, demand: ClaimDemand, size: Bytes) -> IntColumn:
        """Returns how many free volumes of at least this size each row can reach. The column is a copy."""
        nodes = self._nodes
        pool = self._storage.pool(demand)
        cover = pool.cover(size, nodes.facts_epoch, lambda affinity: reach(nodes, affinity), nodes.rows.size).copy()
        for name in self._assumptions.taken():
            offer = pool.offer(name)
            if offer is not None and offer[0] >= size:
                np.add(cover, -1, out=cover, where=reach(nodes, offer[1]))
        return cover

    def _own(self, claim: Claim, excluded: Container[str]) -> Volume | None:
        """Returns the suitable volume that refers to the claim or that the plan assumes for it, or None."""
        assumed = self._assumptions.of(claim.name)
        names = self._storage.referring(claim.name)
        for name in (assumed.volume, *names) if assumed is not None and assumed.volume else names:
            volume = self._storage.volumes.get(name)
            if volume is not None and name not in excluded and self._is_own(volume, claim):
                return volume
        return None

    def _is_own(self, volume: Volume, claim: Claim) -> bool:
        taker, reference, demand = self._assumptions.taken_for(volume.name), volume.reference, claim.demand
        if taker is None:
            if reference is None or reference.claim != claim.name or reference.uid not in ("", claim.uid):
                return False
        elif taker != claim.name:
            return False
        is_large_enough = volume.capacity >= (claim.request or 0) and not volume.deleting
        kinds = (volume.storage_class, volume.mode, volume.attributes_class)
        return is_large_enough and kinds == (demand.storage_class, demand.mode, demand.attributes_class)

    def _volume_at(self, claim: Claim, row: int, taken: Mapping[str, None]) -> str:
        own = self._own(claim, taken)
        if own is not None:
            return own.name if reach(self._nodes, own.affinity)[row] else ""
        nodes, pool = self._nodes, self._storage.pool(claim.demand)
        reachable = pool.reachable(row, nodes.facts_epoch, lambda affinity: reach(nodes, affinity))
        offers = (self._first(pool.of_size(affinity, claim.request or 0), taken) for affinity in reachable)
        return min((offer for offer in offers if offer is not None), default=(0, ""))[1]

    def _first(self, offers: Iterable[tuple[Bytes, str]], taken: Mapping[str, None]) -> tuple[Bytes, str] | None:
        is_free = (one for one in offers if one[1] not in taken and self._assumptions.taken_for(one[1]) is None)
        return next(is_free, None)


def _take_smallest(sizes: dict[Bytes, IntColumn], request: Bytes, rows: BoolColumn) -> None:
    """Removes on these rows the smallest volume of at least the request.

    It also counts for each larger size that has as many volumes.
    """
    before = sizes[request].copy()
    for size, cover in sizes.items():
        if size >= request:
            np.add(cover, -1, out=cover, where=rows & (cover == before))


#: Provisioner of a class that creates no volumes.
_NONE: Final = "kubernetes.io/no-provisioner"


def reached(nodes: NodeTable, claim: Claim) -> BoolColumn:
    """Rows for which the claim's class can create volumes, whatever their size."""
    of_class = nodes.pods_on_nodes.attachments.storage.classes.get(claim.demand.storage_class)
    if of_class is None or of_class.provisioner in ("", _NONE):
        return np.zeros(nodes.rows.size, dtype=np.bool_)
    return memoized_reach(nodes, ("topologies", of_class.topologies), lambda: _allowed(nodes, of_class))


def has_room(nodes: NodeTable, claim: Claim) -> BoolColumn:
    """Rows for which a volume of the claim's size can be created, if the driver publishes its capacity."""
    storage = nodes.pods_on_nodes.attachments.storage
    of_class = storage.classes.get(claim.demand.storage_class)
    driver = storage.drivers.get(of_class.provisioner) if of_class is not None else None
    size = claim.request
    if of_class is None or driver is None or not driver.tells_capacity or size is None:
        return np.ones(nodes.rows.size, dtype=np.bool_)
    name, epochs = of_class.name, (nodes.facts_epoch, storage.epoch)
    return storage.rooms.get(epochs, (name, size), lambda: _roomy(nodes, name, size))


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


def _roomy(nodes: NodeTable, of_class: str, size: Bytes) -> BoolColumn:
    """Unlike the sizes of volumes, kube-scheduler 1.37 compares capacities in whole bytes, rounded up."""
    found = np.zeros(nodes.rows.size, dtype=np.bool_)
    for capacity in nodes.pods_on_nodes.attachments.storage.capacities(of_class):
        if capacity.nodes is not None and capacity.limit is not None and ceil(capacity.limit) >= ceil(size):
            found[_selected(nodes, capacity.nodes)] = True
    return found


def _selected(nodes: NodeTable, selector: tuple[Target, ...]) -> IntColumn:
    """Rows that match the selector, cached. Usually a CSIStorageCapacity selects few nodes."""
    cache = nodes.pods_on_nodes.attachments.storage.selected
    return cache.get(nodes.facts_epoch, selector, lambda: np.flatnonzero(_matches(nodes, selector)))


def _matches(nodes: NodeTable, selector: tuple[Target, ...]) -> BoolColumn:
    size = nodes.rows.size
    found = np.ones(size, dtype=np.bool_)
    for target in selector:
        column = nodes.labels.column(target.key) or LabelColumn()
        is_named = target.operator in (TargetOperator.IN, TargetOperator.NOT_IN)
        holds = column.has_any(target.values, size) if is_named else column.exists(size)
        found &= holds if target.operator in (TargetOperator.IN, TargetOperator.EXIST) else ~holds
    return found


NOT_REACHED: Final = "node(s) didn't match PersistentVolume's node affinity"
NONE_FREE: Final = "node(s) didn't find available persistent volumes to bind"
NO_SPACE: Final = "node(s) did not have enough free storage"
GONE: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class VolumeBindingFilter(RefusedRows):
    """Filter by the claims of a shape, bound and unbound. A row may be refused for several reasons."""

    def __init__(self, snapshot: Snapshot, claims: SortedClaims) -> None:
        self._snapshot, self._claims = snapshot, claims
        self._given = self._assumptions = snapshot.assumptions
        self._look()

    def add(self, row: int) -> IntColumn | None:
        """Assumes volumes for the claims on this row. Pods with the same claims then need nodes that reach these
        volumes.
        """
        if not self._claims.delayed:
            return None
        if self._assumptions is self._given:
            self._assumptions = self._assumptions.fork()
        for claim, assumed in chosen(self._snapshot.nodes, self._assumptions, self._claims.delayed, row):
            self._assumptions.assume(claim, assumed)
        self._look()
        return np.arange(self._snapshot.size)

    def _look(self) -> None:
        nodes = self._snapshot.nodes
        out_of_reach, vanished = _bound(nodes, self._claims.bound)
        none_free, no_space = _delayed(nodes, self._assumptions, self._claims.delayed)
        refused = ((NOT_REACHED, out_of_reach), (NONE_FREE, none_free), (NO_SPACE, no_space), (GONE, vanished))
        super().__init__(self._snapshot, refused)


def binding_filter(snapshot: Snapshot, shape: RequestShape) -> RefusedRows | None:
    """Creates the filter if the shape has claims."""
    volumes = shape.pod_on_node.facts.volumes
    if not volumes.claims:
        return None
    why = unusable(snapshot, shape)
    if why:
        return AlwaysUnschedulable(snapshot, why)
    return VolumeBindingFilter(snapshot, sorted_claims(snapshot.nodes.pods_on_nodes.attachments.storage, volumes))


def assume(snapshot: Snapshot, shape: RequestShape, row: int, count: int = 1) -> None:
    """Records in the snapshot the volumes that the claims of `count` pods get on the row; a negative count removes
    them.

    The filter must allow the row.
    """
    volumes = shape.pod_on_node.facts.volumes
    if not volumes.claims:
        return
    if count < 0:
        for claim in dict.fromkeys(volumes.claims):
            snapshot.assumptions.release(claim, -count)
        return
    delayed = sorted_claims(snapshot.nodes.pods_on_nodes.attachments.storage, volumes).delayed
    for claim, assumed in chosen(snapshot.nodes, snapshot.assumptions, delayed, row):
        snapshot.assumptions.assume(claim, assumed, count)


def chosen(nodes: NodeTable, assumptions: Assumptions, delayed: Sequence[Claim], row: int) -> list[tuple[str, Assumed]]:
    """Returns the volume that each claim gets on an allowed row. An empty volume means that one is created."""
    if not delayed:
        return []
    node = nodes.rows.at(row)
    _, waiting = _by_node(assumptions, delayed)
    matching = Matching(nodes, assumptions, waiting)
    found = {claim.name: Assumed("", node) for claim in delayed}
    for claim, volume in reversed(list(zip(matching.claims, matching.at(row), strict=True))):
        if volume:
            found[claim.name] = Assumed(volume, node)
    return list(found.items())


def _bound(nodes: NodeTable, claims: Sequence[Claim]) -> tuple[BoolColumn, BoolColumn]:
    """Returns the rows that cannot reach a volume, and those that miss a volume. The first refused claim decides."""
    storage = nodes.pods_on_nodes.attachments.storage
    out_of_reach, vanished = (np.zeros(nodes.rows.size, dtype=np.bool_) for _ in range(2))
    for claim in claims:
        volume = storage.volumes.get(claim.volume)
        if volume is None:
            vanished = ~out_of_reach
            break
        out_of_reach |= ~reach_bound(nodes, volume)
    return out_of_reach, vanished


def _delayed(nodes: NodeTable, assumptions: Assumptions, claims: Sequence[Claim]) -> tuple[BoolColumn, BoolColumn]:
    """Returns the rows without an available volume, and those without storage capacity to create one."""
    size = nodes.rows.size
    none_free, no_space = (np.zeros(size, dtype=np.bool_) for _ in range(2))
    if not claims:
        return none_free, no_space
    on_nodes, waiting = _by_node(assumptions, claims)
    for _, node in on_nodes:
        elsewhere = np.ones(size, dtype=np.bool_)
        if node in nodes:
            elsewhere[nodes.rows.row(node)] = False
        none_free |= elsewhere
    matching = Matching(nodes, assumptions, waiting)
    made = [(claim, ~none_free) for claim, _ in on_nodes]
    made += [(claim, ~found) for claim, found in zip(matching.claims, matching.rows(), strict=True)]
    for claim, rows in made:
        left = rows & ~none_free & ~no_space
        if left.any():
            reachable = reached(nodes, claim)
            none_free |= left & ~reachable
            no_space |= left & reachable & ~has_room(nodes, claim)
    return none_free, no_space


def _by_node(assumptions: Assumptions, claims: Sequence[Claim]) -> tuple[list[tuple[Claim, NodeId]], list[Claim]]:
    """Splits the claims: those whose volume is created for a selected node, and the others."""
    on_nodes: list[tuple[Claim, NodeId]] = []
    waiting: list[Claim] = []
    for claim in claims:
        assumed = assumptions.of(claim.name)
        node = assumed.node if assumed is not None and not assumed.volume else claim.selected_node
        if node is None:
            waiting.append(claim)
        else:
            on_nodes.append((claim, node))
    return on_nodes, waiting
