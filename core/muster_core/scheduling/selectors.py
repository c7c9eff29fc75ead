"""Keeps track of the pod labels that selectors of requests and allocations read.

Other labels are not part of a scheduling class (docs/internals/semantics.md, rule 21). The handlers call `read` before
a request gets its class, and `join` and `part` when it is added and removed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain

from muster_core.model.constraints import ANY_NAMESPACE, NAMESPACE, NO_INTER_POD_CONSTRAINTS, Read, Target, tags_among
from muster_core.model.events import ApplicationAdded, AskAdded
from muster_core.model.ids import ApplicationId, NodeId
from muster_core.model.limits import PODS_PER_PART
from muster_core.model.specs import AllocationSpec, ApplicationSpec, AskSpec, Member
from muster_core.state.applications import Application
from muster_core.state.scheduler_state import Partition, SchedulerState, UnfinishedEvent

#: Application ID under which foreign allocations are counted.
_FOREIGN = ApplicationId("")


def read(partition: Partition, spec: AskSpec | AllocationSpec) -> None:
    """Registers the labels that the selectors of the spec read. Called before it gets a class or is counted."""
    if spec.facts.inter_pod is NO_INTER_POD_CONSTRAINTS and (not isinstance(spec, AskSpec) or spec.placement is None):
        return
    _begin(partition, reads_of(spec), spec.namespace)
    if isinstance(spec, AskSpec):
        for targets in _wanted(spec):
            partition.nodes.pods_on_nodes.tags.want(targets)


def refusal(partition: Partition, spec: AskSpec | ApplicationSpec) -> str:
    """Returns why the selectors of a new request or gang are not allowed; empty = they are."""
    reads = reads_of_members(spec.members) if isinstance(spec, ApplicationSpec) else reads_of(spec)
    return partition.nodes.pods_on_nodes.tags.labels.refusal(spec.namespace, reads) if reads else ""


def announce(partition: Partition, members: Iterable[Member], namespace: str) -> None:
    """Registers the labels that the affinity terms of gang members read, before their requests arrive.

    The first members are then planned together with the others.
    """
    reads = reads_of_members(members)
    if reads:
        _begin(partition, reads, namespace)
        partition.nodes.pods_on_nodes.tags.labels.refer(reads, 1)


def withdraw(partition: Partition, members: Iterable[Member]) -> None:
    """Reverts `announce` when the gang has ended."""
    partition.nodes.pods_on_nodes.tags.labels.refer(reads_of_members(members), -1)


def join(partition: Partition, spec: AskSpec | AllocationSpec) -> None:
    """Counts the labels of a new request or allocation, and the labels that its selectors read."""
    labels = partition.nodes.pods_on_nodes.tags.labels
    if labels.is_on:
        labels.come(_owner(spec), spec.tags)
        labels.refer(reads_of(spec), 1)


def part(partition: Partition, spec: AskSpec | AllocationSpec) -> None:
    """Reverts `join`."""
    labels = partition.nodes.pods_on_nodes.tags.labels
    if labels.is_on:
        labels.go(_owner(spec), spec.tags)
        labels.refer(reads_of(spec), -1)


def tidy(partition: Partition) -> None:
    """Drops labels and values that no selector reads any more, if there are many of them."""
    tags = partition.nodes.pods_on_nodes.tags
    if tags.labels.is_stale():
        _recount(partition, tags.labels.idle_places(), tags.labels.sweep)
    if tags.wants_many():
        asks = (ask.spec for app in partition.applications.values() for ask in app.asks.values())
        tags.replace_wanted(targets for spec in asks for targets in _wanted(spec))


def _begin(partition: Partition, reads: tuple[Read, ...], payer: str) -> None:
    labels = partition.nodes.pods_on_nodes.tags.labels
    if not labels.is_on:
        for _ in switch_on(partition):
            pass
    new = labels.unread(reads)
    if new:
        _recount(partition, labels.places(new), lambda: labels.begin(new, payer))


def count_before(
    scheduler_state: SchedulerState, partition: Partition, event: AskAdded | ApplicationAdded, add: Callable[[], None]
) -> None:
    """Calls `add` for the event. If it has the first selector, counts the labels of all pods before, in parts."""
    if not is_first(partition, event):
        add()
        return

    def parts() -> Iterator[None]:
        yield from switch_on(partition)
        add()

    scheduler_state.unfinished = UnfinishedEvent(parts())


def is_first(partition: Partition, event: AskAdded | ApplicationAdded) -> bool:
    """Whether the request or gang has the first selector in the partition."""
    if partition.nodes.pods_on_nodes.tags.labels.is_on:
        return False
    spec = event.spec
    return bool(reads_of_members(spec.members)) if isinstance(spec, ApplicationSpec) else spec.has_selectors


def switch_on(partition: Partition) -> Iterator[None]:
    """Starts to count pod labels, in parts, because the first selector arrives. The state must not change meanwhile."""
    tags = partition.nodes.pods_on_nodes.tags
    tags.labels.is_on = True
    row_of = partition.nodes.rows.row
    for number, (owner, pod) in enumerate(_pods(partition), 1):
        if number % PODS_PER_PART == 0:
            yield
        tags.labels.come(owner, pod.tags)
    for app in partition.applications.values():
        for number, (node, reported) in enumerate(_counted(app), 1):
            if number % PODS_PER_PART == 0:
                yield
            tags.add(row_of(node), tags.project(reported))
        _classify(partition, app)
    for foreign in partition.foreign.values():
        tags.add(row_of(foreign.node), tags.project(foreign.tags))


def _pods(partition: Partition) -> Iterator[tuple[ApplicationId, AskSpec | AllocationSpec]]:
    for app in partition.applications.values():
        for spec in chain((ask.spec for ask in app.asks.values()), (one.spec for one in app.allocations.values())):
            yield _owner(spec), spec
    for foreign in partition.foreign.values():
        yield _FOREIGN, foreign


def _recount(partition: Partition, namespaces: Collection[str], change: Callable[[], None]) -> None:
    """Changes the set of labels that are kept, and counts the pods of these namespaces again.

    `change` makes the change.
    """
    tags = partition.nodes.pods_on_nodes.tags
    row_of = partition.nodes.rows.row
    names = dict.fromkeys(name for namespace in namespaces for name in tags.labels.applications(namespace))
    apps = [partition.applications[name] for name in names if name != _FOREIGN]
    placed = [one for app in apps for one in _counted(app)]
    if _FOREIGN in names:
        placed += [(one.node, one.tags) for one in partition.foreign.values()]
    found = [(row_of(node), reported) for node, reported in placed if reported.get(NAMESPACE, "") in namespaces]
    for row, reported in found:
        tags.remove(row, tags.project(reported))
    change()
    for row, reported in found:
        tags.add(row, tags.project(reported))
    for app in apps:
        _classify(partition, app)


def _classify(partition: Partition, app: Application) -> None:
    """Moves requests to another class if their kept labels have changed."""
    project = partition.nodes.pods_on_nodes.tags.project
    for ask in app.asks.values():
        kept = project(ask.spec.tags)
        if kept != ask.kind.pod_on_node.tags:
            partition.node_demand.leave(app, ask)
            app.put_in_class(ask, kept)
            partition.scheduling.requeue(app)


def _owner(spec: AskSpec | AllocationSpec) -> ApplicationId:
    return spec.application if isinstance(spec, AskSpec) else _FOREIGN


def _counted(app: Application) -> Iterator[tuple[NodeId, Mapping[str, str]]]:
    """Yields node and labels of each pod that counts.

    A placeholder that is being replaced does not count. Its request counts instead.
    """
    for allocation in app.allocations.values():
        if allocation.replaced_by is None:
            yield allocation.node, allocation.spec.tags
    for ask in app.asks.values():
        if ask.replacement is not None:
            yield ask.replacement.node, ask.spec.tags


def reads_of(spec: AskSpec | AllocationSpec) -> tuple[Read, ...]:
    """Returns the labels that the selectors of the spec read, without duplicates."""
    reads = spec.facts.inter_pod.reads
    placement = spec.placement if isinstance(spec, AskSpec) else None
    if placement is None or placement.allocations is None:
        return reads
    return tags_among((*((ANY_NAMESPACE, target.key) for target in placement.allocations.targets), *reads))


def reads_of_members(members: Iterable[Member]) -> tuple[Read, ...]:
    """Like `reads_of`, for the affinity terms of gang members."""
    return tags_among(read for member in members for read in member.facts.inter_pod.affinity_reads)


def _wanted(spec: AskSpec) -> Iterator[tuple[Target, ...]]:
    """Yields the selectors of which a pending request may need more matching pods."""
    affinity = spec.placement.allocations if spec.placement is not None else None
    if affinity is not None and affinity.required and affinity.at_least > 0:
        yield affinity.targets
    inter_pod = spec.facts.inter_pod
    yield from (term.selector for term in inter_pod.affinity if term.selector is not None)
    # A spread constraint may need more pods in the smallest domain. An empty selector matches none.
    yield from (spread.selector for spread in inter_pod.spread if spread.required and spread.selector)
