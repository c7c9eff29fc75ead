"""Commits decisions after checking them against the state.

The scheduling modules call `commit` for each planned decision. All checks, including sums over several placements, come
before the first write. A decision that is no longer valid is dropped, and the application is tried again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, assert_never

from muster_core.model.claims import NOTHING_CHOSEN, ClaimChoice
from muster_core.model.decisions import (
    Decision,
    NodeReservationDecision,
    PlaceholderRelease,
    PlaceholderReplacement,
    Placement,
    Preemption,
    QuotaPreemption,
    QuotaReservation,
)
from muster_core.model.effects import NewAllocation, Release, SchedulingState, SchedulingStateChanged
from muster_core.model.errors import BrokenDecision, CommitFailed
from muster_core.model.events import TimerKind
from muster_core.model.ids import AllocationKey, NodeId, QueuePath, Termination
from muster_core.model.records import Change, Detail, Notice
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import NO_PROPERTIES, AskSpec
from muster_core.model.states import ApplicationState
from muster_core.placement.plugins import node_properties
from muster_core.scheduling import gangs, ledger, lifecycle, records, requeue, reservations, victims
from muster_core.state.applications import Allocation, Application, Ask, lacking
from muster_core.state.scheduler_state import Partition, ResponseBuilder
from muster_si import keys


def commit(partition: Partition, decision: Decision, now_ns: int) -> None:
    """Commits one decision completely. Its effects go to the outbox with the writes.

    Raises BrokenDecision before the first write if the decision is no longer valid, CommitFailed for any other
    exception.
    """
    try:
        _commit(partition, decision, now_ns)
    except BrokenDecision:
        raise
    except Exception as error:
        raise CommitFailed(type(decision).__name__) from error


def attempt(partition: Partition, decision: Decision, queue: QueuePath, now_ns: int) -> str:
    """Like `commit`. Returns why the decision is no longer valid, which is counted and recorded; empty = it is."""
    try:
        commit(partition, decision, now_ns)
    except BrokenDecision as broken:
        return records.broken(partition, queue, broken)
    return ""


def _commit(partition: Partition, decision: Decision, now_ns: int) -> None:
    if isinstance(decision, QuotaPreemption):
        victims.enforce(partition, decision, now_ns)
        return
    app = partition.applications.get(decision.application)
    if app is None:
        raise BrokenDecision(type(decision).__name__, f"application {decision.application} no longer exists")
    match decision:
        case Placement():
            _place(partition, app, decision, now_ns)
        case PlaceholderReplacement():
            _start_replacement(partition, app, decision, now_ns)
        case PlaceholderRelease():
            _release_placeholder(partition, app, decision, now_ns)
        case QuotaReservation():
            ledger.set_quota_reservation(partition, app, decision.amount, granted=decision.granted)
            requeue.note_holding(partition, app)
        case NodeReservationDecision():
            reservations.reserve(partition, app, decision, now_ns)
        case Preemption():
            victims.preempt(partition, app, decision, now_ns)
        case _:
            assert_never(decision)


def may_place(partition: Partition, app: Application, decision: Placement) -> bool:
    """Whether a placement that was planned earlier is still valid and each request may run on its node."""
    try:
        _check_placement(partition, app, decision)
    except BrokenDecision:
        return False
    return not closed_nodes(partition, app, decision.places)


def closed_nodes(
    partition: Partition, app: Application, places: Iterable[tuple[AllocationKey, NodeId]]
) -> dict[NodeId, None]:
    """Returns the nodes that do not exist, or whose properties do not allow the request that was planned there.

    A cordoned node allows the requests that tolerate the cordon.
    """
    nodes = partition.nodes
    closed: dict[NodeId, None] = {}
    for kind, node in dict.fromkeys((app.asks[key].kind, node) for key, node in places):
        if node not in nodes or not node_properties.allowed(kind.constraints, nodes)[nodes.rows.row(node)]:
            closed[node] = None
    return closed


@dataclass(slots=True)
class _Batch:
    """The allocations that a placement creates, and the response that reports them."""

    chosen: ledger.ChosenByClaim
    answer: ResponseBuilder
    made: list[Allocation] = field(default_factory=list)


@dataclass(slots=True)
class _Total:
    """Number of allocations of one shape in a placement, with the spec of the first one."""

    first: AskSpec
    count: int = 0


def _place(partition: Partition, app: Application, decision: Placement, now_ns: int) -> None:
    asks, wanted = _check_placement(partition, app, decision)
    for resources, counts in wanted.items():
        partition.nodes.take_all(counts, resources)
    batch = _Batch(ledger.ChosenByClaim(decision.chosen), partition.outbox.answer(partition.rm))
    totals: dict[tuple[bool, Resources], _Total] = {}
    kind, total = None, None
    for ask, (_, node) in zip(asks, decision.places, strict=True):
        if total is None or ask.kind is not kind:  # consecutive requests usually have the same class
            kind = ask.kind
            total = totals.setdefault((kind.placeholder, kind.resources), _Total(ask.spec))
        total.count += 1
        _make(partition, app, ask, node, now_ns, batch)
    for total in totals.values():
        ledger.count_in(partition, app, total.first, total.count)
        ledger.count_pending(partition, app, total.first.resources, -total.count)
    ledger.note_waiting(partition, app)
    partition.note_allocations(app, batch.made, Change.ADD, Detail.APP_ALLOC, asked=True)
    _after_placement(partition, app, now_ns)
    if app.id in partition.reservations.by_application and app.is_reserving:
        reservations.move_useless(partition, app, dict.fromkeys(node for _, node in decision.places), now_ns)


def _make(partition: Partition, app: Application, ask: Ask, node: NodeId, now_ns: int, batch: _Batch) -> None:
    """Creates one allocation. The caller adds the sums of the batch."""
    spec = ask.spec
    if ask.reported_kind is not None:
        report_scheduled(partition, app, ask, node)
    if partition.reservations.by_ask and _use_reservation(partition, app, spec.key, node):
        reservations.watch(partition, app, now_ns)
    allocation = Allocation(spec, ledger.next_id(app, ask), node, now_ns)
    ledger.count_made(partition, app, ask)
    ledger.book(partition, app, allocation, ask.kind.pod_on_node)
    batch.made.append(allocation)
    chosen = NOTHING_CHOSEN
    if spec.facts is not NO_PROPERTIES:
        chosen = ledger.assume(partition, spec, node, batch.chosen)
    if not spec.is_virtual:
        batch.answer.new.append(NewAllocation(spec, allocation.id, node, chosen))
    if spec.timeout_ns:
        set_run_timer(partition, app, allocation, now_ns)


def _check_placement(
    partition: Partition, app: Application, decision: Placement
) -> tuple[list[Ask], dict[Resources, dict[NodeId, int]]]:
    """Checks a placement.

    Returns the request of each place, and the number of allocations per node for each amount of resources. Raises
    BrokenDecision.
    """
    asks, wanted = _asks_of(app, decision), dict[Resources, dict[NodeId, int]]()
    resources, counts = NOTHING, dict[NodeId, int]()
    for ask, (_, node) in zip(asks, decision.places, strict=True):
        if ask.spec.resources is not resources:
            resources = ask.spec.resources
            counts = wanted.setdefault(resources, {})
        counts[node] = counts.get(node, 0) + 1
    _check_chosen(partition, decision.chosen)
    total = NOTHING
    for resources, counts in wanted.items():
        total = total.plus(resources, sum(counts.values()))
        full = partition.nodes.without_room(counts, resources)
        if full is not None:
            raise BrokenDecision("placement", f"node {full} has no room for {counts[full]} of {resources}")
    _check_together(partition, app, decision, wanted)
    _check_part(app, total)
    for queue in app.queue.path_up:
        if queue.max:
            excess = queue.max.excess(queue.allocated + total)
            if any(total[name] for name in excess):
                raise BrokenDecision("placement", f"queue {queue.path} would exceed its maximum by {excess}")
    for holder, limit, account in partition.users.limits(app):
        excess = limit.max.excess(account.allocated + total)
        if any(total[name] for name in excess):
            raise BrokenDecision("placement", f"{holder.kind} {holder.name} would exceed the limit by {excess}")
    return asks, wanted


def _check_together(
    partition: Partition, app: Application, decision: Placement, wanted: Mapping[Resources, Mapping[NodeId, int]]
) -> None:
    """Checks nodes that get requests of different sizes or that have reservations of other applications."""
    contention = partition.contention
    if len(wanted) == 1 and not (partition.reservations.by_node or contention.open or contention.node_set):
        return
    seen: set[NodeId] = set()
    checked: set[NodeId] = set()
    reserved: list[Container[NodeId]] = [
        partition.reservations.by_node,
        *(one.nodes for one in contention.open.values()),
    ]
    if contention.node_set is not None:
        reserved.append(contention.node_set.nodes)
    for counts in wanted.values():
        for some in reserved:  # far more nodes may be reserved than a placement has
            checked.update(node for node in counts if node in some)
        checked |= seen & counts.keys()
        seen |= counts.keys()
    if not checked:
        return
    required = {node for key, node in decision.places if node in checked and app.asks[key].spec.required_node}
    for node in checked:
        amount = sum((each.times(counts[node]) for each, counts in wanted.items() if node in counts), NOTHING)
        kept = reservations.kept(partition, app, node, required_only=node in required)
        if not (partition.nodes.available(node) - kept).covers(amount.on_nodes):
            raise BrokenDecision("placement", f"node {node} has no room for {amount} next to its reservations")


def _check_part(app: Application, total: Resources) -> None:
    """Checks that a gang that reserves all or nothing gets all its missing members.

    See docs/internals/semantics.md, rule 16.
    """
    if not app.is_reserving or not app.spec.is_all_or_nothing:
        return
    if any(amount > total[name] for name, amount in lacking(app).items()):
        raise BrokenDecision("placement", f"gang {app.id} would reserve only a part of its members")


def _asks_of(app: Application, decision: Placement) -> list[Ask]:
    """Returns the request of each place. Raises BrokenDecision if one does not have that many pending allocations."""
    asks = []
    is_repeated = len(dict(decision.places)) < len(decision.places)  # else each request gets one place
    given = Counter(key for key, _ in decision.places) if is_repeated else {}
    for key, _ in decision.places:
        ask = app.asks.get(key)
        if ask is None or ask.replacement is not None or ask.left < given.get(key, 1):
            raise BrokenDecision("placement", f"ask {key} does not have that many pending allocations")
        asks.append(ask)
    return asks


def _check_chosen(partition: Partition, chosen: ClaimChoice) -> None:
    pods_on_nodes = partition.nodes.pods_on_nodes
    storage = pods_on_nodes.attachments.storage
    for claim, volume in chosen.volumes:
        if volume and not storage.is_free(volume, claim):
            raise BrokenDecision("choice of volumes", f"volume {volume} is not free for claim {claim} any more")
    if chosen.devices and (why := pods_on_nodes.devices.conflict(chosen.devices)):
        raise BrokenDecision("choice of devices", why)


def _after_placement(partition: Partition, app: Application, now_ns: int) -> None:
    if app.is_reserving:
        gangs.note_reservation(partition, app, now_ns)
        gangs.after_placing(partition, app, now_ns)
        requeue.note_holding(partition, app)
        return
    if app.gang.reserved and not app.spec.is_gang and not app.gang.timer:
        gangs.start_timer(partition, app, now_ns)  # placeholders without a placeholderAsk
    if app.state is ApplicationState.ACCEPTED:
        lifecycle.run(partition, app, now_ns)


def _use_reservation(partition: Partition, app: Application, key: AllocationKey, node: NodeId) -> bool:
    """Removes the node reservation of a request that is allocated. Returns whether it had one."""
    reservation = partition.reservations.by_ask.get((app.id, key))
    if reservation is not None:
        ledger.unreserve(partition, reservation.ask, used=reservation.node == node)
    return reservation is not None


def set_run_timer(partition: Partition, app: Application, allocation: Allocation, now_ns: int) -> None:
    """Starts the run time limit of an allocation (docs/internals/semantics.md, rule 2)."""
    at_ns = now_ns + allocation.spec.timeout_ns
    key = AllocationKey(allocation.id)
    partition.set_timer(TimerKind.ALLOCATION_RUN, app.sequence, at_ns, app.id, key)


def _start_replacement(partition: Partition, app: Application, decision: PlaceholderReplacement, now_ns: int) -> None:
    ask = app.asks.get(decision.ask)
    placeholder = app.allocations.get(decision.placeholder)
    if ask is None or ask.replacement is not None or placeholder is None or placeholder.releasing is not None:
        raise BrokenDecision("replacement", "the ask or its placeholder is not free any more")
    if not placeholder.spec.resources.covers(ask.spec.resources):
        raise BrokenDecision("replacement", f"ask {ask.spec.key} is larger than its placeholder")
    _check_chosen(partition, decision.chosen)
    if not decision.same_node:
        if decision.node not in partition.nodes:
            raise BrokenDecision("replacement", f"node {decision.node} no longer exists")
        kept = reservations.kept(partition, app, decision.node, required_only=bool(ask.spec.required_node))
        if not (partition.nodes.available(decision.node) - kept).covers(ask.spec.resources.on_nodes):
            raise BrokenDecision("replacement", f"node {decision.node} has no room")
    if placeholder.spec.is_virtual:
        _take_over(partition, app, placeholder, ask, decision, now_ns)
        return
    answer = partition.outbox.answer(partition.rm)
    if not decision.same_node:
        ledger.reserve_target(partition, app, ask, decision.node)
    ledger.park(partition, app, ask, decision)
    ledger.assume(partition, ask.spec, decision.node, ledger.ChosenByClaim(decision.chosen))
    ledger.mark_releasing(partition, app, placeholder, Termination.PLACEHOLDER_REPLACED, now_ns)
    placeholder.replaced_by = ask.spec.key
    key, why = placeholder.spec.key, Termination.PLACEHOLDER_REPLACED
    at_once = _release_at_once(partition, app, placeholder, ask, decision, now_ns)
    answer.released.append(Release(partition.id, app.id, key, placeholder.id, why, ask.spec.key, at_once))
    ask.timer = partition.next_number()
    at_ns = now_ns + partition.timing.release_timeout_ns
    partition.set_timer(TimerKind.RELEASE, ask.timer, at_ns, app.id, ask.spec.key)
    report_scheduled(partition, app, ask, decision.node)


#: Resources of which a kubelet assigns an amount, and not certain devices or pages. With its static policy it assigns
#: CPUs, which the container of a placeholder, a pause, can share with another one for a second.
_AMOUNTS: Final = frozenset({keys.CPU, keys.MEMORY, keys.PODS, "ephemeral-storage"})


def _release_at_once(
    partition: Partition,
    app: Application,
    placeholder: Allocation,
    ask: Ask,
    decision: PlaceholderReplacement,
    now_ns: int,
) -> bool:
    """Returns whether the request may start before the container of its placeholder has ended, and records it if so.

    It may if the node holds both, and the containers of placeholders that were released at once shortly before, or if
    the request gets another node. The pod of the placeholder is deleted before the request is bound. A kubelet
    (1.36) admits a pod next to the pods that exist in the API: it forgets deleted ones first (`podStorage.Merge`,
    `HandlePodRemoves`, `GetActivePods`), with their CPUs, memory and devices (`removeStaleState`,
    `UpdateAllocatedDevices`). So it rejects neither, also if it aligns CPUs with NUMA nodes, but the old container may
    run a little longer. It has to end first if it has devices or host ports, which would be assigned a second time.
    """
    node, spec = placeholder.node, placeholder.spec
    if spec.facts.ports or any(name not in _AMOUNTS for name, _ in spec.resources.items()):
        return False
    earlier = partition.nodes.record(node).released_at_once
    request = ask.spec.resources.on_nodes if decision.same_node else NOTHING
    if request and not partition.nodes.available(node).covers(earlier.needed(now_ns) + request):
        return False
    earlier.add((app.id, placeholder.id), request)
    return True


def _take_over(
    partition: Partition,
    app: Application,
    placeholder: Allocation,
    ask: Ask,
    replacement: PlaceholderReplacement,
    now_ns: int,
) -> None:
    """Replaces a virtual placeholder immediately, because there is no pod to wait for.

    In an Auto gang the request may be that of a placeholder pod. See docs/internals/semantics.md, rule 16.
    """
    is_member = not ask.spec.placeholder
    answer = partition.outbox.joined(partition.rm, app.id)
    report_scheduled(partition, app, ask, replacement.node)
    ledger.unreserve(partition, (app.id, ask.spec.key))
    group = app.gang.groups[placeholder.spec.group]
    group.replaced += is_member
    group.count -= not is_member  # the request of the placeholder pod is counted already
    allocation = Allocation(
        ask.spec, ledger.next_id(app, ask), replacement.node, now_ns, replaced_placeholder=is_member
    )
    ledger.book(partition, app, allocation)
    chosen = ledger.assume(partition, ask.spec, replacement.node, ledger.ChosenByClaim(replacement.chosen))
    answer.new.append(NewAllocation(ask.spec, allocation.id, allocation.node, chosen))
    partition.note_allocations(app, (allocation,), Change.ADD, Detail.APP_ALLOC, asked=True)
    app.mark_releasing(placeholder, Termination.PLACEHOLDER_REPLACED, now_ns)
    ledger.hand_over(partition, app, placeholder, allocation, now_ns)
    ledger.count_pending(partition, app, ask.spec.resources, -1)
    ledger.count_made(partition, app, ask)
    ledger.note_waiting(partition, app)
    if ask.spec.timeout_ns:
        set_run_timer(partition, app, allocation, now_ns)


def report_scheduled(partition: Partition, app: Application, ask: Ask, node: NodeId) -> None:
    """Reports SCHEDULED for a request that was reported as waiting (docs/internals/semantics.md, rule 6).

    A request that replaces a placeholder still waits for the release, but its user cannot do anything about that.
    """
    if ask.reported_kind is None:
        return
    ask.reported_kind = None
    text = "all members are reserved" if ask.spec.is_virtual else f"on node {node}"
    partition.outbox.state(
        SchedulingStateChanged(partition.rm, app.id, ask.spec.report_key, SchedulingState.SCHEDULED, text)
    )


def confirm_replacement(partition: Partition, app: Application, placeholder: Allocation, ask: Ask, now_ns: int) -> None:
    """Completes a replacement after the placeholder has ended: updates application, queue, user and node together.

    See docs/internals/semantics.md, rule 14.
    """
    replacement = ask.replacement
    if replacement is None:
        raise BrokenDecision("replacement", "the ask is not parked")
    answer = partition.outbox.answer(partition.rm)
    app.gang.groups[placeholder.spec.group].replaced += 1
    allocation = Allocation(ask.spec, ledger.next_id(app, ask), replacement.node, now_ns, replaced_placeholder=True)
    # The new allocation is added first. Otherwise its claims would have no user for a moment, and what is assumed
    # for them would be dropped.
    ledger.book(partition, app, allocation)
    ledger.arrive(partition, app, ask, replacement)
    ledger.count_in(partition, app, ask.spec, 1)
    chosen = ledger.assumed(partition, ask.spec)
    answer.new.append(NewAllocation(ask.spec, allocation.id, allocation.node, chosen))
    partition.note_allocations(app, (allocation,), Change.ADD, Detail.APP_ALLOC, asked=True)
    # The placeholder is removed last. Otherwise a queue above a lowered maximum would be within it for a moment.
    ledger.drop(partition, app, placeholder, now_ns, replaced=True)
    if ask.spec.timeout_ns:
        set_run_timer(partition, app, allocation, now_ns)
    ledger.count_pending(partition, app, ask.spec.resources, -1)
    ledger.count_made(partition, app, ask)
    if ask.left:
        ledger.wait_again(partition, app, ask, as_usual=False)


def _release_placeholder(partition: Partition, app: Application, decision: PlaceholderRelease, now_ns: int) -> None:
    ask = app.asks.get(decision.ask)
    placeholder = app.allocations.get(decision.placeholder)
    if ask is None or ask.replacement is not None or placeholder is None or placeholder.releasing is not None:
        raise BrokenDecision("eviction", "the ask or its placeholder is not free any more")
    answer = partition.outbox.answer(partition.rm)
    app.gang.too_small.add(placeholder.id)
    victims.release_on_timeout(partition, app, [placeholder], decision.message, now_ns, answer)
    app.gang.without_reservation[ask.spec.key] = decision.message
    ledger.wait_again(partition, app, ask, as_usual=True)
    partition.note(Notice.REQUEST, ask.spec.key, reference=app.id, message=decision.message)
