"""Applications whose user's groups are not known: what waits for them, and what follows when they are (contract 2.9).

A new application is neither accepted nor rejected while its queue or a limit on the way to it depends on the groups.
One that runs already is counted, and its new requests wait. Whatever does not depend on the groups goes on. Called by
applications.py and lifecycle.py; edge/groups/retries.py looks the groups up again.
"""

from __future__ import annotations

from muster_core.engine import notes
from muster_core.model.ids import ApplicationId
from muster_core.model.specs import ApplicationSpec
from muster_core.plan.placement import GroupsNeeded, choose_queue, group_limit_on
from muster_core.world.applications import Application
from muster_core.world.queues import Queue
from muster_core.world.world import Partition


def reader(partition: Partition, spec: ApplicationSpec, queue: Queue) -> str:
    """What reads the groups that are not known, of an application that is in the queue, or would hang below it."""
    if not spec.groups_unknown:
        return ""
    if not queue.is_recovery:
        return group_limit_on(queue)
    chosen = choose_queue(partition.queues, partition.config.rules, spec)
    return chosen.reader if isinstance(chosen, GroupsNeeded) else ""


def reason(spec: ApplicationSpec, found: str) -> str:
    """Why the application, or its new requests, wait. `found`: the setting that reads the groups; empty = none."""
    if not found:
        return ""
    return f"waiting for the groups of user {spec.user} ({spec.groups_unknown}): {found}"


def note(partition: Partition, spec: ApplicationSpec) -> None:
    """Index the application by the user whose groups it waits for."""
    if spec.groups_unknown:
        partition.unresolved.setdefault(spec.user, {})[spec.id] = None


def forget(partition: Partition, user: str, app: ApplicationId) -> None:
    """Forget an application that was removed."""
    waiting = partition.unresolved.get(user, {})
    waiting.pop(app, None)
    if not waiting:
        partition.unresolved.pop(user, None)


def wanted(partition: Partition) -> list[str]:
    """Users whose groups something waits for, in the order of their names."""
    return sorted(user for user, names in partition.unresolved.items() if any(_waits(partition, one) for one in names))


def regroup(partition: Partition, app: Application) -> None:
    """The groups of the application's user are known now: count it for the group that limits it."""
    was_linked = app.linked
    before = app.group
    partition.users.regroup(app)
    if app.group == before:
        return
    if was_linked:
        notes.group_changed(partition, app, before or "")
    partition.stir_all()


def _waits(partition: Partition, name: ApplicationId) -> bool:
    app = partition.applications.get(name)
    return name in partition.undecided or (app is not None and bool(app.withheld))
