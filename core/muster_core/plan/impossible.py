"""Whether a leaf could never give a gang its places, however long it waits: a question about configuration alone.

Asked when a gang is submitted, and of those that wait when queues change.
Source: seed 000, "Scheduling in queues with a quota set"; semantics 11.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster_core.model.ids import QueuePath
from muster_core.model.policies import ApplicationOrder
from muster_core.model.resources import Limit, Resources
from muster_core.model.specs import ApplicationSpec
from muster_core.world.applications import Application
from muster_core.world.queues import Queue

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


def obstacle(app: Application) -> str:
    """The same of a gang in its queue."""
    return gang_obstacle(app.spec, app.queue.policies.order, bounds_of(app.queue))


def bounds_of(queue: Queue) -> Iterable[Bound]:
    """The maximums from this queue up."""
    return ((above.path, above.max) for above in queue.path_up())


def _over_quota(asked: Resources, bounds: Iterable[Bound]) -> str:
    for path, most in bounds:
        excess = most.excess(asked)
        if excess:
            name = min(excess)
            return (
                f"the gang asks for {name}={asked[name]} in all (placeholderAsk), the maximum of queue {path} is "
                f"{name}={most.get(name)}: it could never be scheduled; lower minMember or minResource, or raise the "
                "maximum"
            )
    return ""
