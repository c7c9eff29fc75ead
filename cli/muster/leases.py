"""Muster's Leases as JSON: of scheduler names in kube-system, and of the leader in its namespace. Requests nothing."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from muster.errors import BadUsage

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


def installation(name_leases: list[Json], namespace: str, now: datetime) -> tuple[str, str]:
    """Namespace, and name of the leader's Lease; the name is empty if no Lease of a scheduler name names it.

    `namespace`: of the option; empty = the only installation, or the one in namespace `muster`. Leases that are renewed
    count before expired ones. Raises BadUsage if there are several others.
    """
    places = sorted((is_alive(lease, now), place) for lease in name_leases if all(place := _place(lease)))
    names = dict(place for _, place in places)  # the last one counts
    found = sorted({home for alive, (home, _) in places if alive} or names)
    if not namespace and len(found) > 1 and DEFAULT_NAMESPACE not in found:
        raise BadUsage(f"Muster runs in the namespaces {', '.join(found)}; set --muster-namespace to one of them")
    chosen = namespace or (found[0] if len(found) == 1 else DEFAULT_NAMESPACE)
    return chosen, names.get(chosen, "")


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
