"""Writes to applications, queues, users and nodes that keep all sums consistent.

Every change of usage or of pending resources goes through this module. It decides nothing; its callers are the other
modules of `scheduling`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from muster_core.model.claims import NOTHING_CHOSEN, ClaimChoice
from muster_core.model.config import ApplicationOrder
from muster_core.model.decisions import PlaceholderReplacement, ReasonKind
from muster_core.model.ids import AllocationId, AllocationKey, NodeId, Termination, allocation_id
from muster_core.model.records import Change, Detail
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import AllocationSpec, AskSpec, PodOnNode
from muster_core.model.states import ApplicationState
from muster_core.scheduling import records, repair, requeue, selectors
from muster_core.state import indexes, ordering
from muster_core.state.applications import Allocation, Application, Ask, GroupCount, count_slots, resize_sums
from muster_core.state.queues import Queue
from muster_core.state.request_classes import pod_on_node_of
from muster_core.state.reservations import AskId, NodeReservation, RunningPreemption
from muster_core.state.scheduler_state import Partition
from muster_core.state.users import Account, LimitSubject, LimitSubjectKind


def reserve(partition: Partition, app: Application, ask: Ask, reservation: NodeReservation) -> None:
    """Adds a node reservation for a pending request.

    A reservation of the resources of preemption victims also reserves quota in the queues of the application.
    """
    partition.reservations.add(reservation)
    partition.nodes.reserved.set(partition.nodes.rows.row(reservation.node), value=True)
    partition.nodes.reserve(reservation.node, reservation.resources, 1)
    if reservation.preempted:
        change_node_reserved(app, reservation.resources, 1)
    else:
        app.queue.node_reservations += 1
    partition.scheduling.requeue(app)
    records.reserved(partition, reservation.node, ask.spec, Change.ADD)


def unreserve(partition: Partition, name: AskId, *, used: bool = False) -> None:
    """Removes the node reservation of a request, if it has one.

    `used`: the request takes the resources now, so no other request benefits.
    """
    reservation = partition.reservations.by_ask.get(name)
    if reservation is None:
        return
    app = partition.applications[reservation.application]
    ask = app.asks[reservation.key]
    partition.reservations.remove(reservation)
    is_reserved = reservation.node in partition.reservations.by_node
    partition.nodes.reserved.set(partition.nodes.rows.row(reservation.node), value=is_reserved)
    partition.nodes.reserve(reservation.node, reservation.resources, -1, grows=not used)
    partition.preemptions.epoch += 1
    if reservation.preempted:
        change_node_reserved(app, reservation.resources, -1)
        requeue.path_grew(partition, app)
    else:
        app.queue.node_reservations -= 1
    if ask.reported_kind is ReasonKind.RESERVED:
        ask.reported_kind = None
        app.report_again(ask)
    records.reserved(partition, reservation.node, ask.spec, Change.REMOVE)


def change_node_reserved(app: Application, amount: Resources, times: int) -> None:
    """Adds reserved quota to the application and its queues. `times` = -1 removes it."""
    app.node_reserved = app.node_reserved.plus(amount, times)
    for queue in app.queue.path_up:
        queue.node_reserved = queue.node_reserved.plus(amount, times)


def mark_preempted(partition: Partition, app: Application, allocation: Allocation, number: int, now_ns: int) -> None:
    """Marks an allocation as released by preemption `number`.

    It counts as being preempted on each queue of its path, and for the user and the group.
    """
    mark_releasing(partition, app, allocation, Termination.PREEMPTED_BY_SCHEDULER, now_ns)
    allocation.preemption = number
    _count_preempting(partition, app, allocation.spec.resources, 1)


def end_preemption(partition: Partition, app: Application, victim: Allocation) -> None:
    """Removes a victim that has ended. With the last victim, its preemption ends."""
    running = partition.preemptions.running[victim.preemption]
    _count_no_longer(partition, app, victim)
    del running.victims[app.id, victim.id]
    if not running.victims:
        forget_preemption(partition, running)


def _count_no_longer(partition: Partition, app: Application, victim: Allocation) -> None:
    """Stops counting the allocation as being preempted. It still counts as allocated."""
    victim.preemption = 0
    _count_preempting(partition, app, victim.spec.resources, -1)


def _count_preempting(partition: Partition, app: Application, amount: Resources, times: int) -> None:
    """Adds an amount to what is being preempted from the queues, the user and the group. `times` = -1 removes it."""
    for holder in _holders(partition, app) if amount else ():
        holder.preempting = holder.preempting.plus(amount, times)


def forget_preemption(partition: Partition, running: RunningPreemption) -> None:
    """Ends a preemption, because its last victim has ended or the release timeout has expired.

    Victims that are left count as allocated like any other, because they may never end.
    """
    del partition.preemptions.running[running.number]
    partition.preemptions.epoch += 1
    for name, identity in running.victims:
        app = partition.applications[name]
        _count_no_longer(partition, app, app.allocations[identity])
    winner = partition.applications.get(running.gang) if running.gang is not None else None
    if winner is not None:
        partition.scheduling.requeue(winner)
    over = partition.queues.get(running.queue)
    if over is not None and over.quota_running == running.number:
        over.quota_running = 0
    for name, key in running.asks:
        owner = partition.applications.get(name)
        ask = owner.asks.get(key) if owner is not None else None
        if ask is not None and ask.preemption == running.number:
            ask.preemption = 0


#: How long the container of a placeholder may run after its pod was deleted without waiting for it: the grace period of
#: one second, and as long again for the kubelet to stop it.
CONTAINER_ENDS_NS: Final = 2_000_000_000

_EARLY: Final = (ApplicationState.NEW, ApplicationState.ACCEPTED, ApplicationState.RESUMING)

#: Node attribute with the instance type (INSTANCE_TYPE in muster_si.keys).
_INSTANCE_TYPE: Final = "si/instance-type"


def add_ask(partition: Partition, app: Application, ask: Ask) -> None:
    """Adds a pending request, and counts it as pending on each queue of the path."""
    is_first = app.add_ask(ask)
    if 0 < ask.spec.created_ns < app.oldest_ns:
        note_age(partition, app, ask.spec)
    if partition.nodes.pods_on_nodes.tags.labels.is_on:
        selectors.join(partition, ask.spec)
    count_pending(partition, app, ask.spec.resources, ask.left)
    if ask.spec.placeholder:
        group = app.gang.groups.setdefault(ask.spec.group, GroupCount(ask.spec.resources))
        group.count += ask.left
        requeue.fix_key(app, ask.spec.priority)
    partition.note_ask(app, ask.spec, Change.ADD, Detail.APP_REQUEST)
    if is_first:  # the indices depend on the classes of the application only
        note_waiting(partition, app)
    elif app.gang.lost:
        repair.note(partition, app)
    partition.scheduling.requeue(app)


def note_age(partition: Partition, app: Application, spec: AskSpec) -> None:
    """Makes the application as old as its oldest request or allocation, as in YuniKorn."""
    if 0 < spec.created_ns < app.oldest_ns:
        app.oldest_ns = spec.created_ns
        partition.scheduling.moved_in_leaf(app)
        partition.scheduling.requeue(app)


def remove_ask(
    partition: Partition, app: Application, ask: Ask, why: Detail = Detail.REQUEST_CANCEL, *, repeated: bool = False
) -> None:
    """Removes a request, pending or in a replacement, with all allocations it still wants.

    `why` is for the event record: REQUEST_CANCEL, REQUEST_TIMEOUT, or APP_REQUEST if another request replaced it.
    `repeated`: it is requested or reported again, so that its placeholders count again.
    """
    unreserve(partition, (app.id, ask.spec.key))
    partition.node_demand.leave(app, ask)
    app.remove_ask(ask)
    if repeated:  # with the request, so that no exception comes between the two
        uncount_placeholder(app, ask.spec, ask.left)
    selectors.part(partition, ask.spec)
    partition.note_ask(app, ask.spec, Change.REMOVE, why)
    count_pending(partition, app, ask.spec.resources, -ask.left)
    note_waiting(partition, app)
    partition.scheduling.class_left(app, ask.kind)


def uncount_placeholder(app: Application, spec: AskSpec, count: int) -> None:
    """Subtracts placeholders that are requested or reported again from the count of REST (placeholderData)."""
    if spec.placeholder:
        app.gang.groups[spec.group].count -= count


def note_waiting(partition: Partition, app: Application) -> None:
    """Updates the indices of waiting applications and their priorities after the pending requests changed."""
    queue = app.queue
    if app.waiting:
        queue.waiting[app.id] = None
        partition.waiting[queue.path] = None
    else:
        stop_waiting(partition, app)
    if app.gang.lost:
        repair.note(partition, app)
    if ordering.note(app):
        partition.scheduling.moved_in_leaf(app)
        partition.scheduling.moved(queue)
        if app.blocks:
            requeue.leaf_unblocked(partition, queue)


def stop_waiting(partition: Partition, app: Application) -> None:
    """Removes the application from the indices of waiting applications of its queue."""
    queue = app.queue
    if app.id in queue.waiting:
        del queue.waiting[app.id]
        partition.scheduling.dequeue(app)
        partition.scheduling.leave(app)
        if app.blocks:
            requeue.set_blocking(partition, app, blocks=False)
        if not queue.waiting:
            del partition.waiting[queue.path]


def next_id(app: Application, ask: Ask) -> AllocationId:
    """Returns the ID of the next allocation of the request: the first that no reported allocation uses."""
    while (identity := allocation_id(ask.spec.key, ask.made)) in app.allocations:
        ask.made += 1
    return identity


def count_made(partition: Partition, app: Application, ask: Ask) -> None:
    """Counts one allocation of the request. Removes the request with its last one.

    The caller calls `count_pending` and `note_waiting`, once for a batch.
    """
    ask.made += 1
    ask.left -= 1
    if ask.spec.placeholder:
        count_slots(app, ask.spec, -1)
    if ask.left == 0:
        if app.id in partition.node_demand.by_app:
            partition.node_demand.leave(app, ask, placed=True)
        if app.remove_ask(ask):  # its allocation has the same labels, so no selector changes
            partition.scheduling.class_left(app, ask.kind)
    else:
        partition.node_demand.lower(app, ask, placed=True)
        selectors.join(partition, ask.spec)


def count_pending(partition: Partition, app: Application, amount: Resources, times: int) -> None:
    """Adds an amount to the pending resources of the application and of each queue of the path."""
    app.waits.add(amount, times)
    for queue in app.queue.path_up:
        queue.waits.add(amount, times)
    partition.scheduling.moved(app.queue)


def charge(partition: Partition, app: Application, amount: Resources, times: int) -> None:
    """Adds an amount to the usage of each queue of the path, the user and the group."""
    for queue in app.queue.path_up:
        queue.allocated = queue.allocated.plus(amount, times)
        if times < 0 and queue.tolerated:
            over = queue.max.excess(queue.allocated)
            left = ((name, min(amount, over[name])) for name, amount in queue.tolerated.items())
            queue.tolerated = Resources(dict(left))
    for account in partition.users.open(app) if amount else ():  # an empty amount creates no account
        account.allocated = account.allocated.plus(amount, times)
    if times < 0:
        partition.shrunk[app.queue.path] = None
        partition.users.close(app)
        requeue.path_grew(partition, app)
    partition.scheduling.moved(app.queue)
    if app.queue.policies.order is ApplicationOrder.FAIR:
        partition.scheduling.moved_in_leaf(app)
    count_running(partition, app)


def tolerate(app: Application, amount: Resources, instead_of: Resources = NOTHING) -> None:
    """Records how much of an existing amount exceeds the maximum of each queue, as tolerated.

    The amount was counted already. `instead_of` is the amount that it replaces.
    """
    for queue in app.queue.path_up:
        over = queue.max.excess(queue.allocated)
        if not over:
            continue
        before = queue.max.excess(queue.allocated - amount + instead_of)
        more = {name: excess - before[name] for name, excess in over.items() if excess > before[name]}
        if more:
            queue.tolerated += Resources(more)


def count_running(partition: Partition, app: Application) -> None:
    """Updates whether the application counts towards `maxapplications`.

    An application counts while it is Running. Before that, it counts if it has allocations or a granted quota
    reservation. A Completing application does not count.
    """
    has_places = bool(app.allocations or (app.gang.quota_reservation and app.gang.granted))
    set_counted(partition, app, counts=app.state is ApplicationState.RUNNING or (has_places and app.state in _EARLY))


def set_counted(partition: Partition, app: Application, *, counts: bool) -> None:
    """Counts the application towards `maxapplications` of its queues, user and group, or stops counting it."""
    if counts == app.counted:
        return
    app.counted = counts
    for queue in app.queue.path_up:
        queue.running += 1 if counts else -1
    for account in partition.users.open(app):
        account.running += 1 if counts else -1
    if counts:
        return
    for queue in app.queue.path_up:
        requeue.start_freed(partition, LimitSubject(LimitSubjectKind.QUEUE, "", queue.path))
    for holder in partition.users.holders(app):
        requeue.start_freed(partition, holder)
    partition.users.close(app)


def book(partition: Partition, app: Application, allocation: Allocation, seen_as: PodOnNode | None = None) -> None:
    """Adds one allocation to the application and the node index.

    `count_in` adds it to the sums, and `count_made` handles its labels. `seen_as`: what filters see of it, from the
    class of its request; None = determine it.
    """
    partition.sequence = allocation.sequence = partition.sequence + 1
    app.add_allocation(allocation)
    node, spec = allocation.node, allocation.spec
    placed = partition.placed.get(node)
    if placed is None:
        placed = partition.placed[node] = {}
    placed[app.id, allocation.id] = allocation
    partition.preemptions.epoch += 1
    if app.spec.topology is not None and spec.group:
        requeue.enter_domain(partition, app, app.spec.topology, spec, node)
    if spec.required_node:
        _keep(partition, allocation, spec.resources, 1)
    enter(partition, node, spec, seen_as)


def count_in(partition: Partition, app: Application, spec: AskSpec, count: int) -> None:
    """Adds `count` booked allocations of one shape to the sums of application, queues and user."""
    app.queue.made += count
    app.add_sums(spec, count)
    charge(partition, app, spec.resources, count)


def drop(
    partition: Partition,
    app: Application,
    allocation: Allocation,
    now_ns: int,
    *,
    node_removed: bool = False,
    replaced: bool = False,
) -> None:
    """Removes one allocation from application, queues, user and node.

    A placeholder that is not replaced counts as timed out in REST (placeholderData), whatever ended it. One that was
    too small for its member does not, because the member is scheduled without it.
    """
    if allocation.spec.placeholder and not replaced:
        app.gang.groups[allocation.spec.group].timed_out += allocation.id not in app.gang.too_small
        app.gang.too_small.discard(allocation.id)
    _leave_place(partition, app, allocation, now_ns, node_removed=node_removed)
    charge(partition, app, allocation.spec.resources, -1)
    partition.nodes.give_back(allocation.node, allocation.spec.resources)


def _leave_place(
    partition: Partition, app: Application, allocation: Allocation, now_ns: int, *, node_removed: bool = False
) -> None:
    """Removes one allocation, without changing the usage of queues, user and node."""
    _count_use(partition, app, allocation, now_ns)
    app.queue.gone += 1
    partition.preemptions.epoch += 1
    partition.preemptions.earlier_victims.pop((app.id, allocation.id), None)
    app.remove_allocation(allocation)
    has_placeholders = len(app.allocations) > app.real_allocations
    if allocation.spec.group and not (has_placeholders or any(app.gang.members.values())):
        requeue.leave_domain(partition, app)
    if allocation.spec.placeholder:
        _fewer_live(partition, app)
    selectors.part(partition, allocation.spec)
    if allocation.preemption:
        end_preemption(partition, app, allocation)
    records.allocation_removed(partition, app, allocation, node_removed=node_removed)
    _keep(partition, allocation, allocation.spec.resources, -1)
    indexes.remove(partition.placed, allocation.node, (app.id, allocation.id))
    released = partition.nodes.record(allocation.node).released_at_once
    released.deleted((app.id, allocation.id), allocation.spec.resources, now_ns + CONTAINER_ENDS_NS)
    if allocation.replaced_by is None:
        leave(partition, allocation.node, allocation.spec)


def hand_over(partition: Partition, app: Application, old: Allocation, new: Allocation, now_ns: int) -> None:
    """Replaces an allocation with one that is already counted on its node, and releases the difference.

    If both have the same resources, no usage changes, so no other application is woken up.
    """
    app.queue.made += 1
    app.add_sums(new.spec, 1)
    is_alike = old.spec.resources == new.spec.resources
    if not is_alike:
        charge(partition, app, new.spec.resources, 1)
    if not is_alike or old.node != new.node:
        partition.nodes.take(new.node, new.spec.resources)
    _leave_place(partition, app, old, now_ns)
    if not is_alike:
        charge(partition, app, old.spec.resources, -1)
    if not is_alike or old.node != new.node:
        partition.nodes.give_back(old.node, old.spec.resources)


def update_spec(partition: Partition, allocation: Allocation, spec: AskSpec) -> None:
    """Replaces the spec of an allocation, for example its labels. `resize` changes the sums."""
    old = allocation.spec
    is_other = allocation.replaced_by is None and (spec.tags, spec.facts) != (old.tags, old.facts)
    selectors.join(partition, spec)
    selectors.part(partition, old)
    allocation.spec = spec
    partition.preemptions.epoch += 1
    if is_other:  # entered first, so that the assumed volumes of its claims are kept
        enter(partition, allocation.node, spec)
        leave(partition, allocation.node, old)


def resize(partition: Partition, app: Application, allocation: Allocation, old: AskSpec, now_ns: int) -> None:
    """Updates application, queues, user and node after the resources of an allocation changed. `old` is its spec
    before.

    The new amount is added first. Otherwise a queue over its maximum would be within it for a moment.
    """
    _count_use(partition, app, replace(allocation, spec=old), now_ns)
    allocation.sized_ns = now_ns
    now = allocation.spec.resources
    resize_sums(app, allocation, old.resources)
    charge(partition, app, now, 1)
    requeue.path_shrank(partition, app)
    if allocation.preemption:
        _count_preempting(partition, app, now, 1)
        _count_preempting(partition, app, old.resources, -1)
    charge(partition, app, old.resources, -1)
    tolerate(app, now, old.resources)
    _keep(partition, allocation, now, 1)
    _keep(partition, allocation, old.resources, -1)
    partition.nodes.take(allocation.node, now)
    partition.nodes.give_back(allocation.node, old.resources)


def _keep(partition: Partition, allocation: Allocation, amount: Resources, times: int) -> None:
    """Counts the resources of a DaemonSet pod as never released for other pods. `times` = -1 stops it."""
    if allocation.spec.required_node:
        partition.nodes.keep(allocation.node, amount, times)


def _count_use(partition: Partition, app: Application, allocation: Allocation, now_ns: int) -> None:
    """Adds the resource usage of the allocation since its last resize to the application summary.

    As in YuniKorn, placeholders and preempted allocations are counted separately.
    """
    instance_type = partition.nodes.record(allocation.node).spec.attributes.get(_INSTANCE_TYPE, "")
    if allocation.spec.placeholder:
        kind = app.placeholder_consumption
    elif allocation.releasing is Termination.PREEMPTED_BY_SCHEDULER:
        kind = app.preempted
    else:
        kind = app.used
    since_ns = allocation.sized_ns or allocation.allocated_ns
    kind.add(instance_type, allocation.spec.resources, now_ns - since_ns)


def enter(partition: Partition, node: NodeId, spec: AskSpec | AllocationSpec, seen_as: PodOnNode | None = None) -> None:
    """Adds a pod to the pods on the node that filters read: an allocation, a foreign allocation or a replacing request.

    A placeholder that is being replaced does not count any more. Its request counts instead, on its own node.
    `seen_as`: as in `book`.
    """
    nodes = partition.nodes
    pods_on_nodes = nodes.pods_on_nodes
    if pods_on_nodes.is_noted(spec.facts):
        if seen_as is None:
            seen_as = pod_on_node_of(spec.facts, pods_on_nodes.tags.project(spec.tags))
        pods_on_nodes.add(nodes.rows.row(node), seen_as)
        if pods_on_nodes.tags.is_wanted(seen_as.tags):
            nodes.wake_up_nodes.note_inter_pod()  # a pending request may have an affinity to this pod


def leave(partition: Partition, node: NodeId, spec: AskSpec | AllocationSpec) -> None:
    """Reverts `enter`."""
    nodes = partition.nodes
    pods_on_nodes = nodes.pods_on_nodes
    if pods_on_nodes.is_noted(spec.facts):
        pods_on_nodes.remove(nodes.rows.row(node), pod_on_node_of(spec.facts, pods_on_nodes.tags.project(spec.tags)))
        if spec.facts.inter_pod.anti_affinity:  # it may have blocked any class
            nodes.wake_up_nodes.note_anywhere()
        else:
            nodes.wake_up_nodes.note_inter_pod()  # a pending request may need one pod less here


class ChosenByClaim:
    """What a decision chose, by claim."""

    def __init__(self, chosen: ClaimChoice) -> None:
        self.volumes = dict(chosen.volumes)
        self.devices = {one.claim: one for one in chosen.devices}


def assume(partition: Partition, spec: AskSpec, node: NodeId, chosen: ChosenByClaim) -> ClaimChoice:
    """Records what the claims of the request get on the node. Returns all that is assumed for its claims.

    A record is kept as long as a pod on a node uses the claim.
    """
    if not spec.facts.has_claims:
        return NOTHING_CHOSEN
    pods_on_nodes = partition.nodes.pods_on_nodes
    storage = pods_on_nodes.attachments.storage
    for claim in dict.fromkeys(spec.facts.volumes.claims):
        if claim in chosen.volumes and storage.is_open(claim):
            storage.assume(claim, chosen.volumes[claim], node)
    for one in spec.facts.devices:
        if one.claim in chosen.devices and pods_on_nodes.devices.allocation(one) is None:
            pods_on_nodes.devices.assume(chosen.devices[one.claim])
    return assumed(partition, spec)


def assumed(partition: Partition, spec: AskSpec) -> ClaimChoice:
    """Returns what the claims of the request will get: volumes of unbound claims, devices of claims without."""
    pods_on_nodes, facts = partition.nodes.pods_on_nodes, spec.facts
    volumes = pods_on_nodes.attachments.storage.choice(facts.volumes.claims)
    devices = pods_on_nodes.devices.choice(facts.devices) if facts.devices else ()
    return ClaimChoice(volumes, devices) if volumes or devices else NOTHING_CHOSEN


def park(partition: Partition, app: Application, ask: Ask, replacement: PlaceholderReplacement) -> None:
    """Starts a replacement: the request waits until its placeholder has ended."""
    unreserve(partition, (app.id, ask.spec.key))
    partition.node_demand.leave(app, ask)
    app.park(ask, replacement)
    placeholder = app.allocations[replacement.placeholder]
    leave(partition, placeholder.node, placeholder.spec)
    enter(partition, replacement.node, ask.spec)
    note_waiting(partition, app)
    partition.scheduling.class_left(app, ask.kind)


def unlink(partition: Partition, app: Application, key: AllocationKey) -> Ask | None:
    """Ends the replacement of the request `key`, and releases the resources reserved for it on another node.

    Returns the request, still parked: the caller removes it or makes it pending again.
    """
    ask = app.asks.get(key)
    if ask is None or ask.replacement is None:
        return None
    replacement = ask.replacement
    placeholder = app.allocations.get(replacement.placeholder)
    leave(partition, replacement.node, ask.spec)
    if placeholder is not None:
        placeholder.replaced_by = None
        partition.preemptions.epoch += 1
        enter(partition, placeholder.node, placeholder.spec)
    if not replacement.same_node:
        indexes.remove(partition.targets, replacement.node, (app.id, ask.spec.key))
        partition.nodes.give_back(replacement.node, ask.spec.resources)
    ask.replacement = None
    return ask


def arrive(partition: Partition, app: Application, ask: Ask, replacement: PlaceholderReplacement) -> None:
    """Transfers the resources of a replacement to its request, because the placeholder has ended."""
    leave(partition, replacement.node, ask.spec)
    if replacement.same_node:
        partition.nodes.take(replacement.node, ask.spec.resources)
    else:
        indexes.remove(partition.targets, replacement.node, (app.id, ask.spec.key))


def wait_again(partition: Partition, app: Application, ask: Ask, *, as_usual: bool) -> None:
    """Makes a request without replacement pending again.

    `as_usual`: it is scheduled individually; otherwise it replaces a placeholder.
    """
    partition.node_demand.leave(app, ask)
    before = ask.kind
    app.wait_again(ask, as_usual=as_usual)
    note_waiting(partition, app)
    partition.scheduling.class_left(app, before)
    partition.scheduling.requeue(app)


def mark_releasing(
    partition: Partition, app: Application, allocation: Allocation, termination: Termination, now_ns: int
) -> None:
    """Marks an allocation as being released.

    If it is a placeholder, fewer are left, so another one may be released for a larger pod.
    """
    app.mark_releasing(allocation, termination, now_ns)
    if allocation.spec.placeholder:
        _fewer_live(partition, app)


def _fewer_live(partition: Partition, app: Application) -> None:
    """A placeholder is no longer live: fewer members may wait for one, so replacements of lost ones may get
    precedence.
    """
    if app.gang.lost:
        repair.note(partition, app)
    partition.scheduling.requeue(app)


def set_quota_reservation(partition: Partition, app: Application, amount: Resources, *, granted: bool) -> None:
    """Sets the quota reservation of a gang on each queue of its path, for its user and its group.

    `granted`: the available quota covers the reservation.
    """
    gang = app.gang
    before, was_granted = gang.quota_reservation, gang.granted
    if (amount, granted) == (before, was_granted):
        return
    for holder in _holders(partition, app):
        _promise(holder, before, -1, granted=was_granted)
        _promise(holder, amount, 1, granted=granted)
    gang.quota_reservation = amount
    gang.granted = granted
    if granted:
        partition.node_demand.reserved(app)
    partition.users.close(app)
    count_running(partition, app)
    if (was_granted and not granted) or not amount.covers(before):
        requeue.path_grew(partition, app)


def shrink_quota_reservation(partition: Partition, app: Application, amount: Resources) -> None:
    """Reduces the quota reservation to `amount`, because the rest is allocated now.

    No other application gains quota by that.
    """
    for holder in _holders(partition, app):
        _promise(holder, amount - app.gang.quota_reservation, 1, granted=app.gang.granted)
    app.gang.quota_reservation = amount
    app.gang.granted &= bool(amount)


def _holders(partition: Partition, app: Application) -> list[Queue | Account]:
    """Returns the queues and accounts that count a quota reservation of the application."""
    return [*app.queue.path_up, *partition.users.open(app)]


def _promise(holder: Queue | Account, amount: Resources, times: int, *, granted: bool) -> None:
    (holder.reserved_quota if granted else holder.requested_quota).add(amount, times)


def reserve_target(partition: Partition, app: Application, ask: Ask, node: NodeId) -> None:
    """Reserves resources for a replacement on another node than its placeholder's.

    See docs/internals/semantics.md, rule 14.
    """
    partition.nodes.take(node, ask.spec.resources)
    partition.targets.setdefault(node, {})[app.id, ask.spec.key] = None


def clear_quota_reservation(partition: Partition, app: Application) -> None:
    """Removes the quota reservation. A gang without allocations then no longer contends with other gangs."""
    set_quota_reservation(partition, app, NOTHING, granted=False)
    if not app.gang.allocated:
        partition.contention.forget(app.id)
