"""Invariants of the scheduler state.

Sums are counted again from applications and compared with the stored ones. Tests call `check` after every event, the
scheduler task calls it after an internal error, and the REST diagnostics on request. It changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TypeVar

from muster_core.model.constraints import NAMESPACE, Read, Tags
from muster_core.model.ids import ApplicationId, NodeId, QueuePath, TaskGroup, Termination, child_path, queue_name
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import AllocationSpec, AskSpec, PodProperties, Volumes
from muster_core.model.states import ApplicationState, QueueState
from muster_core.model.storage import AVAILABLE, VolumeHandle
from muster_core.queues import quota
from muster_core.scheduling import device_invariants, gang_invariants, selectors
from muster_core.state import ordering
from muster_core.state.applications import Application, SlotCount
from muster_core.state.backoff import BlockedApplications
from muster_core.state.node_demand import Demand, demand_key
from muster_core.state.reservations import NodeReservation, RunningPreemption
from muster_core.state.scheduler_state import Partition, SchedulerState
from muster_core.state.scheduling_queue import MembersDoNotFit, NoNodeFits
from muster_core.state.storage import Storage, meets
from muster_core.state.users import Account, LimitSubject, LimitSubjectKind

_PREEMPTED = Termination.PREEMPTED_BY_SCHEDULER


def check_reservations(partition: Partition) -> Iterator[str]:
    """Yields a text per broken invariant of node reservations and preemptions."""
    yield from _permanent(partition)
    reservations = list(partition.reservations.by_ask.values())
    for reservation in reservations:
        yield from _reservation(partition, reservation)
    yield from _held(partition, reservations)
    yield from _queues(partition, reservations)
    yield from _asks(partition)
    for running in partition.preemptions.running.values():
        yield from _running(partition, running)


def _permanent(partition: Partition) -> Iterator[str]:
    counted: dict[NodeId, Counter[str]] = {}
    kept = (one for there in partition.placed.values() for one in there.values() if one.spec.required_node)
    for node, amount in (
        *((one.node, one.spec.resources) for one in kept),
        *((spec.node, spec.resources) for spec in partition.foreign.values()),
    ):
        counted.setdefault(node, Counter()).update(dict(amount.on_nodes.items()))
    for node in partition.nodes:
        known, found = partition.nodes.permanent(node), Resources(counted.get(node, Counter()))
        yield from _compared(f"node {node}: what is never freed", known, found)


def _reservation(partition: Partition, reservation: NodeReservation) -> Iterator[str]:
    app = partition.applications.get(reservation.application)
    ask = app.asks.get(reservation.key) if app is not None else None
    if ask is None or ask.replacement is not None or ask.spec.resources != reservation.resources:
        yield f"resources are reserved for ask {reservation.key}, which is not pending"
    if reservation.node not in partition.nodes:
        yield f"resources are reserved for ask {reservation.key} on node {reservation.node}, which does not exist"
    index = partition.reservations
    if reservation.ask not in index.by_node.get(
        reservation.node, {}
    ) or reservation.key not in index.by_application.get(reservation.application, {}):
        yield f"the reservation of ask {reservation.key} is missing in an index"


def _asks(partition: Partition) -> Iterator[str]:
    for app in partition.applications.values():
        for ask in app.asks.values():
            running = partition.preemptions.running.get(ask.preemption)
            if ask.preemption and (running is None or (app.id, ask.spec.key) not in running.asks):
                yield f"ask {ask.spec.key} waits for victims of a preemption that is over"


def _held(partition: Partition, reservations: list[NodeReservation]) -> Iterator[str]:
    held: dict[NodeId, Counter[str]] = {}
    others: Counter[NodeId] = Counter()
    for reservation in reservations:
        held.setdefault(reservation.node, Counter()).update(dict(reservation.resources.on_nodes.items()))
        others[reservation.node] += not (reservation.required or reservation.preempted)
    for app in partition.applications:
        for node, amount in partition.contention.own_nodes(app):
            held.setdefault(node, Counter()).update(dict(amount.on_nodes.items()))
    for node in partition.nodes:
        counted = Resources(held.get(node, Counter()))
        yield from _compared(f"node {node}: what is reserved", partition.nodes.node_reserved(node), counted)
        is_marked = bool(partition.nodes.reserved.view(partition.nodes.rows.size)[partition.nodes.rows.row(node)])
        if is_marked != (node in partition.reservations.by_node):
            yield f"node {node} is marked as {'' if is_marked else 'not '}reserved"
        if others[node] > 1:
            yield f"node {node} has {others[node]} ordinary reservations, at most 1 is allowed"
    indexed = sum(map(len, partition.reservations.by_node.values()))
    if not indexed == sum(map(len, partition.reservations.by_application.values())) == len(reservations):
        yield "an index has more reservations than exist"


def _queues(partition: Partition, reservations: list[NodeReservation]) -> Iterator[str]:
    node_reserved: dict[QueuePath, Counter[str]] = {}
    releasing: dict[QueuePath, Counter[str]] = {}
    for reservation in reservations:
        if reservation.preempted:
            _count(partition, node_reserved, reservation.application, reservation.resources)
    for app in partition.applications.values():
        for allocation in app.allocations.values():
            running = partition.preemptions.running.get(allocation.preemption)
            is_victim = running is not None and (app.id, allocation.id) in running.victims
            if is_victim != bool(allocation.preemption) or (is_victim and allocation.releasing is not _PREEMPTED):
                yield f"allocation {allocation.id} counts as a victim of preemption {allocation.preemption}, wrongly"
            if allocation.preemption:
                _count(partition, releasing, app.id, allocation.spec.resources)
    ordinary = Counter(
        partition.applications[reservation.application].queue.path
        for reservation in reservations
        if not reservation.preempted
    )
    for path, queue in partition.queues.by_path.items():
        node_reserved_here, preempting = (Resources(sums.get(path, Counter())) for sums in (node_reserved, releasing))
        yield from _compared(f"queue {path}: node_reservations", queue.node_reservations, ordinary[path])
        yield from _compared(f"queue {path}: node_reserved", queue.node_reserved, node_reserved_here)
        yield from _compared(f"queue {path}: preempting", queue.preempting, preempting)


def _count(partition: Partition, sums: dict[QueuePath, Counter[str]], name: ApplicationId, amount: Resources) -> None:
    for queue in partition.applications[name].queue.path_up:
        sums.setdefault(queue.path, Counter()).update(dict(amount.items()))


def _running(partition: Partition, running: RunningPreemption) -> Iterator[str]:
    if not running.victims:
        yield f"preemption {running.number} is over and still there"
    for name, identity in running.victims:
        app = partition.applications.get(name)
        victim = app.allocations.get(identity) if app is not None else None
        if victim is None or victim.preemption != running.number:
            yield f"preemption {running.number} waits for {identity}, which it did not release"


Key = TypeVar("Key")


def check_storage(partition: Partition, there: Iterable[tuple[int, Volumes]]) -> Iterator[str]:
    """Yields a text per broken invariant of volumes. `there`: row and volumes of each pod on a node."""
    used = list(there)
    attachments = partition.nodes.pods_on_nodes.attachments
    claims = Counter((claim, row) for row, volumes in used for claim in set(volumes.claims))
    disks = Counter((disk, row) for row, volumes in used for disk in set(volumes.disks))
    yield from _compared("use of claims", _flat(attachments.claims), claims)
    yield from _compared("use of disks", _flat(attachments.disks), disks)
    yield from _attached(partition, used)
    yield from _assumed(attachments.storage, attachments.claims)
    yield from _pools(attachments.storage)


def _flat(kept: Mapping[Key, Mapping[int, int]]) -> Counter[tuple[Key, int]]:
    return Counter({(key, row): count for key, rows in kept.items() for row, count in rows.items()})


def _attached(partition: Partition, used: list[tuple[int, Volumes]]) -> Iterator[str]:
    """Checks that each volume of a driver counts once per row, whether pods use it, it is attached, or both."""
    nodes = partition.nodes
    attachments = nodes.pods_on_nodes.attachments
    by_pods: dict[int, set[VolumeHandle]] = {}
    for row, volumes in used:
        handles = {attachments.storage.handle(claim) for claim in volumes.claims}
        by_pods.setdefault(row, set()).update(volumes.attached, *({one} for one in handles if one is not None))
    for node in nodes:
        row, reported = nodes.rows.row(node), nodes.record(node).spec.storage
        mine = by_pods.get(row, set())
        yield from _compared(f"node {node}: volumes of pods", attachments.on(row), mine)
        for driver, count in Counter(one.driver for one in mine.union(reported.attached if reported else ())).items():
            kept = int(attachments.used(driver, nodes.rows.size)[row])
            yield from _compared(f"node {node}: number of volumes of {driver}", kept, count)


def _assumed(storage: Storage, in_use: Iterable[str]) -> Iterator[str]:
    """Checks that volumes are assumed only for used claims that are not bound yet, each for one claim."""
    users = set(in_use)
    for claim, assumed in storage.assumed.items():
        found = storage.claims.get(claim)
        volume = storage.volumes.get(assumed.volume)
        is_done = found is None or (found.is_bound and (volume is None or volume.reference is not None))
        if claim not in users or is_done:
            yield f"claim {claim} is to get {assumed}, and no request waits for that"
        if assumed.volume and storage.taken.get(assumed.volume) != claim:
            yield f"claim {claim} is assigned {assumed.volume}, reserved for {storage.taken.get(assumed.volume)}"
    if len(storage.taken) != sum(bool(assumed.volume) for assumed in storage.assumed.values()):
        yield f"volumes are reserved for claims without an assignment: {storage.taken}"


def _pools(storage: Storage) -> Iterator[str]:
    for demand, pool in storage.pools().items():
        free = {
            name
            for name, volume in storage.volumes.items()
            if meets(volume, demand) and volume.phase == AVAILABLE and not volume.deleting
            if volume.reference is None and name not in storage.taken
        }
        yield from _compared(f"free volumes for {demand}", set(pool.members()), free)


def check_labels(partition: Partition) -> Iterator[str]:
    """Yields a text per broken invariant of the labels that selectors read."""
    labels = partition.nodes.pods_on_nodes.tags.labels
    readers, pods = Counter[Read](), Counter[tuple[str, ApplicationId]]()
    for name, spec in _there(partition):
        readers.update(selectors.reads_of(spec))
        pods[spec.tags.get(NAMESPACE, ""), name] += 1
    for app in partition.applications.values():
        readers.update(selectors.reads_of_members(app.spec.members))
    if sum(labels.charged().values()) < len(readers):
        yield f"{len(readers)} labels are read, {labels.charged()} are charged to namespaces"
    yield from _compared("number of readers of labels", labels.readers(), dict(readers))
    if labels.is_on:
        yield from _compared("number of pods of namespaces", labels.pods(), dict(pods))


def _there(partition: Partition) -> Iterator[tuple[ApplicationId, AskSpec | AllocationSpec]]:
    for app in partition.applications.values():
        yield from ((app.id, ask.spec) for ask in app.asks.values())
        yield from ((app.id, one.spec) for one in app.allocations.values())
    yield from ((ApplicationId(""), spec) for spec in partition.foreign.values())


_LIVE = frozenset(ApplicationState) - {
    ApplicationState.COMPLETED,
    ApplicationState.FAILED,
    ApplicationState.REJECTED,
    ApplicationState.EXPIRED,
}


def check(scheduler_state: SchedulerState) -> list[str]:
    """Returns a text per broken invariant; empty = the state is consistent."""
    return [broken for partition in scheduler_state.partitions.values() for broken in check_partition(partition)]


def check_partition(partition: Partition) -> list[str]:
    """Like `check`, for one partition."""
    return [f"{partition.id}: {broken}" for broken in _partition(partition)]


def _partition(partition: Partition) -> Iterator[str]:
    for app in partition.applications.values():
        yield from _application(partition, app)
        yield from _links(app)
        yield from gang_invariants.broken(partition, app)
    yield from _removed(partition)
    yield from _queue_sums(partition)
    yield from _tree(partition)
    yield from _users(partition)
    yield from _scheduling_queue(partition)
    yield from _nodes(partition)
    yield from _indices(partition)
    yield from check_reservations(partition)
    yield from check_labels(partition)
    yield from _demand(partition)


def _demand(partition: Partition) -> Iterator[str]:
    """Checks the requests that are reported as waiting for nodes, and what they count for each maximum."""
    known, totals = partition.node_demand, dict[LimitSubject, Resources]()
    for name, mine in known.by_app.items():
        app = partition.applications.get(name)
        for demand in mine.values() if app is not None else ():
            yield from _one_demand(partition, demand)
            for holder in demand.holders:
                totals[holder] = totals.get(holder, NOTHING) + demand.total
        if app is None:
            yield f"demand for nodes of the removed application {name}"
    kept = {holder: total.value for holder, total in known.counted.items()}
    yield from _compared("demand for nodes", kept, {holder: total for holder, total in totals.items() if total})
    queues = [known.undecided, *(queue for at in known.refusing.values() for queue in at.queues.values())]
    found = [demand for queue in queues for of_app in queue.demands.values() for demand in of_app]
    if {*found} != {one for mine in known.by_app.values() for one in mine.values() if one.refused}:
        yield "the refused demands for nodes are not those that wait for a maximum"
    if {*known.by_age} != {one for mine in known.by_app.values() for one in mine.values() if one.total and one.holders}:
        yield "the demands for nodes that count are not those sorted by age"


def _one_demand(partition: Partition, demand: Demand) -> Iterator[str]:
    app, total = demand.app, NOTHING
    for key in (*demand.admitted, *demand.refused):
        ask = app.asks.get(key)
        if ask is None or key not in app.waiting.get(ask.kind, {}) or demand_key(app, ask.kind) != demand.kind:
            yield f"application {app.id}: request {key} has a demand for nodes, but is not waiting"
        elif ask.left < demand.admitted.get(key, 0):
            yield f"application {app.id}: request {key} demands nodes for too many allocations"
        else:
            total = total.plus(ask.spec.resources, demand.admitted.get(key, 0))
    if demand.kind is None and demand.admitted and demand.queue not in (None, partition.node_demand.undecided):
        yield f"application {app.id}: its gang is admitted in part"
    yield from _compared(f"application {app.id}: its demand for nodes", demand.total, total)
    if demand.queue is not None and demand not in demand.queue.demands.get(app.id, {}):
        yield f"application {app.id}: its demand for nodes is missing in its demand queue"
    if demand.holders != tuple(bound.holder for bound in quota.bounds(partition, app)):
        yield f"application {app.id}: its demand for nodes counts for maximums that do not apply to it"


def _removed(partition: Partition) -> Iterator[str]:
    found = {name: app for name, app in partition.applications.items() if app.removed}
    if found != partition.removed or partition.removed_bytes != sum(app.kept_bytes for app in found.values()):
        yield f"removed applications are recorded as {sorted(partition.removed)}, counted as {sorted(found)}"
    for name, app in found.items():
        if app.asks or app.allocations:
            yield f"application {name} was removed and has requests or allocations"
    if unknown := partition.texts.refused.keys() - partition.applications.keys():
        yield f"reported texts: removed applications are kept: {sorted(unknown)}"


def _application(partition: Partition, app: Application) -> Iterator[str]:
    real, held, live = Counter[str](), Counter[str](), Counter[str]()
    for allocation in app.allocations.values():
        amounts = dict(allocation.spec.resources.items())
        (held if allocation.spec.placeholder else real).update(amounts)
        if allocation.spec.placeholder and allocation.releasing is None:
            live.update(amounts)
    pending = Counter[str]()
    for ask in app.asks.values():
        pending.update(dict(ask.spec.resources.times(ask.left).items()))
        if ask.left < 1:
            yield f"ask {ask.spec.key} has no pending count"
    yield from _compared(f"application {app.id}: allocated", app.allocated, Resources(real))
    yield from _compared(f"application {app.id}: what placeholders have", app.gang.allocated, Resources(held))
    yield from _compared(f"application {app.id}: reserved", app.gang.reserved, Resources(live))
    yield from _compared(f"application {app.id}: pending", app.pending, Resources(pending) - _counted_twice(app))
    if app.state not in _LIVE:
        yield f"application {app.id} is {app.state} and still there"
    if app.id not in app.queue.applications or partition.queues.get(app.queue.path) is not app.queue:
        yield f"application {app.id} is not in its queue {app.queue.path}"
    kinds = Counter(ask.spec.placeholder for ask in app.asks.values())
    real_allocations = sum(not one.spec.placeholder for one in app.allocations.values())
    kept = app.real_allocations, app.real_asks, app.placeholder_asks
    yield from _compared(f"application {app.id}: numbers", kept, (real_allocations, kinds[False], kinds[True]))


def _counted_twice(app: Application) -> Resources:
    """What the requests of members and the slots that they can take have in common."""
    counts: dict[TaskGroup, SlotCount] = {}
    for ask in app.asks.values():
        spec, count = ask.spec, counts.setdefault(ask.spec.group, SlotCount())
        if spec.placeholder:
            count.slots[spec.resources] = count.slots.get(spec.resources, 0) + ask.left
        elif spec.group and app.spec.is_gang and not ask.kind.as_usual and ask.replacement is None:
            count.members[spec.resources] = count.members.get(spec.resources, 0) + 1
    for one in app.allocations.values():
        if one.spec.placeholder and one.releasing is None:
            slots = counts.setdefault(one.spec.group, SlotCount()).slots
            slots[one.spec.resources] = slots.get(one.spec.resources, 0) + 1
    return sum((count.twice() for count in counts.values()), NOTHING)


def _links(app: Application) -> Iterator[str]:
    """Checks that each request is either pending in one class or parked.

    Both ends of a replacement have to refer to each other.
    """
    for ask in app.asks.values():
        waits = ask.spec.key in app.waiting.get(ask.kind, {})
        if waits == (ask.replacement is not None):
            yield f"ask {ask.spec.key} is {'both' if waits else 'neither'} waiting and parked"
        if ask.replacement is not None:
            placeholder = app.allocations.get(ask.replacement.placeholder)
            if placeholder is None or placeholder.replaced_by != ask.spec.key or placeholder.releasing is None:
                yield f"ask {ask.spec.key} replaces {ask.replacement.placeholder}, which does not refer to it"
    for allocation in app.allocations.values():
        replaced_by = app.asks.get(allocation.replaced_by) if allocation.replaced_by else None
        if allocation.replaced_by and (replaced_by is None or replaced_by.replacement is None):
            yield f"placeholder {allocation.id} is to be followed by {allocation.replaced_by}, which does not wait"
        if (allocation.id in app.ids.get(allocation.spec.key, ())) is allocation.spec.is_virtual:
            yield f"allocation {allocation.id} is not known by its key"
    if sum(len(keys) for keys in app.waiting.values()) > len(app.asks):
        yield f"application {app.id} has a class for an ask that it does not have"
    yield from _ages(app)


def _ages(app: Application) -> Iterator[str]:
    """Checks the order of requests and the age of the application."""
    for kind, keys in app.waiting.items():
        if kind not in app.unsorted and any(app.asks[a].asked_ns > app.asks[b].asked_ns for a, b in pairwise(keys)):
            yield f"application {app.id}: requests of a class are not in the order of their creation"
    first = [app.asks[next(iter(keys))].asked_ns for keys in app.waiting.values()]
    if not app.unsorted and not app.are_classes_unsorted and first != sorted(first):
        yield f"application {app.id}: its classes are not in the order of their oldest requests"
    if any(kind not in app.waiting for kind in app.unsorted):
        yield f"application {app.id}: a class without waiting requests has to be sorted"
    specs = [*(ask.spec for ask in app.asks.values()), *(allocation.spec for allocation in app.allocations.values())]
    if any(0 < spec.created_ns < app.oldest_ns for spec in specs):
        yield f"application {app.id} is younger than its oldest request or allocation"


def _queue_sums(partition: Partition) -> Iterator[str]:
    allocated: dict[QueuePath, Resources] = {}
    pending: dict[QueuePath, Resources] = {}
    reserved_quota: dict[QueuePath, Resources] = {}
    requested_quota: dict[QueuePath, Resources] = {}
    for app in partition.applications.values():
        used = sum((a.spec.resources for a in app.allocations.values()), NOTHING)
        asked = sum((a.spec.resources.times(a.left) for a in app.asks.values()), NOTHING) - _counted_twice(app)
        for queue in app.queue.path_up:
            allocated[queue.path] = allocated.get(queue.path, NOTHING) + used
            pending[queue.path] = pending.get(queue.path, NOTHING) + asked
            promised = reserved_quota if app.gang.granted else requested_quota
            promised[queue.path] = promised.get(queue.path, NOTHING) + app.gang.quota_reservation
    for path, queue in partition.queues.by_path.items():
        for name, kept, counted in (
            ("allocated", queue.allocated, allocated.get(path, NOTHING)),
            ("pending", queue.pending, pending.get(path, NOTHING)),
            ("reserved_quota", queue.reserved_quota.value, reserved_quota.get(path, NOTHING)),
            ("requested_quota", queue.requested_quota.value, requested_quota.get(path, NOTHING)),
        ):
            yield from _compared(f"queue {path}: {name}", kept, counted)
            yield from _negative(f"queue {path}: {name}", kept)
        over = queue.max.excess(queue.allocated)
        if over != queue.tolerated:
            yield f"queue {path} has {over} allocated over its maximum {queue.max}, tolerated are {queue.tolerated}"


def _tree(partition: Partition) -> Iterator[str]:
    """Checks that leaves have applications, parents have queues, and draining queues are not empty."""
    for path, queue in partition.queues.by_path.items():
        below = {child_path(path, name): child for name, child in queue.children.items()}
        if any(partition.queues.get(name) is not child or child.parent is not queue for name, child in below.items()):
            yield f"queue {path} has a child queue that is missing in the index"
        if queue.children if queue.is_leaf else queue.applications:
            yield f"queue {path} is a {'leaf with queues below it' if queue.is_leaf else 'parent with applications'}"
        if queue.parent is not None and queue.is_empty and (queue.draining or not queue.managed or queue.wanted):
            yield f"queue {path} is empty and waits for that"
        if (queue.state is QueueState.STOPPED) != (queue.wanted is not None and queue.is_leaf):
            yield f"queue {path} is {queue.state}, and is to become {queue.wanted and queue.wanted.name}"
        if queue.parent is not None and queue.parent.children.get(queue_name(path)) is not queue:
            yield f"queue {path} is not below the one above it"


def _users(partition: Partition) -> Iterator[str]:
    counted: dict[LimitSubject, Account] = {}
    for app in partition.applications.values():
        for holder in partition.users.holders(app):
            account = counted.setdefault(holder, Account())
            account.allocated += sum((a.spec.resources for a in app.allocations.values()), NOTHING)
            (account.reserved_quota if app.gang.granted else account.requested_quota).add(app.gang.quota_reservation, 1)
            account.preempting += sum((a.spec.resources for a in app.allocations.values() if a.preemption), NOTHING)
            account.running += app.counted
    ledgers = ((LimitSubjectKind.USER, partition.users.users), (LimitSubjectKind.GROUP, partition.users.groups))
    kept = {
        LimitSubject(kind, name, path): account
        for kind, user_ledger in ledgers
        for name, accounts in user_ledger.items()
        for path, account in accounts.items()
    }
    for holder in sorted(counted.keys() | kept.keys()):
        one, other = kept.get(holder, Account()), counted.get(holder, Account())
        for name in ("allocated", "reserved_quota", "requested_quota", "preempting", "running"):
            stored, found = (getattr(part, "value", part) for part in (getattr(one, name), getattr(other, name)))
            yield from _compared(f"{holder}: {name}", stored, found)
        if holder in kept and one.is_idle:
            yield f"{holder} has an empty account"


def _scheduling_queue(partition: Partition) -> Iterator[str]:
    """Checks that each waiting application is active, unschedulable for a reason, in backoff or parked.

    A parked application waits for a callback.
    """
    for app in partition.applications.values():
        yield from _listed(partition, app)
        yield from _wakes(partition, app)
    yield from _shown(partition)
    yield from _scheduling_entries(partition)


def _listed(partition: Partition, app: Application) -> Iterator[str]:
    scheduling, blocked = partition.scheduling, partition.blocking_reasons.blocked.get(app.id, {})
    awaits_callback = partition.pending_callbacks.awaits_callback(partition.id, app.id)
    is_active = scheduling.is_due or app.id in scheduling.requeued
    is_listed = is_active or bool(blocked) or app.backoff_until_ns or awaits_callback or app.withheld
    if app.waiting and not is_listed and not app.is_reserving:
        yield f"application {app.id} waits and is in no queue"
    is_active = scheduling.active.has(app)
    if not app.waiting and (is_active or blocked):
        yield f"application {app.id} waits for nothing and is in the scheduling queue"
    if is_active != (app.id in scheduling.requeued or any(app.id in entry.heads for entry in blocked.values())):
        yield f"application {app.id} is {'active' if is_active else 'not active'} without a reason"
    if app.shown != max((kind.priority for kind in app.waiting), default=None):
        yield f"application {app.id} shows priority {app.shown}"
    if any(not entry.has(app) for entry in blocked.values()):
        yield f"application {app.id} is in a queue that does not contain it"
    if app.blocks != (app.id in app.queue.blockers):
        yield f"application {app.id}: its leaf's list of gangs that block is wrong"
    if app.blocks and not app.waiting:
        yield f"application {app.id} waits for nothing and blocks its leaf"


def _wakes(partition: Partition, app: Application) -> Iterator[str]:
    """Checks that a change of a node wakes an application that waits for nodes and is not active in any case."""
    known, blocked = partition.unschedulable_classes, partition.blocking_reasons.blocked.get(app.id, {})
    is_active = partition.scheduling.is_due or app.id in partition.scheduling.requeued
    for reason, entry in blocked.items() if not is_active and MembersDoNotFit(app.id) not in blocked else ():
        if (
            isinstance(reason, NoNodeFits)
            and known.get(reason.kind) is None
            and entry not in partition.scheduling.backoff
        ):
            yield f"application {app.id} waits for nodes, and no change of a node wakes it"


def _shown(partition: Partition) -> Iterator[str]:
    counted = Counter(
        queue.path for app in partition.applications.values() if app.counted for queue in app.queue.path_up
    )
    for queue in partition.queues.by_path.values():
        below = [app.shown for name in queue.applications if (app := partition.applications[name]).shown is not None]
        below += [child.shown for child in queue.children.values() if child.shown is not None]
        if queue.priorities.top != max(below, default=None) or queue.shown != ordering.shown_by(queue):
            yield f"queue {queue.path} shows priority {queue.shown}"
        yield from _compared(f"queue {queue.path}: running", queue.running, counted[queue.path])
    for path in partition.waiting:
        if path not in partition.queues.by_path:
            yield f"queue {path} has applications that wait and does not exist"


def _scheduling_entries(partition: Partition) -> Iterator[str]:
    """Checks that each entry of the scheduling queue has its applications, from the leaves up to the root."""
    scheduling = partition.scheduling
    blocked = partition.blocking_reasons.blocked
    found: dict[BlockedApplications, set[ApplicationId]] = {}
    for name, entries in blocked.items():
        for entry in entries.values():
            found.setdefault(entry, set()).add(name)
    active = {name for entry, names in found.items() for name in entry.heads if name in names}
    for ordered, names in (*found.items(), (scheduling.active, active | set(scheduling.requeued))):
        apps = [partition.applications[name] for name in names]
        wanted: dict[QueuePath, set[str]] = {}
        for app in apps:
            wanted.setdefault(app.queue.path, set()).add(app.id)
            for queue in app.queue.path_up:
                if queue.parent is not None:
                    wanted.setdefault(queue.parent.path, set()).add(queue.path)
        if {path: set(order) for path, order in ordered.orders.items()} != wanted:
            yield f"a scheduling queue has {ordered.orders.keys()}, expected {wanted}"
    for entry in found:
        if not entry.heads and entry in scheduling.backoff.tried:
            yield "a blocking reason may no longer apply and none of its applications is active"
        if entry.heads and entry not in scheduling.backoff:
            yield "a blocking reason applies and some of its applications are active"
    if {entry for _, entry in partition.blocking_reasons} != found.keys():
        yield "the scheduling queue has an entry without applications"


def _nodes(partition: Partition) -> Iterator[str]:
    used: dict[NodeId, Resources] = {}
    for app in partition.applications.values():
        for allocation in app.allocations.values():
            used[allocation.node] = used.get(allocation.node, NOTHING) + allocation.spec.resources.on_nodes
        for ask in app.asks.values():
            if ask.replacement is not None and not ask.replacement.same_node:
                used[ask.replacement.node] = used.get(ask.replacement.node, NOTHING) + ask.spec.resources.on_nodes
    for node in used:
        if node not in partition.nodes:
            yield f"node {node} does not exist and still has allocations"
    for node in partition.nodes:
        yield from _compared(f"node {node}: allocated", partition.nodes.allocated(node), used.get(node, NOTHING))


def _indices(partition: Partition) -> Iterator[str]:
    for app in partition.applications.values():
        if bool(app.waiting) != (app.id in app.queue.waiting):
            yield f"application {app.id}: the queue's index of pending applications is wrong"
        if any(app.id not in app.queue.classes.get(kind, {}) for kind in app.waiting):
            yield f"application {app.id}: a class is missing in the queue's index of waiting classes"
        for allocation in app.allocations.values():
            if partition.placed.get(allocation.node, {}).get((app.id, allocation.id)) is not allocation:
                yield f"allocation {allocation.id} is missing in the index of node {allocation.node}"
    yield from _indices_by_node(partition)
    yield from _pods_on_nodes(partition)
    for path, queue in partition.queues.by_path.items():
        if bool(queue.waiting) != (path in partition.waiting):
            yield f"queue {path}: the partition's index of pending applications is wrong"
        if sum(map(len, queue.classes.values())) != sum(
            len(partition.applications[name].waiting) for name in queue.waiting
        ):
            yield f"queue {path}: its index of classes that wait has more than wait"
    node_set = partition.contention.node_set
    owner = () if node_set is None else (node_set.application,)
    for name in (*partition.contention.holding, *partition.contention.open, *owner):
        if name not in partition.applications or not partition.applications[name].is_reserving:
            yield f"gang {name} contends for resources and does not exist or is complete"
    lost = {(app.id, winner) for app in partition.applications.values() for winner in app.gang.lost_to}
    losers = ((name, gang) for gang, found in partition.contention.open.items() for name in found.losers)
    if lost != {(name, gang) for name, gang in losers if name in partition.applications}:
        yield f"gangs that wait for a takeover are recorded as {lost}"


def _indices_by_node(partition: Partition) -> Iterator[str]:
    targets = {
        (ask.replacement.node, app.id, ask.spec.key)
        for app in partition.applications.values()
        for ask in app.asks.values()
        if ask.replacement is not None and not ask.replacement.same_node
    }
    if targets != {(node, *key) for node, keys in partition.targets.items() for key in keys}:
        yield "the index of swaps' targets is wrong"
    foreign = {(spec.node, identity) for identity, spec in partition.foreign.items()}
    if foreign != {(node, one) for node in partition.nodes for one in partition.nodes.record(node).foreign_pods}:
        yield "the index by node of foreign allocations is wrong"
    for node in partition.nodes:
        released = partition.nodes.record(node).released_at_once
        if not released.requests.keys() <= partition.placed.get(node, {}).keys():
            yield f"node {node}: a placeholder that was released at once is gone"
        counted = sum((*released.requests.values(), *(amount for _, amount in released.ending)), NOTHING)
        yield from _compared(f"node {node}: what is released at once", released.total, counted)
    placed = sum(len(on_node) for on_node in partition.placed.values())
    if placed != sum(len(app.allocations) for app in partition.applications.values()):
        yield "the index by node has allocations that no application has"


def _pods_on_nodes(partition: Partition) -> Iterator[str]:
    """Checks that each allocation counts on its node, and each replacing request on its target node."""
    nodes, pods_on_nodes = partition.nodes, partition.nodes.pods_on_nodes
    tags: dict[Tags, Counter[int]] = {}
    facts: dict[PodProperties, Counter[int]] = {}
    for node, spec in _specs_by_node(partition):
        row = nodes.rows.row(node)
        tags.setdefault(pods_on_nodes.tags.project(spec.tags), Counter())[row] += 1
        if spec.facts.concerns_others:
            facts.setdefault(spec.facts, Counter())[row] += 1
    if pods_on_nodes.tags.is_on:
        yield from _compared("allocations by their tags", pods_on_nodes.tags.counts(), tags)
    yield from _compared("allocations by their properties", pods_on_nodes.facts(), facts)
    volumes = ((row, one.volumes) for one, rows in facts.items() for row in rows.elements())
    yield from check_storage(partition, volumes)
    claims = (one.devices for one, rows in facts.items() for _ in rows.elements())
    yield from device_invariants.broken(pods_on_nodes.devices, claims)


def _specs_by_node(partition: Partition) -> Iterator[tuple[NodeId, AskSpec | AllocationSpec]]:
    for app in partition.applications.values():
        for allocation in app.allocations.values():
            if allocation.replaced_by is None:
                yield allocation.node, allocation.spec
        for ask in app.asks.values():
            if ask.replacement is not None:
                yield ask.replacement.node, ask.spec
    for spec in partition.foreign.values():
        yield spec.node, spec


def _compared(what: str, kept: object, counted: object) -> Iterator[str]:
    if kept != counted:
        yield f"{what} is recorded as {kept}, counted as {counted}"


def _negative(what: str, amounts: Resources) -> Iterator[str]:
    for name, amount in amounts.items():
        if amount < 0:
            yield f"{what} is negative: {name}={amount}"
