"""Looks for other schedulers of our names, at the start and while we lead, and says who has to give way.

YuniKorn goes before: while one runs, the name `yunikorn` is not served. Where nobody chose the names, the others are
served all the same, so that Muster can be tried beside a YuniKorn; who chose `yunikorn` is told that it cannot be. Of
two Musters the elder stays. One that has to give way while it leads ends and begins anew, with the names it may have.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog

from muster_operator.link.api.session import KubeSession
from muster_operator.link.beside.neighbours import Muster, Place, alive, installed, rivals
from muster_operator.link.beside.yunikorn import YUNIKORN, running_yunikorn
from muster_operator.link.config.settings import SCHEDULER_NAMES
from muster_operator.link.errors import ApiRefused, StartupRefused, Unreachable

log = structlog.get_logger("muster.beside")

#: Seconds between looks while we lead.
PERIOD_S: Final = 60.0
#: Part of a lease's duration in which a living holder has renewed it.
RENEWED: Final = 0.4
#: Seconds that we wait for that at most. Anybody who may write a Lease somewhere can give it a duration of 68 years.
PATIENCE_S: Final = 20.0


async def allowed_names(session: KubeSession, names: frozenset[str], *, are_chosen: bool) -> frozenset[str]:
    """Those of the names that we may serve. `are_chosen`: somebody wrote them down.

    Raises:
        StartupRefused: a YuniKorn runs, and its name is wanted.
        Unreachable: the API server did not answer.
    """
    found = await running_yunikorn(session) if YUNIKORN in names else ""
    if not found:
        return names
    if are_chosen or names == {YUNIKORN}:
        raise StartupRefused(_beside(found))
    log.warning("a YuniKorn runs: its name is not served, a restart looks again", yunikorn=found)
    return names - {YUNIKORN}


@dataclass(frozen=True, slots=True)
class Lookout:
    """Looks from the place of our Lease. `period_s`: between looks; `patience_s`: for a suspect, at most."""

    session: KubeSession
    place: Place
    names: frozenset[str]
    period_s: float = PERIOD_S
    patience_s: float = PATIENCE_S

    async def run(self) -> None:
        """Look for as long as we lead.

        Raises:
            StartupRefused: we have to give way.
        """
        while True:
            await self.look()
            await asyncio.sleep(self.period_s)

    async def look(self) -> None:
        """Look once, and at a suspect once more after a while.

        Raises:
            StartupRefused: we have to give way.
        """
        try:
            await self._look()
        except (ApiRefused, Unreachable) as error:
            log.warning("cannot look for other schedulers", reason=str(error))

    async def _look(self) -> None:
        found = await running_yunikorn(self.session) if YUNIKORN in self.names else ""
        if found:
            raise StartupRefused(_beside(found))
        suspects = rivals(await installed(self.session), self.place, self.names)
        if not suspects:
            return
        longest_s = max(suspect.lease.duration_s for suspect in suspects.values())
        await asyncio.sleep(min(self.patience_s, RENEWED * longest_s))
        everybody = await installed(self.session)
        for other in alive(suspects, rivals(everybody, self.place, self.names)):
            self._meet(other, everybody.get(self.place))

    def _meet(self, other: Muster, ours: Muster | None) -> None:
        """Give way to an elder one; the younger gives way itself."""
        both = ", ".join(sorted(other.serves & self.names))
        where = "/".join(other.place)
        if ours is None or other.is_elder_than(ours):
            raise StartupRefused(
                f"another Muster (lease {where}, led by {other.lease.holder}) serves the scheduler name {both}: "
                f"end that one, or set other {SCHEDULER_NAMES}"
            )
        log.warning("another Muster serves our names, and should give way", lease=where, names=both)


def _beside(found: str) -> str:
    return (
        f"{found} is running and serves the scheduler name {YUNIKORN}: scale it to 0, or set {SCHEDULER_NAMES}: muster"
    )
