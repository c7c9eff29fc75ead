"""Finds Muster in a cluster by the Leases of scheduler names in kube-system, which only administrators can write.

Any user can create pods and Leases with Muster's labels in a namespace, so no label of another namespace is used.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from muster.clients.kubernetes import Cluster
from muster.errors import BadUsage, NotThere, Unreachable

Json = dict[str, Any]

#: Namespace and name prefix of the Leases of scheduler names, and the label of their kind.
NAMES_NAMESPACE: Final = "kube-system"
PREFIX: Final = "muster-scheduler-"
NAMES_SELECTOR: Final = "app.kubernetes.io/name=muster,app.kubernetes.io/component=scheduler-name"
DEFAULT_NAMESPACE: Final = "muster"
_DEFAULT_DURATION_S: Final = 10


def path(namespace: str, name: str = "") -> str:
    """The path of the Leases of a namespace, or of one of them."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases{'/' if name else ''}{name}"


def of_names(cluster: Cluster) -> list[Json]:
    """The Leases of scheduler names. Raises Unreachable."""
    found = cluster.list(path(NAMES_NAMESPACE), labelSelector=NAMES_SELECTOR)
    return [lease for lease in found if str(lease["metadata"]["name"]).startswith(PREFIX)]


def installation(name_leases: list[Json], namespace: str) -> tuple[str, str]:
    """Namespace, and name of the leader's Lease; the name is empty if no Lease of a scheduler name names it.

    `namespace`: of the option; empty = the only installation, or the one in namespace `muster`. Raises BadUsage if
    there are several others.
    """
    found = dict(sorted(place for lease in name_leases if all(place := _place(lease))))
    if not namespace and len(found) > 1 and DEFAULT_NAMESPACE not in found:
        raise BadUsage(f"Muster runs in the namespaces {', '.join(found)}; set --muster-namespace to one of them")
    only = next(iter(found)) if len(found) == 1 else DEFAULT_NAMESPACE
    chosen = namespace or only
    return chosen, found.get(chosen, "")


def leader(cluster: Cluster, namespace: str, lease: str) -> Json | None:
    """The pod that holds the leader's Lease: its name and UID are the holder. None = there is none.

    Raises Unreachable.
    """
    try:
        name, _, uid = holder(cluster.get(path(namespace, lease))).rpartition("_")
        pod = cluster.get(f"/api/v1/namespaces/{namespace}/pods/{name}") if name else None
    except NotThere:
        return None
    return pod if pod and pod["metadata"]["uid"] == uid else None


def served_names(cluster: Cluster, names: frozenset[str], now: datetime) -> frozenset[str]:
    """Those of the scheduler names that a running Muster serves: it renews their Leases. Raises Unreachable."""
    served = set()
    for name in names:
        try:
            if is_alive(cluster.get(path(NAMES_NAMESPACE, PREFIX + name)), now):
                served.add(name)
        except NotThere:
            continue
    return frozenset(served)


def readable_names(cluster: Cluster) -> list[Json]:
    """As `of_names`, but empty if the Leases cannot be read: the namespace is then the option's, or `muster`."""
    try:
        return of_names(cluster)
    except Unreachable:
        return []


def is_alive(lease: Json, now: datetime) -> bool:
    """Whether the Lease has a holder that renewed it in time."""
    return bool(holder(lease)) and late_s(lease, now) <= 0


def late_s(lease: Json, now: datetime) -> float:
    """Seconds since the Lease expired."""
    spec = lease.get("spec") or {}
    renewed = spec.get("renewTime")
    if not renewed:
        return 1.0
    until = datetime.fromisoformat(renewed) + timedelta(seconds=spec.get("leaseDurationSeconds") or _DEFAULT_DURATION_S)
    return (now - until).total_seconds()


def holder(lease: Json) -> str:
    """The identity of the holder: of a leader's Lease POD_UID, of a scheduler name's Lease NAMESPACE/LEASE."""
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _place(lease: Json) -> tuple[str, str]:
    namespace, _, name = holder(lease).partition("/")
    return namespace, name
