"""Looks for a YuniKorn, at the start and while we lead, and decides whether the name `yunikorn` is served.

While a YuniKorn runs, or while that is not certain, the name `yunikorn` is not served and the others are. Where
somebody chose the name and a YuniKorn certainly runs, the operator ends with the reason. A failed look changes nothing:
the last certain answer stays.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

import structlog

from muster_operator.link.api.session import KubeSession
from muster_operator.link.beside.yunikorn import YUNIKORN, Reviews, running_yunikorn
from muster_operator.link.config.settings import SCHEDULER_NAMES
from muster_operator.link.errors import PartEnded, StartupRefused, Uncertain, Unreachable

log = structlog.get_logger("muster.beside")

#: Seconds between looks while we lead.
PERIOD_S: Final = 15.0


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
        found = await running_yunikorn(session, Reviews(session))
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


@dataclass(slots=True)
class Lookout:
    """Looks again and again. `withheld`: names that are wanted, and not served because of a YuniKorn."""

    session: KubeSession
    names: frozenset[str]
    withheld: frozenset[str] = frozenset()
    period_s: float = PERIOD_S
    reviews: Reviews = field(init=False)

    def __post_init__(self) -> None:
        self.reviews = Reviews(self.session)

    async def run(self) -> None:
        """Look for as long as we lead.

        Raises:
            StartupRefused: we have to give way.
            PartEnded: a name that was withheld may be served: the operator has to start again for it.
        """
        while True:
            await self.look()
            await asyncio.sleep(self.period_s)

    async def look(self) -> None:
        """Look once.

        Raises:
            StartupRefused: we have to give way.
            PartEnded: a name that was withheld may be served.
        """
        if YUNIKORN not in self.names | self.withheld:
            return
        try:
            found = await running_yunikorn(self.session, self.reviews)
        except (Uncertain, Unreachable) as unknown:
            log.warning("cannot determine whether YuniKorn runs: keeping the last known state", reason=str(unknown))
            return
        if found and YUNIKORN in self.names:
            raise StartupRefused(_beside(found))
        if not found and YUNIKORN in self.withheld:
            raise PartEnded("lookout", f"YuniKorn is not running: restarting to serve the scheduler name {YUNIKORN}")


def _beside(found: str) -> str:
    return (
        f"{found} is running and serves the scheduler name {YUNIKORN}: scale it to 0, or set {SCHEDULER_NAMES}: muster"
    )
