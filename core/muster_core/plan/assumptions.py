"""Which volume each claim would get if what is planned so far were committed, on top of what is assumed already.

Part of a Draft; asked by the filters of plan/feasibility/volumes/, written by binding.py there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster_core.model.storage import Choice
from muster_core.world.storage import Assumed, Storage


class Assumptions:
    """What-ifs over the storage of a partition."""

    __slots__ = ("_counts", "_ours", "_storage", "_taken")

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._ours: dict[str, Assumed] = {}
        #: How many of the plan's places use the claim.
        self._counts: dict[str, int] = {}
        self._taken: dict[str, str] = {}

    def of(self, claim: str) -> Assumed | None:
        """What the claim is to get; None = nothing is assumed of it."""
        return self._ours.get(claim) or self._storage.assumed.get(claim)

    def taken_for(self, volume: str) -> str | None:
        """The claim that is to get the volume."""
        return self._taken.get(volume) or self._storage.taken.get(volume)

    def taken(self) -> Iterator[str]:
        """Volumes that the plan takes."""
        return iter(self._taken)

    def assume(self, claim: str, assumed: Assumed, count: int = 1) -> None:
        """So many more places of the plan use the claim, which gets this."""
        self._ours[claim] = assumed
        self._counts[claim] = self._counts.get(claim, 0) + count
        if assumed.volume:
            self._taken[assumed.volume] = claim

    def release(self, claim: str, count: int = 1) -> None:
        """So many places less do; with the last of them the plan gives it nothing."""
        if claim not in self._counts:
            return
        self._counts[claim] -= count
        if self._counts[claim] <= 0:
            del self._counts[claim]
            self._taken.pop(self._ours.pop(claim).volume, None)

    def choice(self, claims: Iterable[str]) -> Choice:
        """What the plan gives these claims, where it gives them anything."""
        return tuple((claim, self._ours[claim].volume) for claim in dict.fromkeys(claims) if claim in self._ours)

    def fork(self) -> Assumptions:
        """Assumptions that start from these and leave them alone."""
        twin = Assumptions(self._storage)
        twin._ours, twin._counts, twin._taken = dict(self._ours), dict(self._counts), dict(self._taken)
        return twin
