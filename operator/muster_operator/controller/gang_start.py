"""The start of a gang with devices: no member is bound before as many as the gang needs can be bound.

Drivers may prepare devices for minutes after their allocation, and fail. `volume_binding` asks before each bind. If a
member loses its node before, the gang begins again: its claims are deallocated, and the core plans all members anew.
After the start, members are bound one by one.
"""

from __future__ import annotations

from muster_operator.controller import applications, tasks
from muster_operator.controller.state import Application, Ledger, Task
from muster_operator.model.commands import Outcome
from muster_operator.model.pods import GangDefinition, Placement
from muster_operator.model.states import TaskState


def gang_of(ledger: Ledger, task: Task) -> Application | None:
    """The application of a member whose gang has devices and has not started. None = the pod is bound by itself."""
    app, member = ledger.applications.get(task.app), task.pod.membership
    if app is None or app.gang is None or app.has_started or not app.has_devices:
        return None
    if app.gang.placement is not Placement.DIRECT:  # it runs since before it had devices
        return None
    group = None if tasks.is_unverified(task.pod) else app.gang.group(member.task_group)
    return app if group is not None and group.min_member > 0 else None


def to_bind(ledger: Ledger, task: Task) -> list[Task]:
    """The claims of the pod are ready. Returns the pods to bind now: itself, or those that waited, or none."""
    app = gang_of(ledger, task)
    if app is None or app.gang is None:
        return [task]
    app.ready.setdefault(task.pod.membership.task_group, {})[task.uid] = task
    if any(len(app.ready.get(group.name, ())) < group.min_member for group in app.gang.groups):
        return []
    app.has_started = True
    return [one for ready in app.ready.values() for one in ready.values()]


def not_ready(ledger: Ledger, task: Task) -> None:
    """The claims of the pod are not ready, or not any more."""
    if (app := gang_of(ledger, task)) is not None:
        app.ready.get(task.pod.membership.task_group, {}).pop(task.uid, None)


def is_short(app: Application, gang: GangDefinition) -> bool:
    """Whether the gang has fewer members with a node than it needs, and some."""
    has_some = any(task.claim_wait is not None for task in app.members.values())
    return has_some and any(app.member_counts.get(group.name, 0) < group.min_member for group in gang.groups)


def begin_again(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """Takes back everything that the gang has, and submits it again. Its members keep avoiding nodes."""
    avoided = {uid: task.avoid for uid, task in app.members.items() if task.avoid}
    for task in app.members.values():
        if task.state is TaskState.ALLOCATED:
            tasks.abandon_claims(ledger, out, task)
    applications.kill(ledger, out, app, now)
    for uid, nodes in avoided.items():
        if (again := ledger.tasks.get(uid)) is not None:
            tasks.avoid_node(ledger, again, nodes, now + ledger.settings.avoid_node_s)
