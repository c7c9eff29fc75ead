"""Reports gangs that wait for members that nothing creates.

A gang may wait for nodes and quota without a limit. If it has fewer members than its minimum, and none has appeared or
ended for some time, no nodes and no quota can complete it: a Job has a smaller parallelism, its back-off limit is
reached, or a ResourceQuota rejects the pods. The core then starts the timeout of the gang, which ends it by its style.

The operator reads pods only, so the members that a controller will still create are not known. A task group that has
never had a member does not count as missing: the driver of a Spark application creates its executors when it runs.
`absent_members` calls `changed`, and `timers` calls `on_timer`. See docs/internals/semantics.md, 10.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from muster_operator.controller import reporting, tasks
from muster_operator.controller.state import Application, Deadline, Ledger, TimerKind, set_timer
from muster_operator.model import problems
from muster_operator.model.commands import Outcome
from muster_operator.model.core_messages import ApplicationSubmitted
from muster_operator.model.ids import AppId
from muster_operator.model.pods import GangDefinition, PodGroupSource
from muster_operator.model.states import AppState

#: Time without a change of the members, as a multiple of ``gang.memberWait``. Controllers create the pods of large
#: gangs within this time, see `absent_members`.
_UNCHANGED: Final = 12


def changed(ledger: Ledger, app: Application, now: float) -> None:
    """The gang began to wait, or a member appeared or ended: checks the members when they have not changed for a time.

    If members were reported as missing, they are checked soon.
    """
    app.changed_at = now
    if app.gang is not None and app.state is AppState.RESERVING and app.missing_due <= now:
        _set_due(ledger, app, now + (ledger.settings.member_quiet_s if app.members_missing else _unchanged_s(ledger)))


def _unchanged_s(ledger: Ledger) -> float:
    return _UNCHANGED * ledger.settings.member_wait_s


def _set_due(ledger: Ledger, app: Application, due: float) -> None:
    app.missing_due = due
    set_timer(ledger, Deadline(due, TimerKind.MISSING, app.id))


def on_timer(ledger: Ledger, out: Outcome, app_id: AppId, now: float) -> None:
    """Timer: reports that the gang waits for members that nothing creates, or that all exist now.

    What was reported stays while members change and some are missing, because a controller can replace members that
    fail repeatedly.
    """
    app = ledger.applications.get(app_id)
    if app is None or app.gang is None or app.state is not AppState.RESERVING or app.core_is_running:
        return
    due = app.changed_at + _unchanged_s(ledger)
    needs_all = app.common_id in ledger.devices.apps
    why = _missing(app, app.gang, round(_unchanged_s(ledger)), needs_all=needs_all)
    if why and now < due:
        _set_due(ledger, app, due)
    elif why != app.members_missing:
        app.members_missing = why
        reporting.members_missing(ledger, out, app, now)
        out.requests.append(ApplicationSubmitted(tasks.missing_members_spec(ledger, app, why)))


def _missing(app: Application, gang: GangDefinition, unchanged_s: int, *, needs_all: bool) -> str:
    """Which members are missing; empty = none.

    ``needs_all``: the gang has devices, so that no member starts before those of all groups exist.
    """
    present = Counter(
        task.pod.membership.task_group
        for task in app.members.values()
        if not task.pod.terminating and not tasks.is_unverified(task.pod)
    )
    for group in gang.groups:
        if (needs_all or group.name in app.groups_seen) and present[group.name] < group.min_member:
            succeeded = app.succeeded.get(group.name, 0)
            minimum = group.min_member + succeeded
            counts = minimum, present[group.name], succeeded, unchanged_s
            if isinstance(app.source, PodGroupSource):
                title = f'gang "{group.name}"' if app.source.gangs else app.source.title
                return problems.pods_missing(title, *counts)
            return problems.members_missing(group.name, *counts)
    return ""
