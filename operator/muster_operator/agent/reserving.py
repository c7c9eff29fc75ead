"""What people are told while a gang reserves: how far it is, and on its waiting pods why (contract 6.2, semantics 28).

A gang that gets on tells it in its one series of events, seldom. One that stands still gets conditions: the originator
says how far the gang is and what its placeholders lack, the other members where to look. One whose writes wait behind
those of others does not stand still. None of them calls for a node: the placeholders do that. Only a gang that no
cluster of these nodes could hold is marked so itself (semantics 10).

Where the core holds the places without placeholder pods (Direct) it speaks for the task groups, and every member says
what they lack: nobody else could call for nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster_operator.agent import namespaces, telling, waiting
from muster_operator.agent.deadlines import remember
from muster_operator.agent.ledger import Application, Deadline, Ledger, Look, SlotState, Task
from muster_operator.model import vocabulary as words
from muster_operator.model.ids import AppId
from muster_operator.model.outcome import Outcome
from muster_operator.model.pods import Condition
from muster_operator.model.states import AppState, TaskState
from muster_operator.model.verdicts import SchedulingStateChanged

#: Seconds between two looks at a gang; they double up to the longest.
FIRST_LOOK_S: Final = 2.0
_LONGEST_PAUSE_S: Final = 60.0
#: From this pause on the originator of a gang whose own writes do not get through says so too; before it they only wait
#: their turn. The others follow at the longest pause: what they would write, others' writes would have to wait for.
_OURS_S: Final = 32.0
_SPOKEN_FOR: Final = frozenset({AppState.SUBMITTED, AppState.ACCEPTED, AppState.RESERVING, AppState.RUNNING})
_WAITS: Final = frozenset({TaskState.PENDING, TaskState.SCHEDULING})


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
        is_ours = _is_on_our_way(app)
        if not is_ours or app.look_pause >= _OURS_S:
            _explain(ledger, out, app, now, by_all=not is_ours or app.look_pause >= _LONGEST_PAUSE_S)
    elif bound and bound != app.reached[1]:
        note = f"{bound} of {app.wanted} placeholders have their node"
        telling.progress(out, app, words.ACTION_PLACEHOLDER_ALLOCATED, note)
    app.reached = reached
    watch(ledger, app, now, min(app.look_pause * 2, _LONGEST_PAUSE_S))


def how_far(app: Application) -> tuple[int, int]:
    """How many placeholders were seen, and how many have their node."""
    seen = sum(slot.state is SlotState.SEEN for slot in app.slots.values())
    return seen, len(app.slots) - len(app.open_slots)


def _is_on_our_way(app: Application) -> bool:
    """Whether it waits for nothing but writes of ours: placeholders to be created and seen, or to be bound."""
    if any(task.state is TaskState.SCHEDULING and task.shortage is not None for task in app.placeholders.values()):
        return False
    seen, _ = how_far(app)
    return seen < app.wanted or any(task.state is TaskState.ALLOCATED for task in app.placeholders.values())


def all_there(app: Application) -> str:
    """That the gang has all its places, for people."""
    if _is_direct(app) and app.gang is not None:
        return f"All {app.gang.size} places are held"
    return f"All {len(app.slots)} placeholders have their node"


def states_changed(ledger: Ledger, out: Outcome, changes: Iterable[SchedulingStateChanged], now: float) -> None:
    """The core said of task groups what keeps their places from being held, or that nothing does any more.

    What is said before the first look is told at the first look: most gangs have their places by then. It may be said
    even before we hear that the application was accepted, for that comes on another stream (semantics 1). After a
    restart a gang runs, for some of its members do, and waits for the places of the others.
    """
    for app_id in dict.fromkeys(change.app for change in changes if _is_noted(ledger, change)):
        app = ledger.applications[app_id]
        before = _says(app)
        lacks = sorted(app.lacks.items(), key=lambda item: (item[1].reason != words.CONDITION_UNSCHEDULABLE, item[0]))
        app.shortage = lacks[0][1] if lacks else app.impossible
        if not lacks:
            _forget(app, before)
        elif app.state is AppState.RUNNING or (app.state is AppState.RESERVING and app.look_pause > FIRST_LOOK_S):
            _explain(ledger, out, app, now)


def _is_noted(ledger: Ledger, change: SchedulingStateChanged) -> bool:
    """Whether it is of a gang without placeholder pods; then it is noted what its task group lacks."""
    app = ledger.applications.get(change.app)
    group = change.key.removeprefix(f"{change.app}/")
    if app is None or app.state not in _SPOKEN_FOR or app.gang is None or app.gang.group(group) is None:
        return False
    why = waiting.shortage_of(change)
    if why is None:
        app.lacks.pop(group, None)
    else:
        app.lacks[group] = why
    return True


def joined(ledger: Ledger, out: Outcome, app: Application, task: Task, now: float) -> None:
    """A member came while the core looks for places: it says what they lack when it has waited for long itself."""
    if _is_direct(app) and app.look_pause != FIRST_LOOK_S:
        task.shortage = _of_direct(app)
        waiting.express(ledger, out, task, now)


def over(app: Application) -> None:
    """The gang waits no more for places without placeholder pods: from now on each member waits for itself."""
    if _is_direct(app):
        _forget(app, _says(app))
        app.lacks.clear()


def _says(app: Application) -> set[Condition | None]:
    """What members may say for the gang."""
    return {_of_direct(app), app.impossible}


def _forget(app: Application, of_gang: set[Condition | None]) -> None:
    for task in app.members.values():
        if task.shortage in of_gang:
            task.shortage = None


def _is_direct(app: Application) -> bool:
    """Whether the core looks for places of it without placeholder pods."""
    is_looked_for = app.state is AppState.RESERVING or (app.state is AppState.RUNNING and bool(app.lacks))
    return is_looked_for and app.gang is not None and app.gang.is_direct


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


def _explain(ledger: Ledger, out: Outcome, app: Application, now: float, *, by_all: bool = True) -> None:
    """Let its pods say why it waits, or only the originator."""
    if _is_direct(app):
        for task in app.members.values():
            if task.state in _WAITS:
                _wait(ledger, out, task, _of_direct(app), now)
        return
    originator = app.originator.ref
    note = f"gang {app.name} waits for its places; pod {originator.name} says how far it is"
    for task in app.members.values():
        is_first = task.uid == originator.uid
        if task.state is TaskState.PENDING and (by_all or is_first):
            _wait(ledger, out, task, _of_originator(app) if is_first else Condition(words.CONDITION_SKIPPED, note), now)


def _wait(ledger: Ledger, out: Outcome, task: Task, why: Condition, now: float) -> None:
    if task.waits_since is None:
        task.waits_since = now - ledger.settings.condition_delay_s
    task.shortage = why
    waiting.express(ledger, out, task, now)


def _of_direct(app: Application) -> Condition:
    """What its places lack, on each of its members."""
    lack = app.shortage
    if app.impossible is not None and lack is not None and lack.reason == words.CONDITION_UNSCHEDULABLE:
        return app.impossible
    note = f"gang {app.name} waits for its places"
    return Condition(lack.reason, f"{note}: {lack.message}") if lack else Condition(words.CONDITION_SKIPPED, note)


def _of_originator(app: Application) -> Condition:
    """What its placeholders lack; whom a quota holds back is not short of nodes, whatever was said of the cluster."""
    lack = app.shortage
    if app.impossible is not None and lack is not None and lack.reason == words.CONDITION_UNSCHEDULABLE:
        return app.impossible
    bound = len(app.slots) - len(app.open_slots)
    note = f"gang {app.name} waits for its places: {bound} of {app.wanted} placeholders have their node"
    return Condition(words.CONDITION_SKIPPED, f"{note}; {lack.message}" if lack else note)
