"""Lease objects.

Pure: times are arguments. Clocks of two machines are never compared; a candidate measures with its own clock how long
the Lease has not changed. Compatible with client-go's leader election.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from muster_operator.kube.session import KubeSession, Reply, Request
from muster_operator.model.errors import ApiRefused

NO_HOLDER: Final = ""

#: Marks Leases of Musters, and says on each which scheduler names it serves, separated by commas.
LABELS: Final = {"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "operator"}
ANNOTATION_SERVES: Final = "internal.yunikorn.apache.org/scheduler-names"


@dataclass(frozen=True, slots=True)
class Lease:
    """One state of the object. `holder`: NOBODY = it was given back, or never held.

    `transitions` counts how often it changed hands. `version`: the resourceVersion, empty = there is no object.
    """

    holder: str = NO_HOLDER
    duration_s: int = 0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0
    version: str = field(default="", compare=False)
    uid: str = field(default="", compare=False)

    def taken_by(self, candidate: str, duration_s: int, now: str) -> Lease:
        """The next state if the candidate takes it. `now`: a MicroTime.

        A process that finds its own name in it takes it again: the time of that tells two of one name apart.
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
        """The next state if who took it continues."""
        return replace(self, duration_s=duration_s, renewed=now)

    def given_back(self, now: str) -> Lease:
        """The next state if its holder lets go. One second, because the API server takes no zero."""
        return replace(self, holder=NO_HOLDER, duration_s=1, renewed=now)


NEVER_HELD: Final = Lease()


@dataclass(frozen=True, slots=True)
class LeaseObservation:
    """What we saw last, and since when by our clock it has looked so."""

    lease: Lease = NEVER_HELD
    since_s: float = float("-inf")

    def seeing(self, lease: Lease | None, now_s: float) -> LeaseObservation:
        """After another look; None = there is no such object.

        Who deletes the Lease of a living holder does not make it free: what was seen of it stays until it runs out.
        """
        if lease is None:
            return replace(self, lease=replace(self.lease, version=""))
        return LeaseObservation(lease, self.since_s if lease == self.lease else now_s)

    def free_in_s(self, candidate: str, now_s: float) -> float:
        """Seconds until the candidate may take it if it does not change; 0 = now.

        Its own it may take at once: one name means one place where one process runs at a time, so the holder is a dead
        predecessor, or the candidate itself.
        """
        if self.lease.holder in {NO_HOLDER, candidate}:
            return 0.0
        return max(0.0, self.since_s + self.lease.duration_s - now_s)

    def shows_other_hands(self, mine: Lease) -> bool:
        """Whether another has, or had, the lease since it looked like `mine`; also another process under our name."""
        lease = self.lease
        if lease.holder == mine.holder and lease.acquired != mine.acquired:
            return True
        return lease.holder not in {NO_HOLDER, mine.holder} or lease.transitions > mine.transitions


def read(raw: Mapping[str, Any]) -> Lease:
    """The state an object of the API server shows."""
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
    """The object that says so; with a version it is refused if it is not that version any more."""
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
    """The Lease of that namespace and name. `serves`: what it says beside. `within_s`: what each request may take."""

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
        """What it says, None = there is none.

        Raises:
            ApiRefused: the server does not show it.
            Unreachable: no answer came.
        """
        reply = await self._send("GET", f"/{self._name}")
        return None if reply.status == 404 else _read(reply)

    async def put(self, lease: Lease) -> Lease | None:
        """Make it say that, over the version it had when it was read; None = another was faster.

        Raises:
            ApiRefused: the server does not do it.
            Unreachable: no answer came; it may have been done.
        """
        raw = orjson.dumps(body(self._namespace, self._name, lease, self._serves, self._labels))
        method, path = ("PUT", f"/{self._name}") if lease.version else ("POST", "")
        reply = await self._send(method, path, raw)
        is_overtaken = reply.status == 409 or (reply.status == 404 and lease.version)
        return None if is_overtaken else _read(reply)

    async def _send(self, method: str, path: str, raw: bytes = b"") -> Reply:
        where = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases{path}"
        return await self._session.send(Request(method, where, raw, is_fenced=False, within_s=self._within_s))


def _read(reply: Reply) -> Lease:
    if not reply.ok:
        raise ApiRefused("the lease", reply.status, reply.message())
    return read(reply.json())
