"""What people are told while a gang reserves: how far it is, and on its waiting pods why (contract 6.2, semantics 28).

A gang that gets on tells it in its one series of events, seldom. One that stands still gets conditions: the originator
says how far the gang is and what its placeholders lack, the other members where to look. None of them calls for a node:
the placeholders do that. Only a gang that no cluster of these nodes could hold is marked so itself (semantics 10).
"""

from __future__ import annotations

from typing import Final

from muster_operator.agent import namespaces, telling, waiting
from muster_operator.agent.deadlines import remember
from muster_operator.agent.ledger import Application, Deadline, Ledger, Look, SlotState, Task
from muster_operator.model import vocabulary as words
from muster_operator.model.ids import AppId
from muster_operator.model.outcome import Outcome
from muster_operator.model.pods import Condition
from muster_operator.model.states import AppState, TaskState

#: Seconds between two looks at a gang; they double up to the longest.
FIRST_LOOK_S: Final = 2.0
_LONGEST_PAUSE_S: Final = 60.0


def watch(ledger: Ledger, app: Application, now: float, pause: float = FIRST_LOOK_S) -> None:
    """Look again at the gang, how far it is."""
    app.look_pause = pause
    remember(ledger, Deadline(now + pause, Look.GANG, app.id))


def look(ledger: Ledger, out: Outcome, app_id: AppId, now: float) -> None:
    """Tell what changed since the last look; a gang that stands still is explained on its pods."""
    app = ledger.applications.get(app_id)
    if app is None or app.state is not AppState.RESERVING or namespaces.is_leaving(ledger, app.namespace):
        return
    reached = how_far(app)
    bound = reached[1]
    if reached == app.reached:
        _explain(ledger, out, app, now)
    elif bound and bound != app.reached[1]:
        note = f"{bound} of {len(app.slots)} placeholders have their node"
        telling.progress(out, app, words.ACTION_PLACEHOLDER_ALLOCATED, note)
    app.reached = reached
    watch(ledger, app, now, min(app.look_pause * 2, _LONGEST_PAUSE_S))


def how_far(app: Application) -> tuple[int, int]:
    """How many placeholders were seen, and how many have their node."""
    seen = sum(slot.state is SlotState.SEEN for slot in app.slots.values())
    return seen, len(app.slots) - len(app.open_slots)


def cannot_fit(ledger: Ledger, out: Outcome, app: Application, message: str, now: float) -> None:
    """Not even an empty cluster of these nodes could hold the gang: its originator says so at once."""
    ledger.cramped.add(app.id)
    app.impossible = Condition(words.CONDITION_UNSCHEDULABLE, message)
    app.shortage = app.shortage or app.impossible
    task = ledger.tasks.get(app.originator.ref.uid)
    if task is not None and app.state is AppState.RESERVING:
        task.waits_since = now - ledger.settings.condition_delay_s
        task.shortage = app.impossible
        waiting.express(ledger, out, task, now)


def may_fit(ledger: Ledger) -> None:
    """There are other nodes than there were: what was said of an empty cluster counts only if it is said again."""
    for app_id in ledger.cramped:
        app = ledger.applications[app_id]
        app.shortage = None if app.shortage == app.impossible else app.shortage
        app.impossible = None
    ledger.cramped.clear()


def _explain(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    originator = app.originator.ref
    note = f"gang {app.id} waits for its places; pod {originator.name} says how far it is"
    for task in app.members.values():
        if task.state is TaskState.PENDING:
            is_first = task.uid == originator.uid
            _wait(ledger, out, task, _of_originator(app) if is_first else Condition(words.CONDITION_SKIPPED, note), now)


def _wait(ledger: Ledger, out: Outcome, task: Task, why: Condition, now: float) -> None:
    if task.waits_since is None:
        task.waits_since = now - ledger.settings.condition_delay_s
    task.shortage = why
    waiting.express(ledger, out, task, now)


def _of_originator(app: Application) -> Condition:
    """What its placeholders lack; whom a quota holds back is not short of nodes, whatever was said of the cluster."""
    lack = app.shortage
    if app.impossible is not None and lack is not None and lack.reason == words.CONDITION_UNSCHEDULABLE:
        return app.impossible
    bound = len(app.slots) - len(app.open_slots)
    note = f"gang {app.id} waits for its places: {bound} of {len(app.slots)} placeholders have their node"
    return Condition(words.CONDITION_SKIPPED, f"{note}; {lack.message}" if lack else note)
