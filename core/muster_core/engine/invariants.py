"""What is true of a world between any two events; a broken sentence is a bug of the core.

Checked after every step in the random tests, and on request at run time. The
sums of application, queue, user and node are counted anew from the
allocations, so this module shares no arithmetic with what it checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from muster_core.engine import gangs, invariants_of_holds, invariants_of_labels, invariants_of_storage
from muster_core.model.facts import PodFacts
from muster_core.model.ids import ApplicationId, NodeId, QueuePath, child_path, queue_name
from muster_core.model.placement import Tags
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import AllocationSpec, AskSpec
from muster_core.model.states import ApplicationState, QueueState
from muster_core.world import priorities
from muster_core.world.applications import Application
from muster_core.world.scheduling_queue import Line
from muster_core.world.users import Account, Holder, HolderKind
from muster_core.world.world import Partition, World

_LIVE = frozenset(ApplicationState) - {
    ApplicationState.COMPLETED,
    ApplicationState.FAILED,
    ApplicationState.REJECTED,
    ApplicationState.EXPIRED,
}


_HOLDING = (ApplicationState.RUNNING, ApplicationState.COMPLETING)


def check(world: World) -> list[str]:
    """Every sentence that does not hold, for people; empty = the world is sound."""
    return [broken for partition in world.partitions.values() for broken in check_partition(partition)]


def check_partition(partition: Partition) -> list[str]:
    """The same for one partition."""
    return [f"{partition.id}: {broken}" for broken in _partition(partition)]


def _partition(partition: Partition) -> Iterator[str]:
    for app in partition.applications.values():
        yield from _application(partition, app)
        yield from _links(app)
        yield from _gang(partition, app)
    yield from _queues(partition)
    yield from _tree(partition)
    yield from _users(partition)
    yield from _scheduling_queue(partition)
    yield from _nodes(partition)
    yield from _indices(partition)
    yield from invariants_of_holds.check(partition)
    yield from invariants_of_labels.check(partition)


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
            yield f"ask {ask.spec.key} wants nothing any more"
    for name, found, kept in (
        ("allocated", real, app.allocated),
        ("placeholders", held, app.gang.allocated),
        ("reserved", live, app.gang.reserved),
        ("pending", pending, app.pending),
    ):
        if Resources(found) != kept:
            yield f"application {app.id}: {name} is kept as {kept}, counted as {Resources(found)}"
    if app.state not in _LIVE:
        yield f"application {app.id} is {app.state} and still there"
    if app.id not in app.queue.applications or partition.queues.get(app.queue.path) is not app.queue:
        yield f"application {app.id} is not in its queue {app.queue.path}"
    counts = (
        sum(not a.spec.placeholder for a in app.allocations.values()) == app.real_allocations
        and sum(not a.spec.placeholder for a in app.asks.values()) == app.real_asks
        and sum(a.spec.placeholder for a in app.asks.values()) == app.placeholder_asks
    )
    if not counts:
        yield f"application {app.id}: its counts of asks and allocations are off"


def _links(app: Application) -> Iterator[str]:
    """Every ask waits in one class or is parked; a swap's two ends name each other."""
    for ask in app.asks.values():
        waits = ask.spec.key in app.waiting.get(ask.kind, {})
        if waits == (ask.swap is not None):
            yield f"ask {ask.spec.key} is {'both' if waits else 'neither'} waiting and parked"
        if ask.swap is not None:
            placeholder = app.allocations.get(ask.swap.placeholder)
            if placeholder is None or placeholder.successor != ask.spec.key or placeholder.releasing is None:
                yield f"ask {ask.spec.key} waits for placeholder {ask.swap.placeholder}, which does not know it"
    for allocation in app.allocations.values():
        successor = app.asks.get(allocation.successor) if allocation.successor else None
        if allocation.successor and (successor is None or successor.swap is None):
            yield f"placeholder {allocation.id} is to be followed by {allocation.successor}, which does not wait"
        if (allocation.id in app.ids.get(allocation.spec.key, ())) is allocation.spec.podless:
            yield f"allocation {allocation.id} is not known by its key"
    if sum(len(keys) for keys in app.waiting.values()) > len(app.asks):
        yield f"application {app.id} has a class for an ask that it does not have"


def _gang(partition: Partition, app: Application) -> Iterator[str]:
    yield from _podless(app)
    yield from _outcome(app)
    if not app.is_reserving:
        if app.gang.pledge:
            yield f"application {app.id} has pledged {app.gang.pledge} without reserving"
        return
    live = [identity for group in app.gang.live.values() for identity in group]
    if app.spec.is_whole and any(identity not in app.gang.recovered for identity in live):
        yield f"gang {app.id} holds a part of its places and wants all or none"
    is_holding = app.id in partition.contention.holding
    if (app.gang.reserved or app.gang.pledge) and not is_holding:
        yield f"gang {app.id} holds reservations and is missing in the contention state"
    if is_holding and not (app.gang.allocated or app.gang.pledge):
        yield f"gang {app.id} holds nothing and is there in the contention state"
    if app.id in partition.contention.open and not app.placeholder_asks:
        yield f"gang {app.id} takes over reservations and has no waiting request"


def _outcome(app: Application) -> Iterator[str]:
    """What a reservation leads to was done: nothing else would do it later."""
    if app.is_reserving and gangs.is_reserved(app):
        yield f"gang {app.id} has all its members and is still reserving"
    if app.gang.over and app.placeholder_asks:
        yield f"gang {app.id} is not reserving and requests placeholders"
    places = [one for one in app.allocations.values() if one.releasing is None and one.id not in app.gang.recovered]
    if app.state is ApplicationState.ACCEPTED and not app.is_reserving and places:
        yield f"application {app.id} has allocations and is {app.state}"


def _podless(app: Application) -> Iterator[str]:
    """Places without pods are a Direct gang's, are there as long as they are wanted, and come all at once."""
    asked = [ask for ask in app.asks.values() if ask.spec.podless]
    held = [one for one in app.allocations.values() if one.spec.podless]
    if not app.spec.is_podless:
        if asked or held:
            yield f"application {app.id} has places without pods"
        return
    if asked and held:
        yield f"gang {app.id} holds a part of its places"
    if bool(asked) != app.is_reserving:
        yield f"gang {app.id} {'asks for places and does not reserve' if asked else 'reserves and asks for no places'}"
    if app.is_reserving and app.state is ApplicationState.RUNNING and not app.gang.clock:
        yield f"gang {app.id} runs and waits for its places for ever"
    if any(one.releasing is not None or one.successor is not None for one in held):
        yield f"gang {app.id}: a place without a pod waits for a word that nobody will say"
    if held and (app.state not in _HOLDING or app.ending):
        yield f"gang {app.id} is {app.state} and holds places"
    counts = Counter(one.spec.group for one in held)
    for ask in asked:
        counts[ask.spec.group] += ask.left
    if any(counts[member.group] > member.count for member in app.spec.members):
        yield f"gang {app.id} wants or holds more places than it has members"


def _queues(partition: Partition) -> Iterator[str]:
    allocated: dict[QueuePath, Resources] = {}
    pending: dict[QueuePath, Resources] = {}
    pledged: dict[QueuePath, Resources] = {}
    awaited: dict[QueuePath, Resources] = {}
    for app in partition.applications.values():
        used = sum((a.spec.resources for a in app.allocations.values()), NOTHING)
        asked = sum((a.spec.resources.times(a.left) for a in app.asks.values()), NOTHING)
        for queue in app.queue.path_up():
            allocated[queue.path] = allocated.get(queue.path, NOTHING) + used
            pending[queue.path] = pending.get(queue.path, NOTHING) + asked
            promised = pledged if app.gang.backed else awaited
            promised[queue.path] = promised.get(queue.path, NOTHING) + app.gang.pledge
    for path, queue in partition.queues.by_path.items():
        for name, kept, counted in (
            ("allocated", queue.allocated, allocated.get(path, NOTHING)),
            ("pending", queue.pending, pending.get(path, NOTHING)),
            ("pledged", queue.pledged, pledged.get(path, NOTHING)),
            ("awaited", queue.awaited, awaited.get(path, NOTHING)),
        ):
            if kept != counted:
                yield f"queue {path}: {name} is kept as {kept}, counted as {counted}"
            yield from _negative(f"queue {path}: {name}", kept)
        over = queue.max.excess(queue.allocated)
        if over != queue.tolerated:
            yield f"queue {path} has {over} allocated over its maximum {queue.max}, tolerated are {queue.tolerated}"


def _tree(partition: Partition) -> Iterator[str]:
    """Leaves run applications, parents have queues; what is to go when it is empty is not empty."""
    for path, queue in partition.queues.by_path.items():
        below = {child_path(path, name): child for name, child in queue.children.items()}
        if any(partition.queues.get(name) is not child or child.parent is not queue for name, child in below.items()):
            yield f"queue {path} has a queue below it that the index does not know"
        if queue.children if queue.is_leaf else queue.applications:
            yield f"queue {path} is a {'leaf with queues below it' if queue.is_leaf else 'parent with applications'}"
        if queue.parent is not None and queue.is_empty and (queue.draining or not queue.managed or queue.wanted):
            yield f"queue {path} is empty and waits for that"
        if (queue.state is QueueState.STOPPED) != (queue.wanted is not None and queue.is_leaf):
            yield f"queue {path} is {queue.state}, and is to become {queue.wanted and queue.wanted.name}"
        if queue.parent is not None and queue.parent.children.get(queue_name(path)) is not queue:
            yield f"queue {path} is not below the one above it"


def _users(partition: Partition) -> Iterator[str]:
    counted: dict[Holder, Account] = {}
    for app in partition.applications.values():
        for holder in _holders(app):
            account = counted.setdefault(holder, Account())
            account.allocated += sum((a.spec.resources for a in app.allocations.values()), NOTHING)
            if app.gang.backed:
                account.pledged += app.gang.pledge
            else:
                account.awaited += app.gang.pledge
            account.running += app.counted
    books = ((HolderKind.USER, partition.users.users), (HolderKind.GROUP, partition.users.groups))
    kept = {
        Holder(kind, name, path): account
        for kind, book in books
        for name, accounts in book.items()
        for path, account in accounts.items()
    }
    for holder in sorted(counted.keys() | kept.keys()):
        one, other = kept.get(holder, Account()), counted.get(holder, Account())
        for name in ("allocated", "pledged", "awaited", "running"):
            if getattr(one, name) != getattr(other, name):
                yield f"{holder}: {name} is kept as {getattr(one, name)}, counted as {getattr(other, name)}"
        if holder in kept and one.is_idle:
            yield f"{holder} has an account that says nothing"


def _holders(app: Application) -> Iterator[Holder]:
    for queue in app.queue.path_up():
        yield Holder(HolderKind.USER, app.spec.user, queue.path)
        if app.group:
            yield Holder(HolderKind.GROUP, app.group, queue.path)


def _scheduling_queue(partition: Partition) -> Iterator[str]:
    """An application that waits is active, unschedulable for a reason, backing off, or waits for an answer."""
    for app in partition.applications.values():
        yield from _listed(partition, app)
    yield from _shown(partition)
    yield from _lines(partition)


def _listed(partition: Partition, app: Application) -> Iterator[str]:
    scheduling, standing = partition.scheduling, partition.obstacles.standing.get(app.id, {})
    is_parked = partition.inquiries.is_parked(partition.id, app.id)
    is_active = scheduling.is_due or app.id in scheduling.requeued
    is_listed = is_active or bool(standing) or app.asleep_until_ns or is_parked or app.withheld
    if app.waiting and not is_listed and not app.is_reserving:
        yield f"application {app.id} waits and nobody will ask for it"
    is_active = scheduling.active.has(app)
    if not app.waiting and (is_active or standing):
        yield f"application {app.id} waits for nothing and is in the scheduling queue"
    if is_active != (app.id in scheduling.requeued or any(app.id in line.heads for line in standing.values())):
        yield f"application {app.id} is {'active' if is_active else 'not active'} without a reason"
    if app.shown != max((kind.priority for kind in app.waiting), default=None):
        yield f"application {app.id} shows priority {app.shown}"
    if any(not line.has(app) for line in standing.values()):
        yield f"application {app.id} stands in a line that does not know it"
    if app.blocks != (app.id in app.queue.blockers):
        yield f"application {app.id}: its leaf's list of gangs that block is wrong"


def _shown(partition: Partition) -> Iterator[str]:
    counted = Counter(
        queue.path for app in partition.applications.values() if app.counted for queue in app.queue.path_up()
    )
    for queue in partition.queues.by_path.values():
        below = [app.shown for name in queue.applications if (app := partition.applications[name]).shown is not None]
        below += [child.shown for child in queue.children.values() if child.shown is not None]
        if queue.priorities.top != max(below, default=None) or queue.shown != priorities.shown_by(queue):
            yield f"queue {queue.path} shows priority {queue.shown}"
        if counted[queue.path] != queue.running:
            yield f"queue {queue.path} counts {queue.running} running applications, there are {counted[queue.path]}"
    for path in partition.waiting:
        if path not in partition.queues.by_path:
            yield f"queue {path} has applications that wait and is gone"


def _lines(partition: Partition) -> Iterator[str]:
    """What each line has in order is exactly what stands in it, from the leaves up to the root."""
    scheduling = partition.scheduling
    standing = partition.obstacles.standing
    found: dict[Line, set[ApplicationId]] = {}
    for name, lines in standing.items():
        for line in lines.values():
            found.setdefault(line, set()).add(name)
    active = {name for line, names in found.items() for name in line.heads if name in names}
    found[scheduling.active] = active | set(scheduling.requeued)
    for line, names in found.items():
        apps = [partition.applications[name] for name in names]
        wanted: dict[QueuePath, set[str]] = {}
        for app in apps:
            wanted.setdefault(app.queue.path, set()).add(app.id)
            for queue in app.queue.path_up():
                if queue.parent is not None:
                    wanted.setdefault(queue.parent.path, set()).add(queue.path)
        if {path: set(order) for path, order in line.orders.items()} != wanted:
            yield f"a line of the scheduling queue has {line.orders.keys()}, wanted {wanted}"
        if line.is_open and not line.heads and not scheduling.is_headless(line):
            yield "a line is open and none of its applications is active"
        if line.heads and not line.is_open:
            yield "a line is closed and some of its applications are active"
    if set(partition.obstacles.lines.values()) != found.keys() - {scheduling.active}:
        yield "the scheduling queue has a line in which no application stands"


def _nodes(partition: Partition) -> Iterator[str]:
    used: dict[NodeId, Resources] = {}
    for app in partition.applications.values():
        for allocation in app.allocations.values():
            used[allocation.node] = used.get(allocation.node, NOTHING) + allocation.spec.resources
        for ask in app.asks.values():
            if ask.swap is not None and not ask.swap.same_node:
                used[ask.swap.node] = used.get(ask.swap.node, NOTHING) + ask.spec.resources
    for node in used:
        if node not in partition.nodes:
            yield f"node {node} is gone and still has allocations"
    for node in partition.nodes:
        kept = partition.nodes.allocated(node)
        if kept != used.get(node, NOTHING):
            yield f"node {node}: allocated is kept as {kept}, counted as {used.get(node, NOTHING)}"


def _indices(partition: Partition) -> Iterator[str]:
    for app in partition.applications.values():
        if bool(app.waiting) != (app.id in app.queue.waiting):
            yield f"application {app.id}: the queue's index of who waits is wrong"
        if any(app.id not in app.queue.classes.get(kind, {}) for kind in app.waiting):
            yield f"application {app.id}: the queue's index of classes that wait lacks one"
        for allocation in app.allocations.values():
            if partition.placed.get(allocation.node, {}).get((app.id, allocation.id)) is not allocation:
                yield f"allocation {allocation.id} is missing in the index of node {allocation.node}"
    yield from _indices_by_node(partition)
    yield from _occupants(partition)
    for path, queue in partition.queues.by_path.items():
        if bool(queue.waiting) != (path in partition.waiting):
            yield f"queue {path}: the partition's index of who waits is wrong"
        if sum(map(len, queue.classes.values())) != sum(
            len(partition.applications[name].waiting) for name in queue.waiting
        ):
            yield f"queue {path}: its index of classes that wait has more than wait"
    for name in (*partition.contention.holding, *partition.contention.open):
        if name not in partition.applications or not partition.applications[name].is_reserving:
            yield f"gang {name} contends for resources and is gone or complete"
    lost = {(app.id, winner) for app in partition.applications.values() for winner in app.gang.lost_to}
    losers = ((name, gang) for gang, found in partition.contention.open.items() for name in found.losers)
    if lost != {(name, gang) for name, gang in losers if name in partition.applications}:
        yield f"gangs that wait for a take-over are kept as {lost}"


def _indices_by_node(partition: Partition) -> Iterator[str]:
    targets = {
        (ask.swap.node, app.id, ask.spec.key)
        for app in partition.applications.values()
        for ask in app.asks.values()
        if ask.swap is not None and not ask.swap.same_node
    }
    if targets != {(node, *key) for node, keys in partition.targets.items() for key in keys}:
        yield "the index of swaps' targets is wrong"
    foreign = {(spec.node, identity) for identity, spec in partition.foreign.items()}
    if foreign != {(node, one) for node in partition.nodes for one in partition.nodes.record(node).foreigners}:
        yield "the index by node of foreign allocations is wrong"
    placed = sum(len(on_node) for on_node in partition.placed.values())
    if placed != sum(len(app.allocations) for app in partition.applications.values()):
        yield "the index by node has allocations that no application has"


def _occupants(partition: Partition) -> Iterator[str]:
    """Every allocation counts where it is, every ask that takes over where it goes."""
    nodes, occupants = partition.nodes, partition.nodes.occupants
    tags: dict[Tags, Counter[int]] = {}
    facts: dict[PodFacts, Counter[int]] = {}
    for node, spec in _there(partition):
        row = nodes.rows.row(node)
        tags.setdefault(occupants.tags.project(spec.tags), Counter())[row] += 1
        if spec.facts.concerns_others:
            facts.setdefault(spec.facts, Counter())[row] += 1
    if occupants.tags.is_on and tags != occupants.tags.counts():
        yield f"allocations' tags are kept as {occupants.tags.counts()}, counted as {tags}"
    if facts != occupants.facts():
        yield f"allocations' facts are kept as {occupants.facts()}, counted as {facts}"
    volumes = ((row, one.volumes) for one, rows in facts.items() for row in rows.elements())
    yield from invariants_of_storage.check(partition, volumes)


def _there(partition: Partition) -> Iterator[tuple[NodeId, AskSpec | AllocationSpec]]:
    for app in partition.applications.values():
        for allocation in app.allocations.values():
            if allocation.successor is None:
                yield allocation.node, allocation.spec
        for ask in app.asks.values():
            if ask.swap is not None:
                yield ask.swap.node, ask.spec
    for spec in partition.foreign.values():
        yield spec.node, spec


def _negative(what: str, amounts: Resources) -> Iterator[str]:
    for name, amount in amounts.items():
        if amount < 0:
            yield f"{what} is negative: {name}={amount}"
