"""A pod's claims as they are now: what is bound, what is to be chosen, and why a pod can go nowhere.

Source: Kubernetes 1.36, PreFilter of VolumeRestrictions, VolumeBinding and VolumeZone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from muster_core.model.facts import Volumes
from muster_core.model.storage import LOST, Claim
from muster_core.plan.draft import Draft
from muster_core.plan.shape import Shape
from muster_core.world.columns import BoolColumn, IntColumn
from muster_core.world.storage import Storage

NOT_BOUND: Final = "pod has unbound immediate PersistentVolumeClaims"


@dataclass(frozen=True, slots=True)
class Sorted:
    """Claims by what is still to be done for them, in the pod's order, as often as the pod names them."""

    bound: tuple[Claim, ...]
    #: A volume is chosen for them together with the node.
    delayed: tuple[Claim, ...]


def own_name(claim: str) -> str:
    """Without its namespace."""
    return claim.partition("/")[2]


def sorted_claims(storage: Storage, volumes: Volumes) -> Sorted:
    """The pod's claims; only for a pod of which `unusable` says nothing."""
    claims = [storage.claims[name] for name in volumes.claims]
    return Sorted(
        tuple(claim for claim in claims if claim.is_bound), tuple(claim for claim in claims if not claim.is_bound)
    )


def missing(draft: Draft, shape: Shape) -> str:
    """A claim that is not there, of those that the pod names itself (VolumeRestrictions)."""
    volumes, storage = shape.occupant.facts.volumes, _storage(draft)
    own = {name for name, _ in volumes.ephemeral}
    gone = next((name for name in volumes.claims if name not in storage.claims and name not in own), None)
    return "" if gone is None else f'persistentvolumeclaim "{own_name(gone)}" not found'


def unusable(draft: Draft, shape: Shape) -> str:
    """A claim that no node can help (VolumeBinding)."""
    volumes, storage = shape.occupant.facts.volumes, _storage(draft)
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


def vanished(draft: Draft, shape: Shape) -> str:
    """A volume that is not there, of those that the pod's claims are bound to (VolumeZone)."""
    volumes, storage = shape.occupant.facts.volumes, _storage(draft)
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
    """Whether the claim has to be bound before the pod has a node, and is not."""
    claim = storage.claims[name]
    of_class = storage.classes.get(claim.demand.storage_class)
    is_delayed = of_class is not None and of_class.delayed and not claim.volume
    return not claim.is_bound and not is_delayed


def _storage(draft: Draft) -> Storage:
    return draft.nodes.occupants.attachments.storage


class Nowhere:
    """The guard of a pod that can go nowhere."""

    __slots__ = ("_all", "_why")

    def __init__(self, draft: Draft, why: str) -> None:
        self._why, self._all = why, np.ones(draft.size, dtype=np.bool_)

    def allows(self) -> BoolColumn:
        """No row."""
        return ~self._all

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """None of them."""
        return ~self._all[rows]

    def refusals(self) -> Sequence[tuple[str, BoolColumn]]:
        """Every row, for the one reason."""
        return ((self._why, self._all),)

    def add(self, row: int) -> IntColumn | None:
        """Nothing can be added."""
        return None
