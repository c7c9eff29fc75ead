"""Detects another Muster with the same scheduler name: the installation that serves a name holds its Lease.

There is one Lease for each scheduler name, held by an installation: the namespace and name of its leader's Lease. Only
cluster administrators and Muster may write Leases in kube-system. Leases of other namespaces mean nothing here, because
users may write those.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from muster_operator.link.api.requests import micro_time
from muster_operator.link.api.session import KubeSession
from muster_operator.link.errors import ApiRefused, Unreachable
from muster_operator.link.leading.lease import NEVER_HELD, NOBODY, Lease
from muster_operator.link.leading.store import Store

#: Where the Leases of scheduler names are, for all installations.
NAMESPACE: Final = "kube-system"
PREFIX: Final = "muster-scheduler-"
#: Not those of the Lease that a leader holds.
LABELS: Final = {"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "scheduler-name"}
#: Seconds for which a holder that does not renew keeps a name. It renews three times as often (lookout.PERIOD_S).
DURATION_S: Final = 45
#: Seconds that a request may take.
REQUEST_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class NameLease:
    """The Lease of one scheduler name, as an installation sees it. `patience_s`: for another's renewal, at most."""

    session: KubeSession
    name: str
    installation: str
    patience_s: float = DURATION_S

    async def other_holder(self) -> str:
        """The other installation that renews the Lease; empty = there is none. A suspect is waited for.

        Raises:
            ApiRefused: the server does not show it.
            Unreachable: no answer came.
        """
        before = await self._store.get()
        if not self._is_anothers(before):
            return ""
        await asyncio.sleep(min(self.patience_s, before.duration_s if before else 0.0))
        now = await self._store.get()
        return now.holder if now is not None and now != before and self._is_anothers(now) else ""

    async def take(self) -> None:
        """Take the Lease, or renew it. Where another was faster the next look finds it.

        Raises:
            ApiRefused: the server does not do it.
            Unreachable: no answer came.
        """
        found, now = await self._store.get() or NEVER_HELD, _now()
        if found.holder == self.installation:
            await self._store.put(found.renewed_by_holder(DURATION_S, now))
        else:
            await self._store.put(found.taken_by(self.installation, DURATION_S, now))

    async def give_back(self) -> None:
        """Let another installation serve the name at once."""
        found = await self._store.get()
        if found is not None and found.holder == self.installation:
            await self._store.put(found.given_back(_now()))

    def _is_anothers(self, lease: Lease | None) -> bool:
        return lease is not None and lease.holder not in {NOBODY, self.installation}

    @property
    def _store(self) -> Store:
        return Store(self.session, (NAMESPACE, PREFIX + self.name), frozenset({self.name}), REQUEST_S, LABELS)


async def give_back(leases: Iterable[NameLease]) -> None:
    """At the end; the Leases run out anyway."""
    with suppress(ApiRefused, Unreachable, TimeoutError):
        async with asyncio.timeout(REQUEST_S):
            for lease in leases:
                await lease.give_back()


def _now() -> str:
    return micro_time(datetime.now(UTC))
