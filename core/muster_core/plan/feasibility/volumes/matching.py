"""Volumes that are there and free, for claims that wait for a pod: on which rows each claim finds one, and which.

A claim takes the volume that is its own already, or else the smallest that is
large enough; of equals the first by name. Claims of one pod go smallest first
and leave each other's volumes alone. Source: Kubernetes 1.36,
findMatchingVolumes and FindMatchingVolume.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

import numpy as np

from muster_core.model.storage import Claim, Demand, Volume
from muster_core.plan.assumptions import Assumptions
from muster_core.plan.feasibility.volumes.reach import reach
from muster_core.world.columns import BoolColumn, IntColumn
from muster_core.world.nodes import NodeTable
from muster_core.world.storage import Storage


class Matching:
    """Claims of one pod, over one draft."""

    __slots__ = ("_assumptions", "_nodes", "_storage", "claims")

    def __init__(self, nodes: NodeTable, assumptions: Assumptions, claims: Sequence[Claim]) -> None:
        self._nodes, self._assumptions = nodes, assumptions
        self._storage: Storage = nodes.occupants.attachments.storage
        self.claims = sorted(claims, key=lambda claim: claim.request or 0)

    def rows(self) -> list[BoolColumn]:
        """For each claim, in the order of `claims`, the rows where it finds a volume."""
        if self._is_mixed():
            return self._rows_one_by_one()
        covers: dict[Demand, dict[int, IntColumn]] = {}
        return [self._rows_of(claim, covers) for claim in self.claims]

    def at(self, row: int) -> list[str]:
        """For each claim the volume that it takes there; empty = it finds none."""
        taken: dict[str, None] = {}
        found = []
        for claim in self.claims:
            volume = self._volume_at(claim, row, taken)
            taken.update({volume: None} if volume else {})
            found.append(volume)
        return found

    def _is_mixed(self) -> bool:
        """Whether claims of different demands may want the same volume, so that each row has to be looked at."""
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

    def _rows_of(self, claim: Claim, covers: dict[Demand, dict[int, IntColumn]]) -> BoolColumn:
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

    def _cover(self, demand: Demand, size: int) -> IntColumn:
        """How many volumes of at least that size each row reaches, less those that the plan has taken; a copy."""
        nodes = self._nodes
        pool = self._storage.pool(demand)
        cover = pool.cover(size, nodes.facts_epoch, lambda affinity: reach(nodes, affinity), nodes.rows.size).copy()
        for name in self._assumptions.taken():
            offer = pool.offer(name)
            if offer is not None and offer[0] >= size:
                np.add(cover, -1, out=cover, where=reach(nodes, offer[1]))
        return cover

    def _own(self, claim: Claim, excluded: Container[str]) -> Volume | None:
        """The volume that names the claim, or is assumed for it, if it would do."""
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
        near = pool.near(row, nodes.facts_epoch, lambda affinity: reach(nodes, affinity))
        offers = (self._first(pool.of_size(affinity, claim.request or 0), taken) for affinity in near)
        return min((offer for offer in offers if offer is not None), default=(0, ""))[1]

    def _first(self, offers: Iterable[tuple[int, str]], taken: Mapping[str, None]) -> tuple[int, str] | None:
        is_free = (one for one in offers if one[1] not in taken and self._assumptions.taken_for(one[1]) is None)
        return next(is_free, None)


def _take_smallest(sizes: dict[int, IntColumn], request: int, rows: BoolColumn) -> None:
    """On these rows the smallest volume of at least the request is gone: it is the smallest for each larger size,
    too, of which as many are there.
    """
    before = sizes[request].copy()
    for size, cover in sizes.items():
        if size >= request:
            np.add(cover, -1, out=cover, where=rows & (cover == before))
