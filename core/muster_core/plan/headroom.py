"""How much more an application may take of its queues (seed 000, "Scheduling in queues with a quota set").

Head room of a queue = its maximum less what is allocated and what is pledged
to others or held for asks whose victims go; of a path = the tightest of its queues, name by name. What starving
gangs await counts only for those to whom nothing is pledged: two that await
the same room would keep it from each other for ever. What nodes have is
another question (fit.py).
"""

from __future__ import annotations

from muster_core.model.resources import NOTHING, UNLIMITED, Limit, Resources
from muster_core.model.shortfall import Lack, Shortfall
from muster_core.world.applications import Application
from muster_core.world.queues import Queue


def room(app: Application, back: Resources = NOTHING) -> Limit:
    """What the application may still take; its own pledge is its own to use, and so is what of the room that is
    held for asks is meant: `back`, or all that is held for a gang that reserves.
    """
    left = UNLIMITED
    if app.is_reserving:
        back = app.claimed
    for queue in app.queue.path_up():
        if queue.max:
            left = left.narrowed(_left(queue, app, back))
    return left


def explain(app: Application, wanted: Resources, planned: Resources = NOTHING) -> Shortfall:
    """Which queue of the path has too little for `wanted`, of what, and how much; `planned`: what this plan has
    given the application already.
    """
    for queue in app.queue.path_up():
        left = _left(queue, app, app.claimed if app.is_reserving else NOTHING).room(planned)
        for name in sorted(left.excess(wanted)):
            has = max(left.get(name) or 0, 0)
            return Shortfall(
                Lack.QUOTA,
                f"queue {queue.path} has {name}={has} left of its maximum {queue.max.get(name)}, "
                f"{name}={wanted[name]} is asked for",
            )
    return Shortfall(Lack.QUOTA, "the queue's maximum is reached")


def _left(queue: Queue, app: Application, back: Resources) -> Limit:
    taken = queue.allocated
    if queue.pledged:
        taken += queue.pledged
    if queue.claimed:
        taken += queue.claimed - back
    if app.gang.backed:
        taken -= app.gang.pledge
    elif queue.awaited and not app.gang.pledge:
        taken += queue.awaited
    return queue.max.room(taken)
