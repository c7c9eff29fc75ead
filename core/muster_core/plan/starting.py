"""Whether an application may start beside those that run: `maxapplications` of queues, users and groups.

Only those are asked that do not count as running yet (contract 10.6): the
limit holds an application in Accepted and takes nothing from one that runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster_core.model.notes import Detail
from muster_core.model.shortfall import Lack, Shortfall
from muster_core.model.states import ApplicationState
from muster_core.world.applications import Application
from muster_core.world.obstacles import NoStart
from muster_core.world.users import Holder, HolderKind
from muster_core.world.world import Partition

_WAITING = (ApplicationState.NEW, ApplicationState.ACCEPTED)


@dataclass(frozen=True, slots=True)
class Held:
    """Whose limit keeps the application from starting; `detail`: how that is noted (contract 6.1)."""

    obstacle: NoStart
    why: Shortfall
    detail: Detail


def hindrance(partition: Partition, app: Application) -> Held | None:
    """What keeps the application from starting; None = it may, or it has."""
    if app.counted or app.state not in _WAITING:
        return None
    for queue in app.queue.path_up():
        if 0 < queue.max_applications <= queue.running:
            holder = Holder(HolderKind.QUEUE, "", queue.path)
            text = f"queue {queue.path} runs {_applications(queue.running)} of at most {queue.max_applications}"
            return Held(NoStart(holder), Shortfall(Lack.APPLICATIONS, text), Detail.APP_CANNOTRUN_QUEUE)
    for holder, limit, account in partition.users.limits(app):
        if 0 < limit.max_applications <= account.running:
            text = (
                f"{holder.kind} {holder.name} runs {_applications(account.running)} of at most "
                f"{limit.max_applications} in queue {holder.path}"
            )
            return Held(NoStart(holder), Shortfall(Lack.APPLICATIONS, text), Detail.APP_CANNOTRUN_QUOTA)
    return None


def _applications(number: int) -> str:
    return f"{number} application" if number == 1 else f"{number} applications"
