"""Whom a preemption may take, and in which order: laws 3, 5 and 6 of contract 10.1.

In order: those that did not opt out, then those that did; no originator before
the others; then the lower priority; then whoever breaks no gang; then the
smaller, then the younger. Opted-out ones and originators are last, not safe.

A member *breaks* its gang if the gang has no more than its task group's
minimum left. Members beyond that minimum, and members of a gang that lost one
already, break nothing. Of gangs that would have to be broken the smallest goes
first and as a whole: its loss is complete before another's begins.

Differs: victims go by priority, gang and size too; YuniKorn orders them by opt-out, originator and age alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from muster_core.model.ids import ApplicationId, QueuePath, TaskGroup
from muster_core.model.policies import PreemptionPolicy
from muster_core.model.resources import Resources
from muster_core.plan.preemption.rights import leaves_below, remaining
from muster_core.world.applications import Allocation, Application
from muster_core.world.preemptions import PlaceId
from muster_core.world.priorities import risen
from muster_core.world.queues import Queue
from muster_core.world.world import Partition

#: Allocations that one attempt looks at, and at least of each leaf.
_MOST: Final = 2000
_LEAST_OF_A_LEAF: Final = 50
#: How a candidate stands to its gang.
_FREE, _LOST, _WHOLE = 0, 1, 2

_Key = tuple[bool, bool, int, int, int, int, int, float, int, int, int]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One allocation that may go; the lowest `key` first. `cost`: its largest share of the cluster."""

    app: Application
    allocation: Allocation
    key: _Key
    cost: float

    @property
    def id(self) -> PlaceId:
        """Which it is, in its partition."""
        return self.app.id, self.allocation.id

    @property
    def resources(self) -> Resources:
        """What it frees."""
        return self.allocation.spec.resources

    @property
    def is_precious(self) -> bool:
        """Whether it opted out or is its application's first pod."""
        return self.key[0] or self.key[1]

    @property
    def priority(self) -> int:
        """As its queue and the ask's have it in common."""
        return self.key[2]

    @property
    def breaks_gang(self) -> bool:
        """Whether a gang that is whole would lose a member."""
        return self.key[4] == _WHOLE


def victim_leaves(root: Queue, amount: Resources, but: Iterable[QueuePath]) -> list[Queue]:
    """Leaves inside the fence that use more than their guarantee of something that is asked for (law 5)."""
    spared = frozenset(but)
    return [
        leaf
        for leaf in leaves_below(root)
        if leaf.applications
        and leaf.path not in spared
        and leaf.policies.preemption is not PreemptionPolicy.DISABLED
        and any(remaining(leaf)[name] > leaf.guaranteed[name] for name in amount)
    ]


def gather(partition: Partition, leaves: list[Queue], leaf: Queue, priority: int, amount: Resources) -> list[Candidate]:
    """Candidates of these leaves for an ask of `leaf`, the first to go first; of many, the youngest of each leaf."""
    bound = max(_MOST // max(len(leaves), 1), _LEAST_OF_A_LEAF)
    found: list[Candidate] = []
    for other in leaves:
        ours, theirs = sides(leaf, other)
        most = lifted(priority, ours)
        eligible = (
            (app, one)
            for app, one in _youngest_first(partition, other)
            if is_eligible(one, amount) and lifted(one.spec.priority, theirs) <= most
        )
        found += rank(partition, islice(eligible, bound), theirs)
    return sorted(found, key=lambda candidate: candidate.key)


def lifted(priority: int, queues: Iterable[Queue]) -> int:
    """A priority once it came up through these queues, the lowest first (contract 10.4)."""
    for queue in queues:
        priority = risen(queue, priority)
    return priority


def is_eligible(allocation: Allocation, amount: Resources) -> bool:
    """Not told to go yet, not bound to its node as a DaemonSet's pod, and of use."""
    spec = allocation.spec
    return allocation.releasing is None and not spec.required_node and any(spec.resources[name] for name in amount)


def sides(leaf: Queue, other: Queue) -> tuple[list[Queue], list[Queue]]:
    """The paths of two leaves, up to below the queue that they have in common."""
    above = {queue.path for queue in other.path_up()}
    ours = [queue for queue in leaf.path_up() if queue.path not in above]
    above = {queue.path for queue in leaf.path_up()}
    return ours, [queue for queue in other.path_up() if queue.path not in above]


def rank(
    partition: Partition, of: Iterable[tuple[Application, Allocation]], path: Iterable[Queue] = ()
) -> list[Candidate]:
    """Give each its place in the order; they come youngest first. `path`: through which its priority is seen."""
    queues = tuple(path)
    census: dict[ApplicationId, _Census] = {}
    cluster = partition.nodes.capacity_total
    found: list[Candidate] = []
    for index, (app, allocation) in enumerate(of):
        spec = allocation.spec
        tier, size, number = _FREE, 0, 0
        if app.spec.is_gang:
            if app.id not in census:
                census[app.id] = _Census(app)
            tier = census[app.id].tier(spec.group)
            size, number = (census[app.id].size, -app.sequence) if tier == _WHOLE else (0, 0)
        cost = max((amount / max(cluster[name], 1) for name, amount in spec.resources.items()), default=0.0)
        seen = lifted(spec.priority, queues)
        since, last = -allocation.allocated_ns, -app.sequence
        key = (
            *(not spec.allow_preempt_self, spec.originator, seen, spec.priority),
            *(tier, size, number, cost, since, last, index),
        )
        found.append(Candidate(app, allocation, key, cost))
    return found


class _Census:
    """How many members a gang has left, and how many of each task group it can spare."""

    __slots__ = ("_is_broken", "_spare", "size")

    def __init__(self, app: Application) -> None:
        left = Counter(one.spec.group for one in app.allocations.values() if one.releasing is None)
        least = {member.group: member.count for member in app.spec.members} or {
            group: count.count for group, count in app.gang.groups.items()
        }
        self.size = sum(left.values())
        self._is_broken = any(left[group] < count for group, count in least.items())
        self._spare = {group: left[group] - least.get(group, 0) for group in left}

    def tier(self, group: TaskGroup) -> int:
        """How the next candidate of this group stands to its gang; the first ones are those it can spare."""
        if self._spare.get(group, 0) > 0:
            self._spare[group] -= 1
            return _FREE
        return _LOST if self._is_broken else _WHOLE


def _youngest_first(partition: Partition, leaf: Queue) -> Iterator[tuple[Application, Allocation]]:
    for name in reversed(leaf.applications):
        app = partition.applications[name]
        for allocation in reversed(app.allocations.values()):
            yield app, allocation
