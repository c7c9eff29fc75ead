"""How much more an application may take of its queues, for its user and its group.

Source: seed 000, "Scheduling in queues with a quota set"; contract 2.7, 10.6.

Head room of a queue = its maximum less what is allocated and what is pledged
to others or held for asks whose victims go; of a path = the tightest of its
queues, name by name. The limits of a queue for the user and the group of an
application bind in the same way, with promises of their own, so that gangs of
one user cannot keep each other waiting either (semantics 11). What starving
gangs await counts only for those to whom nothing is pledged: two that await
the same room would keep it from each other for ever. What nodes have is
another question (fit.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from muster_core.model.resources import NOTHING, UNLIMITED, Limit, Resources
from muster_core.model.shortfall import Lack, Shortfall
from muster_core.world.applications import Application
from muster_core.world.obstacles import NoRoom
from muster_core.world.queues import Queue
from muster_core.world.users import Account, Holder, HolderKind
from muster_core.world.world import Partition


@dataclass(frozen=True, slots=True)
class Bound:
    """A maximum that binds an application, and what is taken of it."""

    holder: Holder
    max: Limit
    taken: Queue | Account


@dataclass(frozen=True, slots=True)
class Refused:
    """Whose maximum is in the way, and the "no" for people."""

    obstacle: NoRoom
    why: Shortfall


def bounds(partition: Partition, app: Application) -> Iterator[Bound]:
    """All that bind it: user and group first, as behaviour C.3 asks them, then the queues, leaf first."""
    for holder, limit, account in partition.users.limits(app):
        if limit.max:
            yield Bound(holder, limit.max, account)
    for queue in app.queue.path_up():
        if queue.max:
            yield Bound(Holder(HolderKind.QUEUE, "", queue.path), queue.max, queue)


def room(partition: Partition, app: Application, back: Resources = NOTHING, given: Resources = NOTHING) -> Limit:
    """What the application may still take; its own pledge is its own to use, and so is what of the room that is
    held for asks is meant: `back`, or all that is held for a gang that reserves. `given`: what this plan used of
    such room; queues counted it before, users and groups did not.
    """
    left = UNLIMITED
    if app.is_reserving:
        back = app.claimed
    for bound in bounds(partition, app):
        mine = left_of(bound, app, back)
        left = left.narrowed(mine if not given or isinstance(bound.taken, Queue) else mine.room(given))
    return left


def refusal(
    partition: Partition,
    app: Application,
    wanted: Resources,
    planned: Resources = NOTHING,
    given: Resources = NOTHING,
) -> Refused | None:
    """Who has too little for `wanted` besides what is `planned` already, of what, and how much; None = nobody.
    `given` is planned too, where users and groups are asked.
    """
    back = app.claimed if app.is_reserving else NOTHING
    for bound in bounds(partition, app):
        left = left_of(bound, app, back).room(planned if isinstance(bound.taken, Queue) else planned + given)
        excess = left.excess(wanted)
        if excess:
            owner = app.id if app.gang.pledge or app.claimed else None
            return Refused(NoRoom(bound.holder, wanted, owner), _shortfall(bound, left, wanted, min(excess)))
    return None


def is_beyond_limits(partition: Partition, app: Application, wanted: Resources) -> bool:
    """Whether a limit of its user or group leaves the application too little: nobody goes for that (contract 10.1)."""
    refused = refusal(partition, app, wanted)
    return refused is not None and refused.why.lack is Lack.USER_QUOTA


def _shortfall(bound: Bound, left: Limit, wanted: Resources, name: str) -> Shortfall:
    has = max(left.get(name) or 0, 0)
    holder = bound.holder
    asked = f"{name}={wanted[name]} is asked for"
    if holder.kind is HolderKind.QUEUE:
        return Shortfall(
            Lack.QUOTA,
            f"Not enough queue quota: queue {holder.path} has {name}={has} left of its maximum "
            f"{bound.max.get(name)}, {asked}",
        )
    return Shortfall(
        Lack.USER_QUOTA,
        f"Not enough user quota: {holder.kind} {holder.name} has {name}={has} left of the limit "
        f"{bound.max.get(name)} in queue {holder.path}, {asked}",
    )


def left_of(bound: Bound, app: Application, back: Resources) -> Limit:
    """What the application may still take of one maximum; `back`: of the room held for asks, what is its own."""
    holder = bound.taken
    taken = holder.allocated
    if holder.pledged:
        taken += holder.pledged
    if isinstance(holder, Queue) and holder.claimed:
        taken += holder.claimed - back
    if app.gang.backed:
        taken -= app.gang.pledge
    elif holder.awaited and not app.gang.pledge:
        taken += holder.awaited
    return bound.max.room(taken)
