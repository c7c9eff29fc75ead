"""Writes to applications, queues, users and nodes that keep all sums consistent.

Every change of usage or of pending resources goes through this module. It decides nothing; its callers are the other
modules of `scheduling`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from muster_core.model.config import ApplicationOrder
from muster_core.model.decisions import PlaceholderReplacement, ReasonKind
from muster_core.model.ids import AllocationId, AllocationKey, NodeId, Termination, allocation_id
from muster_core.model.records import Change, Detail
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import AllocationSpec, AskSpec
from muster_core.model.states import ApplicationState
from muster_core.model.storage import NO_CHOICE, Choice
from muster_core.scheduling import records, requeue, selectors
from muster_core.state import ordering
from muster_core.state.applications import Allocation, Application, Ask, GroupCount, resize_sums
from muster_core.state.queues import Queue
from muster_core.state.request_classes import occupant_of
from muster_core.state.reservations import AskId, NodeReservation, RunningPreemption
from muster_core.state.scheduler_state import Partition
from muster_core.state.users import Account, LimitSubject, LimitSubjectKind


def reserve(partition: Partition, app: Application, ask: Ask, hold: NodeReservation) -> None:
    """Hold room on a node for an ask that waits; for victims' room, headroom in its queues too."""
    partition.reservations.add(hold)
    partition.nodes.claim(hold.node, hold.resources, 1)
    if hold.preempted:
        claim(app, hold.resources, 1)
    else:
        app.queue.node_reservations += 1
    partition.requeue_one(app)
    records.reserved(partition, hold.node, ask.spec, Change.ADD)


def unreserve(partition: Partition, name: AskId, *, used: bool = False) -> None:
    """Remove the reservation of this ask, if any; `used`: it takes that room now, so no other request gains by it."""
    hold = partition.reservations.by_ask.get(name)
    if hold is None:
        return
    app = partition.applications[hold.application]
    ask = app.asks[hold.key]
    partition.reservations.remove(hold)
    partition.nodes.claim(hold.node, hold.resources, -1, grows=not used)
    partition.preemptions.epoch += 1
    if hold.preempted:
        claim(app, hold.resources, -1)
        requeue.path_grew(partition, app)
    else:
        app.queue.node_reservations -= 1
    if ask.said is ReasonKind.RESERVED:
        ask.said = None
        app.unheld[hold.key] = None
    records.reserved(partition, hold.node, ask.spec, Change.REMOVE)


def claim(app: Application, amount: Resources, times: int) -> None:
    """Hold headroom of its queues for an application's asks, or (-1) no longer."""
    app.node_reserved = app.node_reserved.plus(amount, times)
    for queue in app.queue.path_up():
        queue.node_reserved = queue.node_reserved.plus(amount, times)


def mark_preempted(partition: Partition, app: Application, allocation: Allocation, number: int, now_ns: int) -> None:
    """That preemption released the allocation; it counts as being released on every queue of the path."""
    mark_releasing(partition, app, allocation, Termination.PREEMPTED_BY_SCHEDULER, now_ns)
    allocation.preemption = number
    for queue in app.queue.path_up():
        queue.preempting += allocation.spec.resources


def end_preemption(partition: Partition, app: Application, victim: Allocation) -> None:
    """A victim ended, for whatever reason; with the last one its preemption is over."""
    running = partition.preemptions.running[victim.preemption]
    _count_no_longer(app, victim)
    del running.victims[app.id, victim.id]
    if not running.victims:
        forget_preemption(partition, running)


def _count_no_longer(app: Application, victim: Allocation) -> None:
    """The victim does not count as going any more."""
    victim.preemption = 0
    for queue in app.queue.path_up():
        queue.preempting -= victim.spec.resources


def forget_preemption(partition: Partition, running: RunningPreemption) -> None:
    """The preemption has ended: the last victim went, or their time is over. Those that are still there count as
    allocated like any other, for they may never go.
    """
    del partition.preemptions.running[running.number]
    partition.preemptions.epoch += 1
    for name, identity in running.victims:
        app = partition.applications[name]
        _count_no_longer(app, app.allocations[identity])
    winner = partition.applications.get(running.gang) if running.gang is not None else None
    if winner is not None:
        partition.requeue_one(winner)
    over = partition.queues.get(running.queue)
    if over is not None and over.quota_running == running.number:
        over.quota_running = 0
    for name, key in running.asks:
        owner = partition.applications.get(name)
        ask = owner.asks.get(key) if owner is not None else None
        if ask is not None and ask.preemption == running.number:
            ask.preemption = 0


_EARLY: Final = (ApplicationState.NEW, ApplicationState.ACCEPTED, ApplicationState.RESUMING)

#: Attribute of a node (muster_si.keys, INSTANCE_TYPE).
_INSTANCE_TYPE: Final = "si/instance-type"


def add_ask(partition: Partition, app: Application, ask: Ask) -> None:
    """Let an ask wait, counted as pending on every queue of the path."""
    is_first = ask.kind not in app.waiting
    app.add_ask(ask)
    if partition.nodes.pods_on_nodes.tags.labels.is_on:
        selectors.join(partition, ask.spec)
    count_pending(partition, app, ask.spec.resources, ask.left)
    if ask.spec.placeholder:
        group = app.gang.groups.setdefault(ask.spec.group, GroupCount(ask.spec.resources))
        group.count += ask.left
        requeue.fix_key(app, ask.spec.priority)
    records.ask_came(partition, app, ask.spec)
    if is_first:  # who waits, and with what priority, is told by the classes
        note_waiting(partition, app)
    partition.requeue_one(app)


def remove_ask(partition: Partition, app: Application, ask: Ask, why: Detail = Detail.REQUEST_CANCEL) -> None:
    """Drop an ask, waiting or parked, with all it still wants; `why` is for those who watch."""
    unreserve(partition, (app.id, ask.spec.key))
    app.remove_ask(ask)
    selectors.part(partition, ask.spec)
    records.ask_left(partition, app, ask.spec, why)
    count_pending(partition, app, ask.spec.resources, -ask.left)
    note_waiting(partition, app)


def uncount_placeholder(app: Application, spec: AskSpec, count: int) -> None:
    """Placeholders that were counted once are asked for, or counted, again (REST: placeholderData)."""
    if spec.placeholder:
        app.gang.groups[spec.group].count -= count


def note_waiting(partition: Partition, app: Application) -> None:
    """Keep the indices of who waits, and with what priority, in line with the application."""
    queue = app.queue
    if app.waiting:
        queue.waiting[app.id] = None
        partition.waiting[queue.path] = None
    else:
        stop_waiting(partition, app)
    if ordering.note(app):
        partition.scheduling.moved_in_leaf(app)
        partition.scheduling.moved(queue)
        if app.blocks:
            requeue.turn_freed(partition, queue)


def stop_waiting(partition: Partition, app: Application) -> None:
    """Take the application out of the indices of who waits in its queue."""
    queue = app.queue
    if app.id in queue.waiting:
        del queue.waiting[app.id]
        partition.dequeue_one(app)
        partition.scheduling.leave(app)
        if app.blocks:
            requeue.set_blocking(partition, app, blocks=False)
        if not queue.waiting:
            del partition.waiting[queue.path]


def next_id(app: Application, ask: Ask) -> AllocationId:
    """The identity of the ask's next allocation: one that no reported allocation has taken."""
    while (identity := allocation_id(ask.spec.key, ask.made)) in app.allocations:
        ask.made += 1
    return identity


def count_made(partition: Partition, app: Application, ask: Ask) -> None:
    """One allocation of the ask was created; with its last one the ask ends.

    `count_pending` and `note_waiting` are the caller's business, so that a batch does them once.
    """
    ask.made += 1
    ask.left -= 1
    if ask.left == 0:
        app.remove_ask(ask)  # its allocation is there instead of it
    else:
        selectors.join(partition, ask.spec)


def count_pending(partition: Partition, app: Application, amount: Resources, times: int) -> None:
    """Count an amount as waited for, by the application and on every queue of the path."""
    app.waits.add(amount, times)
    for queue in app.queue.path_up():
        queue.waits.add(amount, times)
    partition.scheduling.moved(app.queue)


def charge(partition: Partition, app: Application, amount: Resources, times: int) -> None:
    """Count an amount as allocated on every queue of the path, for the user and the group."""
    for queue in app.queue.path_up():
        queue.allocated = queue.allocated.plus(amount, times)
        if times < 0 and queue.tolerated:
            over = queue.max.excess(queue.allocated)
            left = ((name, min(amount, over[name])) for name, amount in queue.tolerated.items())
            queue.tolerated = Resources(dict(left))
    for _, account in partition.users.open(app) if amount else ():  # no account is opened for nothing
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
    """An amount that exists was counted, instead of another: what of it is over a queue's maximum is tolerated."""
    for queue in app.queue.path_up():
        over, before = queue.max.excess(queue.allocated), queue.max.excess(queue.allocated - amount + instead_of)
        more = {name: excess - before[name] for name, excess in over.items() if excess > before[name]}
        if more:
            queue.tolerated += Resources(more)


def count_running(partition: Partition, app: Application) -> None:
    """Keep count of the applications that use a place of `maxapplications`: those that run, and those accepted ones
    that hold something or to whom it is promised. Completing gives the place back.
    """
    has_places = bool(app.allocations or (app.gang.quota_reservation and app.gang.granted))
    set_counted(partition, app, counts=app.state is ApplicationState.RUNNING or (has_places and app.state in _EARLY))


def set_counted(partition: Partition, app: Application, *, counts: bool) -> None:
    """Take a place of `maxapplications` on every queue, for the user and the group; or give it back."""
    if counts == app.counted:
        return
    app.counted = counts
    for queue in app.queue.path_up():
        queue.running += 1 if counts else -1
    for _, account in partition.users.open(app):
        account.running += 1 if counts else -1
    if counts:
        return
    for queue in app.queue.path_up():
        requeue.start_freed(partition, LimitSubject(LimitSubjectKind.QUEUE, "", queue.path))
    for holder, _ in partition.users.open(app):
        requeue.start_freed(partition, holder)
    partition.users.close(app)


def book(partition: Partition, app: Application, allocation: Allocation) -> None:
    """Enter one allocation in application and node index; sums come by `count_in`, its labels by `count_made`."""
    app.add_allocation(allocation)
    partition.placed.setdefault(allocation.node, {})[app.id, allocation.id] = allocation
    partition.preemptions.epoch += 1
    _keep(partition, allocation, allocation.spec.resources, 1)
    enter(partition, allocation.node, allocation.spec)


def count_in(partition: Partition, app: Application, spec: AskSpec, count: int) -> None:
    """Count `count` booked allocations of one shape for application, queues and user."""
    app.queue.made += count
    app.add_sums(spec, count)
    charge(partition, app, spec.resources, count)


def drop(
    partition: Partition, app: Application, allocation: Allocation, now_ns: int, *, node_removed: bool = False
) -> None:
    """Take one allocation out of application, queues, user and node."""
    _leave_place(partition, app, allocation, now_ns, node_removed=node_removed)
    charge(partition, app, allocation.spec.resources, -1)
    partition.nodes.give_back(allocation.node, allocation.spec.resources)


def _leave_place(
    partition: Partition, app: Application, allocation: Allocation, now_ns: int, *, node_removed: bool = False
) -> None:
    """All of `drop` but what queues, user and node give back."""
    _count_use(partition, app, allocation, now_ns)
    app.queue.gone += 1
    partition.preemptions.epoch += 1
    app.remove_allocation(allocation)
    selectors.part(partition, allocation.spec)
    if allocation.preemption:
        end_preemption(partition, app, allocation)
    records.place_left(partition, app, allocation, node_removed=node_removed)
    _keep(partition, allocation, allocation.spec.resources, -1)
    on_node = partition.placed[allocation.node]
    del on_node[app.id, allocation.id]
    if not on_node:
        del partition.placed[allocation.node]
    if allocation.replaced_by is None:
        leave(partition, allocation.node, allocation.spec)


def hand_over(partition: Partition, app: Application, old: Allocation, new: Allocation, now_ns: int) -> None:
    """An allocation takes the slot of another one, which ended: the difference between them is given back.

    Where they are equal no other request gains or loses, so that none is woken up.
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
    """Something else is said of an allocation that is there; its sums are the business of `resize`."""
    old = allocation.spec
    is_other = allocation.replaced_by is None and (spec.tags, spec.facts) != (old.tags, old.facts)
    selectors.join(partition, spec)
    selectors.part(partition, old)
    allocation.spec = spec
    partition.preemptions.epoch += 1
    if is_other:  # in this order: what is assumed of its claims lasts
        enter(partition, allocation.node, spec)
        leave(partition, allocation.node, old)


def resize(partition: Partition, app: Application, allocation: Allocation, old: AskSpec, now_ns: int) -> None:
    """Count an allocation that was `old` as large as it is now, in application, queues, user and node.

    The new amount first: between the two a queue over its maximum would look as if it were within it.
    """
    _count_use(partition, app, replace(allocation, spec=old), now_ns)
    allocation.sized_ns = now_ns
    now = allocation.spec.resources
    resize_sums(app, allocation, old.resources)
    charge(partition, app, now, 1)
    requeue.path_shrank(partition, app)
    for queue in app.queue.path_up():
        if allocation.preemption:
            queue.preempting += now - old.resources
    charge(partition, app, old.resources, -1)
    tolerate(app, now, old.resources)
    _keep(partition, allocation, now, 1)
    _keep(partition, allocation, old.resources, -1)
    partition.nodes.take(allocation.node, now)
    partition.nodes.give_back(allocation.node, old.resources)


def _keep(partition: Partition, allocation: Allocation, amount: Resources, times: int) -> None:
    """Count what a DaemonSet's pod uses as never freed for others, or (-1) no longer."""
    if allocation.spec.required_node:
        partition.nodes.keep(allocation.node, amount, times)


def _count_use(partition: Partition, app: Application, allocation: Allocation, now_ns: int) -> None:
    """What it used since it has its size (contract 6.5): placeholders and what was preempted are counted apart."""
    instance_type = partition.nodes.record(allocation.node).spec.attributes.get(_INSTANCE_TYPE, "")
    if allocation.spec.placeholder:
        kind = app.placeheld
    elif allocation.releasing is Termination.PREEMPTED_BY_SCHEDULER:
        kind = app.preempted
    else:
        kind = app.used
    since_ns = allocation.sized_ns or allocation.allocated_ns
    kind.add(instance_type, allocation.spec.resources, now_ns - since_ns)


def enter(partition: Partition, node: NodeId, spec: AskSpec | AllocationSpec) -> None:
    """Count an allocation, a foreign one, or an ask whose swap goes to the node, as filters see it.

    A placeholder that hands over to an ask is not counted any more: the ask is, where it goes.
    """
    nodes = partition.nodes
    pods_on_nodes = nodes.pods_on_nodes
    if pods_on_nodes.is_noted(spec.facts):
        tags = pods_on_nodes.tags.project(spec.tags)
        pods_on_nodes.add(nodes.rows.row(node), occupant_of(spec.facts, tags))
        if pods_on_nodes.tags.is_wanted(tags):
            nodes.gains.note_company()
            nodes.epoch += 1  # an ask may wait for just this one


def leave(partition: Partition, node: NodeId, spec: AskSpec | AllocationSpec) -> None:
    """Undo an `enter`."""
    nodes = partition.nodes
    pods_on_nodes = nodes.pods_on_nodes
    if pods_on_nodes.is_noted(spec.facts):
        pods_on_nodes.remove(nodes.rows.row(node), occupant_of(spec.facts, pods_on_nodes.tags.project(spec.tags)))
        nodes.epoch += 1  # an ask may wait for one less
        if not spec.facts.inter_pod.apart:  # what it kept away may be any class
            nodes.gains.note_company()


def assume(partition: Partition, spec: AskSpec, node: NodeId, volumes: Mapping[str, str]) -> Choice:
    """The volumes that a pod with a slot on the node gets for its claims now; no longer than a pod that uses them is
    there. Returns what is assumed of its claims.
    """
    if not spec.facts.volumes.claims:
        return NO_CHOICE
    storage = partition.nodes.pods_on_nodes.attachments.storage
    for claim in dict.fromkeys(spec.facts.volumes.claims):
        if claim in volumes and storage.is_open(claim):
            storage.assume(claim, volumes[claim], node)
    return assumed(partition, spec)


def assumed(partition: Partition, spec: AskSpec) -> Choice:
    """What its claims that are not bound are to get."""
    return partition.nodes.pods_on_nodes.attachments.storage.choice(spec.facts.volumes.claims)


def park(partition: Partition, app: Application, ask: Ask, replacement: PlaceholderReplacement) -> None:
    """The ask waits for its placeholder to go and for nothing else."""
    unreserve(partition, (app.id, ask.spec.key))
    app.park(ask, replacement)
    placeholder = app.allocations[replacement.placeholder]
    leave(partition, placeholder.node, placeholder.spec)
    enter(partition, replacement.node, ask.spec)
    note_waiting(partition, app)


def unlink(partition: Partition, app: Application, key: AllocationKey) -> Ask | None:
    """End the swap of the ask `key`, giving back room held on another node.

    Returns the ask, still parked: the caller drops it or lets it wait again.
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
        no_target(partition, app, ask, replacement.node)
        partition.nodes.give_back(replacement.node, ask.spec.resources)
    ask.replacement = None
    return ask


def arrive(partition: Partition, app: Application, ask: Ask, replacement: PlaceholderReplacement) -> None:
    """The swap's placeholder ended: its room on the node, and what was counted there for the ask, are the ask's."""
    leave(partition, replacement.node, ask.spec)
    if replacement.same_node:
        partition.nodes.take(replacement.node, ask.spec.resources)
    else:
        no_target(partition, app, ask, replacement.node)


def wait_again(partition: Partition, app: Application, ask: Ask, *, as_usual: bool) -> None:
    """Let an ask without swap wait; `as_usual` = for a place of its own."""
    app.wait_again(ask, as_usual=as_usual)
    note_waiting(partition, app)
    partition.requeue_one(app)


def mark_releasing(
    partition: Partition, app: Application, allocation: Allocation, termination: Termination, now_ns: int
) -> None:
    """The allocation is being released. With one placeholder less, another may be released for a pod."""
    app.mark_releasing(allocation, termination, now_ns)
    if allocation.spec.placeholder:
        partition.requeue_one(app)
    if termination is Termination.TIMEOUT and allocation.spec.placeholder:
        app.gang.groups[allocation.spec.group].timed_out += 1


def set_quota_reservation(partition: Partition, app: Application, amount: Resources, *, granted: bool) -> None:
    """Promise `amount` to the gang on every queue of its path, instead of what was promised before;
    `granted`: with the headroom behind it.
    """
    gang = app.gang
    before, was_backed = gang.quota_reservation, gang.granted
    if (amount, granted) == (before, was_backed):
        return
    for holder in _holders(partition, app):
        _promise(holder, before, -1, granted=was_backed)
        _promise(holder, amount, 1, granted=granted)
    gang.quota_reservation, gang.granted = amount, granted
    partition.users.close(app)
    count_running(partition, app)
    if (was_backed and not granted) or not amount.covers(before):
        requeue.path_grew(partition, app)


def shrink_quota_reservation(partition: Partition, app: Application, amount: Resources) -> None:
    """A part of the reserved amount is allocated now, `amount` of it is not: others have no more room for that."""
    for holder in _holders(partition, app):
        _promise(holder, amount - app.gang.quota_reservation, 1, granted=app.gang.granted)
    app.gang.quota_reservation, app.gang.granted = amount, app.gang.granted and bool(amount)


def _holders(partition: Partition, app: Application) -> list[Queue | Account]:
    """Those with whom a promise to the application counts."""
    return [*app.queue.path_up(), *(account for _, account in partition.users.open(app))]


def _promise(holder: Queue | Account, amount: Resources, times: int, *, granted: bool) -> None:
    if granted:
        holder.reserved_quota = holder.reserved_quota.plus(amount, times)
    else:
        holder.requested_quota = holder.requested_quota.plus(amount, times)


def hold(partition: Partition, app: Application, ask: Ask, node: NodeId) -> None:
    """Hold room on a node for a swap whose target is not the placeholder's node (semantics 14)."""
    partition.nodes.take(node, ask.spec.resources)
    partition.targets.setdefault(node, {})[app.id, ask.spec.key] = None


def no_target(partition: Partition, app: Application, ask: Ask, node: NodeId) -> None:
    """The node is no longer a target; its room is the caller's business."""
    on_node = partition.targets[node]
    del on_node[app.id, ask.spec.key]
    if not on_node:
        del partition.targets[node]


def clear_quota_reservation(partition: Partition, app: Application) -> None:
    """Nothing is promised any more; a gang that holds nothing else contends for nothing."""
    set_quota_reservation(partition, app, NOTHING, granted=False)
    if not app.gang.allocated:
        partition.contention.forget(app.id)
