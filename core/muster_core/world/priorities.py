"""The priority that queues show to those above: kept as asks come and go, never walked for.

An application shows the highest priority of what it waits for; a queue the
highest shown in it plus its offset, within 32 bits; a fence nothing but its
offset. Source: contract 10.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster_core.model.policies import PriorityPolicy
from muster_core.world.applications import Application
from muster_core.world.queues import Queue

_LOWEST: Final = -(2**31)
_HIGHEST: Final = 2**31 - 1


def note(app: Application) -> bool:
    """The application's asks changed; returns whether its priority is another one now."""
    priority = app.priorities.top
    if priority == app.shown:
        return False
    app.queue.priorities.replace(app.shown, priority)
    app.shown = priority
    _rise(app.queue)
    return True


def leave(app: Application) -> None:
    """The application leaves its queue, which shows no priority of it any more."""
    app.queue.priorities.replace(app.shown, None)
    app.shown = None
    _rise(app.queue)


def shown_by(queue: Queue) -> int | None:
    """What a queue shows to its parent; None where nothing waits."""
    top = queue.priorities.top
    return None if top is None else risen(queue, top)


def risen(queue: Queue, priority: int) -> int:
    """A priority of the queue, as those above it see it."""
    if queue.policies.priority is PriorityPolicy.FENCE:
        priority = 0
    return max(_LOWEST, min(_HIGHEST, priority + queue.policies.priority_offset))


def recount(queues: Iterable[Queue]) -> None:
    """Policies changed: every queue shows what it now means."""
    for queue in queues:
        _rise(queue)


def _rise(queue: Queue) -> None:
    above: Queue | None = queue
    while above is not None:
        shown = shown_by(above)
        if shown == above.shown:
            return
        if above.parent is not None:
            above.parent.priorities.replace(above.shown, shown)
        above.shown = shown
        above = above.parent
