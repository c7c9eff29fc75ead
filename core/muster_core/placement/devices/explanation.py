"""Why no node can allocate the device claims of a pod: which request, how many devices match, and what refuses them.

Computed only when a reason is reported, and kept until devices change. Names of claims are not part of it, because pods
of one template share the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from muster_core.model.devices import AttributeConstraint, DeviceClass, DeviceDemand, DeviceId, DeviceRequest
from muster_core.model.ids import NodeId
from muster_core.model.resources import NOTHING, Resources
from muster_core.placement.devices.allocation import StepBudget, allocate, is_in_use
from muster_core.placement.devices.capacity import fits
from muster_core.placement.devices.filter import is_anywhere, open_demands, unusable, with_views
from muster_core.placement.devices.selection import is_repelled, matches_all, selectors_of
from muster_core.state.devices import DeviceCandidate, Devices, DeviceView, PlannedDevices, PoolView, Refusal
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot
from muster_si import keys

#: Devices that one explanation looks at, for all requests together; views where it searches without a constraint, and
#: constraints that it leaves out, one at a time. All searches share the steps of one.
_MOST_LOOKS: Final = 50_000
_MOST_VIEWS: Final = 4
_MOST_CONSTRAINTS: Final = 4

_MOST_EXPLAINED: Final = 256
_MOST_TEXT: Final = 500

_ConstraintAt = tuple[int, int]


def of_claims(snapshot: Snapshot, shape: RequestShape) -> str:
    """Returns a sentence about the first request that no node can satisfy; empty = nothing is known."""
    claims, planned = shape.pod_on_node.facts.devices, snapshot.devices
    if not claims or unusable(snapshot, shape):
        return ""
    devices = with_views(snapshot.nodes)
    demands = open_demands(snapshot.nodes, planned, claims)
    places = tuple(number for number, one in enumerate(claims, 1) if planned.allocation(one) is None)
    about = demands, places, len(claims)
    known = devices.explained.get(about)
    if known is not None and known[0] == devices.version and not planned.log:
        return known[1]
    if is_anywhere(devices, planned, demands):
        return ""
    search = _Explanation(devices, planned, demands, places if len(claims) > 1 else ())
    text = search.text()[:_MOST_TEXT]
    if not planned.log:
        if len(devices.explained) >= _MOST_EXPLAINED:
            devices.explained.clear()
        devices.explained[about] = devices.version, text
    return text


def of_resource(snapshot: Snapshot, name: str) -> str:
    """Returns a sentence about the DeviceClass of an extended resource that nodes lack; empty = there is no class.

    The operator creates a claim for the resource instead, unless a node's device plugin has it.
    """
    capacity, classes = snapshot.capacity(name), snapshot.nodes.pods_on_nodes.devices.classes
    implied = name.removeprefix(keys.RESOURCE_OF_CLASS)
    if implied != name and implied not in classes:
        return f"DeviceClass {implied} does not exist, or the setting kubernetes.deviceClaims is off."
    of_class = min((one.name for one in classes.values() if one.resource == name), default="")
    is_on_nodes = capacity is not None and bool((capacity > 0).any())
    return f"DeviceClass {of_class} is not used while a node itself has {name}." if of_class and is_on_nodes else ""


@dataclass(slots=True)
class _Supply:
    """Devices for one request. `usable`: the number of those that it could get, by pool and in the best view."""

    of_class: set[DeviceId] = field(default_factory=set)
    matching: set[DeviceId] = field(default_factory=set)
    free: set[DeviceId] = field(default_factory=set)
    repelled: set[DeviceId] = field(default_factory=set)
    consuming: set[DeviceId] = field(default_factory=set)
    small: set[DeviceId] = field(default_factory=set)
    features: dict[str, set[DeviceId]] = field(default_factory=dict)
    usable: dict[PoolView, int] = field(default_factory=dict)
    best: int = 0


class _Explanation:
    """One explanation."""

    def __init__(
        self, devices: Devices, planned: PlannedDevices, demands: Sequence[DeviceDemand], places: Sequence[int]
    ) -> None:
        """`places`: positions of the claims in the pod's list, empty = it has one claim."""
        self._devices, self._planned, self._demands, self._places = devices, planned, demands, places
        self._views = [devices.views[number] for number in devices.present.tolist()]
        self._pools = list(dict.fromkeys(pool for view in self._views for pool in view.pools))
        self._left = _MOST_LOOKS
        self._work = StepBudget()

    def text(self) -> str:
        """Returns the sentence."""
        fitting = list(self._views)
        for claim, demand in enumerate(self._demands):
            for request in demand.requests:
                supplies = [self._supply(one) for one in request.alternatives or (request,)]
                if self._left < 0:
                    return ""
                alternatives = zip(request.alternatives or (request,), supplies, strict=True)
                if all(self._is_short(one, supply) for one, supply in alternatives):
                    one = (request.alternatives or (request,))[0]
                    name = f"{request.name}/{one.name}" if request.alternatives else request.name
                    return self._shortage(claim, name, one, supplies[0])
                least = request.alternatives or (request,)
                fitting = [
                    view
                    for view in fitting
                    if any(
                        sum(supply.usable[pool] for pool in view.pools) >= one.count
                        for one, supply in zip(least, supplies, strict=True)
                    )
                ]
        return self._conflict(fitting[:_MOST_VIEWS])

    def _supply(self, request: DeviceRequest) -> _Supply:
        found, of_class = _Supply(), self._devices.classes[request.device_class]
        looks = 1 + len(of_class.selectors) + len(request.selectors)
        for pool in self._pools:
            self._left -= looks * len(pool.candidates)
            if self._left < 0:
                return found
            found.usable[pool] = self._count(pool, request, of_class, found)
        found.best = max((sum(found.usable[pool] for pool in view.pools) for view in self._views), default=0)
        return found

    def _count(self, pool: PoolView, request: DeviceRequest, of_class: DeviceClass, found: _Supply) -> int:
        """Adds the devices of a pool. Returns how many of them the request could get."""
        usable = 0
        for candidate, is_class, is_match in zip(
            pool.candidates,
            _matching(pool, of_class, replace(request, selectors=())),
            _matching(pool, of_class, request),
            strict=True,
        ):
            name, device = candidate.id, candidate.device
            if is_class:
                found.of_class.add(name)
            if not is_match:
                continue
            found.matching.add(name)
            if device.unsupported:
                found.features.setdefault(device.unsupported, set()).add(name)
            elif not request.admin and is_in_use(self._planned, candidate):
                continue
            elif is_repelled(request, device.taints):
                found.repelled.add(name)
            elif fits(device, request.capacity, self._planned.shares(name)) is not True:
                found.small.add(name)
            elif self._has_too_few_counters(candidate):
                found.consuming.add(name)
            else:
                found.free.add(name)
                usable += 1
        return usable

    def _has_too_few_counters(self, candidate: DeviceCandidate) -> bool:
        counters, name = candidate.counters, candidate.id
        if counters is None or self._planned.shares(name) is not None:
            return False
        return counters.is_exceeded(self._planned.available(counters), [name])

    def _is_short(self, request: DeviceRequest, supply: _Supply) -> bool:
        return supply.best < (1 if request.everything else request.count)

    def _who(self, claim: int, name: str) -> str:
        return f"Claim {self._places[claim]}, request {name}" if self._places else f"Request {name}"

    def _shortage(self, claim: int, name: str, request: DeviceRequest, supply: _Supply) -> str:
        count = "all devices" if request.everything else f"{request.count} device{'s' * (request.count != 1)}"
        parts = [f"{len(supply.of_class)} in the class"]
        if request.selectors:
            parts.append(f"{len(supply.matching)} matched by its selectors")
        for feature, names in supply.features.items():
            parts.append(f"{len(names)} not usable because of {feature}, which is not supported")
        if supply.repelled:
            parts.append(f"{len(supply.repelled)} with taints that it does not tolerate")
        if supply.small:
            parts.append(f"{len(supply.small)} with too little capacity left")
        if supply.consuming:
            parts.append(f"{len(supply.consuming)} that share counters which are used up")
        parts.append(f"{len(supply.free)} free")
        if supply.free:
            parts.append(f"at most {supply.best} for one node")
        return f"{self._who(claim, name)} needs {count} of class {request.device_class}: {', '.join(parts)}."

    def _conflict(self, views: Sequence[DeviceView]) -> str:
        """Explains why no node has the devices of all requests, although it has those of each."""
        constraints = [
            (claim, at) for claim, demand in enumerate(self._demands) for at in range(len(demand.constraints))
        ]
        for claim, at in constraints[:_MOST_CONSTRAINTS]:
            if self._is_possible(views, [(claim, at)]):
                one = self._demands[claim].constraints[at]
                who = f"Claim {self._places[claim]}" if self._places else "The claim"
                about = f" for {', '.join(one.requests)}" if one.requests else ""
                values = "distinct values" if one.distinct else "one value"
                return f"{who} needs devices with {values} of {one.attribute}{about}: no node has enough free ones."
        if constraints and self._is_possible(views, constraints):
            return "No node has free devices that satisfy all its constraints together."
        return "" if self._work.left <= 0 else "No node has enough free devices for all its requests together."

    def _is_possible(self, views: Sequence[DeviceView], without: Sequence[_ConstraintAt]) -> bool:
        """Whether one of the views has the devices without these constraints. False if no steps are left."""
        demands = [
            replace(demand, constraints=tuple(_kept(demand, claim, without)))
            for claim, demand in enumerate(self._demands)
        ]
        for view in views:
            if self._work.left <= 0:
                return False
            found = allocate(view, demands, self._devices.classes, self._planned, self._work)
            if not isinstance(found, Refusal):
                return True
        return False


def _kept(demand: DeviceDemand, claim: int, without: Sequence[_ConstraintAt]) -> Iterator[AttributeConstraint]:
    return (one for at, one in enumerate(demand.constraints) if (claim, at) not in without)


#: Classes whose devices are counted on a node.
_MOST_CLASSES: Final = 8


def on_node(nodes: NodeTable, name: NodeId) -> tuple[Resources, Resources]:
    """Returns the number of devices in the node's own slices by class, and how many of them are in use.

    The names are those of quotas. A device of several classes counts for each of them.
    """
    if not nodes.pods_on_nodes.devices.classes:
        return NOTHING, NOTHING
    devices, every, used = with_views(nodes), Counter[str](), Counter[str]()
    view = devices.views[devices.view_of.item(nodes.rows.row(name))]
    for of_class in list(devices.classes.values())[:_MOST_CLASSES]:
        resource = of_class.name + keys.DEVICES_OF_CLASS
        for device in (one for pool in view.pools for one in _local(pool, of_class, name)):
            every[resource] += 1
            used[resource] += device in devices.used or device in devices.shared
    return Resources(every), Resources(used)


def _local(pool: PoolView, of_class: DeviceClass, name: NodeId) -> list[DeviceId]:
    """Returns the devices of the class that only this node can access. Kept apart from the results of the search."""
    selectors = selectors_of(of_class, DeviceRequest(""))
    found = pool.local.get(selectors)
    if found is None:
        if len(pool.local) >= _MOST_CLASSES:
            pool.local.clear()
        own = (candidate for candidate in pool.candidates if candidate.reach.node == name)
        found = [one.id for one in own if matches_all(selectors, one.device.kind, one.id) is True]
        pool.local[selectors] = found
    return found


def _matching(pool: PoolView, of_class: DeviceClass, request: DeviceRequest) -> list[object]:
    """Returns by device whether all selectors match. An error counts as no match; the reason of the nodes names it."""
    selectors = selectors_of(of_class, request)
    results = pool.results(selectors)
    for index, candidate in enumerate(pool.candidates):
        if results[index] is None:
            results[index] = matches_all(selectors, candidate.device.kind, candidate.id)
    return [one is True for one in results]
