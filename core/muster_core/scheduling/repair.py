"""Repair of gangs: replacements of lost members precede other applications (docs/internals/semantics.md, rule 32).

A complete gang that loses members and falls below its minimum produces nothing, and keeps the resources of the others.
Its replacements therefore precede applications of the same priority: in its own leaf, and in other leaves unless a
guarantee of another queue is not met. Quotas and limits apply as usual.

What bounds the precedence: it is only for members that were lost, up to the minimum, with at most the resources of the
lost ones. The replacement has to arrive within `REPAIR_NS` after the loss, and then precedes until it is placed. Losses
give precedence for `REPAIR_NS` after the first one, once per declared member. The next such time begins after a pause
that doubles, so deleting members in a loop soon gives no precedence.

`allocations` reports losses, `ledger` each change of requests, `scheduler` asks for the next gang to repair.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster_core.model import messages
from muster_core.model.ids import ApplicationId, TaskGroup
from muster_core.model.limits import LONGEST_REPAIR_PAUSE_NS, REPAIR_NS
from muster_core.model.records import Notice
from muster_core.model.resources import Resources
from muster_core.model.specs import AskSpec
from muster_core.model.states import ApplicationState
from muster_core.state import ordering
from muster_core.state.applications import Application, LostMembers
from muster_core.state.queues import Queue
from muster_core.state.repairs import Repair
from muster_core.state.request_classes import AskClass
from muster_core.state.scheduler_state import Partition
from muster_core.state.snapshot import wanted

#: Largest exponent of the doubled pause, so that the number stays small.
_MOST_DOUBLINGS: Final = 16


def member_ended(partition: Partition, app: Application, spec: AskSpec, now_ns: int, *, is_lost: bool) -> None:
    """Records that a member, or the slot of one, has ended. Call it after the allocation was removed.

    `is_lost`: it ended neither with success nor by a decision of the core.
    """
    gang = app.gang
    if not gang.was_complete or app.state is not ApplicationState.RUNNING:
        return
    expire(app, now_ns)
    missing = _missing(app, spec.group)
    if not app.real_allocations:  # nothing is left to be repaired: new pods are a new run
        gang.lost.clear()
    elif is_lost and missing > 0:
        lost = gang.lost.setdefault(spec.group, LostMembers())
        lost.count = min(lost.count + 1, missing)
        lost.resources = lost.resources.widened(spec.resources)
        if _has_precedence(app, now_ns):
            lost.first, lost.until_ns = min(lost.first + 1, lost.count), now_ns + REPAIR_NS
    note(partition, app)


def _missing(app: Application, group: TaskGroup) -> int:
    """Returns how many members of the task group are missing up to its minimum. Slots count as members."""
    least = next((member.count for member in app.spec.members if member.group == group), 0)
    return least - app.gang.members.get(group, 0) - len(app.gang.live.get(group, ()))


def _has_precedence(app: Application, now_ns: int) -> bool:
    """Whether the member that was just lost may be replaced before other applications. Counts it if so."""
    gang = app.gang
    before, gang.lost_at_ns = gang.lost_at_ns, now_ns
    if now_ns >= gang.repair_since_ns + REPAIR_NS or not gang.repair_times:
        if now_ns >= before + LONGEST_REPAIR_PAUSE_NS:
            gang.repair_times = 0
        pause_ns = min(REPAIR_NS << min(gang.repair_times, _MOST_DOUBLINGS), LONGEST_REPAIR_PAUSE_NS)
        if gang.repair_times and now_ns < gang.repair_since_ns + pause_ns:
            return False
        gang.repair_since_ns, gang.repair_times = now_ns, gang.repair_times + 1
        gang.repairs_left = sum(member.count for member in app.spec.members)
    gang.repairs_left -= 1
    return gang.repairs_left >= 0


def expire(app: Application, now_ns: int) -> None:
    """Ends the precedence of lost members whose replacements have not arrived in time.

    Call it before a request or a loss is added: the requests that wait then have arrived in time.
    """
    late = [group for group, lost in app.gang.lost.items() if lost.first and now_ns >= lost.until_ns]
    in_time = replacements(app) if late else {}
    for group in late:
        app.gang.lost[group].first = sum(count for kind, count in in_time.items() if kind.group == group)


def recovered(partition: Partition, now_ns: int) -> None:
    """Gives precedence to the missing members of gangs that ran before a restart of the core, as if lost now.

    Which of them were lost is not known: a gang with a bound member was complete once. The largest bound member of a
    task group, or its definition, limits the resources.
    """
    for app in partition.applications.values():
        if not app.gang.was_complete or app.state is not ApplicationState.RUNNING:
            continue
        for member in app.spec.members:
            missing = _missing(app, member.group)
            if missing > 0:
                app.gang.lost[member.group] = LostMembers(
                    missing, missing, _largest(app, member.group), now_ns + REPAIR_NS
                )
        note(partition, app)


def _largest(app: Application, group: TaskGroup) -> Resources:
    bound = (one.spec.resources for one in app.allocations.values() if one.spec.group == group)
    declared = (member.resources for member in app.spec.members if member.group == group)
    largest = Resources()
    for amount in (*bound, *declared):
        largest = largest.widened(amount)
    return largest


def note(partition: Partition, app: Application) -> None:
    """Updates whether replacements of the application have precedence, after its requests or members changed."""
    lost = app.gang.lost
    for group in list(lost):
        filled = lost[group].count - max(_missing(app, group), 0)
        if filled > 0:
            lost[group].count -= filled
            lost[group].first = max(lost[group].first - filled, 0)
        if not lost[group].count:
            del lost[group]
    scheduling = partition.scheduling
    entries = partition.blocking_reasons.blocked.get(app.id, {}).values()
    found = replacements(app) if app.id in partition.applications else {}
    if found:
        for entry in entries:
            entry.repairs[app.id] = None
        one = Repair(app.queue.path, max(kind.priority for kind in found))
        scheduling.repairs.add(app.id, one, is_active=scheduling.active.has(app))
    elif app.id in scheduling.repairs.wanted:
        for entry in entries:
            entry.repairs.pop(app.id, None)
        scheduling.repairs.remove(app.id)


def replacements(app: Application) -> dict[AskClass, int]:
    """Returns the classes of the requests with precedence, and how many requests of each, highest priority first.

    For a gang that reserves again after a restart of the core, these are the slots of its missing members.
    """
    found: dict[AskClass, int] = {}
    left = {group: lost.first for group, lost in app.gang.lost.items() if lost.first}
    for kind in sorted(app.waiting, key=lambda kind: -kind.priority) if left else ():
        at_most = left.get(kind.group, 0)
        if not at_most or kind.placeholder is not app.is_reserving or app.has_placeholder(kind):
            continue
        if app.gang.lost[kind.group].resources.covers(kind.resources):
            found[kind] = wanted(app, kind, at_most)
            left[kind.group] -= found[kind]
    return found


def below_minimum(app: Application, group: TaskGroup) -> str:
    """Returns the text that the gang runs with too few members of the task group; empty = it has enough."""
    lost = app.gang.lost.get(group)
    least = next((member.count for member in app.spec.members if member.group == group), 0)
    if lost is None or app.state is not ApplicationState.RUNNING:
        return ""
    return messages.gang_below_minimum(app.name, max(least - lost.count, 0), least, group)


def report_below_minimum(partition: Partition, app: Application, group: TaskGroup) -> None:
    """Records once per loss that a replacement waits. A gang that ends loses its members one after the other too."""
    lost = app.gang.lost.get(group)
    if lost is not None and not lost.is_reported and (text := below_minimum(app, group)):
        lost.is_reported = True
        partition.note(Notice.APPLICATION, app.id, message=text)


def next_gang(partition: Partition, rival: Application | None) -> Application | None:
    """Returns the gang whose replacements are tried next, before the `rival`: the application that is next otherwise.

    Only the first gang of each leaf is looked at, so that many of them do not slow down each attempt. None = no gang
    precedes the rival.
    """
    firsts = [app for names in partition.scheduling.repairs.ready.values() if (app := _first_free(partition, names))]
    if len(firsts) > 1:
        wanted = partition.scheduling.repairs.wanted
        firsts.sort(
            key=lambda app: (-_seen_by(app.queue.path_up[:-1], _priority(partition, app)), wanted[app.id].number)
        )
    return next((app for app in firsts if rival is None or precedes(partition, app, rival)), None)


def _first_free(partition: Partition, ready: Iterable[tuple[int, int, ApplicationId]]) -> Application | None:
    callbacks = partition.pending_callbacks
    for *_, name in ready:
        app = partition.applications[name]
        is_asked = bool(callbacks.waiting) and callbacks.awaits_callback(partition.id, name)
        if not (app.backoff_until_ns or app.withheld or is_asked):
            return app
    return None


def precedes(partition: Partition, app: Application, rival: Application) -> bool:
    """Whether the replacements of the gang precede the requests of another application.

    They do not precede a higher priority, as the nearest common queue sees it. In another leaf they do not either if
    `gang.repairAcrossQueues` is off, or if a queue with an application that may be scheduled now has less than it is
    guaranteed of a resource that they use.
    """
    mine, other = _priority(partition, app), rival.shown or 0
    if app.queue is rival.queue:
        return mine >= other
    if not partition.repairs_across_queues:
        return False
    common = next(queue for queue in app.queue.path_up if queue in rival.queue.path_up)
    below, below_rival = (_below(queue.path_up, common) for queue in (app.queue, rival.queue))
    return _seen_by(below, mine) >= _seen_by(below_rival, other) and not _is_guarantee_due(partition, app)


def _priority(partition: Partition, app: Application) -> int:
    return partition.scheduling.repairs.wanted[app.id].priority


def _below(path_up: tuple[Queue, ...], common: Queue) -> tuple[Queue, ...]:
    return path_up[: path_up.index(common)]


def _seen_by(path_up: Iterable[Queue], priority: int) -> int:
    for queue in path_up:
        priority = ordering.risen(queue, priority)
    return priority


def _is_guarantee_due(partition: Partition, app: Application) -> bool:
    """Whether another queue with an active application has not got its guarantee of a resource that is needed."""
    needed = {name for kind in replacements(app) for name in kind.resources}
    for path in partition.scheduling.active.orders:
        queue = partition.queues.by_path[path]
        if queue.guaranteed and queue not in app.queue.path_up:
            used = queue.allocated
            if any(used[name] < amount for name, amount in queue.guaranteed.items() if name in needed):
                return True
    return False
