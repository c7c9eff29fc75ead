"""What users and groups use, queue by queue, counted from the live applications.

An application counts for its user, and for the group whose limit it is under
(contract 2.7, group pick).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from muster_core.edge.rest.shapes import usage as shapes
from muster_core.edge.rest.views.amounts import amounts
from muster_core.model.config import QuotaLimit
from muster_core.model.resources import NOTHING, Resources
from muster_core.world.applications import Application
from muster_core.world.queues import Queue
from muster_core.world.world import Partition

_EVERYBODY: Final = "*"


@dataclass(slots=True)
class _Part:
    """Somebody's part of one queue."""

    used: Resources = NOTHING
    running: list[str] = field(default_factory=list)


def by_user(partition: Partition) -> dict[str, list[Application]]:
    """Live applications of each user, users in the order of their names."""
    found: dict[str, list[Application]] = {}
    for app in partition.applications.values():
        found.setdefault(app.spec.user, []).append(app)
    return dict(sorted(found.items()))


def by_group(partition: Partition) -> dict[str, list[Application]]:
    """Live applications of each group that has a limit, groups in the order of their names."""
    found: dict[str, list[Application]] = {}
    for app in partition.applications.values():
        if group := partition.users.group_of(app):
            found.setdefault(group, []).append(app)
    return dict(sorted(found.items()))


def user(partition: Partition, name: str, apps: Iterable[Application]) -> shapes.UserUsage:
    """What one user uses."""
    live = list(apps)
    return shapes.UserUsage(
        userName=name,
        groups={app.name: group for app in live if (group := partition.users.group_of(app))},
        queues=_tree(live, name, is_group=False),
    )


def group(name: str, apps: Iterable[Application]) -> shapes.GroupUsage:
    """What the applications of one group use."""
    live = list(apps)
    return shapes.GroupUsage(
        groupName=name, applications=[app.name for app in live], queues=_tree(live, name, is_group=True)
    )


def _tree(apps: Iterable[Application], name: str, *, is_group: bool) -> shapes.UsageTree:
    parts: dict[str, _Part] = {}
    below: dict[str, dict[str, Queue]] = {}
    top: Queue | None = None
    for app in apps:
        used = app.allocated + app.gang.allocated
        for queue in app.queue.path_up():
            part = parts.setdefault(queue.path, _Part())
            part.used += used
            if app.counted:
                part.running.append(app.name)
            if queue.parent is None:
                top = queue
            else:
                below.setdefault(queue.parent.path, {})[queue.path] = queue

    def branch(queue: Queue) -> shapes.UsageTree:
        part, limit = parts[queue.path], _limit(queue, name, is_group=is_group)
        return shapes.UsageTree(
            queuePath=queue.path,
            resourceUsage=amounts(part.used),
            runningApplications=part.running,
            maxResources=amounts(limit.max) if limit else None,
            maxApplications=limit.max_applications if limit else 0,
            children=[branch(child) for child in below.get(queue.path, {}).values()],
        )

    if top is None:
        return shapes.UsageTree(queuePath="", resourceUsage={}, runningApplications=[], maxApplications=0, children=[])
    return branch(top)


def _limit(queue: Queue, name: str, *, is_group: bool) -> QuotaLimit | None:
    """The limit that names it, else the wildcard's."""
    for wanted in (name, _EVERYBODY):
        for limit in queue.limits:
            if wanted in (limit.groups if is_group else limit.users):
                return limit
    return None
