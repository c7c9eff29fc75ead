"""Leader election, the leader label and its events.

A leader that cannot renew the Lease stops writing and keeps trying. It exits only if another replica has led in the
meantime. The leader label selects the pod whose core has recovered, so that a Service routes to it.

Differs: YuniKorn has no election; it runs once, and schedules nothing while it restarts.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol
from urllib.parse import quote

import orjson
import structlog

from muster_operator.kube.commands import micro_time
from muster_operator.kube.leases import NO_HOLDER, Lease, LeaseObservation, Store
from muster_operator.kube.session import MERGE_PATCH, KubeSession, LeadershipGuard, Request, running_s
from muster_operator.model import messages
from muster_operator.model.commands import PostEvent
from muster_operator.model.errors import ApiRefused, LeadershipLost, Unreachable
from muster_operator.model.event_texts import Note
from muster_operator.model.names import FIELD_MANAGER, LABEL_ROLE, ROLE_LEADER

log = structlog.get_logger("muster.leading")

#: Default lease duration in seconds. With the second until a standby checks and the recovery, a new leader schedules
#: about 12 s after the old one was killed.
DURATION_S: Final = 10

#: Intervals as shares of the lease duration: renewal, check by a standby, writes after a renewal, timeout of a request.
RENEW, CHECK, WRITES, REQUEST = 0.2, 0.1, 0.7, 0.35

#: Checks are delayed by a random share up to this one, so that standbys do not check at the same time.
JITTER: Final = 0.3


@dataclass(frozen=True, slots=True)
class Candidacy:
    """The Lease of this replica and the scheduler names that it serves.

    `identity` must be unique among running processes, as the UID of a pod is. All intervals are shares of `duration_s`,
    so that they are consistent.
    """

    namespace: str
    name: str
    identity: str
    duration_s: int = DURATION_S
    serves: frozenset[str] = frozenset()

    @property
    def place(self) -> tuple[str, str]:
        """Namespace and name of the lease."""
        return self.namespace, self.name


class LeaderElection(Protocol):
    """Interface of leader election. `begun` is set when this replica becomes leader, and stays set."""

    begun: asyncio.Event

    @property
    def holder(self) -> str:
        """Identity of the known leader; empty if there is none or it is unknown."""

    @property
    def problem(self) -> str:
        """Why the Lease cannot be read or renewed at present; empty if it can."""

    @property
    def transitions(self) -> int:
        """Number of changes of the leader."""

    def announcements(self) -> list[PostEvent]:
        """Events to post when this replica becomes leader."""

    def events(self, note: Note) -> list[PostEvent]:
        """Events to post about a later change."""

    async def run(self) -> None:
        """Runs as long as this replica may lead."""

    async def release(self) -> None:
        """Stops writing and releases the Lease, so that another replica can lead immediately."""


class NoElection:
    """No election: this replica writes from the start. For installations with one replica only."""

    holder, problem, transitions = "", "", 0

    def __init__(self, guard: LeadershipGuard) -> None:
        self._guard, self.begun = guard, asyncio.Event()

    def announcements(self) -> list[PostEvent]:
        """No events, because there is no Lease."""
        return []

    def events(self, note: Note) -> list[PostEvent]:
        """No events, because there is no Lease."""
        return []

    async def run(self) -> None:
        """Leads until cancelled."""
        self._guard.open_until(float("inf"))
        self.begun.set()
        await asyncio.Event().wait()

    async def release(self) -> None:
        """Stops writing."""
        self._guard.close()
        await self._guard.emptied()


class Leadership:
    """Leader election by Lease. `clock` must be the clock of the guard."""

    def __init__(
        self, session: KubeSession, candidacy: Candidacy, guard: LeadershipGuard, clock: Callable[[], float] = running_s
    ) -> None:
        self._candidacy, self._guard, self._clock = candidacy, guard, clock
        self._store = Store(session, candidacy.place, candidacy.serves, candidacy.duration_s * REQUEST)
        self._observation = LeaseObservation()
        self._own_lease: Lease | None = None
        self._is_fresh = False
        self.begun = asyncio.Event()
        self.problem = ""

    @property
    def holder(self) -> str:
        """Identity of the known leader; empty if there is none."""
        return self._observation.lease.holder

    @property
    def transitions(self) -> int:
        """Number of changes of the leader."""
        return self._observation.lease.transitions

    def announcements(self) -> list[PostEvent]:
        """The event that this replica leads."""
        candidacy = self._candidacy
        return self.events(messages.became_leader(candidacy.identity))

    def events(self, note: Note) -> list[PostEvent]:
        """An event about the Lease."""
        candidacy = self._candidacy
        return [note.about(candidacy.namespace, candidacy.name, self._observation.lease.uid)]

    async def run(self) -> None:
        """Acquires the Lease when it is free, and renews it.

        Raises:
            LeadershipLost: this replica led, and another one has acquired the Lease.
        """
        while True:
            try:
                await self.acquire_or_renew()
            except (ApiRefused, Unreachable) as error:
                self._report(str(error))
            else:
                self._report("")
            await asyncio.sleep(self._pause_s())

    async def acquire_or_renew(self) -> None:
        """Reads the Lease unless it is known, then acquires or renews it if it is free or held by this replica.

        Raises:
            LeadershipLost: this replica led, and another one has acquired the Lease.
            ApiRefused: the API server answered with an error.
            Unreachable: there was no answer.
        """
        is_known, self._is_fresh = self._is_fresh, False
        if not is_known:
            await self._read_lease()
            self._end_if_lost()
        lease, identity, duration_s = self._observation.lease, self._candidacy.identity, self._candidacy.duration_s
        if self._observation.free_in_s(identity, self._clock()) > 0:
            return
        is_renewal = self._own_lease is not None and lease.holder == identity
        now, sent = _now(), self._clock()
        wanted = lease.renewed_by_holder(duration_s, now) if is_renewal else lease.taken_by(identity, duration_s, now)
        self._is_fresh = await self._put(wanted)
        if self._is_fresh:
            self._on_acquired(sent)

    async def release(self) -> None:
        """Releases the Lease if this replica holds it. If that fails, the Lease expires."""
        self._guard.close()
        await self._guard.emptied()
        if self._own_lease is None:
            return
        try:
            if not await self._put(self._own_lease.given_back(_now())):
                await self._read_lease()  # an interrupted renewal may have succeeded
                self._end_if_lost()
                await self._put(self._observation.lease.given_back(_now()))
        except (ApiRefused, Unreachable, LeadershipLost) as error:
            log.info("the Lease was not released", reason=str(error))
        else:
            log.info("released the Lease", lease=self._candidacy.name)

    async def _read_lease(self) -> None:
        before, seen = self.holder, await self._store.get()
        self._observation = self._observation.updated(seen, self._clock())
        if self._own_lease is None and self.holder not in {before, NO_HOLDER}:
            log.info("standing by", leader=self.holder)

    async def _put(self, wanted: Lease) -> bool:
        """Writes the Lease over the observed version. Returns False if another client changed it first."""
        written = await self._store.put(wanted)
        if written is None:
            return False
        self._observation = self._observation.updated(written, self._clock())
        return True

    def _on_acquired(self, sent_s: float) -> None:
        self._guard.open_until(sent_s + self._candidacy.duration_s * WRITES)
        self._own_lease = self._observation.lease
        if not self.begun.is_set():
            log.info("leading", identity=self._candidacy.identity, transitions=self.transitions)
            self.begun.set()

    def _end_if_lost(self) -> None:
        if self._own_lease is not None and self._observation.has_changed_hands(self._own_lease):
            self._guard.close()
            raise LeadershipLost(f"{self._candidacy.namespace}/{self._candidacy.name}", self.holder)

    def _report(self, problem: str) -> None:
        """Logs a problem when it begins or ends."""
        if problem and problem != self.problem:
            left_s = round(self._guard.left_s, 1)
            log.warning("the Lease cannot be read or renewed", reason=problem, writes_stop_in_s=left_s)
        elif self.problem and not problem:
            log.info("the Lease can be read and renewed again")
        self.problem = problem

    def _pause_s(self) -> float:
        if self._is_fresh:
            return self._candidacy.duration_s * RENEW
        check_s = self._candidacy.duration_s * CHECK * (1 + JITTER * random.random())  # noqa: S311 - jitter
        runs_out_s = self._observation.free_in_s(self._candidacy.identity, self._clock())
        return min(check_s, runs_out_s or check_s)


def _now() -> str:
    return micro_time(datetime.now(tz=UTC))


MARKED: Final = quote(f"{LABEL_ROLE}={ROLE_LEADER}")

#: Seconds between checks of the label while this replica leads.
PERIOD_S: Final = 30.0

#: Seconds after the first failed check. They double with each further one, up to the period.
AGAIN_S: Final = 1.0

#: The pod is gone, or another pod has its name, so that there is no label to remove.
GONE: Final = frozenset({404, 409})


def pause_s(failed: int) -> float:
    """Seconds until the next check after so many failed ones."""
    return min(PERIOD_S, AGAIN_S * 2 ** min(failed - 1, 10)) if failed else PERIOD_S


@dataclass(frozen=True, slots=True)
class LeaderLabel:
    """Keeps the leader label on this replica's pod only. `recovered` is set when its core has received the cluster."""

    session: KubeSession
    namespace: str
    pod: str
    recovered: asyncio.Event

    async def run(self) -> None:
        """Checks the label periodically while this replica leads."""
        failed = 0
        while True:
            is_ours = self.recovered.is_set()
            failed = 0 if await self.check() else failed + 1
            if is_ours:
                await asyncio.sleep(pause_s(failed))
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s(failed)):
                    await self.recovered.wait()

    async def check(self) -> bool:
        """Corrects the label once. Returns whether that succeeded."""
        try:
            found = await self.session.get(f"{self._pods}?labelSelector={MARKED}")
            for request in self._changes([pod["metadata"] for pod in found.get("items") or []]):
                await self._change(request)
        except (ApiRefused, Unreachable) as error:
            log.warning("leader label cannot be set", pod=self.pod, reason=str(error))
            return False
        return True

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def _changes(self, marked: list[dict[str, Any]]) -> Iterator[Request]:
        """Requests that correct the label: first removed from other pods, so that two pods never have it."""
        others = [pod for pod in marked if pod["name"] != self.pod]
        for other in others:
            yield self._patch(other["name"], {"uid": other["uid"], "labels": {LABEL_ROLE: None}})
        if self.recovered.is_set() and len(others) == len(marked):
            yield self._patch(self.pod, {"labels": {LABEL_ROLE: ROLE_LEADER}})

    def _patch(self, name: str, metadata: dict[str, Any]) -> Request:
        # The status subresource accepts labels, so that the operator needs no permission to patch pods.
        path = f"{self._pods}/{quote(name)}/status?fieldManager={FIELD_MANAGER}"
        return Request("PATCH", path, orjson.dumps({"metadata": metadata}), MERGE_PATCH)

    async def _change(self, request: Request) -> None:
        reply = await self.session.send(request)
        if not reply.ok and reply.status not in GONE:
            raise ApiRefused(request.name, reply.status, reply.message())
