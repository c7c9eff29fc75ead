"""Detects another Muster with the same scheduler name: the installation that serves a name holds its Lease.

There is one Lease for each scheduler name, held by an installation: the namespace and name of its leader's Lease. Only
cluster administrators and Muster may write Leases in kube-system. Leases of other namespaces mean nothing here, because
users may write those.

The leader takes all of its Leases before it opens a session with the core, and carries out decisions only while it
holds all of them. They are renewed by a task of their own, so that nothing else delays a renewal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from muster_operator.link.api.requests import micro_time
from muster_operator.link.api.session import KubeSession
from muster_operator.link.config.settings import SCHEDULER_NAMES
from muster_operator.link.errors import ApiRefused, StartupRefused, Unreachable
from muster_operator.link.leading.fence import running_s
from muster_operator.link.leading.lease import NOBODY, Lease, Sight
from muster_operator.link.leading.store import Store

log = structlog.get_logger("muster.beside")

#: Where the Leases of scheduler names are, for all installations.
NAMESPACE: Final = "kube-system"
PREFIX: Final = "muster-scheduler-"
#: Not those of the Lease that a leader holds.
LABELS: Final = {"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "scheduler-name"}
#: Seconds for which a holder that does not renew keeps a name.
DURATION_S: Final = 45
#: Seconds after which a holder renews, and after which it looks again at a Lease that it could not take.
RENEW_S: Final = 15.0
LOOK_S: Final = 1.0
#: The part of the duration for which a renewal allows decisions, from when it was sent.
DECIDES: Final = 0.7
#: Seconds that a request may take.
REQUEST_S: Final = 5.0

Place = tuple[str, str]
"""Namespace and name of a Lease."""


class NameLease:
    """The Lease of one scheduler name. `patience_s`: how long another that does not renew it is waited for."""

    def __init__(
        self,
        session: KubeSession,
        name: str,
        installation: str,
        patience_s: float = DURATION_S,
        clock: Callable[[], float] = running_s,
    ) -> None:
        self.name, self._installation, self._patience_s, self._clock = name, installation, patience_s, clock
        self._store = Store(session, (NAMESPACE, PREFIX + name), frozenset({name}), REQUEST_S, LABELS)
        self._sight: Sight | None = None
        self._mine: Lease | None = None  # as we wrote it last
        self._held_until = float("-inf")

    @property
    def held_s(self) -> float:
        """Seconds for which decisions are allowed if nothing is renewed; 0 = it is not ours."""
        return max(0.0, self._held_until - self._clock())

    async def look(self) -> float:
        """Read it; seconds until we may take it if it does not change, 0 = now.

        Raises:
            StartupRefused: another installation took or renewed it since the last look.
            ApiRefused: the server does not show it.
            Unreachable: no answer came.
        """
        before, found, now = self._sight, await self._store.get(), self._clock()
        self._sight = (before or Sight()).seeing(found, now)
        lease = self._sight.lease
        if lease.holder in {NOBODY, self._installation}:
            return 0.0
        self._held_until = float("-inf")
        if before is not None and lease != before.lease:
            raise StartupRefused(
                f"another Muster (lease {lease.holder}) serves the scheduler name {self.name} (lease "
                f"{NAMESPACE}/{PREFIX}{self.name}): stop it, or set different {SCHEDULER_NAMES}"
            )
        return min(self._sight.free_in_s(self._installation, now), self._sight.since_s + self._patience_s - now)

    async def take(self) -> None:
        """Take it if it is free, or renew it. Where another was faster the next look finds it.

        Raises:
            StartupRefused: another installation took or renewed it since the last look.
            ApiRefused: the server does not do it.
            Unreachable: no answer came; it may have been done.
        """
        if await self.look() > 0:
            return
        lease = self._sight.lease if self._sight else Lease()
        sent_s, now = self._clock(), _now()
        is_ours = lease.holder == self._installation
        wanted = (
            lease.renewed_by_holder(DURATION_S, now) if is_ours else lease.taken_by(self._installation, DURATION_S, now)
        )
        written = await self._store.put(wanted)
        if written is not None:
            self._mine, self._sight = written, Sight(written, self._clock())
            self._held_until = sent_s + DURATION_S * DECIDES

    async def give_back(self) -> None:
        """Let another installation serve the name at once, unless somebody else has written it since.

        The next leader of this installation holds it under the same name, and keeps it.

        Raises:
            ApiRefused: the server does not do it.
            Unreachable: no answer came; it may have been done.
        """
        self._held_until = float("-inf")
        if self._mine is not None:
            await self._store.put(self._mine.given_back(_now()))


@dataclass(slots=True)
class NameLeases:
    """The Leases of all our scheduler names. `on_held`: called when all of them are ours, at first and again.

    `held`: set when all of them are ours for the first time.
    """

    leases: tuple[NameLease, ...]
    on_held: Callable[[], None] = lambda: None
    renew_s: float = RENEW_S
    held: asyncio.Event = field(default_factory=asyncio.Event)
    trouble: str = ""
    _were_ours: bool = False

    @property
    def are_ours(self) -> bool:
        """Whether we hold all of them. Asked before each decision is carried out, so it is short."""
        return all(lease.held_s > 0 for lease in self.leases)

    @property
    def are_lost(self) -> bool:
        """Whether we held all of them once, and do not any more."""
        return self.held.is_set() and not self.are_ours

    @property
    def missing(self) -> str:
        """The names whose Leases we do not hold, and why if it is known; empty = we hold all."""
        names = ", ".join(lease.name for lease in self.leases if lease.held_s <= 0)
        return f"{names} ({self.trouble})" if names and self.trouble else names

    async def until_free(self) -> None:
        """Wait until none of them is another's. Nothing is written.

        Raises:
            StartupRefused: another installation serves one of the names.
        """
        left_s = await self._each(NameLease.look)
        while left_s > 0:
            await asyncio.sleep(min(left_s, LOOK_S))
            left_s = await self._each(NameLease.look)

    async def run(self) -> None:
        """Take them, and renew them for as long as we lead.

        Raises:
            StartupRefused: another installation serves one of the names.
        """
        while True:
            await self.turn()
            await asyncio.sleep(self.renew_s if self._were_ours and not self.trouble else LOOK_S)

    async def turn(self) -> None:
        """Take or renew each of them once.

        Raises:
            StartupRefused: another installation serves one of the names.
        """
        await self._each(NameLease.take)
        before, self._were_ours = self._were_ours, self.are_ours
        if self._were_ours and not before:
            log.info("holding the Leases of the scheduler names", names=[lease.name for lease in self.leases])
            self.held.set()
            self.on_held()
        elif before and not self._were_ours:
            log.warning("decisions paused: the Leases of scheduler names are not held", names=self.missing)

    async def give_back(self) -> None:
        """At the end, when no write of ours can come any more; the Leases run out anyway."""
        await self._each(NameLease.give_back)

    async def _each(self, act: Callable[[NameLease], Coroutine[Any, Any, float | None]]) -> float:
        """Do it with all of them at once; the largest result. Failures are logged once, and repeated by the caller."""
        results = await asyncio.gather(*(act(lease) for lease in self.leases), return_exceptions=True)
        trouble = ""
        for result in results:
            if isinstance(result, ApiRefused | Unreachable):
                trouble = str(result)
            elif isinstance(result, BaseException):
                raise result
        if trouble and trouble != self.trouble:
            log.warning("cannot read or write the Leases of scheduler names", reason=trouble)
        self.trouble = trouble
        return max((result for result in results if isinstance(result, float)), default=0.0)


def leases_of(
    session: KubeSession, names: Iterable[str], place: Place, patience_s: float = DURATION_S
) -> tuple[NameLease, ...]:
    """Those of the installation whose leader holds the Lease of that place."""
    return tuple(NameLease(session, name, "/".join(place), patience_s) for name in sorted(names))


def _now() -> str:
    return micro_time(datetime.now(UTC))
