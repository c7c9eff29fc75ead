"""Invariants of the reservations of a gang. `invariants` calls them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from muster_core.model.ids import TaskGroup
from muster_core.model.states import ApplicationState
from muster_core.scheduling import gangs, repair
from muster_core.state.applications import Application
from muster_core.state.scheduler_state import Partition

_HOLDING = (ApplicationState.RUNNING, ApplicationState.COMPLETING)


def broken(partition: Partition, app: Application) -> Iterator[str]:
    """Yields the violated invariants of the application's gang."""
    yield from _virtual_placeholders(app)
    yield from _outcome(app)
    yield from _lost_members(partition, app)
    if not app.is_reserving:
        if app.gang.quota_reservation:
            yield f"application {app.id} has reserved quota {app.gang.quota_reservation}, but is not reserving"
        return
    live = [identity for group in app.gang.live.values() for identity in group]
    if app.spec.is_all_or_nothing and any(identity not in app.gang.recovered for identity in live):
        yield f"gang {app.id} has a part of its reservations and needs all or none"
    is_holding = app.id in partition.contention.holding
    if (app.gang.reserved or app.gang.quota_reservation) and not is_holding:
        yield f"gang {app.id} has reservations and is missing in the contention state"
    if is_holding and not (app.gang.allocated or app.gang.quota_reservation):
        yield f"gang {app.id} has no reservations and is in the contention state"
    if app.id in partition.contention.open and not app.placeholder_asks:
        yield f"gang {app.id} takes over reservations and has no waiting request"


def _outcome(app: Application) -> Iterator[str]:
    """Checks that the result of a reservation was applied, because nothing would apply it later."""
    if app.is_reserving and gangs.is_reserved(app):
        yield f"gang {app.id} has all its members and is still reserving"
    if app.gang.over and app.placeholder_asks:
        yield f"gang {app.id} is not reserving and requests placeholders"
    allocations = [
        one for one in app.allocations.values() if one.releasing is None and one.id not in app.gang.recovered
    ]
    if app.state is ApplicationState.ACCEPTED and not app.is_reserving and allocations:
        yield f"application {app.id} has allocations and is {app.state}"


def _lost_members(partition: Partition, app: Application) -> Iterator[str]:
    """Checks the counted members, and that exactly the gangs with replacements have precedence."""
    members = Counter(one.spec.group for one in app.allocations.values() if one.spec.group and not one.spec.placeholder)
    if members != +Counter(app.gang.members):
        yield f"gang {app.id}: members are recorded as {app.gang.members}, counted as {dict(members)}"
    if app.gang.lost and not app.gang.was_complete:
        yield f"gang {app.id} has lost members and was never complete"
    recorded = partition.scheduling.repairs.wanted.get(app.id)
    priority = max((kind.priority for kind in repair.replacements(app)), default=None)
    if (recorded.priority if recorded is not None else None) != priority:
        yield f"gang {app.id}: precedence for lost members is recorded as {recorded}, with priority {priority}"


def _virtual_placeholders(app: Application) -> Iterator[str]:
    """Checks that only Direct and Auto gangs have virtual placeholders, and only while they need them.

    The slots of such a gang are either all requested or all reserved.
    """
    asked = [ask for ask in app.asks.values() if ask.spec.is_virtual]
    held = [one for one in app.allocations.values() if one.spec.is_virtual]
    if not app.spec.uses_virtual_placeholders:
        if asked or held:
            yield f"application {app.id} has virtual placeholders"
        return
    if asked and held:
        yield f"gang {app.id} has a part of its reservations"
    yield from _virtual_index(
        app.gang.asked_virtual, {(ask.spec.group, ask.spec.key) for ask in asked}, f"gang {app.id}: requests"
    )
    yield from _virtual_index(
        app.gang.live_virtual, {(one.spec.group, one.id) for one in held}, f"gang {app.id}: allocations"
    )
    is_asking = bool(app.placeholder_asks) if app.spec.is_auto else bool(asked)
    if is_asking != app.is_reserving:
        yield f"gang {app.id} {'has requests but does not reserve' if asked else 'reserves but has no requests'}"
    if app.is_reserving and app.state is ApplicationState.RUNNING and not app.gang.timer:
        yield f"gang {app.id} runs and waits for reservations without a timeout"
    if any(one.releasing is not None or one.replaced_by is not None for one in held):
        yield f"gang {app.id}: a virtual placeholder waits for a message that is never sent"
    if held and (app.state not in _HOLDING or app.ending):
        yield f"gang {app.id} is {app.state} and has reservations"
    counts = Counter(one.spec.group for one in held)
    for ask in app.asks.values():
        counts[ask.spec.group] += ask.left if ask.spec.placeholder else 0
    surplus = app.gang.surplus
    if any(counts[member.group] > member.count + surplus.get(member.group, 0) for member in app.spec.members):
        yield f"gang {app.id} has more requests or reservations than members"


def _virtual_index(
    known: Mapping[TaskGroup, Iterable[str]], there: set[tuple[TaskGroup, str]], what: str
) -> Iterator[str]:
    if {(group, name) for group, names in known.items() for name in names} != there:
        yield f"{what} of virtual placeholders are not recorded by task group"
