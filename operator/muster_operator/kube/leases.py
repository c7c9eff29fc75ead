"""Lease objects.

Times are arguments. Clocks of two machines are never compared: a candidate measures with its own clock for how long the
Lease has not changed. Compatible with client-go's leader election.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from muster_operator.kube.session import KubeSession, Reply, Request
from muster_operator.model.errors import ApiRefused

NO_HOLDER: Final = ""

#: Labels of Muster's Leases, and the annotation with the served scheduler names, separated by commas.
LABELS: Final = {"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "operator"}
ANNOTATION_SERVES: Final = "internal.yunikorn.apache.org/scheduler-names"


@dataclass(frozen=True, slots=True)
class Lease:
    """A state of the object. `holder`: NO_HOLDER = released, or never held.

    `transitions`: number of changes of the holder. `version`: the resourceVersion, empty = the object does not exist.
    """

    holder: str = NO_HOLDER
    duration_s: int = 0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0
    version: str = field(default="", compare=False)
    uid: str = field(default="", compare=False)

    def taken_by(self, candidate: str, duration_s: int, now: str) -> Lease:
        """The state after the candidate acquires it. `now`: a MicroTime.

        A process that finds its own identity acquires the Lease again. The acquire time distinguishes two processes
        with the same identity.
        """
        changes_hands = self.holder != candidate and self != NEVER_HELD
        return replace(
            self,
            holder=candidate,
            duration_s=duration_s,
            acquired=now,
            renewed=now,
            transitions=self.transitions + changes_hands,
        )

    def renewed_by_holder(self, duration_s: int, now: str) -> Lease:
        """The state after its holder renews it."""
        return replace(self, duration_s=duration_s, renewed=now)

    def given_back(self, now: str) -> Lease:
        """The state after its holder releases it. The duration is one second, because the API server rejects zero."""
        return replace(self, holder=NO_HOLDER, duration_s=1, renewed=now)


NEVER_HELD: Final = Lease()


@dataclass(frozen=True, slots=True)
class LeaseObservation:
    """The last observed state, and since when it has been unchanged by the local clock."""

    lease: Lease = NEVER_HELD
    since_s: float = float("-inf")

    def updated(self, lease: Lease | None, now_s: float) -> LeaseObservation:
        """The observation after another read. None = the object does not exist.

        Deleting the Lease of a running holder does not make it free. The last state stays valid until it expires.
        """
        if lease is None:
            return replace(self, lease=replace(self.lease, version=""))
        return LeaseObservation(lease, self.since_s if lease == self.lease else now_s)

    def free_in_s(self, candidate: str, now_s: float) -> float:
        """Seconds until the candidate may acquire an unchanged Lease; 0 = now.

        A candidate may acquire a Lease with its own identity immediately: only one process has an identity at a time,
        so the holder is the candidate itself or a previous process that has ended.
        """
        if self.lease.holder in {NO_HOLDER, candidate}:
            return 0.0
        return max(0.0, self.since_s + self.lease.duration_s - now_s)

    def has_changed_hands(self, mine: Lease) -> bool:
        """Whether another process has held the Lease since the state `mine`, also with the same identity."""
        lease = self.lease
        if lease.holder == mine.holder and lease.acquired != mine.acquired:
            return True
        return lease.holder not in {NO_HOLDER, mine.holder} or lease.transitions > mine.transitions


def read(raw: Mapping[str, Any]) -> Lease:
    """Converts an object of the API server."""
    spec, metadata = raw.get("spec") or {}, raw.get("metadata") or {}
    return Lease(
        holder=spec.get("holderIdentity") or NO_HOLDER,
        duration_s=spec.get("leaseDurationSeconds") or 0,
        acquired=spec.get("acquireTime") or "",
        renewed=spec.get("renewTime") or "",
        transitions=spec.get("leaseTransitions") or 0,
        version=metadata.get("resourceVersion") or "",
        uid=metadata.get("uid") or "",
    )


def body(
    namespace: str,
    name: str,
    lease: Lease,
    serves: frozenset[str] = frozenset(),
    labels: Mapping[str, str] = LABELS,
) -> dict[str, Any]:
    """The object for a state. With a version the API server rejects it if the version is outdated."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "labels": {**labels},
        "annotations": {ANNOTATION_SERVES: ",".join(sorted(serves))},
    }
    if lease.version:
        metadata["resourceVersion"] = lease.version
    spec = {
        "holderIdentity": lease.holder,
        "leaseDurationSeconds": lease.duration_s,
        "leaseTransitions": lease.transitions,
    }
    times = {"acquireTime": lease.acquired, "renewTime": lease.renewed}
    spec |= {key: time for key, time in times.items() if time}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


class Store:
    """Reads and writes one Lease. `serves`: scheduler names for its annotation. `within_s`: timeout of a request."""

    def __init__(
        self,
        session: KubeSession,
        place: tuple[str, str],
        serves: frozenset[str],
        within_s: float,
        labels: Mapping[str, str] = LABELS,
    ) -> None:
        self._session, self._serves, self._within_s, self._labels = session, serves, within_s, labels
        self._namespace, self._name = place

    async def get(self) -> Lease | None:
        """Reads the Lease. Returns None if it does not exist.

        Raises:
            ApiRefused: the API server answered with an error.
            Unreachable: there was no answer.
        """
        reply = await self._send("GET", f"/{self._name}")
        return None if reply.status == 404 else _read(reply)

    async def put(self, lease: Lease) -> Lease | None:
        """Writes the Lease over the version that was read. Returns None if another client changed it first.

        Raises:
            ApiRefused: the API server answered with an error.
            Unreachable: there was no answer; the write may have succeeded.
        """
        raw = orjson.dumps(body(self._namespace, self._name, lease, self._serves, self._labels))
        method, path = ("PUT", f"/{self._name}") if lease.version else ("POST", "")
        reply = await self._send(method, path, raw)
        is_overtaken = reply.status == 409 or (reply.status == 404 and lease.version)
        return None if is_overtaken else _read(reply)

    async def _send(self, method: str, path: str, raw: bytes = b"") -> Reply:
        where = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases{path}"
        return await self._session.send(Request(method, where, raw, needs_leadership=False, within_s=self._within_s))


def _read(reply: Reply) -> Lease:
    if not reply.ok:
        raise ApiRefused("the lease", reply.status, reply.message())
    return read(reply.json())
