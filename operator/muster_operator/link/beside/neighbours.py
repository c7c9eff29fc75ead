"""Other Musters: their Leases, which say whom they serve. One that is renewed between two looks is alive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster_operator.link.api.session import KubeSession
from muster_operator.link.leading.lease import ANNOTATION_SERVES, LABELS, NOBODY, Lease, read

Place = tuple[str, str]
"""Namespace and name of a Lease."""

SELECTOR: Final = "%2C".join(f"{key.replace('/', '%2F')}%3D{value}" for key, value in LABELS.items())
LEASES: Final = f"/apis/coordination.k8s.io/v1/leases?labelSelector={SELECTOR}&resourceVersion=0"


@dataclass(frozen=True, slots=True)
class Muster:
    """An installation, by its Lease. `created`: when its Lease was made, by the API server's clock."""

    place: Place
    lease: Lease
    serves: frozenset[str]
    created: str

    def is_elder_than(self, other: Muster) -> bool:
        """Who was installed first stays; the order is the same for whoever asks."""
        return (self.created, self.place) < (other.created, other.place)


Musters = Mapping[Place, Muster]


async def installed(session: KubeSession) -> Musters:
    """All installations in the cluster, ours too.

    Raises:
        ApiRefused: the server does not show them.
        Unreachable: no answer came.
    """
    found = [_read(raw) for raw in (await session.get(LEASES)).get("items") or []]
    return {muster.place: muster for muster in found}


def rivals(musters: Musters, ours: Place, names: frozenset[str]) -> Musters:
    """Others with a holder that serve one of our names."""
    return {
        place: muster
        for place, muster in musters.items()
        if place != ours and muster.serves & names and muster.lease.holder != NOBODY
    }


def alive(before: Musters, now: Musters) -> list[Muster]:
    """Those that were renewed between the two looks."""
    return [muster for place, muster in sorted(now.items()) if place in before and before[place].lease != muster.lease]


def _read(raw: dict[str, Any]) -> Muster:
    metadata = raw.get("metadata") or {}
    serves = (metadata.get("annotations") or {}).get(ANNOTATION_SERVES) or ""
    return Muster(
        place=(metadata.get("namespace") or "", metadata.get("name") or ""),
        lease=read(raw),
        serves=frozenset(serves.split(",")) - {""},
        created=metadata.get("creationTimestamp") or "",
    )
