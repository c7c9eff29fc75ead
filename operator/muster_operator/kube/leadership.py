"""Leader election, the leader label and its events.

A holder that cannot renew stops writing and keeps trying. It ends only if another replica led meanwhile. The leader
label selects the pod whose core knows the cluster, so that a Service reaches it.

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
from muster_operator.kube.session import MERGE_PATCH, KubeSession, Request
from muster_operator.kube.write_guard import LeadershipGuard, running_s
from muster_operator.model.commands import EventType, Importance, PostEvent, Subject
from muster_operator.model.errors import ApiRefused, LeadershipLost, Unreachable
from muster_operator.model.names import FIELD_MANAGER, LABEL_ROLE, ROLE_LEADER

log = structlog.get_logger("muster.leading")

REASON: Final = "LeaderElection"

#: The event about watches that deliver nothing, and that they do again.
WATCHES_STALE: Final = "WatchesStale"
WATCHES_FRESH: Final = "WatchesFresh"


def announcement(namespace: str, name: str, uid: str, leader: str) -> PostEvent:
    """Say that this one leads."""
    return about_lease(namespace, name, uid, REASON, f"{leader} became leader")


def about_lease(namespace: str, name: str, uid: str, reason: str, note: str) -> PostEvent:
    """An event on the Lease."""
    return PostEvent(
        subject=Subject.LEASE,
        namespace=namespace,
        name=name,
        uid=uid,
        type=EventType.WARNING if reason == WATCHES_STALE else EventType.NORMAL,
        reason=reason,
        action=REASON,
        note=note,
        importance=Importance.PROBLEM,
    )


#: Seconds for which a holder that is silent keeps the lease, unless told otherwise. With the second in which a standby
#: looks again and the replay, somebody leads 12 s after a kill.
DURATION_S: Final = 10

#: Parts of that: after which a holder renews, another looks; for which a renewal allows writes; which a request takes.
RENEW, LOOK, WRITES, REQUEST = 0.2, 0.1, 0.7, 0.35

#: Looks are spread by up to this part, so that several do not ask in step.
JITTER: Final = 0.3


@dataclass(frozen=True, slots=True)
class Candidacy:
    """Who wants which lease, to serve which scheduler names.

    `identity` names a place in which at most one process runs at a time, as a pod's UID does. Everything is measured in
    parts of `duration_s`, so that no two numbers can contradict each other.
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


class Leading(Protocol):
    """What the rest of the operator asks of leadership. `begun` is set once we lead, and stays set."""

    begun: asyncio.Event

    @property
    def holder(self) -> str:
        """Who leads as far as we know; empty = nobody, or unknown."""

    @property
    def trouble(self) -> str:
        """Why the lease cannot be read or renewed at present; empty = it can."""

    @property
    def transitions(self) -> int:
        """How often the lease has changed hands."""

    def announcements(self) -> list[PostEvent]:
        """What to tell the cluster when we begin."""

    def events(self, reason: str, note: str) -> list[PostEvent]:
        """The same for what happens later."""

    async def run(self) -> None:
        """For as long as we may lead."""

    async def release(self) -> None:
        """Write nothing more and let another lead at once."""


class NoElection:
    """No election: we write from the start, and nobody else is asked. For one operator and never a second one."""

    holder, trouble, transitions = "", "", 0

    def __init__(self, fence: LeadershipGuard) -> None:
        self._fence, self.begun = fence, asyncio.Event()

    def announcements(self) -> list[PostEvent]:
        """Nothing, for there is no choice."""
        return []

    def events(self, reason: str, note: str) -> list[PostEvent]:
        """Nothing: there is no Lease."""
        return []

    async def run(self) -> None:
        """Until cancelled."""
        self._fence.open_until(float("inf"))
        self.begun.set()
        await asyncio.Event().wait()

    async def release(self) -> None:
        """Write nothing more."""
        self._fence.close()
        await self._fence.emptied()


class Leadership:
    """Our part in the election. `clock`: that of the fence."""

    def __init__(
        self, session: KubeSession, candidacy: Candidacy, fence: LeadershipGuard, clock: Callable[[], float] = running_s
    ) -> None:
        self._candidacy, self._fence, self._clock = candidacy, fence, clock
        self._store = Store(session, candidacy.place, candidacy.serves, candidacy.duration_s * REQUEST)
        self._observation = LeaseObservation()
        self._mine: Lease | None = None
        self._is_fresh = False
        self.begun = asyncio.Event()
        self.trouble = ""

    @property
    def holder(self) -> str:
        """Who leads as far as we know; empty = nobody."""
        return self._observation.lease.holder

    @property
    def transitions(self) -> int:
        """How often the lease has changed hands."""
        return self._observation.lease.transitions

    def announcements(self) -> list[PostEvent]:
        """That we lead."""
        candidacy = self._candidacy
        return [announcement(candidacy.namespace, candidacy.name, self._observation.lease.uid, candidacy.identity)]

    def events(self, reason: str, note: str) -> list[PostEvent]:
        """On the Lease."""
        candidacy = self._candidacy
        return [about_lease(candidacy.namespace, candidacy.name, self._observation.lease.uid, reason, note)]

    async def run(self) -> None:
        """Take the lease when it is free, and keep it.

        Raises:
            LeadershipLost: we led, and another took it.
        """
        while True:
            try:
                await self.turn()
            except (ApiRefused, Unreachable) as error:
                self._note(str(error))
            else:
                self._note("")
            await asyncio.sleep(self._pause_s())

    async def turn(self) -> None:
        """Look unless we know, then take or renew if it is free or ours.

        Raises:
            LeadershipLost: we led, and another took it.
            ApiRefused: the server does not do it.
            Unreachable: no answer came.
        """
        is_known, self._is_fresh = self._is_fresh, False
        if not is_known:
            await self._look()
            self._end_if_lost()
        lease, identity, duration_s = self._observation.lease, self._candidacy.identity, self._candidacy.duration_s
        if self._observation.free_in_s(identity, self._clock()) > 0:
            return
        goes_on = self._mine is not None and lease.holder == identity
        now, sent = _now(), self._clock()
        wanted = lease.renewed_by_holder(duration_s, now) if goes_on else lease.taken_by(identity, duration_s, now)
        self._is_fresh = await self._put(wanted)
        if self._is_fresh:
            self._took(sent)

    async def release(self) -> None:
        """Give the lease back if we hold it; where that fails it runs out by itself."""
        self._fence.close()
        await self._fence.emptied()
        if self._mine is None:
            return
        try:
            if not await self._put(self._mine.given_back(_now())):
                await self._look()  # a renewal that was cut off may have been done
                self._end_if_lost()
                await self._put(self._observation.lease.given_back(_now()))
        except (ApiRefused, Unreachable, LeadershipLost) as error:
            log.info("the lease was not given back", reason=str(error))
        else:
            log.info("gave the lease back", lease=self._candidacy.name)

    async def _look(self) -> None:
        before, seen = self.holder, await self._store.get()
        self._observation = self._observation.seeing(seen, self._clock())
        if self._mine is None and self.holder not in {before, NO_HOLDER}:
            log.info("standing by", leader=self.holder)

    async def _put(self, wanted: Lease) -> bool:
        """Write that state over the one we saw; whether nobody was faster."""
        written = await self._store.put(wanted)
        if written is None:
            return False
        self._observation = self._observation.seeing(written, self._clock())
        return True

    def _took(self, sent_s: float) -> None:
        self._fence.open_until(sent_s + self._candidacy.duration_s * WRITES)
        self._mine = self._observation.lease
        if not self.begun.is_set():
            log.info("leading", identity=self._candidacy.identity, transitions=self.transitions)
            self.begun.set()

    def _end_if_lost(self) -> None:
        if self._mine is not None and self._observation.shows_other_hands(self._mine):
            self._fence.close()
            raise LeadershipLost(f"{self._candidacy.namespace}/{self._candidacy.name}", self.holder)

    def _note(self, trouble: str) -> None:
        """Say what is new about it, once."""
        if trouble and trouble != self.trouble:
            log.warning("the lease cannot be read or renewed", reason=trouble, fence_s=round(self._fence.left_s, 1))
        elif self.trouble and not trouble:
            log.info("the lease can be read and renewed again")
        self.trouble = trouble

    def _pause_s(self) -> float:
        if self._is_fresh:
            return self._candidacy.duration_s * RENEW
        look_s = self._candidacy.duration_s * LOOK * (1 + JITTER * random.random())  # noqa: S311 - spreads, hides nothing
        runs_out_s = self._observation.free_in_s(self._candidacy.identity, self._clock())
        return min(look_s, runs_out_s or look_s)


def _now() -> str:
    return micro_time(datetime.now(tz=UTC))


MARKED: Final = quote(f"{LABEL_ROLE}={ROLE_LEADER}")

#: Seconds between looks while we lead.
PERIOD_S: Final = 30.0

#: Seconds after the first look that failed; after each further one twice as many, up to the period.
AGAIN_S: Final = 1.0

#: The pod went, or is another one of its name by now: there is nothing to take the mark from.
GONE: Final = frozenset({404, 409})


def pause_s(failed: int) -> float:
    """Seconds until the next look, after so many that failed."""
    return min(PERIOD_S, AGAIN_S * 2 ** min(failed - 1, 10)) if failed else PERIOD_S


@dataclass(frozen=True, slots=True)
class LeaderLabel:
    """Kept on the pod of that namespace and name, ours. `recovered`: set once our core knows the cluster."""

    session: KubeSession
    namespace: str
    pod: str
    recovered: asyncio.Event

    async def run(self) -> None:
        """Keep it where it belongs, from when we lead on."""
        failed = 0
        while True:
            is_ours = self.recovered.is_set()
            failed = 0 if await self.look() else failed + 1
            if is_ours:
                await asyncio.sleep(pause_s(failed))
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s(failed)):
                    await self.recovered.wait()

    async def look(self) -> bool:
        """Put it right once; whether that worked."""
        try:
            found = await self.session.get(f"{self._pods}?labelSelector={MARKED}")
            for request in self._changes([pod["metadata"] for pod in found.get("items") or []]):
                await self._change(request)
        except (ApiRefused, Unreachable) as error:
            log.warning("cannot mark the pod that leads", pod=self.pod, reason=str(error))
            return False
        return True

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def _changes(self, marked: list[dict[str, Any]]) -> Iterator[Request]:
        """From others first, so that there never are two that we know of."""
        others = [pod for pod in marked if pod["name"] != self.pod]
        for other in others:
            yield self._patch(other["name"], {"uid": other["uid"], "labels": {LABEL_ROLE: None}})
        if self.recovered.is_set() and len(others) == len(marked):
            yield self._patch(self.pod, {"labels": {LABEL_ROLE: ROLE_LEADER}})

    def _patch(self, name: str, metadata: dict[str, Any]) -> Request:
        # The status subresource takes labels too: so the operator needs no right to patch pods.
        path = f"{self._pods}/{quote(name)}/status?fieldManager={FIELD_MANAGER}"
        return Request("PATCH", path, orjson.dumps({"metadata": metadata}), MERGE_PATCH)

    async def _change(self, request: Request) -> None:
        reply = await self.session.send(request)
        if not reply.ok and reply.status not in GONE:
            raise ApiRefused(request.name, reply.status, reply.message())
