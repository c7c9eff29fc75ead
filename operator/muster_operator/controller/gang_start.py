"""The start of a gang with devices: no member is bound before as many as the gang needs can be bound.

Drivers may prepare devices for minutes after their allocation, and fail. `volume_binding` asks before each bind. If a
member loses its node before, the gang begins again: its claims are deallocated, and the core plans all members anew.
After the start, members are bound one by one, as those of a gang that was given up.
"""

from __future__ import annotations

from collections import Counter

from muster_operator.controller import state
from muster_operator.controller.state import Application, Deadline, Ledger, Task, TimerKind, set_timer
from muster_operator.model.ids import AppId
from muster_operator.model.pods import Placement
from muster_operator.model.states import AppState


def group_of(task: Task) -> str:
    """The task group of a member. A changed annotation counts when the member does not wait for its claims."""
    return task.pod.membership.task_group if task.claim_wait is None else task.claim_wait.group


def is_needed(app: Application, task: Task) -> bool:
    """Whether the task is a member of a task group with a minimum. Other pods neither wait nor start the gang."""
    member = task.pod.membership
    group = None if app.gang is None or member.marked or member.placeholder else app.gang.group(group_of(task))
    return group is not None and group.min_member > 0


def has_started(app: Application) -> bool:
    """Whether a member is bound, or is being bound: if the gang has devices, a needed one.

    Call it while no member waits for its claims.
    """
    holding = (one for one in app.members.values() if state.holds_slot(one))
    return any(is_needed(app, one) if app.has_devices else not one.pod.membership.marked for one in holding)


def waits(ledger: Ledger, app: Application) -> bool:
    """Whether the gang of the application has devices and has not started."""
    if app.gang is None or app.has_started or not app.has_devices:
        return False
    is_direct = app.gang.placement is Placement.DIRECT  # otherwise it runs since before it had devices
    return is_direct and app.originator.ref.uid not in ledger.resumed


def gang_of(ledger: Ledger, task: Task) -> Application | None:
    """The application of a member whose gang has devices and has not started. None = the pod is bound by itself."""
    app = ledger.applications.get(task.app)
    return app if app is not None and waits(ledger, app) and is_needed(app, task) else None


def to_bind(ledger: Ledger, task: Task) -> list[Task]:
    """The claims of the pod are ready. Returns the pods to bind now: itself, or those that waited, or none."""
    app = gang_of(ledger, task)
    if app is None or app.gang is None:
        return [task]
    app.ready.setdefault(group_of(task), {})[task.uid] = task
    if any(len(app.ready.get(group.name, ())) < group.min_member for group in app.gang.groups):
        return []
    app.has_started = True
    return ready(app)


def ready(app: Application) -> list[Task]:
    """The members that wait for others."""
    return [one for group in app.ready.values() for one in group.values()]


def not_ready(ledger: Ledger, task: Task) -> None:
    """The claims of the pod are not ready, or not any more, or it is bound."""
    if (app := ledger.applications.get(task.app)) is not None:
        app.ready.get(group_of(task), {}).pop(task.uid, None)


def is_short(app: Application) -> bool:
    """Whether the gang, which can begin again, has fewer members with a node than it needs."""
    groups = app.gang.groups if app.gang is not None and app.state in {AppState.RESERVING, AppState.RUNNING} else ()
    placed = Counter(group_of(task) for task in app.members.values() if task.claim_wait is not None)
    return any(placed[group.name] < group.min_member for group in groups)


def lost_node(ledger: Ledger, task: Task) -> None:
    """A member lost its node: its gang is checked if it has not started."""
    if gang_of(ledger, task) is not None:
        check(ledger, task.app)


def bound_elsewhere(ledger: Ledger, task: Task) -> None:
    """Another client bound the pod. If it is a needed member, its gang starts."""
    if (app := gang_of(ledger, task)) is not None:
        app.has_started = True
        check(ledger, app.id)


def check(ledger: Ledger, app: AppId) -> None:
    """Lets `volume_binding.check_start` bind the ready members or begin again, after all of this message is handled."""
    set_timer(ledger, Deadline(0.0, TimerKind.START, app))
