"""Checks that there is exactly one leader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from muster.checks.finding import Finding, fine, problem, warning

Json = dict[str, Any]

CHECK: Final = "leader"
#: Of the Leases of operators: which scheduler names each serves, separated by commas.
SERVES: Final = "internal.yunikorn.apache.org/scheduler-names"
SELECTOR: Final = "app.kubernetes.io/name=muster,app.kubernetes.io/component=operator"
DEFAULT_NAMES: Final = frozenset({"muster", "yunikorn"})
_UNSAID_S: Final = 10


def served(leases: Iterable[Json], home: str) -> frozenset[str]:
    """The scheduler names that the Muster of that namespace serves; what is usual where no Lease says it."""
    names = {name for lease in leases if _namespace(lease) == home for name in _names(lease)}
    return frozenset(names) or DEFAULT_NAMES


def judged(leases: Iterable[Json], home: str, now: datetime) -> Iterator[Finding]:
    """`leases`: of all operators everywhere. `now`: by the clock of the API server."""
    all_of_them = list(leases)
    ours = [lease for lease in all_of_them if _namespace(lease) == home]
    if not ours:
        yield warning(
            CHECK,
            f"no Lease of an operator in namespace {home}",
            "check that the operator runs there; with --no-leader-elect it needs no Lease",
        )
    for lease in ours:
        yield _held(lease, now)
    names = served(ours, home)
    for other in all_of_them:
        both = sorted(names & _names(other))
        if _namespace(other) != home and both and is_alive(other, now):
            yield problem(
                CHECK,
                f"another Muster, led by {_holder(other)} in {_namespace(other)}, serves {', '.join(both)} too",
                "set service.schedulerNames of one of them to other names",
            )


def is_alive(lease: Json, now: datetime) -> bool:
    """Whether the Lease has a holder that renewed it in time."""
    return bool(_holder(lease)) and _late_s(lease, now) <= 0


def _held(lease: Json, now: datetime) -> Finding:
    holder, name = _holder(lease), f"{_namespace(lease)}/{lease['metadata']['name']}"
    if not holder:
        return problem(CHECK, f"no replica holds the Lease {name}", "start an operator, or see its log")
    late_s = _late_s(lease, now)
    if late_s > 0:
        return problem(
            CHECK,
            f"{holder} holds the Lease {name} and is {round(late_s)} s late to renew it",
            "check that it runs and reaches the API server; a standby takes over if there is one",
        )
    return fine(CHECK, f"{holder} leads, for {', '.join(sorted(_names(lease))) or 'its scheduler names'}")


def _late_s(lease: Json, now: datetime) -> float:
    spec = lease.get("spec") or {}
    renewed = spec.get("renewTime")
    if not renewed:
        return 1.0
    until = datetime.fromisoformat(renewed) + timedelta(seconds=spec.get("leaseDurationSeconds") or _UNSAID_S)
    return (now - until).total_seconds()


def _holder(lease: Json) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _namespace(lease: Json) -> str:
    return str(lease["metadata"]["namespace"])


def _names(lease: Json) -> frozenset[str]:
    said = (lease["metadata"].get("annotations") or {}).get(SERVES, "")
    return frozenset(filter(None, said.split(",")))
