"""Placeholder replacement: selects the placeholder that each pod of a gang replaces.

A pod whose slot was planned for it takes that slot. Any other pod replaces a placeholder of its task group that is at
least as large, on the same node. If the pod cannot run there, it goes to another node with enough resources. A pod
larger than every placeholder of its group releases one and is scheduled as usual (docs/internals/semantics.md, rules 14
and 15).
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Final

from muster_core.model import messages
from muster_core.model.decisions import NodeReservationDecision, PlaceholderRelease, PlaceholderReplacement, Placement
from muster_core.model.ids import AllocationId, AllocationKey, NodeId, TaskGroup
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import PodOnNode, PodProperties
from muster_core.placement import differences, node_search
from muster_core.placement.devices.filter import devices_filter
from muster_core.placement.node_search import stateful_filters
from muster_core.queues import quota
from muster_core.state.applications import Allocation, Application
from muster_core.state.ordering import classes
from muster_core.state.request_classes import AskClass, class_of, pod_on_node_of
from muster_core.state.scheduler_state import Partition
from muster_core.state.scheduling_queue import MembersDoNotFit, NoNodeFits
from muster_core.state.snapshot import (
    AllocationPlan,
    RequestShape,
    Snapshot,
    Unplaced,
    chosen_for,
    has_unreported,
    shape_of,
)

#: Placeholders that are evaluated for one request whose filters depend on other pods.
_MOST_TRIED: Final = 64


def plan_replacements(partition: Partition, app: Application, at_most: int) -> AllocationPlan:
    """Plans at most `at_most` replacements for the waiting members that have a live placeholder.

    The first replacements of a gang start all its present members, or none of them (`_left_behind`).
    """
    allocation_plan = AllocationPlan()
    if not app.gang.live:
        return allocation_plan
    search = _ReplacementSearch(allocation_plan, Snapshot(partition.nodes), set())
    kinds = [kind for kind in classes(app) if app.has_placeholder(kind)]
    if _is_start(app):
        at_most = sys.maxsize
        kinds.sort(key=lambda kind: node_search.feasible_nodes(search.snapshot, shape_of(kind)))
    with_own_slots = _plan_own_slots(partition, app, kinds, search, at_most) if app.gang.live_virtual else {}
    for kind in kinds if len(with_own_slots) < at_most else ():
        keys = [key for key in app.waiting[kind] if key not in with_own_slots] if with_own_slots else app.waiting[kind]
        if keys:
            is_watched = kind.depends_on_others or stateful_filters(search.snapshot, shape_of(kind))
            plan_kind = _plan_constrained if is_watched else _plan_class
            most = max(at_most - len(allocation_plan.decisions), 0)
            plan_kind(partition, app, kind, search, list(islice(keys, most)))
    if _is_start(app) and (left := _left_behind(partition, app, kinds, search)) is not None:
        allocation_plan.decisions.clear()
        allocation_plan.unplaced = [replace(left, kind=kind) for kind in kinds]
    allocation_plan.more = len(allocation_plan.decisions) >= at_most or (
        app.has_multiple and _is_left(app, allocation_plan)
    )
    if allocation_plan.unplaced or allocation_plan.blocking_reasons:
        # The removal of a label or taint may let the pod run on its placeholder's node, even if that node is full.
        allocation_plan.blocking_reasons.append(MembersDoNotFit(app.id))
    return allocation_plan


def _is_start(app: Application) -> bool:
    """Whether no member of a gang with placeholder pods has started yet.

    A resource manager that does not declare the members, as YuniKorn's does not, starts them one by one.
    """
    if app.spec.uses_virtual_placeholders or not app.spec.members or app.real_allocations:
        return False
    return all(ask.replacement is None for ask in app.asks.values())


def _left_behind(
    partition: Partition, app: Application, kinds: list[AskClass], search: _ReplacementSearch
) -> Unplaced | None:
    """Returns why some present member of the gang cannot start with the others; None = all of them can.

    Plans the members that are larger than their placeholders elsewhere. Members beyond the placeholders of their group
    do not count.
    """
    present: Counter[TaskGroup] = Counter()
    for kind in kinds:
        present[kind.group] += len(app.waiting[kind])
    missing = Counter({group: min(count, len(app.gang.live[group])) for group, count in present.items()})
    planned = NOTHING
    refused: Unplaced | None = next(iter(search.allocation_plan.unplaced), None)
    for decision in list(search.allocation_plan.decisions):
        if isinstance(decision, PlaceholderReplacement):
            missing[app.asks[decision.ask].spec.group] -= 1
        elif isinstance(decision, PlaceholderRelease):
            found, amount = _place_larger(partition, app, decision, search, planned)
            if isinstance(found, Unplaced):
                refused = found
                continue
            search.allocation_plan.decisions.append(found)
            planned += amount
            missing[app.asks[decision.ask].spec.group] -= 1
    members = {member.group: member.count for member in app.spec.members}
    for group, count in missing.items():
        if count > 0:
            kind = next(kind for kind in kinds if kind.group == group)
            if refused is None or refused.kind.group != group:
                refused = Unplaced(kind, node_search.unschedulable_reason(search.snapshot, shape_of(kind)))
            first = app.asks[next(iter(app.waiting[refused.kind]))].spec
            live = (app.allocations[identity] for identity in app.gang.live[group])
            differs = next(
                filter(None, (differences.between(app, first, one) for one in islice(live, _MOST_TRIED))), ""
            )
            total = members.get(group, count)
            return Unplaced(kind, refused.why, about=messages.cannot_use_reservation(count, total, group, differs))
    return None


def _place_larger(
    partition: Partition, app: Application, release: PlaceholderRelease, search: _ReplacementSearch, planned: Resources
) -> tuple[Placement | NodeReservationDecision | Unplaced, Resources]:
    """Plans a member that is larger than its placeholder, with what the quota must have for it in addition.

    It gets free room, or a node reservation that includes the room of its placeholder. `planned`: as the result, for
    the members before.
    """
    kind, snapshot, sort = app.asks[release.ask].kind, search.snapshot, partition.config.node_sort
    shape, placeholder = shape_of(kind), app.allocations[release.placeholder]
    if quota.quota_refusal(partition, app, kind.resources, planned) is None:
        spots = node_search.place(snapshot, shape, 1, sort)
        if spots:
            chosen = chosen_for(snapshot, kind)
            return Placement(partition.id, app.id, ((release.ask, spots[0][0]),), chosen), kind.resources
    row, pod_on_node = _seen(partition, placeholder)
    snapshot.free(placeholder.node, placeholder.spec.resources)
    snapshot.enter(row, pod_on_node, -1)
    over = quota.quota_refusal(partition, app, kind.resources, planned - placeholder.spec.resources)
    if over is not None:
        search.allocation_plan.blocking_reasons.append(over.blocking_reason)
        return Unplaced(kind, over.why), NOTHING
    for node, _ in node_search.place(snapshot, shape, 1, sort):
        if node not in partition.reservations.by_node and node not in search.reserved:
            search.reserved.add(node)
            reservation = NodeReservationDecision(partition.id, app.id, release.ask, node)
            return reservation, kind.resources - placeholder.spec.resources
    return Unplaced(kind, node_search.unschedulable_reason(snapshot, shape)), NOTHING


def _is_left(app: Application, allocation_plan: AllocationPlan) -> bool:
    """Whether a request that replaces a virtual placeholder, which completes at once, needs further allocations."""
    swaps = (decision for decision in allocation_plan.decisions if isinstance(decision, PlaceholderReplacement))
    return any(app.asks[one.ask].left > 1 and app.allocations[one.placeholder].spec.is_virtual for one in swaps)


@dataclass(slots=True)
class _ReplacementSearch:
    """State that the classes of one plan share: placeholders taken by earlier replacements, and the snapshot."""

    allocation_plan: AllocationPlan
    snapshot: Snapshot
    taken: set[str]
    #: Nodes that this plan reserves for members that are larger than their placeholders.
    reserved: set[NodeId] = field(default_factory=set)


@dataclass(slots=True)
class _Candidates:
    """Live placeholders of a task group, oldest first, sorted by what a class can do with them."""

    #: The class may run on the placeholder's node.
    here: deque[Allocation] = field(default_factory=deque)
    #: The class needs another node.
    elsewhere: deque[Allocation] = field(default_factory=deque)
    #: The class is larger than the placeholder.
    smaller: deque[Allocation] = field(default_factory=deque)


def _plan_own_slots(
    partition: Partition, app: Application, kinds: list[AskClass], search: _ReplacementSearch, at_most: int
) -> dict[AllocationKey, None]:
    """Gives members the virtual placeholders that were planned for pods like them. Returns these members.

    The plan of the gang has checked all filters, in an order in which all members fit, so only the properties of the
    node and the claims of devices, which others may have used since, are checked again.
    """
    slots: dict[AskClass, deque[Allocation]] = {}
    known: dict[int, AskClass] = {}  # virtual placeholders of one request share their specification
    project = partition.nodes.pods_on_nodes.tags.project
    for identity in chain.from_iterable(app.gang.live_virtual.values()):
        placeholder = app.allocations[identity]
        spec = placeholder.spec
        if id(spec) not in known:
            known[id(spec)] = _slot_of(class_of(spec, as_usual=True, tags=project(spec.tags)))
        slots.setdefault(known[id(spec)], deque()).append(placeholder)
    found: dict[AllocationKey, None] = {}
    for kind in kinds:
        own = slots.get(_slot_of(kind))
        if not own:
            continue
        shape, row = shape_of(kind), partition.nodes.rows.row
        allowed = node_search.on_facts(search.snapshot, shape)
        if (guard := devices_filter(search.snapshot, shape)) is not None:
            allowed = allowed & guard.allows()
        for key in islice(app.waiting[kind], max(at_most - len(found), 0)):
            while own and not allowed.item(row(own[0].node)):
                own.popleft()
            if not own:
                break
            placeholder = own.popleft()
            found[key] = None
            search.taken.add(placeholder.id)
            _hand_over(partition, placeholder, shape, search.snapshot)
            search.allocation_plan.decisions.append(
                PlaceholderReplacement(
                    partition.id,
                    app.id,
                    key,
                    placeholder.id,
                    placeholder.node,
                    same_node=True,
                    chosen=chosen_for(search.snapshot, kind),
                )
            )
    return found


def _slot_of(kind: AskClass) -> AskClass:
    """Returns the class without what differs between a member and the virtual placeholder that was planned for it."""
    return replace(kind, priority=0, placeholder=True, as_usual=True)


def _plan_class(
    partition: Partition, app: Application, kind: AskClass, search: _ReplacementSearch, keys: list[AllocationKey]
) -> None:
    candidates = _candidates(partition, app, kind, search.taken, len(keys))
    for key in keys:
        if candidates.here:
            placeholder = candidates.here.popleft()
            replacement = PlaceholderReplacement(
                partition.id, app.id, key, placeholder.id, placeholder.node, same_node=True
            )
            search.allocation_plan.decisions.append(replacement)
            _hand_over(partition, placeholder, shape_of(kind), search.snapshot)
        elif candidates.elsewhere:
            if not _plan_elsewhere(partition, app, key, candidates.elsewhere[0], search):
                return
            placeholder = candidates.elsewhere.popleft()
        elif candidates.smaller:
            placeholder = candidates.smaller.popleft()
            search.allocation_plan.decisions.append(_release_of(partition, app, key, placeholder))
        else:
            return
        search.taken.add(placeholder.id)


def _plan_constrained(
    partition: Partition, app: Application, kind: AskClass, search: _ReplacementSearch, keys: list[AllocationKey]
) -> None:
    """Like `_plan_class`, for filters that depend on other pods: evaluates each placeholder as if it were removed."""
    shape = shape_of(kind)
    for key in keys:
        candidates = _candidates(partition, app, kind, search.taken, _MOST_TRIED)
        placeholder = _first_to_hand_over(partition, app, shape, candidates, search)
        if placeholder is not None:
            _hand_over(partition, placeholder, shape, search.snapshot)
            chosen = chosen_for(search.snapshot, kind)
            node = placeholder.node
            replacement = PlaceholderReplacement(
                partition.id, app.id, key, placeholder.id, node, same_node=True, chosen=chosen
            )
            search.allocation_plan.decisions.append(replacement)
            search.taken.add(placeholder.id)
        elif not _plan_constrained_elsewhere(partition, app, key, candidates, search):
            return


def _first_to_hand_over(
    partition: Partition, app: Application, shape: RequestShape, candidates: _Candidates, search: _ReplacementSearch
) -> Allocation | None:
    """Returns the first placeholder whose node the pod may take.

    If none qualifies in the present state, the other placeholders of the gang are ignored as well. They reserve room
    for its own members and do not keep a member away. The final placement depends on the members alone.
    """
    here = list(islice(candidates.here, _MOST_TRIED))
    found = _first_allowed(partition, shape, here, search.snapshot)
    if found is None and here:
        bare = search.snapshot.fork()
        for live in app.gang.live.values():
            for row, pod_on_node in (_seen(partition, app.allocations[one]) for one in live if one not in search.taken):
                bare.enter(row, _with_terms_only(pod_on_node), -1)
        found = _first_allowed(partition, shape, here, bare, is_bare=True)
    return found


def _first_allowed(
    partition: Partition,
    shape: RequestShape,
    placeholders: list[Allocation],
    snapshot: Snapshot,
    *,
    is_bare: bool = False,
) -> Allocation | None:
    """Returns the first placeholder that may be replaced on its node. The snapshot is unchanged afterwards.

    `is_bare`: a placeholder counts only with its resources, ports and claims, not for inter-pod affinity.
    """
    tried: set[tuple[int, PodOnNode]] = set()
    for placeholder in placeholders:
        row, pod_on_node = _seen(partition, placeholder)
        if (row, pod_on_node) in tried:
            continue
        tried.add((row, pod_on_node))
        counted = [(pod_on_node, -1), (_with_terms_only(pod_on_node), 1)] if is_bare else [(pod_on_node, -1)]
        for one, times in counted:
            snapshot.enter(row, one, times)
        may_go = bool(node_search.allowed(snapshot, shape)[row])
        for one, times in counted:
            snapshot.enter(row, one, -times)
        if may_go:
            return placeholder
    return None


def _with_terms_only(pod_on_node: PodOnNode) -> PodOnNode:
    """Returns the pod with its inter-pod terms only, without ports and claims."""
    return PodOnNode(pod_on_node.tags, PodProperties(inter_pod=pod_on_node.facts.inter_pod))


def _plan_constrained_elsewhere(
    partition: Partition, app: Application, key: AllocationKey, candidates: _Candidates, search: _ReplacementSearch
) -> bool:
    """Replaces the oldest placeholder by a pod on another node, or releases a placeholder that is too small."""
    shape, snapshot = shape_of(app.asks[key].kind), search.snapshot
    placeholder = next(iter((*candidates.here, *candidates.elsewhere)), None)
    if placeholder is None:
        if not candidates.smaller:
            return False
        evicted = candidates.smaller[0]
        search.allocation_plan.decisions.append(_release_of(partition, app, key, evicted))
        search.taken.add(evicted.id)
        return True
    row, pod_on_node = _seen(partition, placeholder)
    snapshot.enter(row, pod_on_node, -1)
    spots = node_search.place(snapshot, shape, 1, partition.config.node_sort)
    if not spots:
        # Not cached for the class, because the result may differ once another placeholder is removed.
        about = differences.other_constraints(app, app.asks[key].spec, placeholder)
        why = node_search.unschedulable_reason(snapshot, shape)
        search.allocation_plan.unplaced.append(Unplaced(app.asks[key].kind, why, about=about))
        search.allocation_plan.blocking_reasons.append(MembersDoNotFit(app.id))
        snapshot.enter(row, pod_on_node, 1)
        return False
    node = spots[0][0]
    chosen = chosen_for(snapshot, app.asks[key].kind)
    replacement = PlaceholderReplacement(
        partition.id, app.id, key, placeholder.id, node, same_node=False, chosen=chosen
    )
    search.allocation_plan.decisions.append(replacement)
    search.taken.add(placeholder.id)
    return True


def _release_of(
    partition: Partition, app: Application, key: AllocationKey, placeholder: Allocation
) -> PlaceholderRelease:
    """Releases a placeholder that is too small for the pod."""
    why = differences.too_large(app.asks[key].spec, placeholder.spec.resources)
    return PlaceholderRelease(partition.id, app.id, key, placeholder.id, why)


def _hand_over(partition: Partition, placeholder: Allocation, shape: RequestShape, snapshot: Snapshot) -> None:
    """Replaces the placeholder by the pod in the snapshot, as other pods see it."""
    row, gone = _seen(partition, placeholder)
    snapshot.enter(row, gone, -1)
    node_search.assume_claims(snapshot, shape, row)
    snapshot.enter(row, shape.pod_on_node)


def _seen(partition: Partition, placeholder: Allocation) -> tuple[int, PodOnNode]:
    nodes = partition.nodes
    spec = placeholder.spec
    return nodes.rows.row(placeholder.node), pod_on_node_of(spec.facts, nodes.pods_on_nodes.tags.project(spec.tags))


def _candidates(partition: Partition, app: Application, kind: AskClass, taken: set[str], enough: int) -> _Candidates:
    """Collects the live placeholders of the group. Stops once `enough` are on usable nodes."""
    allowed = node_search.on_facts(Snapshot(partition.nodes), shape_of(kind))
    row = partition.nodes.rows.row
    found = _Candidates()
    for identity in _in_order(app, kind.group):
        if len(found.here) >= enough:
            break
        if identity in taken:
            continue
        placeholder = app.allocations[identity]
        if not placeholder.spec.resources.covers(kind.resources):
            found.smaller.append(placeholder)
        elif allowed[row(placeholder.node)]:
            found.here.append(placeholder)
        else:
            found.elsewhere.append(placeholder)
    return found


def _in_order(app: Application, group: TaskGroup) -> Iterator[AllocationId]:
    """Returns the live placeholders of the group, oldest first.

    Virtual placeholders come first, because no pod must end before they are replaced.
    """
    is_virtual = app.gang.live_virtual.get(group, {})
    return chain(is_virtual, (identity for identity in app.gang.live[group] if identity not in is_virtual))


def _plan_elsewhere(
    partition: Partition, app: Application, key: AllocationKey, placeholder: Allocation, search: _ReplacementSearch
) -> bool:
    kind = app.asks[key].kind
    shape = shape_of(kind)
    unschedulable_class = partition.unschedulable_classes.get(kind)
    if unschedulable_class is not None and not unschedulable_class.room:
        search.allocation_plan.blocking_reasons.append(NoNodeFits(kind, 1))
        if has_unreported(app, kind):
            about = differences.other_constraints(app, app.asks[key].spec, placeholder)
            search.allocation_plan.unplaced.append(Unplaced(kind, unschedulable_class.why, about=about))
        return False
    spots = node_search.place(search.snapshot, shape, 1, partition.config.node_sort)
    if not spots:
        about = differences.other_constraints(app, app.asks[key].spec, placeholder)
        why = node_search.unschedulable_reason(search.snapshot, shape)
        search.allocation_plan.unplaced.append(Unplaced(kind, why, room=0, about=about))
        search.allocation_plan.blocking_reasons.append(NoNodeFits(kind, 1))
        return False
    replacement = PlaceholderReplacement(partition.id, app.id, key, placeholder.id, spots[0][0], same_node=False)
    search.allocation_plan.decisions.append(replacement)
    return True
