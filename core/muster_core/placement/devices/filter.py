"""Filter DynamicResources: nodes that can access the devices of allocated claims, and where others can be allocated.

Nodes with the same pools that matter for a demand share one answer. It is kept, and asked again only when a device of
these pools was taken or freed. A plan keeps its own answers for the pools that it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from muster_core.model.devices import (
    CHOSEN_NODE,
    DeviceAllocation,
    DeviceDemand,
    DeviceKind,
    DeviceRequest,
    NodeAccess,
    PodClaim,
    PoolId,
)
from muster_core.placement.devices.allocation import StepBudget, allocate
from muster_core.placement.devices.selection import Evaluations, compile_error, every_request, matters, selectors_of
from muster_core.placement.plugins.node_properties import term_holds
from muster_core.placement.volumes.binding import AlwaysUnschedulable, memoized_reach, own_name
from muster_core.state.columns import BoolColumn, IntColumn
from muster_core.state.device_use import DeviceUse
from muster_core.state.devices import Answers, DeviceChanges, Devices, PlannedDevices, Refusal
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot

#: kube-scheduler's reason for a node that cannot access an allocated claim.
NOT_AVAILABLE: Final = "resourceclaim not available on the node"
IN_USE: Final = "resourceclaim in use"

#: Demands whose answers are kept.
_MOST_DEMANDS: Final = 256

#: Steps that the searches of one filter may take together, and those without backtracking in addition.
_STEPS_TOGETHER: Final = 40_000
_OVERDRAFT: Final = 300_000

#: Steps for the changes of one plan, which asks again for each member and for each victim. A search without
#: backtracking is always completed.
_STEPS_PER_PLAN: Final = 2_000_000

#: A search that was not complete is repeated at one of so many looks, or when a device of its view was taken or freed.
_LOOKS_PER_RETRY: Final = 16

#: Kinds of changed devices that are compared with the requests of waiting pods. Of more kinds, one may match.
_MOST_COMPARED: Final = 256

#: Answers by view: not asked yet, it can be allocated; from `_FIRST_REASON` on, the number of a reason.
_UNKNOWN: Final = 0
_ALLOWED: Final = 1
_FIRST_REASON: Final = 2

Demands = tuple[DeviceDemand, ...]


def _code(answers: Answers, found: Refusal | tuple[DeviceAllocation, ...]) -> int:
    """Returns the code of an answer."""
    if not isinstance(found, Refusal):
        return _ALLOWED
    if found not in answers.refusals:
        answers.refusals.append(found)
    return _FIRST_REASON + answers.refusals.index(found)


def reach_rows(nodes: NodeTable, reach: NodeAccess) -> BoolColumn:
    """Rows of the nodes that can access something."""
    return memoized_reach(nodes, reach, lambda: _reach_rows(nodes, reach))


def _reach_rows(nodes: NodeTable, reach: NodeAccess) -> BoolColumn:
    size = nodes.rows.size
    if reach.everywhere:
        return np.ones(size, dtype=np.bool_)
    found = np.zeros(size, dtype=np.bool_)
    if reach.node is not None and reach.node in nodes:
        found[nodes.rows.row(reach.node)] = True
    for term in reach.terms or ():
        found |= term_holds(term, nodes)
    return found


def with_views(nodes: NodeTable) -> Devices:
    """Returns the devices with the views of the present nodes."""
    devices = nodes.pods_on_nodes.devices
    devices.build_views(nodes.facts_epoch, nodes.rows, lambda reach: reach_rows(nodes, reach))
    return devices


def unusable(snapshot: Snapshot, shape: RequestShape) -> str:
    """Returns the reason if a claim makes the pod unschedulable on every node, else an empty string."""
    devices, planned = snapshot.nodes.pods_on_nodes.devices, snapshot.devices
    for one in shape.pod_on_node.facts.devices:
        claim = devices.claims.get(one.claim)
        name = own_name(one.claim)
        if claim is None or claim.uid != one.uid:
            return f'resourceclaim "{name}" not found'
        if claim.deleting:
            return f'resourceclaim "{name}" is being deleted'
        if claim.waits:
            return f'resourceclaim "{name}": {claim.waits}'
        if claim.allocation is not None:
            if claim.unsupported:
                return f'resourceclaim "{name}" is allocated with {claim.unsupported}, which is not supported'
        elif planned.allocation(one) is None and (why := _unsupported(devices, claim.demand, claim.unsupported)):
            return f'resourceclaim "{name}": {why}'
        if planned.room(one) <= 0:
            return IN_USE
    return ""


def _unsupported(devices: Devices, demand: DeviceDemand, feature: str) -> str:
    """Returns why no device can be allocated for the demand, whatever devices there are."""
    if feature:
        return f"{feature} is not supported"
    for name, request in every_request(demand):
        of_class = devices.classes.get(request.device_class)
        if of_class is None:
            return f"request {name}: device class {request.device_class} does not exist"
        if of_class.unsupported:
            return f"request {name}: device class {of_class.name} uses {of_class.unsupported}, which is not supported"
        if why := compile_error(selectors_of(of_class, request)):
            return f"request {name}: {why}"
    return ""


class DevicesFilter:
    """Filter by the device claims of a shape."""

    __slots__ = ("_allowed", "_claims", "_is_forked", "_nodes", "_planned", "_refused", "_room")

    def __init__(self, snapshot: Snapshot, claims: Sequence[PodClaim]) -> None:
        self._nodes, self._claims, self._planned = snapshot.nodes, claims, snapshot.devices
        self._is_forked = False
        self._allowed: BoolColumn = np.zeros(0, dtype=np.bool_)
        self._refused: Sequence[tuple[str, BoolColumn]] = ()
        self._room = min(snapshot.devices.room(one) for one in claims)
        self._look()

    def allows(self) -> BoolColumn:
        """Rows that can access the devices of allocated claims, and where the others can be allocated."""
        return self._allowed

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """Like `allows`, for some rows."""
        return self._allowed[rows]

    def refusals(self) -> Sequence[tuple[str, BoolColumn]]:
        """Rows by reason."""
        return self._refused

    def add(self, row: int) -> IntColumn | None:
        """Allocates the claims on this row. Further pods with the same claims then need nodes that can access them."""
        self._room -= 1
        if self._room <= 0:
            self._refused = [(IN_USE, np.ones(len(self._allowed), dtype=np.bool_))]
            self._allowed = np.zeros(len(self._allowed), dtype=np.bool_)
            return np.arange(len(self._allowed))
        if not open_demands(self._nodes, self._planned, self._claims):
            return None
        if not self._is_forked:
            self._planned, self._is_forked = self._planned.fork(), True
        plan(self._nodes, self._planned, self._claims, row, 1)
        self._look()
        return np.arange(len(self._allowed))

    def _look(self) -> None:
        nodes, planned = self._nodes, self._planned
        size = nodes.rows.size
        refused: list[tuple[str, BoolColumn]] = []
        left = np.ones(size, dtype=np.bool_)
        demands = open_demands(nodes, planned, self._claims)
        if demands:
            devices = with_views(nodes)
            answers = planned_answers(devices, planned, demands)
            codes = answers.codes[answers.group_of[devices.view_of]]
            if answers.fatal is not None:
                refused.append((answers.fatal[1].text, left))
                left = ~left
            for number, refusal in enumerate(answers.refusals if left.any() else ()):
                rows = codes == _FIRST_REASON + number
                if rows.any():
                    refused.append((refusal.text, rows))
                    left = left & ~rows
        for one in self._claims:
            allocation = planned.allocation(one)
            if allocation is not None:
                rows = left & ~reach_rows(nodes, allocation.reach)
                refused.append((NOT_AVAILABLE, rows))
                left = left & ~rows
        self._refused, self._allowed = refused, left


def devices_filter(snapshot: Snapshot, shape: RequestShape) -> DevicesFilter | AlwaysUnschedulable | None:
    """Creates the filter if the shape has device claims."""
    claims = shape.pod_on_node.facts.devices
    if not claims:
        return None
    why = unusable(snapshot, shape)
    return AlwaysUnschedulable(snapshot, why) if why else DevicesFilter(snapshot, claims)


def is_anywhere(devices: Devices, planned: PlannedDevices, demands: Demands) -> bool:
    """Whether some node has devices for the demands, whatever else it lacks."""
    found = planned_answers(devices, planned, demands)
    return found.fatal is None and bool((found.codes[found.group_of[devices.present]] == _ALLOWED).any())


def has_devices(snapshot: Snapshot, shape: RequestShape) -> BoolColumn:
    """Rows that can access a device, in use or not, that matches some request of the claims without devices.

    There are none if a claim makes the pod unschedulable on every node.
    """
    if unusable(snapshot, shape):
        return np.zeros(snapshot.size, dtype=np.bool_)
    devices, planned = with_views(snapshot.nodes), snapshot.devices
    demands = open_demands(snapshot.nodes, planned, shape.pod_on_node.facts.devices)
    groups = _real_answers(devices, demands).group_of
    found = np.array([bool(view.pools) for view in devices.views], dtype=np.bool_)
    return found[groups[devices.view_of]] if demands else np.ones(snapshot.size, dtype=np.bool_)


def assume(snapshot: Snapshot, shape: RequestShape, row: int, count: int = 1) -> None:
    """Records in the snapshot the devices that the claims of `count` pods get on the row; a negative count frees them.

    The filter must allow the row.
    """
    claims = shape.pod_on_node.facts.devices
    if not claims:
        return
    if count > 0:
        plan(snapshot.nodes, snapshot.devices, claims, row, count)
        return
    for one in claims:
        snapshot.devices.release(one, -count)


def plan(nodes: NodeTable, planned: PlannedDevices, claims: Sequence[PodClaim], row: int, count: int) -> None:
    """Plans `count` pods on an allowed row, with devices for those of their claims that have none yet."""
    demands = open_demands(nodes, planned, claims)
    chosen: Iterator[DeviceAllocation] = iter(())
    if demands:
        devices = with_views(nodes)
        found = allocate(devices.views[devices.view_of.item(row)], demands, devices.classes, planned)
        if isinstance(found, Refusal):
            raise ValueError(f"row {row} was allowed, but: {found.text}")
        here = NodeAccess(node=nodes.rows.at(row))
        chosen = (replace(one, reach=here) if one.reach == CHOSEN_NODE else one for one in found)
    for one in claims:
        planned.plan(one, next(chosen) if planned.allocation(one) is None else None, count)


def open_demands(nodes: NodeTable, planned: PlannedDevices, claims: Iterable[PodClaim]) -> Demands:
    """Returns the demands of the claims that have no devices yet, in their order."""
    known = nodes.pods_on_nodes.devices.claims
    return tuple(known[one.claim].demand for one in claims if planned.allocation(one) is None)


def claim_independent_demands(snapshot: Snapshot, claims: Sequence[PodClaim]) -> Demands | None:
    """Returns the demands of a pod's own claims. None = other pods use one, or it is allocated or assumed."""
    devices, planned = snapshot.nodes.pods_on_nodes.devices, snapshot.devices
    if any(one.claim in devices.users() or planned.allocation(one) is not None for one in claims):
        return None
    return open_demands(snapshot.nodes, planned, claims) if all(one.claim in devices.claims for one in claims) else None


def planned_answers(devices: Devices, planned: PlannedDevices, demands: Demands) -> Answers:
    """Returns the answers for all present views, with the plan."""
    known = _real_answers(devices, demands)
    if known.fatal is not None or not planned.log:
        return known
    own = planned.overlays.get(demands)
    if own is None:
        own = planned.overlays[demands] = known.planned()
    work = StepBudget(min(_STEPS_TOGETHER, _STEPS_PER_PLAN - planned.steps))
    before = work.left
    for number in _groups(own, planned.log[own.seen :]):
        if own.fatal is None:
            _ask(devices, own, number, demands, planned, work)
    own.seen = len(planned.log)
    planned.steps += before - work.left
    return own


def _groups(answers: Answers, changed: Iterable[PoolId]) -> dict[int, None]:
    """Returns the views whose answers may change with these pools."""
    return {number: None for pool in dict.fromkeys(changed) for number in answers.by_pool.get(pool, ())}


def _ask(
    devices: Devices,
    answers: Answers,
    number: int,
    demands: Demands,
    use: DeviceUse,
    work: StepBudget,
) -> bool:
    """Asks for one view. Returns whether the answer holds for all nodes."""
    found = allocate(devices.views[number], demands, devices.classes, use, work)
    answers.codes[number] = _code(answers, found)
    if isinstance(found, Refusal) and found.is_fatal:
        answers.fatal = number, found
    if isinstance(found, Refusal) and found.is_cut:
        answers.cut.append(number)
    return answers.fatal is not None


def _real_answers(devices: Devices, demands: Demands) -> Answers:
    """Returns the answers for all present views as they are. A refusal that holds for all nodes ends the search."""
    about = devices.log_number, demands
    known = devices.answers.get(about)
    if known is None:
        if len(devices.answers) >= _MOST_DEMANDS:
            del devices.answers[next(iter(devices.answers))]
        known = Answers(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), seen=len(devices.log))
        devices.answers[about] = known
    _group(devices, known, demands)
    changed = list(_groups(known, devices.log[known.seen :]))
    known.looks += 1
    if known.looks % _LOOKS_PER_RETRY == 0:
        changed += known.cut
        known.cut = []
    known.codes[changed] = _UNKNOWN
    known.seen = len(devices.log)
    groups = np.unique(known.group_of[devices.present])
    if known.fatal is not None and known.fatal[0] in groups and known.codes[known.fatal[0]] != _UNKNOWN:
        return known
    known.fatal = None
    work = StepBudget(_STEPS_TOGETHER, _OVERDRAFT)
    for number in groups[known.codes[groups] == _UNKNOWN].tolist():
        if _ask(devices, known, number, demands, devices, work):
            break
    return known


def _group(devices: Devices, answers: Answers, demands: Demands) -> None:
    """Finds for each new view the pools that matter for the demands."""
    evaluations = Evaluations()
    answers.group_of = _extended(answers.group_of, len(devices.views), -1)
    for number in devices.present[answers.group_of[devices.present] < 0].tolist():
        pools = devices.views[number].pools
        for pool in pools:
            if pool not in answers.matters:
                answers.matters[pool] = matters(pool, demands, devices.classes, evaluations)
        group = devices.view(tuple([pool for pool in pools if answers.matters[pool]]))
        answers.group_of[number] = group.id
        for pool in group.pools:
            answers.by_pool.setdefault(pool.id, {})[group.id] = None
    answers.codes = _extended(answers.codes, len(devices.views), _UNKNOWN)


def _extended(column: IntColumn, size: int, filler: int) -> IntColumn:
    """Returns the column with at least this size."""
    if len(column) >= size:
        return column
    return np.concatenate((column, np.full(size - len(column), filler, dtype=np.int64)))


class Concern:
    """Whether changes of devices may help waiting pods. Each demand and each kind of a device is compared once."""

    __slots__ = ("_changes", "_demands", "_devices", "_evaluations", "_kinds")

    def __init__(self, devices: Devices, changes: DeviceChanges) -> None:
        self._devices, self._changes = devices, changes
        self._demands: dict[DeviceDemand, bool] = {}
        self._evaluations = Evaluations()
        self._kinds: dict[DeviceKind, None] | None = None

    def has(self, claims: Sequence[PodClaim]) -> bool:
        """Whether a claim changed, or the class of a request, or a pool with a device that its selectors match."""
        for one in claims:
            claim = self._devices.claims.get(one.claim)
            if one.claim in self._changes.claims:
                return True
            if claim is not None and claim.allocation is None and self._may_help(claim.demand):
                return True
        return False

    def _may_help(self, demand: DeviceDemand) -> bool:
        known = self._demands.get(demand)
        if known is None:
            known = self._demands[demand] = any(self._helps(request) for _, request in every_request(demand))
        return known

    def _helps(self, request: DeviceRequest) -> bool:
        if request.device_class in self._changes.classes:
            return True
        of_class = self._devices.classes.get(request.device_class)
        if of_class is None:
            return False
        selectors, kinds = selectors_of(of_class, request), self._changed_kinds()
        # An error counts as a match, because a change may have ended it.
        return len(kinds) > _MOST_COMPARED or any(
            self._evaluations.take(selectors, kind, "") is not False for kind in kinds
        )

    def _changed_kinds(self) -> dict[DeviceKind, None]:
        """Returns the kinds of devices in the changed pools, a few more than are compared at most."""
        if self._kinds is None:
            found: dict[DeviceKind, None] = {}
            for device in (one for pool in self._changes.pools for one in self._devices.devices_of(pool)):
                found[device.kind] = None
                if len(found) > _MOST_COMPARED:
                    break
            self._kinds = found
        return self._kinds
