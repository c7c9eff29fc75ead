"""Candidates for preemption, and filters that preemption can resolve.

Pods that were preempted before the core restarted come first, so that no others are preempted instead. Pods that
opted out come after those that did not, and originators last. Then the order is: lower priority, members whose gang
stays complete without them, smaller pods, younger pods. For filters that depend on pods on the node, all candidates are
removed and added back one by one while the pod still fits.

Differs: victims are also ordered by earlier preemption, priority, gang and size; YuniKorn orders them by opt-out,
originator and age only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from muster_core.model.config import PreemptionPolicy
from muster_core.model.constraints import DEFAULT_GRACE_PERIOD_S, DELETION_TIME, GRACE_PERIOD
from muster_core.model.ids import ApplicationId, NodeId, QueuePath, TaskGroup, value
from muster_core.model.limits import LONGEST_GRACE_NS
from muster_core.model.resources import NOTHING, Resources
from muster_core.placement import node_search
from muster_core.preemption.guarantees import GuaranteeBalance, remaining
from muster_core.state.applications import Allocation, Application, Ask
from muster_core.state.ordering import risen
from muster_core.state.queues import Queue
from muster_core.state.request_classes import pod_on_node_of
from muster_core.state.reservations import PlaceId
from muster_core.state.scheduler_state import Partition
from muster_core.state.snapshot import RequestShape, Snapshot

_SECOND: Final = 1_000_000_000

#: Digits of a number of seconds. 2^63 has 19.
_SECOND_DIGITS: Final = 20

#: What the gang of a candidate loses: a member it can spare, a member of an incomplete gang, or its completeness.
_FREE, _LOST, _WHOLE = 0, 1, 2

#: Beginning of the order of victims: not preempted before, opted out, originator, priority as the common queue sees it,
#: own priority, and newest first.
Rank = tuple[bool, bool, bool, int, int, int, int]


@value
class Eligible:
    """An allocation that may be preempted, before gangs and sizes are compared."""

    rank: Rank
    app: Application
    allocation: Allocation


_Key = tuple[bool, bool, bool, int, int, int, int, int, float, bool, int, int]


@value
class Candidate:
    """An allocation that may be preempted. The lowest `key` is preempted first. `cost`: its largest share of the
    cluster.
    """

    app: Application
    allocation: Allocation
    key: _Key
    cost: float

    @property
    def id(self) -> PlaceId:
        """Identifies it in its partition."""
        return self.app.id, self.allocation.id

    @property
    def resources(self) -> Resources:
        """Resources that its preemption frees."""
        return self.allocation.spec.resources

    @property
    def is_earlier_victim(self) -> bool:
        """Whether its pod was preempted before the core restarted."""
        return not self.key[0]

    @property
    def is_protected(self) -> bool:
        """Whether it opted out of preemption or is the originator of its application."""
        return self.key[1] or self.key[2]

    @property
    def priority(self) -> int:
        """Priority as the nearest common queue of victim and request sees it."""
        return self.key[3]

    @property
    def breaks_gang(self) -> bool:
        """Whether a complete gang would lose a required member."""
        return self.key[5] == _WHOLE


def is_victim_leaf(leaf: Queue, amount: Resources) -> bool:
    """Whether the leaf allows preemption and uses more than its guarantee of a requested resource.

    Law 5 of YuniKorn's preemption design: no task is preempted unless its queue is over its guaranteed capacity.
    """
    if not leaf.applications or leaf.policies.preemption is PreemptionPolicy.DISABLED:
        return False
    left = remaining(leaf)
    return any(left[name] > leaf.guaranteed[name] for name in amount)


class CandidatePool:
    """Candidates below the queue `root` for requests of `leaf`, except in the leaves `excluded`.

    A leaf is evaluated when the first of its allocations is met, so the cost does not grow with the number of leaves.
    """

    def __init__(
        self,
        partition: Partition,
        root: Queue,
        leaf: Queue,
        *,
        priority: int,
        amount: Resources,
        excluded: Iterable[QueuePath] = (),
    ) -> None:
        self._partition = partition
        self._root = root
        self._leaf = leaf
        self._excluded = frozenset((leaf.path, *excluded))
        self._priority = priority
        self._amount = amount
        #: Per leaf and priority: the priority as the nearest common queue sees it; None = it may not be preempted.
        self._known: dict[tuple[Queue, int], int | None] = {}
        self._ranking = Ranking(partition)

    def on(self, node: NodeId) -> list[Candidate]:
        """Returns all candidates on a node, in the order of preemption."""
        return sorted((self.candidate(one) for one in self.eligible_on(node)), key=_key)

    def eligible_on(self, node: NodeId) -> Iterator[Eligible]:
        """Yields what may be preempted on a node, the newest first. Much cheaper than ranking it."""
        apps = self._partition.applications
        for one in reversed(self._partition.placed.get(node, {}).values()):
            app = apps[one.spec.application]
            seen = self._seen(app, one)
            if seen is not None:
                yield Eligible(self._ranking.rank(app, one, seen), app, one)

    def candidate(self, eligible: Eligible) -> Candidate:
        """Returns the candidate with its complete ordering key."""
        return self._ranking.candidate(eligible.app, eligible.allocation, eligible.rank[3])

    def has(self, app: Application, one: Allocation) -> bool:
        """Whether the allocation may be preempted."""
        return self._seen(app, one) is not None

    def _seen(self, app: Application, one: Allocation) -> int | None:
        """Returns the priority as the nearest common queue sees it; None = the allocation may not be preempted."""
        name = app.queue, one.spec.priority
        seen = self._known[name] if name in self._known else self._examine(*name)
        return seen if seen is not None and is_eligible(one, self._amount) else None

    def _examine(self, leaf: Queue, priority: int) -> int | None:
        seen = None
        if leaf.path not in self._excluded and self._root in leaf.path_up and is_victim_leaf(leaf, self._amount):
            ours, theirs = sides(self._leaf, leaf)
            lifted_priority = lifted(priority, theirs)
            if lifted_priority <= lifted(self._priority, ours):
                seen = lifted_priority
        self._known[leaf, priority] = seen
        return seen


class NodePool(CandidatePool):
    """Candidates on the required node of a DaemonSet pod, in all applications but its own.

    As for other requests, except that its own queue may lose pods. Pods that opted out are no candidates. With
    `preemption.daemonsets` on its queue, every pod without a higher priority is one.
    """

    def __init__(self, partition: Partition, app: Application, ask: Ask) -> None:
        root = next(queue for queue in app.queue.path_up if queue.parent is None or _is_fence(queue))
        amount, path = ask.spec.resources, frozenset(queue.path for queue in app.queue.path_up)
        super().__init__(partition, root, app.queue, priority=ask.spec.priority, amount=amount)
        self._excluded = frozenset()
        self._app, self._is_unlimited = app, app.queue.policies.daemonsets_preempt_all
        self.balance = GuaranteeBalance(partition.queues.root, amount, path, is_ignored=self._is_unlimited)

    def _seen(self, app: Application, one: Allocation) -> int | None:
        if app is self._app:
            return None
        if not self._is_unlimited:
            return super()._seen(app, one) if one.spec.allow_preempt_self else None
        may = one.spec.priority <= self._priority and is_eligible(one, self._amount)
        return one.spec.priority if may else None


def _is_fence(queue: Queue) -> bool:
    return queue.policies.preemption is PreemptionPolicy.FENCE


def lifted(priority: int, queues: Iterable[Queue]) -> int:
    """Returns a priority after the offsets and fences of these queues, the lowest queue first."""
    for queue in queues:
        priority = risen(queue, priority)
    return priority


def is_eligible(allocation: Allocation, amount: Resources) -> bool:
    """Whether the allocation is not being released, is not bound to a required node, and has a requested resource."""
    if allocation.releasing is not None or allocation.spec.required_node:
        return False
    return any(map(allocation.spec.resources.__getitem__, amount))


def sides(leaf: Queue, other: Queue) -> tuple[list[Queue], list[Queue]]:
    """Returns the paths of two leaves, each up to below their nearest common queue."""
    above = {queue.path for queue in other.path_up}
    ours = [queue for queue in leaf.path_up if queue.path not in above]
    above = {queue.path for queue in leaf.path_up}
    return ours, [queue for queue in other.path_up if queue.path not in above]


class Ranking:
    """Creates candidates with their ordering keys. Of equal allocations, the newest is preempted first."""

    def __init__(self, partition: Partition) -> None:
        self._cluster = partition.nodes.capacity_total
        self._earlier = partition.preemptions.earlier_victims
        self._census: dict[ApplicationId, _Census] = {}
        self._costs: dict[Resources, float] = {}
        self._known: dict[PlaceId, Candidate] = {}

    def rank(self, app: Application, allocation: Allocation, seen: int) -> Rank:
        """Returns the beginning of the ordering key, which costs little. `seen` as for `candidate`."""
        spec, is_new = allocation.spec, (app.id, allocation.id) not in self._earlier
        age = -allocation.allocated_ns, -allocation.sequence
        return is_new, not spec.allow_preempt_self, spec.originator, seen, spec.priority, *age

    def candidate(self, app: Application, allocation: Allocation, seen: int) -> Candidate:
        """Returns the candidate. `seen`: its priority as the common queue sees it."""
        known = self._known.get((app.id, allocation.id))
        if known is not None:
            return known
        spec = allocation.spec
        tier, size, number = self._gang(app, spec.group) if app.spec.is_gang else (_FREE, 0, 0)
        cost = self._cost(spec.resources)
        rank = self.rank(app, allocation, seen)
        key = (*rank[:5], tier, size, number, cost, not spec.is_virtual, *rank[5:])
        made = self._known[app.id, allocation.id] = Candidate(app, allocation, key, cost)
        return made

    def _gang(self, app: Application, group: TaskGroup) -> tuple[int, int, int]:
        census = self._census.get(app.id)
        if census is None:
            census = self._census[app.id] = _Census(app)
        tier = census.tier(group)
        return (tier, census.size, -app.sequence) if tier == _WHOLE else (tier, 0, 0)

    def _cost(self, amount: Resources) -> float:
        cost = self._costs.get(amount)
        if cost is None:
            shares = (part / max(self._cluster[name], 1) for name, part in amount.on_nodes.items())
            cost = self._costs[amount] = max(shares, default=0.0)
        return cost


class _Census:
    """Number of members that a gang has, and how many of each task group it can spare."""

    def __init__(self, app: Application) -> None:
        left = Counter(one.spec.group for one in app.allocations.values() if one.releasing is None)
        least = {member.group: member.count for member in app.spec.members} or {
            group: count.count - count.timed_out for group, count in app.gang.groups.items()
        }
        self.size = sum(left.values())
        self._is_broken = any(left[group] < count for group, count in least.items())
        self._spare = {group: left[group] - least.get(group, 0) for group in left}

    def tier(self, group: TaskGroup) -> int:
        """Returns what the gang loses with the next candidate of the group. Spare members are counted first."""
        if self._spare.get(group, 0) > 0:
            self._spare[group] -= 1
            return _FREE
        return _LOST if self._is_broken else _WHOLE


def _key(candidate: Candidate) -> _Key:
    return candidate.key


def in_the_way(
    snapshot: Snapshot, shape: RequestShape, node: NodeId, leaving: list[Candidate]
) -> list[Candidate] | None:
    """Returns the candidates on the node that must be removed for the filters to allow the shape, ignoring resources.

    The result is empty if the filters already allow it, and None if removing all candidates does not help. The snapshot
    is unchanged afterwards.
    """
    row = snapshot.nodes.rows.row(node)
    if node_search.allowed(snapshot, shape)[row]:
        return []
    for one in leaving:
        move(snapshot, one, -1)
    away = list(leaving)
    helps = bool(node_search.allowed(snapshot, shape)[row])
    for one in reversed(leaving):
        move(snapshot, one, 1)
        away.remove(one)
        if helps and not node_search.allowed(snapshot, shape)[row]:
            move(snapshot, one, -1)
            away.insert(0, one)
    for one in away:
        move(snapshot, one, 1)
    return away if helps else None


def permitted_by_guarantees(candidates: list[Candidate], balance: GuaranteeBalance) -> list[Candidate]:
    """Returns the candidates that guarantees allow to preempt together, in their order."""
    found: list[Candidate] = []
    for one in candidates:
        if balance.may_release(one.app.queue, one.resources):
            balance.lose(one.app.queue, one.resources)
            found.append(one)
    for one in found:
        balance.lose(one.app.queue, one.resources, -1)
    return found


def may_run_without(snapshot: Snapshot, shape: RequestShape, node: NodeId, victims: list[Candidate]) -> bool:
    """Whether the filters allow the shape on the node without the victims. The shape may need one of them by pod
    affinity.
    """
    for one in victims:
        move(snapshot, one, -1)
    may = bool(node_search.allowed(snapshot, shape)[snapshot.nodes.rows.row(node)])
    for one in victims:
        move(snapshot, one, 1)
    return may


def releasing_on(partition: Partition, node: NodeId, now_ns: int) -> Resources:
    """Returns the resources that running releases will free on a node.

    Releases of replaced placeholders do not count. Overdue releases do not count either, because they may never end.
    """
    there = partition.placed.get(node, {}).values()
    leaving = (one for one in there if one.releasing is not None and one.replaced_by is None)
    return sum((one.spec.resources for one in leaving if due_ns(partition, one) > now_ns), NOTHING)


def due_ns(partition: Partition, released: Allocation) -> int:
    """Returns when an allocation that is being released is overdue: its grace period plus the release timeout is over.

    Once its pod is deleted, the deletion time of the pod counts instead of the grace period.
    """
    tags = released.spec.tags
    deleted_s = _seconds(tags.get(DELETION_TIME))
    if deleted_s is None:
        grace_s = _seconds(tags.get(GRACE_PERIOD))
        grace_ns = (DEFAULT_GRACE_PERIOD_S if grace_s is None else grace_s) * _SECOND
    else:
        grace_ns = max(deleted_s * _SECOND - released.released_ns, 0)
    return released.released_ns + min(grace_ns, LONGEST_GRACE_NS) + partition.timing.release_timeout_ns


def _seconds(text: str | None) -> int | None:
    """Returns a number of seconds; None = there is none, or it has no meaning."""
    return int(text) if text and len(text) <= _SECOND_DIGITS and text.isascii() and text.isdigit() else None


def move(snapshot: Snapshot, candidate: Candidate, count: int) -> None:
    """Removes the candidate from the snapshot as filters see it (-1), or adds it back (1)."""
    spec, nodes = candidate.allocation.spec, snapshot.nodes
    tags = nodes.pods_on_nodes.tags.project(spec.tags)
    snapshot.enter(nodes.rows.row(candidate.allocation.node), pod_on_node_of(spec.facts, tags), count)
    if spec.facts.devices:
        snapshot.devices.leave(spec.facts.devices, -count)


def fewest(
    candidates: list[Candidate], lacking: Resources, balance: GuaranteeBalance, *, enough: bool = True
) -> list[Candidate] | None:
    """Returns the first candidates that free the missing resources within all guarantees, without unneeded ones.

    None = they free too little; without `enough` they are returned anyway. `balance` is unchanged afterwards.
    """
    victims: list[Candidate] = []
    rest = lacking
    for candidate in candidates:
        if not rest:
            break
        leaf, amount = candidate.app.queue, candidate.resources
        if any(amount[name] for name in rest) and balance.may_release(leaf, amount):
            balance.lose(leaf, amount)
            victims.append(candidate)
            rest = positive(rest - amount)
    for victim in victims:
        balance.lose(victim.app.queue, victim.resources, -1)
    return None if rest and enough else without_idle(victims, lacking - rest)


def without_idle(victims: list[Candidate], lacking: Resources) -> list[Candidate]:
    """Returns the victims without those that are not needed, the last in order first."""
    freed = sum((victim.resources for victim in victims), NOTHING)
    kept: list[Candidate] = []
    for victim in reversed(victims):
        if (freed - victim.resources).covers(lacking):
            freed -= victim.resources
        else:
            kept.append(victim)
    return kept[::-1]


def positive(amounts: Resources) -> Resources:
    """The amounts above 0."""
    return Resources({name: amount for name, amount in amounts.items() if amount > 0})
