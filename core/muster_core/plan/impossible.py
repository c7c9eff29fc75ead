"""Whether a leaf could never give a gang its places, however long it waits: a question about configuration alone.

A new gang is rejected where its queue's maximum is too low. A gang that is there already, or that is over a limit of
its user or group, waits with the reason, reserves nothing and runs into its timer. Called by engine/applications.py
and plan/gang.py. Source: seed 000, "Scheduling in queues with a quota set"; semantics 11.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster_core.model.ids import QueuePath
from muster_core.model.policies import ApplicationOrder
from muster_core.model.resources import Limit, Resources
from muster_core.model.shortfall import Lack, Shortfall
from muster_core.model.specs import ApplicationSpec
from muster_core.plan.headroom import Refused
from muster_core.world.applications import Application
from muster_core.world.obstacles import NoRoom
from muster_core.world.queues import Queue
from muster_core.world.users import Holder, HolderKind
from muster_core.world.world import Partition

#: A queue's path and its maximum.
Bound = tuple[QueuePath, Limit]


def gang_obstacle(spec: ApplicationSpec, order: ApplicationOrder, path: Iterable[Bound]) -> str:
    """Why a leaf of that order, with these maximums from it up, never holds the gang; empty = it may."""
    bounds = tuple(path)
    if order is ApplicationOrder.FAIR:
        return (
            f"queue {bounds[0][0]} sorts its applications by fair share: "
            "a gang needs a leaf with application.sort.policy fifo"
        )
    return _over_quota(spec.placeholder_ask, bounds)


def refusal(partition: Partition, app: Application) -> Refused | None:
    """Why the gang can never be reserved under the present queues and limits; None = it may be.

    A leaf that became a fair one while the gang was there reserves for it like any other.
    """
    if reason := _over_quota(app.spec.placeholder_ask, bounds_of(app.queue)):
        holder = Holder(HolderKind.QUEUE, "", app.queue.path)
        return Refused(NoRoom(holder, app.spec.placeholder_ask), Shortfall(Lack.QUOTA, reason))
    for holder, limit, _ in partition.users.limits(app):
        excess = limit.max.excess(app.spec.placeholder_ask)
        if excess:
            reason = (
                f"{_request(app.spec.placeholder_ask, excess)}, the limit of {holder.kind} {holder.name} in queue "
                f"{holder.path} is {_amounts(limit.max, excess)}: it can never be reserved; lower minMember or "
                "minResource, or raise the limit"
            )
            return Refused(NoRoom(holder, app.spec.placeholder_ask), Shortfall(Lack.USER_QUOTA, reason))
    return None


def bounds_of(queue: Queue) -> Iterable[Bound]:
    """The maximums from this queue up."""
    return ((above.path, above.max) for above in queue.path_up())


def _over_quota(asked: Resources, bounds: Iterable[Bound]) -> str:
    for path, most in bounds:
        excess = most.excess(asked)
        if excess:
            return (
                f"{_request(asked, excess)}, the maximum of queue {path} is {_amounts(most, excess)}: it could never "
                "be scheduled; lower minMember or minResource, or raise the maximum"
            )
    return ""


def _request(asked: Resources, excess: Resources) -> str:
    name = min(excess)
    return f"the gang asks for {name}={asked[name]} in all (placeholderAsk)"


def _amounts(most: Limit, excess: Resources) -> str:
    name = min(excess)
    return f"{name}={most.get(name)}"
