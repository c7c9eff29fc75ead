"""Preemption: timers, attempts and enforcement of lowered quotas.

A preemption is in progress from the release of its victims until the last one has ended. Meanwhile their resources stay
reserved for the request. `muster_core.preemption` plans which victims to release, `victims` releases them.

Differs: quota preemption starts with a timer; YuniKorn checks every second. Differs: a queue that is still above its
maximum after the release timeout is checked again; YuniKorn tries once.

Differs: a request may preempt again if it was not allocated after its victims ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Final

from muster_core.model import messages
from muster_core.model.decisions import Preemption, ReasonKind
from muster_core.model.errors import caught
from muster_core.model.events import Timer, TimerKind
from muster_core.model.ids import AllocationKey, ApplicationId, QueuePath
from muster_core.model.limits import PODS_PER_PREEMPTION, PREEMPTION_SEARCHES_IN_VAIN
from muster_core.model.records import Notice
from muster_core.model.resources import Limit
from muster_core.placement.plugins.hooks import HOOKS
from muster_core.preemption import guarantees, planning, quota_victims, required_node
from muster_core.preemption.guarantees import is_under_guarantee, usage
from muster_core.preemption.planning import GangFindings, VictimPlan
from muster_core.queues import quota
from muster_core.scheduling import commit, failures, gangs, requeue, victims
from muster_core.state import ordering
from muster_core.state.applications import Application, Ask
from muster_core.state.queues import Queue
from muster_core.state.request_classes import AskClass
from muster_core.state.reservations import Epoch, Examined, PreemptionRefusal, ThrashingGuard, Wanted
from muster_core.state.scheduler_state import Partition
from muster_core.state.snapshot import wanted

#: Delay before the next part of a search that is too large for one event.
_PAUSE_NS: Final = 1_000_000

#: Maximum and quota preemption delay of a queue, before a change.
Before = tuple[Limit, int]


def current_quotas(partition: Partition) -> dict[QueuePath, Before]:
    """Returns maximum and delay of each queue, to be passed to `reconsider` after a change."""
    return {path: before(partition, queue) for path, queue in partition.queues.by_path.items()}


def before(partition: Partition, queue: Queue) -> Before:
    """Returns maximum and delay of one queue. The delay is 0 if quota preemption is disabled."""
    return queue.max, queue.policies.quota_preemption_delay_ns if partition.config.quota_preemption else 0


def reconsider(partition: Partition, was: Mapping[QueuePath, Before], now_ns: int) -> None:
    """Starts, moves or stops the quota preemption timers of queues whose maximum or delay may have changed."""
    for path, (most, delay_ns) in was.items():
        queue = partition.queues.get(path)
        if queue is not None:
            _reconsider(partition, queue, most, delay_ns, now_ns)


def note_excess(partition: Partition, queue: Queue, now_ns: int) -> None:
    """Starts the quota preemption timer of a queue above its maximum.

    An existing allocation may have exceeded it, or victims may not have terminated.
    """
    delay_ns = queue.policies.quota_preemption_delay_ns
    if not queue.quota_at_ns and _is_on(partition, delay_ns) and quota_victims.excess(queue):
        _start(partition, queue, now_ns + delay_ns)


def on_quota_timer(partition: Partition, timer: Timer, now_ns: int) -> None:
    """Releases victims of a queue above its maximum, and checks it again after the delay."""
    queue = partition.queues.get(timer.queue)
    if queue is None or queue.quota_timer != timer.generation:
        return
    _clear(queue)
    try:
        _enforce(partition, queue, now_ns)
    except Exception:
        if not queue.quota_timer:
            queue.quota_at_ns, queue.quota_timer = now_ns, timer.generation  # it fires again
        raise


def _enforce(partition: Partition, queue: Queue, now_ns: int) -> None:
    delay_ns = queue.policies.quota_preemption_delay_ns
    if not _is_on(partition, delay_ns) or not quota_victims.excess(queue):
        return
    _start(partition, queue, now_ns + delay_ns)
    decision = quota_victims.plan_for_quota(partition, queue)
    if (
        decision is not None
        and not commit.attempt(partition, decision, queue.path, now_ns)
        and quota_victims.excess(queue)
    ):
        _start(partition, queue, now_ns + _PAUSE_NS)


def _reconsider(partition: Partition, queue: Queue, most: Limit, delay_ns: int, now_ns: int) -> None:
    now_delay_ns = queue.policies.quota_preemption_delay_ns
    if not _is_on(partition, now_delay_ns) or not quota_victims.excess(queue):
        _clear(queue)
        return
    if queue.quota_at_ns:
        moved_ns = queue.quota_at_ns + now_delay_ns - delay_ns
        if moved_ns != queue.quota_at_ns:
            _start(partition, queue, max(moved_ns, now_ns))
        return
    is_lower = any((old := most.get(name)) is None or bound < old for name, bound in queue.max.items())
    if is_lower or not delay_ns:
        _start(partition, queue, now_ns + now_delay_ns)


def _is_on(partition: Partition, delay_ns: int) -> bool:
    return partition.config.quota_preemption and delay_ns > 0


def _start(partition: Partition, queue: Queue, at_ns: int) -> None:
    queue.quota_at_ns, queue.quota_timer = at_ns, partition.start_timer(TimerKind.QUOTA, at_ns, queue=queue.path)


def _clear(queue: Queue) -> None:
    queue.quota_at_ns = queue.quota_timer = 0


#: Searches and examined applications per leaf and event. They bound how long the scheduler task is busy. An application
#: with many requests counts several times.
_SEARCHES: Final = 2
_LOOKS: Final = 256
_REQUESTS_PER_LOOK: Final = 64

#: Leaves whose timers one cycle sets, at about 2 us each. The next cycle continues.
_WATCHED: Final = 256

#: How often the retry interval doubles at most.
_DOUBLED: Final = 2

#: Requests of a gang that record a result.
_RECORDED: Final = 64

#: Different results that are kept per request.
_MESSAGES_KEPT: Final = 8

#: A time that never comes.
_NEVER: Final = 2**63


# -- timers --------------------------------------------------------------------


def watch_leaf(partition: Partition, leaf: Queue, now_ns: int) -> None:
    """Sets the preemption timer of a leaf below its guarantee with unschedulable requests.

    A search that is in progress does not evaluate requests that came after its start. The next one follows it then.
    """
    search = leaf.preemption
    if leaf.preemption_timer and not search.left:
        return
    if not leaf.waiting or not partition.config.preemption or not is_under_guarantee(leaf):
        return
    app = partition.applications[next(iter(leaf.waiting))]
    first = app.asks[next(iter(next(iter(app.waiting.values()))))]
    due_ns = first.asked_ns + leaf.policies.preemption_delay_ns
    at_ns = max(now_ns, _after_last(partition, leaf), due_ns)
    if leaf.preemption_timer:
        search.next_ns = min(search.next_ns or at_ns, at_ns)
    else:
        _set_timer(partition, leaf, at_ns)


def watch_shrunk(partition: Partition, now_ns: int) -> bool:
    """Sets the preemption timers of leaves that may be below a guarantee, because usage was released.

    Other queues may have taken the released resources. Leaves without a useful preemption are tried again if something
    has changed. Returns whether leaves are left for the next cycle.
    """
    shrunk, partition.shrunk = partition.shrunk, {}
    if not partition.config.preemption or not partition.waiting:
        return False
    preemptions = partition.preemptions
    if any(
        queue.guaranteed and not usage(queue).covers(queue.guaranteed)
        for path in shrunk
        if (leaf := partition.queues.get(path)) is not None
        for queue in leaf.path_up
    ):
        preemptions.to_watch.update(partition.waiting)
    for leaf in _next_leaves(partition, preemptions.to_watch):
        watch_leaf(partition, leaf, now_ns)
    if preemptions.idle and preemptions.idle_since != _epoch(partition):
        preemptions.to_retry.update(preemptions.idle)
        preemptions.idle.clear()
    for leaf in _next_leaves(partition, preemptions.to_retry):
        at_ns = max(now_ns, _after_last(partition, leaf))
        if leaf.waiting and (not leaf.preemption_timer or leaf.preemption_at_ns > at_ns):
            _set_timer(partition, leaf, at_ns)
    return bool(preemptions.to_watch or preemptions.to_retry)


def _next_leaves(partition: Partition, paths: dict[QueuePath, None]) -> Iterator[Queue]:
    """Takes a number of leaves from `paths`, the first ones first."""
    for path in list(islice(paths, _WATCHED)):
        del paths[path]
        if (leaf := partition.queues.get(path)) is not None:
            yield leaf


def _epoch(partition: Partition) -> Epoch:
    return partition.preemptions.epoch, partition.nodes.epoch


def _after_last(partition: Partition, leaf: Queue) -> int:
    """Returns when the retry interval since the last search of the leaf is over."""
    tried_ns = leaf.preemption.tried_ns
    return tried_ns + partition.timing.preemption_interval_ns if tried_ns else 0


def watch_required(partition: Partition, app: Application, kinds: Iterable[AskClass], now_ns: int) -> None:
    """Sets the preemption timer for requests whose only possible node is full.

    As in YuniKorn, such a request does not wait for the preemption delay of its queue.
    """
    leaf = app.queue
    due = [
        _due(partition, app, [ask], leaf)
        for kind in kinds
        if kind.required_node
        and kind in app.waiting
        and _may(partition, ask := app.asks[next(iter(app.waiting[kind]))])
    ]
    if not due or not partition.config.preemption:
        return
    at_ns = max(now_ns, min(due))
    if not leaf.preemption_timer or leaf.preemption_at_ns > at_ns:
        _set_timer(partition, leaf, at_ns)


def on_preemption_timer(partition: Partition, timer: Timer, now_ns: int) -> None:
    """Searches victims for the classes of a leaf, a bounded number per event.

    The timer is set again while preemption may help one of them. If it helps none, the leaf waits for a change.
    """
    leaf = partition.queues.get(timer.queue)
    if leaf is None or leaf.preemption_timer != timer.generation:
        return
    leaf.preemption_timer = 0
    try:
        _search(partition, leaf, now_ns)
    except Exception:
        leaf.preemption_timer = timer.generation  # it fires again
        raise


def _search(partition: Partition, leaf: Queue, now_ns: int) -> None:
    search = leaf.preemption
    leaf.preemption_at_ns = search.tried_ns = now_ns
    if not partition.config.preemption:
        search.left.clear()
        return
    if not search.left:
        _begin(leaf)
    is_under = is_under_guarantee(leaf)
    searches = looks = 0
    while search.left and searches < _SEARCHES and looks < _LOOKS and search.in_vain < PREEMPTION_SEARCHES_IN_VAIN:
        kind, names = search.left[0]
        if not names or not (is_under or kind.required_node):
            search.left.popleft()
            continue
        requests, is_searched = _look(partition, leaf, (kind, names), now_ns)
        looks += 1 + requests // _REQUESTS_PER_LOOK
        searches += is_searched
        if search.examining:  # the next event continues
            break
    if search.left and search.in_vain < PREEMPTION_SEARCHES_IN_VAIN:
        _set_timer(partition, leaf, now_ns + _PAUSE_NS)
    elif search.left:
        search.in_vain = 0
        _set_timer(partition, leaf, now_ns + partition.timing.preemption_interval_ns)
    elif search.next_ns:
        _set_timer(partition, leaf, max(search.next_ns, now_ns + _PAUSE_NS))
    if search.is_refused:
        preemptions = partition.preemptions
        if not preemptions.idle:
            preemptions.idle_since = _epoch(partition)
        preemptions.idle[leaf.path] = None


def _begin(leaf: Queue) -> None:
    """Starts a search over all waiting classes of the leaf, highest priority first.

    Removes the recorded failures of classes that no longer wait.
    """
    search = leaf.preemption
    kinds = sorted(leaf.classes, key=lambda kind: -kind.priority)
    search.left = deque((kind, deque(leaf.classes[kind])) for kind in kinds)
    search.refused = {
        wanted: refusal for wanted, refusal in search.refused.items() if all(kind in leaf.classes for kind, _ in wanted)
    }
    search.in_vain = search.next_ns = 0
    search.is_refused = False


def _look(
    partition: Partition, leaf: Queue, part: tuple[AskClass, deque[ApplicationId]], now_ns: int
) -> tuple[int, bool]:
    """Examines the first application of a class. Returns the number of requests, and whether victims were searched.

    No search is needed if an equal one has failed before or the preemption delay is not over.
    """
    kind, names = part
    search = leaf.preemption
    app = partition.applications.get(names[0])
    asks = _subject(partition, app, kind) if app is not None else []
    if app is None or not asks or quota.is_beyond_limits(partition, app, planning.asked(asks)):
        names.popleft()  # a limit of its user or group does not apply to the next application
        return len(asks), False
    what = _wanted(app, asks)
    known = search.refused.get(what)
    if search.examining != what:
        search.examining = None
    at_ns = 0 if search.examining else max(_due(partition, app, asks, leaf), _again(partition, known))
    search.is_refused = search.is_refused or known is not None
    if at_ns > now_ns:
        if at_ns < _NEVER:
            search.next_ns = min(search.next_ns or at_ns, at_ns)
        # The next applications want the same and came later. Gangs differ in their missing members.
        (names.popleft if app.is_reserving else names.clear)()
        return len(asks), False
    earlier = search.examined if search.examining else None
    search.examined = examined = earlier if isinstance(earlier, GangFindings) else GangFindings()
    refused = caught(partial(attempt, partition, app, asks, now_ns, examined))
    if isinstance(refused, Exception):
        failures.application_failed(partition, app, refused, now_ns)
        names.popleft()
        return len(asks), True
    app.failures = 0
    if refused == planning.CUT_SHORT:
        search.examining = what
        search.in_vain += 1
        return len(asks), True
    search.examining, search.examined = None, Examined()
    if refused:
        times = known.times + 1 if known is not None else 1
        search.is_refused = True
        again_ns = now_ns + (partition.timing.preemption_interval_ns << min(times - 1, _DOUBLED))
        until_ns = guarantees.paused_until(partition, leaf.path, now_ns)
        search.refused[what] = PreemptionRefusal(_epoch(partition), again_ns, until_ns, times)
        search.in_vain += 1
    else:
        search.refused.pop(what, None)
    return len(asks), True


def _again(partition: Partition, refusal: PreemptionRefusal | None) -> int:
    """Returns when a failed preemption may be tried again."""
    if refusal is None:
        return 0
    if refusal.epoch != _epoch(partition):
        return refusal.again_ns
    if refusal.until_ns:
        return max(refusal.again_ns, refusal.until_ns)
    return _NEVER


def _wanted(app: Application, asks: list[Ask]) -> Wanted:
    if not app.is_reserving:
        return ((asks[0].kind, 1),)
    kinds = (kind for kind in ordering.classes(app) if kind.placeholder)
    return tuple((kind, wanted(app, kind, PODS_PER_PREEMPTION + 1)) for kind in kinds)


def _set_timer(partition: Partition, leaf: Queue, at_ns: int) -> None:
    leaf.preemption_at_ns = at_ns
    leaf.preemption_timer = partition.start_timer(TimerKind.PREEMPTION, at_ns, queue=leaf.path)


def _subject(partition: Partition, app: Application, kind: AskClass) -> list[Ask]:
    """Returns the requests to preempt for: all missing members of a gang, else the first request of the class.

    For a gang that is too large, returns one more than `PODS_PER_PREEMPTION`. Empty = preemption is not possible for
    them.
    """
    if kind not in app.waiting or partition.pending_callbacks.awaits_callback(partition.id, app.id) or app.failures:
        return []
    app.sort_waiting()
    if app.is_reserving:
        if requeue.is_waiting(partition, app):
            return []
        asks = _of_gang(app) if kind.placeholder else []
        is_one_each = app.spec.uses_virtual_placeholders or all(ask.left == 1 for ask in asks)
        return asks if is_one_each and all(_may(partition, ask) for ask in asks) else []
    if kind.placeholder or app.has_placeholder(kind):
        return []
    return list(islice((ask for key in app.waiting[kind] if _may(partition, ask := app.asks[key])), 1))


def _of_gang(app: Application) -> list[Ask]:
    """Returns the missing members of a reserving gang, at most one more than preemption supports."""
    keys = (key for kind in ordering.classes(app) if kind.placeholder for key in app.waiting[kind])
    return [app.asks[key] for key in islice(keys, PODS_PER_PREEMPTION + 1)]


def _may(partition: Partition, ask: Ask) -> bool:
    """Whether the request failed because of queue quota or nodes, and no victims are being released for it.

    Limits of a user or group never justify preemption.
    """
    reservation = partition.reservations.by_ask.get((ask.spec.application, ask.spec.key))
    if ask.preemption or not ask.spec.allow_preempt_other or (reservation is not None and reservation.preempted):
        return False
    if ask.spec.required_node:
        return ask.reported_kind in (ReasonKind.NODES, ReasonKind.RESERVED)
    return ask.reported_kind in (ReasonKind.QUOTA, ReasonKind.NODES, ReasonKind.RESERVED)


def _due(partition: Partition, app: Application, asks: list[Ask], leaf: Queue) -> int:
    """Returns when preemption may be tried for all of the requests. No delay applies to a pod of a DaemonSet."""
    at_ns = 0
    for ask in asks:
        again_ns = ask.attempted_ns + _interval(partition, ask) if ask.attempted_ns else 0
        at_ns = max(at_ns, ask.asked_ns, again_ns)
        if not ask.spec.required_node:
            asked_ns, unschedulable_ns = _since(app, ask)
            at_ns = max(at_ns, asked_ns + leaf.policies.preemption_delay_ns)
            if ask.unschedulable_ns:
                at_ns = max(at_ns, unschedulable_ns + partition.timing.scale_up_delay_ns)
    return at_ns


def _since(app: Application, ask: Ask) -> tuple[int, int]:
    """Returns since when the request waits, and since when it fits on no node.

    The requests of an Auto gang are replaced as its members appear, so the times of the gang are used.
    """
    if app.spec.is_auto and ask.spec.placeholder:
        return min(app.submitted_ns, ask.asked_ns), app.gang.unschedulable_ns or ask.unschedulable_ns
    return ask.asked_ns, ask.unschedulable_ns


def _interval(partition: Partition, ask: Ask) -> int:
    """Returns the time until the next attempt. It grows with each failed attempt, up to a bound."""
    in_vain = sum(times for times, _ in ask.attempts.values()) if ask.attempts else 1
    return partition.timing.preemption_interval_ns << min(in_vain - 1, _DOUBLED)


# -- one attempt ----------------------------------------------------------------


def attempt(partition: Partition, app: Application, asks: list[Ask], now_ns: int, examined: GangFindings) -> str:
    """Plans a preemption and commits it, or sends the plan to the resource manager.

    Returns why preemption does not help; empty = it helps, or the resource manager was asked. `CUT_SHORT` = another
    attempt with the same `examined` continues the search.
    """
    answer = _answer(partition, app, asks, now_ns, examined)
    callbacks = HOOKS.predicate_callbacks if partition.pending_callbacks.victims else None
    if isinstance(answer, Preemption) and callbacks is not None and not any(ask.spec.is_virtual for ask in asks):
        callbacks.propose_victims(partition, answer, now_ns)  # a virtual placeholder has no pod to evaluate
        return ""
    if isinstance(answer, Preemption):
        answer = commit.attempt(partition, answer, app.queue.path, now_ns)
    if answer != planning.CUT_SHORT:
        for ask in asks[:_RECORDED] if answer else ():
            _record_attempt(partition, ask, answer, now_ns)
        limit = answer if answer in planning.LIMITS else ""
        if limit != app.gang.preemption_limit:
            app.gang.preemption_limit = limit
            partition.scheduling.requeue(app)  # its reason names the limit
    return answer


def _answer(
    partition: Partition, app: Application, asks: list[Ask], now_ns: int, examined: GangFindings
) -> Preemption | str:
    """Returns the decision for these requests, or why there is none."""
    for ask in asks:
        ask.attempted_ns = now_ns
    if asks[0].spec.required_node:
        return required_node.plan_for_required_node(partition, app, asks[0], now_ns)
    plan = planning.guarantee_refusal(partition, app, asks) or _plan(partition, app, asks, now_ns, examined)
    if isinstance(plan, str):
        return plan
    if any(ask.spec.is_virtual for ask in asks):
        gangs.split_virtual_placeholders(partition, app)  # one node reservation per request
        asks[:] = _of_gang(app)
        for ask in asks:
            ask.attempted_ns = now_ns
    keys: dict[AskClass, list[AllocationKey]] = {}
    for ask in reversed(asks):
        keys.setdefault(ask.kind, []).append(ask.spec.key)
    places = ((keys[kind].pop(), node) for kind, node, count in plan.places for _ in range(count))
    return Preemption(partition.id, app.id, tuple(places), plan.victims)


def confirm(partition: Partition, decision: Preemption, now_ns: int) -> bool:
    """Commits a plan that the resource manager agreed to. Returns whether it was committed.

    Nodes, queues and victims may have changed meanwhile. The plan is therefore computed again and has to be the same.
    """
    app = partition.applications.get(decision.application)
    first = app.asks.get(decision.places[0][0]) if app is not None else None
    asks = _subject(partition, app, first.kind) if app is not None and first is not None else []
    if app is None or {ask.spec.key for ask in asks} != {key for key, _ in decision.places}:
        return False
    findings = GangFindings()
    answer: Preemption | str = planning.CUT_SHORT
    while answer == planning.CUT_SHORT:
        answer = _answer(partition, app, asks, now_ns, findings)
    if not isinstance(answer, Preemption) or answer.places != decision.places:
        return False
    is_same = set(answer.victims) == set(decision.victims)
    return is_same and not commit.attempt(partition, answer, app.queue.path, now_ns)


def _plan(
    partition: Partition, app: Application, asks: list[Ask], now_ns: int, examined: GangFindings
) -> VictimPlan | str:
    """Returns a plan without victims in leaves that preempt from this leaf alternately."""
    leaf = app.queue.path
    while True:
        excluded = guarantees.protected_queues(partition, leaf, now_ns)
        answer = planning.plan_for_guarantee(partition, app, asks, excluded, now_ns, examined)
        if isinstance(answer, str):
            return answer
        found = [
            thrashing
            for victim in victims.leaves_of(partition, answer.victims)
            if (thrashing := guarantees.is_thrashing(partition, leaf, victim, now_ns)) is not None
        ]
        if not found:
            return answer
        for thrashing in found:
            _stop(partition, leaf, thrashing, now_ns)


def _stop(partition: Partition, leaf: QueuePath, thrashing: ThrashingGuard, now_ns: int) -> None:
    """Pauses preemption between the two leaves, and reports it."""
    span_ns = guarantees.pause_ns(thrashing.pauses)
    thrashing.pauses += 1
    thrashing.paused_until_ns = now_ns + span_ns
    partition.preemptions.livelocks += 1
    message = messages.preemption_paused(leaf, thrashing.taker, span_ns // 1_000_000_000)
    partition.note(Notice.QUEUE, leaf, reference=thrashing.taker, message=message)


def _record_attempt(partition: Partition, ask: Ask, message: str, now_ns: int) -> None:
    """Records the result of an attempt for REST.

    For a request with a required node, also sends an event, once per result.
    """
    ask.attempts = ask.attempts or {}
    times, _ = ask.attempts.pop(message, (0, 0))
    ask.attempts[message] = (times + 1, now_ns)
    if len(ask.attempts) > _MESSAGES_KEPT:
        del ask.attempts[next(iter(ask.attempts))]
    if ask.spec.required_node and not times:
        partition.note(Notice.REQUEST, ask.spec.key, reference=ask.spec.application, message=message)
