"""Changes that may start a waiting application, as events of the core.

A change is applied as it would reach a running core: a removed application, an added node, a replaced configuration, or
requests without one of their constraints. `unblocking` searches for the smallest set of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeVar, assert_never

from muster_core.foresight.workload import HOST_NAME
from muster_core.model.config import QueueConfig, QuotaLimit
from muster_core.model.constraints import NO_INTER_POD_CONSTRAINTS, Constraints, Taint, Toleration
from muster_core.model.events import (
    ApplicationAdded,
    ApplicationRemoved,
    AskAdded,
    ConfigurationReplaced,
    Event,
    NodeAdded,
)
from muster_core.model.ids import ApplicationId, NodeId, QueuePath, partition_name
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.model.specs import AskSpec, Member, NamespaceQuota, NodeSpec, PodProperties
from muster_core.state.applications import Application
from muster_core.state.scheduler_state import Partition, SchedulerState

#: Node shapes that are tried, most frequent first, and most nodes that are added.
_SHAPES: Final = 4
_MOST_NODES: Final = 256


@dataclass(frozen=True, slots=True)
class EndApplication:
    """The application ends, or is preempted. `pods`: its allocations now."""

    application: ApplicationId
    name: str
    namespace: str
    pods: int
    resources: Resources


@dataclass(frozen=True, slots=True)
class AddNode:
    """One more node like `like`. `number` distinguishes several of them."""

    like: NodeSpec
    number: int


@dataclass(frozen=True, slots=True)
class RaiseMaximum:
    """The maximum of a queue, and its number of running applications (0 = unlimited), become these."""

    queue: QueuePath
    max: Limit
    max_applications: int


@dataclass(frozen=True, slots=True)
class RaiseUserLimits:
    """The limits of a queue that apply to the user, or to the group of the application, become at least these."""

    queue: QueuePath
    user: str
    group: str
    max: Resources
    max_applications: int


class Constraint(StrEnum):
    """Constraints of pods that may be dropped."""

    NODE_AFFINITY = "node selector and required node affinity"
    TAINTS = "taints that its pods do not tolerate"
    POD_AFFINITY = "required inter-pod affinity"
    ANTI_AFFINITY = "required inter-pod anti-affinity"
    SPREAD = "required topology spread"
    PORTS = "host ports"
    TOPOLOGY = "required topology of the gang"


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """The pods of the application no longer have the constraint; for taints, they tolerate all."""

    application: ApplicationId
    constraint: Constraint


ClusterChange = EndApplication | AddNode | RaiseMaximum | RaiseUserLimits | DropConstraint


# --- candidates ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ends:
    """Applications that may end, those that use most of the cluster first, with the number of their kind.

    Of equal ones, the first `most` are enough for a set of `most` changes.
    """

    by_kind: Sequence[tuple[int, EndApplication]]
    most: int

    def without(self, target: Application) -> tuple[list[ClusterChange], bool]:
        """Those for a target, and whether these are all. One that selects nodes may need those of equal nodes."""
        selects = any(
            ask.kind.required_node or ask.spec.constraints.affinity or ask.spec.constraints.node_selector
            for ask in target.asks.values()
        )
        taken: Counter[int] = Counter()
        found: list[ClusterChange] = []
        for kind, change in self.by_kind:
            if change.application != target.id and (taken[kind] < self.most or (selects and change.pods)):
                taken[kind] += 1
                found.append(change)
        return found, len(found) == len(self.by_kind) - 1


def ends(partition: Partition, most: int) -> Ends:
    """All applications of a partition."""
    total = partition.nodes.capacity_total

    def size(app: Application) -> float:
        used = app.allocated + app.gang.allocated
        return max((amount / total[name] for name, amount in used.items() if total[name]), default=0.0)

    remaining = (app for app in partition.applications.values() if not app.removed)
    kinds: dict[Hashable, int] = {}
    nodes: dict[Hashable, dict[NodeId, int]] = defaultdict(dict)

    def place(name: NodeId) -> Hashable:
        """The first nodes of equal ones differ, because several applications may have to end on one."""
        state = _state(partition, name)
        return state, min(nodes[state].setdefault(name, len(nodes[state])), most)

    found: list[tuple[int, EndApplication]] = []
    for app in sorted(remaining, key=lambda app: (-size(app), app.sequence)):
        held = tuple((one.spec.resources, place(one.node)) for one in app.allocations.values())
        kind = kinds.setdefault((_kind(partition, app), held), len(kinds))
        used = app.allocated + app.gang.allocated
        found.append((kind, EndApplication(app.id, app.name, app.spec.namespace, len(app.allocations), used)))
    return Ends(found, most)


def _kind(partition: Partition, app: Application) -> Hashable:
    """Applications with the same pods that differ only in their names and times have the same one."""
    spec = app.spec
    if app.gang.quota_reservation or any(partition.reservations.of(app.id)):
        return app.id
    requests = tuple((kind, len(names)) for kind, names in app.waiting.items())
    gang = spec.members, spec.placeholder_ask, spec.gang_placement, spec.style, spec.topology
    return app.queue.path, spec.user, spec.groups, spec.namespace, spec.is_gang and gang, app.state, requests


def _state(partition: Partition, name: NodeId) -> Hashable:
    """What nodes have in common where the end of equal pods helps others equally, unless these name a node or pod."""
    nodes = partition.nodes
    spec = nodes.record(name).spec
    labels = frozenset((key, value) for key, value in spec.labels.items() if key != HOST_NAME)
    return spec.capacity, labels, spec.taints, spec.cordoned, nodes.available(name)


_Shape = tuple[Resources, frozenset[tuple[str, str]], tuple[Taint, ...]]


def added_nodes(partition: Partition, target: Application) -> Iterator[list[ClusterChange]]:
    """For each frequent shape of a node, as many of these as the application has pending pods."""
    shapes: Counter[_Shape] = Counter()
    examples: dict[_Shape, NodeSpec] = {}
    for node in partition.nodes:
        spec = partition.nodes.record(node).spec
        if not spec.cordoned:
            labels = frozenset((key, value) for key, value in spec.labels.items() if key != HOST_NAME)
            shape = (spec.capacity, labels, spec.taints)
            shapes[shape] += 1
            examples.setdefault(shape, spec)
    most = min(max(target.pending_count, 1), _MOST_NODES)
    for shape, _ in shapes.most_common(_SHAPES):
        yield [AddNode(examples[shape], number) for number in range(most)]


def quotas(partition: Partition, target: Application, *, is_generous: bool) -> list[ClusterChange]:
    """The quotas of each queue above the application that has some, and those of its user there.

    They become what is used now plus what the application needs, or (generous) what all waiting applications need.
    """
    found: list[ClusterChange] = []
    user, group = target.spec.user, partition.users.group_of(target)
    for queue in target.queue.path_up:
        needed, more = target.pending, 1
        if is_generous:
            needed, more = queue.pending, len(partition.applications)
        if queue.max or queue.max_applications:
            used = queue.allocated + queue.reserved_quota.value + queue.node_reserved
            count = max(queue.max_applications, queue.running + more) if queue.max_applications else 0
            found.append(RaiseMaximum(queue.path, raised(queue.max, used + needed), count))
        if any(_applies(limit, user, group) for limit in queue.limits):
            accounts = [
                account
                for account in (
                    partition.users.users.get(user, {}).get(queue.path),
                    partition.users.groups.get(group, {}).get(queue.path),
                )
                if account is not None
            ]
            names = {name for account in accounts for name in account.allocated + account.reserved_quota.value}
            most = {name: max((one.allocated + one.reserved_quota.value)[name] for one in accounts) for name in names}
            running = max((one.running for one in accounts), default=0)
            found.append(RaiseUserLimits(queue.path, user, group, Resources(most) + needed, running + more))
    return found


def droppable(partition: Partition, target: Application) -> list[ClusterChange]:
    """The constraints that its pods have. None for a gang that holds resources: submitted again, it would lose them."""
    if target.spec.is_gang and target.allocations:
        return []
    templates: list[AskSpec | Member] = [*(ask.spec for ask in target.asks.values()), *target.spec.members]
    constraints, facts = [one.constraints for one in templates], [one.facts for one in templates]
    has_taints = any(
        taint.effect != "PreferNoSchedule"
        for node in partition.nodes
        for taint in partition.nodes.record(node).spec.taints
    )
    present = {
        Constraint.NODE_AFFINITY: any(one.node_selector or one.affinity is not None for one in constraints),
        Constraint.TAINTS: has_taints,
        Constraint.POD_AFFINITY: any(one.inter_pod.affinity for one in facts),
        Constraint.ANTI_AFFINITY: any(one.inter_pod.anti_affinity for one in facts),
        Constraint.SPREAD: any(spread.required for one in facts for spread in one.inter_pod.spread),
        Constraint.PORTS: any(one.ports for one in facts),
        Constraint.TOPOLOGY: target.spec.topology is not None and target.spec.topology.required,
    }
    return [DropConstraint(target.id, constraint) for constraint, is_present in present.items() if is_present]


def raised(limit: Limit, amount: Resources) -> Limit:
    """Returns the limit with bounds that are at least the amount. Resources without a bound keep none."""
    return Limit({name: max(bound, amount[name]) for name, bound in limit.items()})


def _applies(limit: QuotaLimit, user: str, group: str) -> bool:
    return bool({user, "*"} & {*limit.users} or (group and {group, "*"} & {*limit.groups}))


# --- events ----------------------------------------------------------------------------------------------------------


def events(scheduler_state: SchedulerState, partition: Partition, change: ClusterChange) -> list[Event]:
    """Returns the events that make the change in this state."""
    match change:
        case EndApplication():
            return [ApplicationRemoved(partition.id, change.application)]
        case AddNode():
            return [NodeAdded(_another(change))]
        case RaiseMaximum():
            return _with_maximum(scheduler_state, partition, change)
        case RaiseUserLimits():
            return [_edited(scheduler_state, partition, change.queue, lambda found: _with_limits(found, change))]
        case DropConstraint():
            return _without(partition.applications[change.application], change.constraint)
        case _:
            assert_never(change)


def _another(change: AddNode) -> NodeSpec:
    name = f"{change.like.id}-added-{change.number}"
    labels = {**change.like.labels, HOST_NAME: name}
    return replace(change.like, id=NodeId(name), occupied=NOTHING, labels=labels, cordoned=False)


def _with_maximum(scheduler_state: SchedulerState, partition: Partition, change: RaiseMaximum) -> list[Event]:
    queue = partition.queues.by_path.get(change.queue)
    if queue is None:
        return []  # a dynamic queue ended with its last application, which was rejected when it was submitted again
    if queue.managed:
        return [
            _edited(
                scheduler_state,
                partition,
                change.queue,
                lambda found: replace(found, max=change.max, max_applications=change.max_applications),
            )
        ]
    quota = NamespaceQuota(max=change.max, guaranteed=queue.guaranteed, max_applications=change.max_applications)
    apps = (partition.applications[name] for name in list(queue.applications)[:1])  # none if it was rejected
    return [
        ApplicationAdded(replace(app.spec, is_renewal=True, quota=quota, given_up="", members_missing=None))
        for app in apps
    ]


def _with_limits(queue: QueueConfig, change: RaiseUserLimits) -> QueueConfig:
    limits = tuple(
        replace(
            limit,
            max=raised(limit.max, change.max),
            max_applications=max(limit.max_applications, change.max_applications) if limit.max_applications else 0,
        )
        if _applies(limit, change.user, change.group)
        else limit
        for limit in queue.limits
    )
    return replace(queue, limits=limits)


def _edited(
    scheduler_state: SchedulerState,
    partition: Partition,
    path: QueuePath,
    edit: Callable[[QueueConfig], QueueConfig],
) -> ConfigurationReplaced:
    """Returns the present configuration with one changed queue."""
    present = scheduler_state.managers[partition.rm].configuration
    name = partition_name(partition.id)
    partitions = tuple(
        replace(one, root=_edited_queue(one.root, path.split(".")[1:], edit)) if one.name == name else one
        for one in present.partitions
    )
    return ConfigurationReplaced(partition.rm, replace(present, partitions=partitions))


def _edited_queue(queue: QueueConfig, below: Sequence[str], edit: Callable[[QueueConfig], QueueConfig]) -> QueueConfig:
    if not below:
        return edit(queue)
    children = tuple(
        _edited_queue(child, below[1:], edit) if child.name == below[0] else child for child in queue.children
    )
    return replace(queue, children=children)


def _without(app: Application, constraint: Constraint) -> list[Event]:
    """Its requests again, without the constraint. A gang is submitted again."""
    again: list[Event] = [
        AskAdded(_relaxed(ask.spec, constraint)) for ask in app.asks.values() if not ask.spec.is_virtual
    ]
    if not app.spec.is_gang:
        return again
    members = tuple(_relaxed(member, constraint) for member in app.spec.members)
    spec = replace(app.spec, members=members, topology=None if constraint is Constraint.TOPOLOGY else app.spec.topology)
    return [ApplicationRemoved(app.spec.partition, app.id), ApplicationAdded(spec), *again]


_Template = TypeVar("_Template", AskSpec, Member)


def _relaxed(template: _Template, constraint: Constraint) -> _Template:
    """The same pod without the constraint."""
    where: Constraints = template.constraints
    facts: PodProperties = template.facts
    inter_pod = facts.inter_pod
    match constraint:
        case Constraint.NODE_AFFINITY:
            return replace(template, constraints=replace(where, node_selector=(), affinity=None))
        case Constraint.TAINTS:
            all_taints = (*where.tolerations, Toleration(operator="Exists"))
            return replace(template, constraints=replace(where, tolerations=all_taints))
        case Constraint.POD_AFFINITY:
            inter_pod = replace(inter_pod, affinity=())
        case Constraint.ANTI_AFFINITY:
            inter_pod = replace(inter_pod, anti_affinity=())
        case Constraint.SPREAD:
            inter_pod = replace(inter_pod, spread=tuple(one for one in inter_pod.spread if not one.required))
        case Constraint.PORTS:
            return replace(template, facts=replace(facts, ports=()))
        case Constraint.TOPOLOGY:
            return template
        case _:
            assert_never(constraint)
    shared = NO_INTER_POD_CONSTRAINTS if inter_pod == NO_INTER_POD_CONSTRAINTS else inter_pod  # compared by identity
    return replace(template, facts=replace(facts, inter_pod=shared))
