"""Looks for other schedulers of our names, at the start and while we lead, and decides which names are served.

YuniKorn goes first: while one runs, or while that is not certain, the name `yunikorn` is not served and the others are.
Where somebody chose the name and a YuniKorn certainly runs, the operator ends with the reason. A failed look changes
nothing: the last certain answer stays. Of two Musters the one that holds the Lease of a scheduler name serves it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog

from muster_operator.link.api.session import KubeSession
from muster_operator.link.beside.neighbours import DURATION_S, NAMESPACE, PREFIX, NameLease, give_back
from muster_operator.link.beside.yunikorn import YUNIKORN, running_yunikorn
from muster_operator.link.config.settings import SCHEDULER_NAMES
from muster_operator.link.errors import ApiRefused, PartEnded, StartupRefused, Uncertain, Unreachable

log = structlog.get_logger("muster.beside")

#: Seconds between looks while we lead. The Leases of our scheduler names are renewed as often.
PERIOD_S: Final = 15.0

Place = tuple[str, str]
"""Namespace and name of a Lease."""


async def allowed_names(session: KubeSession, names: frozenset[str], *, are_chosen: bool) -> frozenset[str]:
    """Those of the names that we may serve. `are_chosen`: somebody wrote them down.

    Raises:
        StartupRefused: a YuniKorn runs, and its name is wanted.
        Uncertain: nothing is left to serve, because that is not known.
        Unreachable: the API server did not answer.
    """
    if YUNIKORN not in names:
        return names
    try:
        found = await running_yunikorn(session)
    except Uncertain as unknown:
        if names == {YUNIKORN}:
            raise
        log.warning(
            "cannot determine whether YuniKorn runs: not serving the scheduler name yunikorn", reason=str(unknown)
        )
        return names - {YUNIKORN}
    if not found:
        return names
    if are_chosen or names == {YUNIKORN}:
        raise StartupRefused(_beside(found))
    log.warning("YuniKorn is running: not serving the scheduler name yunikorn until it is removed", yunikorn=found)
    return names - {YUNIKORN}


@dataclass(frozen=True, slots=True)
class Lookout:
    """Looks from the place of our Lease. `withheld`: names that are wanted, and not served because of a YuniKorn.

    `period_s`: between looks; `patience_s`: how long another Muster is waited for.
    """

    session: KubeSession
    place: Place
    names: frozenset[str]
    withheld: frozenset[str] = frozenset()
    period_s: float = PERIOD_S
    patience_s: float = DURATION_S

    async def run(self) -> None:
        """Look, and hold the Leases of our scheduler names, for as long as we lead.

        Raises:
            StartupRefused: we have to give way.
            PartEnded: a name that was withheld may be served: the operator has to start again for it.
        """
        try:
            while True:
                await self.look(take=True)
                await asyncio.sleep(self.period_s)
        finally:
            await give_back(self._leases())

    async def look(self, *, take: bool = False) -> None:
        """Look once. `take`: take the Leases of the names, or renew them.

        Raises:
            StartupRefused: we have to give way.
            PartEnded: a name that was withheld may be served.
        """
        try:
            await self._look_for_yunikorn()
            for lease in self._leases():
                if other := await lease.other_holder():
                    raise StartupRefused(
                        f"another Muster (lease {other}) serves the scheduler name {lease.name} (lease "
                        f"{NAMESPACE}/{PREFIX}{lease.name}): stop it, or set different {SCHEDULER_NAMES}"
                    )
                if take:
                    await lease.take()
        except (ApiRefused, Unreachable) as error:
            log.warning("cannot look for other schedulers", reason=str(error))

    async def _look_for_yunikorn(self) -> None:
        if YUNIKORN not in self.names | self.withheld:
            return
        try:
            found = await running_yunikorn(self.session)
        except Uncertain as unknown:
            log.warning("cannot determine whether YuniKorn runs: keeping the last known state", reason=str(unknown))
            return
        if found and YUNIKORN in self.names:
            raise StartupRefused(_beside(found))
        if not found and YUNIKORN in self.withheld:
            raise PartEnded("lookout", f"YuniKorn is not running: restarting to serve the scheduler name {YUNIKORN}")

    def _leases(self) -> list[NameLease]:
        installation = "/".join(self.place)
        return [NameLease(self.session, name, installation, self.patience_s) for name in sorted(self.names)]


def _beside(found: str) -> str:
    return (
        f"{found} is running and serves the scheduler name {YUNIKORN}: scale it to 0, or set {SCHEDULER_NAMES}: muster"
    )
