"""Finds Muster in a cluster by the Leases of scheduler names in kube-system, which only administrators can write.

Any user can create pods and Leases with Muster's labels in a namespace, so no label of another namespace is used.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from muster import leases
from muster.clients.kubernetes import Cluster
from muster.errors import NotThere, Unreachable

Json = dict[str, Any]


def name_leases(cluster: Cluster) -> list[Json]:
    """The Leases of scheduler names. Raises Unreachable."""
    found = cluster.list(leases.path(leases.NAMES_NAMESPACE), labelSelector=leases.NAMES_SELECTOR)
    return [lease for lease in found if str(lease["metadata"]["name"]).startswith(leases.PREFIX)]


def namespace(cluster: Cluster, option: str) -> str:
    """Muster's namespace, from the Leases of scheduler names. `option`: selects it. Raises BadUsage, Unreachable."""
    try:
        return leases.installation(name_leases(cluster), "", cluster.server_time())[0]
    except Unreachable as error:
        why = f"the Leases that name Muster's namespace cannot be listed ({error}); set {option}"
        raise Unreachable(error.where, why) from error


def leader(cluster: Cluster, namespace: str, lease: str) -> Json | None:
    """The pod that holds the leader's Lease: its name and UID are the holder. None = there is none.

    Raises Unreachable.
    """
    try:
        name, _, uid = leases.holder(cluster.get(leases.path(namespace, lease))).rpartition("_")
        pod = cluster.get(f"/api/v1/namespaces/{namespace}/pods/{name}") if name else None
    except NotThere:
        return None
    return pod if pod and pod["metadata"]["uid"] == uid else None


def served_names(cluster: Cluster, names: frozenset[str], now: datetime) -> frozenset[str]:
    """Those of the scheduler names that a running Muster serves: it renews their Leases. Raises Unreachable."""
    served = set()
    for name in names:
        try:
            if leases.is_alive(cluster.get(leases.path(leases.NAMES_NAMESPACE, leases.PREFIX + name)), now):
                served.add(name)
        except NotThere:
            continue
    return frozenset(served)
