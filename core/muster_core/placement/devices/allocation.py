"""Exact search for devices of unallocated claims in one view, as the allocator of Kubernetes 1.37 (incubating) does it.

Depth first over claims, requests and devices in the order of pools, slices and devices, with backtracking; the first
solution wins. The search is bounded by its steps, not by time. Two shortcuts skip only branches without a solution:
counts that no choice can satisfy, and devices that are equal to one that was tried in vain at the same place.

Differs: a request for all devices of a pool that is incomplete or invalid, and too many devices for one claim, refuse
the node and not the pod on all nodes. A selector that cannot be evaluated refuses the pod, as in Kubernetes. A device
of which claims have shares stays in use when its slice ends sharing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Final

from muster_core.model.constraints import Requirement, Term
from muster_core.model.devices import (
    CHOSEN_NODE,
    RESULTS_PER_CLAIM,
    Attribute,
    AttributeConstraint,
    Counters,
    DeviceAllocation,
    DeviceClass,
    DeviceDemand,
    DeviceId,
    DeviceKind,
    DeviceRequest,
    DeviceResult,
    DeviceTaint,
    NodeAccess,
)
from muster_core.placement.devices import capacity
from muster_core.placement.devices.selection import every_request, is_repelled, matches_all, selectors_of
from muster_core.state.device_use import SHARES, DeviceUse, PoolCounters
from muster_core.state.devices import CANNOT, DeviceCandidate, DeviceView, Refusal

#: Steps of one search, and devices of all claims of one pod. A step is a look at a device, one or two microseconds.
STEPS: Final = 20_000
_STEPS_AT_LEAST: Final = 64
_STEPS_AT_MOST: Final = 8 * STEPS

CUT: Final = Refusal(f"{CANNOT}: the search for devices was ended after too many steps", is_cut=True)

#: Devices after which the search looks ahead at each one, because it is not one of the usual short searches.
_FEW: Final = 64
MOST_DEVICES: Final = 192
_TOO_MANY: Final = f"{CANNOT}: the claims of one pod get at most {MOST_DEVICES} devices"


@dataclass(slots=True)
class StepBudget:
    """Steps that several searches may take together. Each may take up to STEPS, and at least _STEPS_AT_LEAST.

    `overdraft`: steps beyond them that searches without backtracking may take together; None = as many as they need.
    """

    left: int = STEPS
    overdraft: int | None = None

    def take(self, least: int) -> int:
        """Returns how many steps the next search may take. `least`: steps of a search without backtracking."""
        if self.overdraft is not None and self.left < -self.overdraft:
            return 0
        return max(min(STEPS, self.left), min(least + _STEPS_AT_LEAST, _STEPS_AT_MOST))


class _Refused(Exception):
    """Ends a search."""

    def __init__(self, text: str, *, is_fatal: bool = False, is_cut: bool = False) -> None:
        super().__init__(text)
        self.refusal = Refusal(text, is_fatal, is_cut)


class _Outcome(Enum):
    FOUND = auto()
    NONE = auto()
    #: Every choice would exceed the results of a claim, so earlier choices of devices do not matter.
    EXCEEDED = auto()


@dataclass(slots=True, eq=False)
class _Wanted:
    """A request without alternatives, or one alternative of `parent`. `matching`: per candidate, as in `_matches`.

    `usable`: candidates that it may get.
    """

    request: DeviceRequest
    parent: DeviceRequest | None
    selectors: tuple[tuple[str, str], ...]
    matching: list[object]
    count: int = 0
    every: list[int] = field(default_factory=list)
    usable: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        """Name of the request in results."""
        return self.request.name if self.parent is None else f"{self.parent.name}/{self.request.name}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names by which constraints refer to the request."""
        return (self.name,) if self.parent is None else (self.parent.name, self.name)


class _Constraint:
    """State of a constraint: the values of the chosen devices."""

    __slots__ = ("_attribute", "_is_distinct", "_requests", "_values")

    def __init__(self, constraint: AttributeConstraint) -> None:
        self._requests = frozenset(constraint.requests)
        self._attribute, self._is_distinct = constraint.attribute, constraint.distinct
        self._values: list[Attribute] = []

    def concerns(self, wanted: _Wanted) -> bool:
        """Whether it applies to the request."""
        return not self._requests or not self._requests.isdisjoint(wanted.names)

    def value(self, kind: DeviceKind) -> Attribute | None:
        """Returns the value of a device."""
        domain, slash, name = self._attribute.partition("/")
        about = (domain, name) if slash else (kind.driver, domain)
        return next((value for one, value in kind.attributes if one == about), None)

    def can_hold(self, needs: Sequence[_Need], kinds: Sequence[DeviceKind], claim: int, work: _Work) -> bool:
        """Whether the requests can get their devices with one value of the attribute, or with distinct values."""
        others = [need for need in needs if not self._binds(need, claim)]
        bound = [need for need in needs if self._binds(need, claim)]
        by_value: dict[Attribute, set[int]] = {}
        indices = frozenset[int]().union(*(need.usable for need in bound))
        work(len(indices) // 2)
        for index in indices:
            value = self.value(kinds[index])
            if value is not None and self._allows(value):
                by_value.setdefault(value, set()).add(index)
        work(len(by_value) * len(needs) // 4)
        if self._is_distinct:  # a value is given once, like a device
            usable = [
                frozenset(at for at, same in enumerate(by_value.values()) if need.usable & same) for need in bound
            ]
            return _fit([replace(need, usable=one) for need, one in zip(bound, usable, strict=True)], work)
        return not bound or any(
            _fit([*(replace(need, usable=need.usable & same) for need in bound), *others], work)
            for same in by_value.values()
        )

    def _binds(self, need: _Need, claim: int) -> bool:
        """Whether all devices of the request have to have the value."""
        return need.at[0] == claim and bool(need.count) and all(self.concerns(one) for one in need.wanted)

    def add(self, wanted: _Wanted, kind: DeviceKind) -> bool:
        """Adds a device if it has the value of the others, or another one than all of them."""
        if not self.concerns(wanted):
            return True
        value = self.value(kind)
        if value is None or not self._allows(value):
            return False
        self._values.append(value)
        return True

    def _allows(self, value: Attribute) -> bool:
        return value not in self._values if self._is_distinct else not self._values or value == self._values[0]

    def remove(self, wanted: _Wanted) -> None:
        """Reverts `add`."""
        if self.concerns(wanted):
            self._values.pop()


@dataclass(slots=True, eq=False)
class _Need:
    """The least that a request needs: so many of the usable devices of its alternatives. `count` None: it has none."""

    at: tuple[int, int]
    wanted: Sequence[_Wanted]
    count: int | None = None
    usable: frozenset[int] = frozenset()

    def add(self, wanted: _Wanted) -> None:
        """Adds an alternative, unless it has too few devices."""
        if len(wanted.usable) >= wanted.count and (wanted.usable or not wanted.request.everything):
            self.count = wanted.count if self.count is None else min(self.count, wanted.count)
            self.usable |= wanted.usable

    def without(self, shareable: frozenset[int]) -> _Need:
        """Returns what it needs of devices that it cannot share, if it gets all that it can share."""
        count = self.count and max(self.count - len(self.usable & shareable), 0)
        return replace(self, count=count, usable=self.usable - shareable)

    @property
    def is_shared(self) -> bool:
        """Whether it may have devices that others have."""
        return self.wanted[0].request.admin


def _fit(needs: Iterable[_Need], work: _Work) -> bool:
    """Whether each request can get its devices, so that no device is given twice."""
    taken: dict[int, _Need] = {}
    for need in needs:
        if need.is_shared:
            if len(need.usable) < (need.count or 0):
                return False
        elif not all(_has_one_more(need, taken, work) for _ in range(need.count or 0)):
            return False
    return True


def _has_one_more(need: _Need, taken: dict[int, _Need], work: _Work) -> bool:
    """Gives the request one more device, for which others may change theirs. Returns whether there is one."""
    #: Requests that look for a device, and the one that each then gives up; and by device that was looked at.
    looking: list[tuple[_Need, int | None]] = [(need, None)]
    asked, gives_up = {need}, dict[int, int | None]()
    for one, given in looking:
        for device in one.usable:
            if device in gives_up:
                continue
            gives_up[device] = given
            holder = taken.get(device)
            if holder is None:
                work(len(gives_up) // 8)
                _move(need, device, gives_up, taken)
                return True
            if holder not in asked:
                asked.add(holder)
                looking.append((holder, device))
    work(len(gives_up) // 8)
    return False


def _move(need: _Need, device: int, gives_up: Mapping[int, int | None], taken: dict[int, _Need]) -> None:
    """Gives this free device to the request that looked for it, the one that it gives up to the next, and so on."""
    while (given := gives_up[device]) is not None:
        taken[device] = taken[given]
        device = given
    taken[device] = need


#: Function that counts steps. It raises _Refused if there are too many.
_Work = Callable[[int], None]

_Alike = tuple[DeviceKind, tuple[DeviceTaint, ...], PoolCounters | None, Counters]


def allocate(
    view: DeviceView,
    demands: Sequence[DeviceDemand],
    classes: Mapping[str, DeviceClass],
    use: DeviceUse,
    work: StepBudget | None = None,
) -> tuple[DeviceAllocation, ...] | Refusal:
    """Returns an allocation for each demand, or why there is none. `use`: what others have."""
    work = work or StepBudget()
    requests = [request for demand in demands for _, request in every_request(demand)]
    selectors = sum(len(one.selectors) + _selectors(classes.get(one.device_class)) for one in requests)
    looks = sum(_cost(candidate) for candidate in view.candidates)
    steps = work.take(looks * (2 + 3 * len(requests)) + len(view.candidates) * selectors)
    if steps <= 0:
        return CUT
    search = _Search(view, demands, classes, use, steps)
    try:
        return search.run()
    except _Refused as refused:
        return refused.refusal
    finally:
        work.left -= steps - search.steps


class _Search:  # long: one search with its state
    """One search."""

    def __init__(
        self,
        view: DeviceView,
        demands: Sequence[DeviceDemand],
        classes: Mapping[str, DeviceClass],
        use: DeviceUse,
        steps: int,
    ) -> None:
        self._view, self._demands, self._classes = view, demands, classes
        self._use = use
        self.steps = steps
        self._devices = 0
        self._wanted: list[list[list[_Wanted]]] = []
        self._constraints = [[_Constraint(one) for one in demand.constraints] for demand in demands]
        #: Claims that have the candidate in the present attempt, and the results by claim.
        self._taken: dict[DeviceId, list[int]] = {}
        self._results: list[list[tuple[_Wanted, DeviceCandidate]]] = [[] for _ in demands]
        #: Positions of these candidates.
        self._indices: dict[int, None] = {}
        #: What shares take in the present attempt, and what is left of the counters of pools.
        self._shares: dict[DeviceId, Counter[str]] = {}
        self._left: dict[PoolCounters, dict[tuple[str, str], int]] = {}
        self._needs: list[_Need] = []
        shareable = (index for index, one in enumerate(view.candidates) if one.device.kind.is_shared)
        self._shareable = frozenset(shareable)

    def run(self) -> tuple[DeviceAllocation, ...]:
        """Returns an allocation for each demand. Raises _Refused."""
        if sum(map(_least, self._demands)) > MOST_DEVICES:
            raise _Refused(_TOO_MANY, is_fatal=True)
        for demand in self._demands:
            self._prepare(demand)
        self._needs = self._find_needs()
        if not self._is_dead_end((0, 0)) and self._next_request(0, 0) is _Outcome.FOUND:
            return tuple(self._allocation(chosen) for chosen in self._results)
        if any(pool.is_invalid for pool in self._view.pools):
            raise _Refused("invalid resource pools were encountered")
        raise _Refused(CANNOT)

    def _prepare(self, demand: DeviceDemand) -> None:
        """Finds what each request wants, and checks that a claim can hold it."""
        least, requests = 0, list[list[_Wanted]]()
        for request in demand.requests:
            own = request.alternatives or (request,)
            parent = request if request.alternatives else None
            requests.append([self._want(one, parent) for one in own])
            fewest = min(one.count for one in requests[-1])
            if fewest > RESULTS_PER_CLAIM - least:
                raise _Refused(
                    f"request {request.name}: adding {fewest} devices exceeds the claim limit of "
                    f"{RESULTS_PER_CLAIM}, with {least} already accounted for"
                )
            least += fewest
        self._wanted.append(requests)

    def _want(self, request: DeviceRequest, parent: DeviceRequest | None) -> _Wanted:
        of_class = self._classes.get(request.device_class)
        if of_class is None:
            raise _Refused(f"device class {request.device_class} does not exist", is_fatal=True)
        selectors = selectors_of(of_class, request)
        self._work(1 + len(self._view.candidates) // 32)
        matching = [found for pool in self._view.pools for found in pool.results(selectors)]
        wanted = _Wanted(request, parent, selectors, matching, request.count)
        if request.everything:
            wanted.every = list(self._every(wanted))
            wanted.count = len(wanted.every)
        return wanted

    def _every(self, wanted: _Wanted) -> Iterator[int]:
        """Yields all matching candidates. Raises _Refused if the devices of some pool are not known."""
        start = 0
        for pool in self._view.pools:
            if pool.is_incomplete or pool.is_invalid:
                why = "being updated" if pool.is_incomplete else "invalid"
                text = f"asks for all devices, but a resource pool is currently {why}"
                raise _Refused(f"request {wanted.name}: {text}")
            end = start + len(pool.candidates)
            for index in range(start, end):
                self._work(_cost(self._view.candidates[index]))
                if self._is_selectable(wanted, index) and self._has_capacity(wanted, index, is_empty=True):
                    yield index
            start = end

    def _is_selectable(self, wanted: _Wanted, index: int) -> bool:
        """Whether all selectors match the candidate. Raises _Refused if one cannot be evaluated."""
        found = self._matches(wanted, index)
        if isinstance(found, str):
            raise _Refused(found, is_fatal=True)
        return bool(found)

    def _matches(self, wanted: _Wanted, index: int) -> object:
        """Returns whether the candidate matches, or an error. The result is kept for the pool."""
        found = wanted.matching[index]
        if found is None:
            self._work(len(wanted.selectors))
            candidate, place = self._view.candidates[index], index
            found = wanted.matching[index] = matches_all(wanted.selectors, candidate.device.kind, candidate.id)
            for pool in self._view.pools:
                if place < len(pool.candidates):
                    pool.results(wanted.selectors)[place] = found
                    break
                place -= len(pool.candidates)
        return found

    def _find_needs(self) -> list[_Need]:
        """Returns what each request needs at least; empty if a selector cannot be evaluated.

        That is reported even if the claims cannot be allocated anyway, so that no branch may be skipped.
        """
        needs: list[_Need] = []
        for claim, requests in enumerate(self._wanted):
            for request, alternatives in enumerate(requests):
                need = _Need((claim, request), alternatives)
                for wanted in alternatives:
                    usable = self._usable(wanted)
                    if usable is None:
                        return []
                    wanted.usable = frozenset(usable)
                    need.add(wanted)
                needs.append(need)
        return needs

    def _is_dead_end(self, at: tuple[int, int], wanted: _Wanted | None = None, number: int = 0, start: int = 0) -> bool:
        """Whether there are certainly too few devices for this request and those that follow.

        `wanted`: the alternative of the request that has `number` devices. It needs others of those from `start`.
        """
        needs = [need for need in self._needs if need.at >= at]
        if wanted is not None and needs:
            needs[0] = _Need(at, [wanted], wanted.count - number, wanted.usable.difference(range(start)))
        if any(need.count is None for need in needs):
            return True
        self._work(len(self._view.candidates) * (1 + len(needs)) // 4)
        out = frozenset(self._indices)
        if self._left:
            out = out.union(index for index, one in enumerate(self._view.candidates) if not self._has_counters(one))
        left = [need if need.is_shared else replace(need, usable=need.usable - out) for need in needs]
        if self._shareable:
            left = [need if need.is_shared else need.without(self._shareable) for need in left]
        if not _fit(left, self._work):
            return True
        kinds = [candidate.device.kind for candidate in self._view.candidates]
        return any(
            not constraint.can_hold(left, kinds, claim, self._work)
            for claim, constraints in enumerate(self._constraints)
            for constraint in constraints
        )

    def _usable(self, wanted: _Wanted) -> list[int] | None:
        """Returns the candidates that the request may get; None = a selector cannot be evaluated."""
        found = []
        for index, candidate in enumerate(self._view.candidates):
            if not wanted.request.admin and is_in_use(self._use, candidate):
                continue
            self._work(_cost(candidate))
            matching = self._matches(wanted, index)
            if isinstance(matching, str):
                return None
            shares = self._use.shares(candidate.id)
            fitting = matching and capacity.fits(candidate.device, wanted.request.capacity, shares)
            if isinstance(fitting, str):
                return None
            if fitting and self._may_get(wanted, candidate):
                found.append(index)
        return found

    def _may_get(self, wanted: _Wanted, candidate: DeviceCandidate) -> bool:
        """Whether nothing but constraints keeps a matching device, which is not in use, from the request."""
        if candidate.device.unsupported or is_repelled(wanted.request, candidate.device.taints):
            return False
        return self._has_counters(candidate)

    def _has_counters(self, candidate: DeviceCandidate) -> bool:
        """Whether the counters of the device are left."""
        if candidate.counters is None:
            return True
        left = self._counters(candidate)
        return all(left[counter] >= amount for counter, amount in self._consumes(candidate))

    def _consumes(self, candidate: DeviceCandidate) -> Counters:
        """Returns what the device would take of the counters now. Of its shares only the first takes some."""
        name, device = candidate.id, candidate.device
        is_first = not device.kind.is_shared or (name not in self._shares and self._use.shares(name) is None)
        return device.consumes if is_first else ()

    def _has_capacity(self, wanted: _Wanted, index: int, *, is_empty: bool = False) -> bool:
        """Whether the device, or if it were not in use, has the capacity. Raises _Refused if that cannot be said."""
        name, device = self._view.candidates[index].id, self._view.candidates[index].device
        taken = (None, None) if is_empty else (self._use.shares(name), self._shares.get(name))
        found = capacity.fits(device, wanted.request.capacity, *taken)
        if isinstance(found, str):
            raise _Refused(f"request {wanted.name}: device {name}: {found}", is_fatal=True)
        return found

    def _counters(self, candidate: DeviceCandidate) -> dict[tuple[str, str], int]:
        """Returns what is left of the counters of the candidate's pool."""
        counters = candidate.counters
        if counters is None:
            return {}
        if counters not in self._left:
            self._left[counters] = dict(self._use.available(counters))
        return self._left[counters]

    def _next_request(self, claim: int, request: int) -> _Outcome:
        """Allocates this request and all that follow."""
        if claim >= len(self._demands):
            return _Outcome.FOUND
        if request >= len(self._wanted[claim]):
            found = self._next_request(claim + 1, 0)
            return _Outcome.NONE if found is _Outcome.EXCEEDED else found
        of_request = self._wanted[claim][request]
        if of_request[0].parent is None:
            return self._next_device((claim, request), of_request[0], 0, 0)
        is_exceeded = True
        for wanted in of_request:
            found = self._next_device((claim, request), wanted, 0, 0)
            if found is _Outcome.FOUND:
                return found
            is_exceeded = is_exceeded and found is _Outcome.EXCEEDED
        return _Outcome.EXCEEDED if is_exceeded else _Outcome.NONE

    def _next_device(self, at: tuple[int, int], wanted: _Wanted, number: int, start: int) -> _Outcome:
        """Allocates device `number` of the request, from candidate `start`, and all that follows."""
        self._work(1)
        claim, request = at
        if number >= wanted.count:
            is_empty = wanted.request.everything and not wanted.count
            return _Outcome.NONE if is_empty else self._next_request(claim, request + 1)
        if wanted.count - number > RESULTS_PER_CLAIM - len(self._results[claim]):
            return _Outcome.EXCEEDED
        if sum(map(len, self._results)) >= MOST_DEVICES:
            raise _Refused(_TOO_MANY)
        if wanted.request.everything:
            return self._whole(at, wanted, number)
        self._devices += 1
        if self._devices > _FEW and self._is_dead_end(at, wanted, number, start):
            return _Outcome.NONE
        return self._first(at, wanted, number, start)

    def _work(self, steps: int) -> None:
        """Counts steps. Raises _Refused if there are too many."""
        self.steps -= steps
        if self.steps < 0:
            raise _Refused(CUT.text, is_cut=True)

    def _first(self, at: tuple[int, int], wanted: _Wanted, number: int, start: int) -> _Outcome:
        """Tries the candidates from `start` for device `number` of the request."""
        claim, tried = at[0], set[_Alike]()
        for index in range(start, len(self._view.candidates)):
            candidate = self._view.candidates[index]
            self._work(_cost(candidate))
            if (
                self._is_taken(claim, wanted, candidate)
                or not self._is_selectable(wanted, index)
                or not self._has_capacity(wanted, index)
            ):
                continue
            device = candidate.device
            kind: _Alike = device.kind, device.taints, candidate.counters, device.consumes
            if kind in tried or not self._take(claim, wanted, index):
                continue
            found = self._next_device(at, wanted, number + 1, index + 1)
            if found is _Outcome.FOUND:
                return found
            self._give_back(claim, wanted, index)
            if found is _Outcome.EXCEEDED:
                return found
            if not wanted.request.admin and not device.kind.is_shared:
                tried.add(kind)
        return _Outcome.NONE

    def _whole(self, at: tuple[int, int], wanted: _Wanted, number: int) -> _Outcome:
        """Allocates the next of all matching devices. If it is not available, there is no solution."""
        index, claim = wanted.every[number], at[0]
        if (
            self._is_taken(claim, wanted, self._view.candidates[index])
            or not self._has_capacity(wanted, index)
            or not self._take(claim, wanted, index, must=True)
        ):
            return _Outcome.NONE
        found = self._next_device(at, wanted, number + 1, 0)
        if found is not _Outcome.FOUND:
            self._give_back(claim, wanted, index)
        return found

    def _is_taken(self, claim: int, wanted: _Wanted, candidate: DeviceCandidate) -> bool:
        """Whether the device is in use; with admin access, whether this claim has it."""
        takers = self._taken.get(candidate.id, ())
        return claim in takers if wanted.request.admin else bool(takers) or is_in_use(self._use, candidate)

    def _take(self, claim: int, wanted: _Wanted, index: int, *, must: bool = False) -> bool:
        """Adds a matching, free device to the results if the constraints allow it. Raises _Refused if it `must`."""
        candidate = self._view.candidates[index]
        if not self._may_get(wanted, candidate):
            return False
        constraints = self._constraints[claim]
        for number, constraint in enumerate(constraints):
            if not constraint.add(wanted, candidate.device.kind):
                for earlier in constraints[:number]:
                    earlier.remove(wanted)
                if must:
                    text = "cannot add a device because a claim constraint would not be satisfied"
                    raise _Refused(f"request {wanted.name}: {text}")
                return False
        self._count(candidate, -1)
        if candidate.device.kind.is_shared:
            self._share(wanted, candidate, 1)
        else:
            self._taken.setdefault(candidate.id, []).append(claim)
            self._indices[index] = None
        self._results[claim].append((wanted, candidate))
        return True

    def _give_back(self, claim: int, wanted: _Wanted, index: int) -> None:
        candidate = self._view.candidates[index]
        self._results[claim].pop()
        if candidate.device.kind.is_shared:
            self._share(wanted, candidate, -1)
        else:
            takers = self._taken[candidate.id]
            takers.remove(claim)
            if not takers:
                del self._taken[candidate.id]
                del self._indices[index]
        self._count(candidate, 1)
        for constraint in self._constraints[claim]:
            constraint.remove(wanted)

    def _count(self, candidate: DeviceCandidate, sign: int) -> None:
        """Takes the counters of the device, or returns them."""
        if candidate.counters is not None:
            left = self._counters(candidate)
            for counter, amount in self._consumes(candidate):
                left[counter] += sign * amount

    def _share(self, wanted: _Wanted, candidate: DeviceCandidate, count: int) -> None:
        """Counts a share of the device so many times."""
        taken = self._shares.setdefault(candidate.id, Counter())
        for name, amount in ((SHARES, 1), *(_result(wanted, candidate).consumed or ())):
            taken[name] += count * amount
        if not taken[SHARES]:
            del self._shares[candidate.id]

    def _allocation(self, chosen: list[tuple[_Wanted, DeviceCandidate]]) -> DeviceAllocation:
        results = (_result(wanted, one) for wanted, one in chosen)
        devices = [one.device for _, one in chosen]
        reach = self._reach(one.reach for _, one in chosen)
        if reach.node is None and any(device.binds_to_node for device in devices):
            reach = CHOSEN_NODE
        return DeviceAllocation(tuple(results), reach)

    def _reach(self, reaches: Iterable[NodeAccess]) -> NodeAccess:
        """Returns the nodes that can access all the devices, as createNodeSelector does."""
        labels, fields = list[Requirement](), list[Requirement]()
        for reach in reaches:
            if reach.node is not None:
                return NodeAccess(node=reach.node)
            if reach.terms is None:
                continue
            if len(reach.terms) > 1:
                raise _Refused(f"unsupported ResourceSlice.NodeSelector with {len(reach.terms)} terms")
            for term in reach.terms:
                _extend(labels, term.expressions)
                _extend(fields, term.fields)
        if labels or fields:
            return NodeAccess(terms=(Term(tuple(labels), tuple(fields)),))
        return NodeAccess(everywhere=True)


def _result(wanted: _Wanted, candidate: DeviceCandidate) -> DeviceResult:
    consumed = None
    if candidate.device.kind.is_shared:
        found = capacity.consumption(candidate.device.limits, wanted.request.capacity)
        consumed = found if isinstance(found, tuple) else ()
    return DeviceResult(wanted.name, candidate.id, wanted.request.admin, consumed, candidate.device.binding)


def _extend(known: list[Requirement], more: Iterable[Requirement]) -> None:
    """Adds requirements that are not there yet, in any order of their values."""
    for one in more:
        about = (one.key, one.operator, frozenset(one.values))
        if about not in [(other.key, other.operator, frozenset(other.values)) for other in known]:
            known.append(one)


def is_in_use(use: DeviceUse, candidate: DeviceCandidate) -> bool:
    """Whether claims have the device so that no other claim can get it. Of a shared one, its capacity decides."""
    return use.is_used(candidate.id) or (not candidate.device.kind.is_shared and use.shares(candidate.id) is not None)


def _cost(candidate: DeviceCandidate) -> int:
    """Returns the steps of a look at a device and its capacities."""
    return 1 + len(candidate.device.limits) // 4


def _selectors(of_class: DeviceClass | None) -> int:
    """Returns the number of selectors of a class."""
    return 0 if of_class is None else len(of_class.selectors)


def _least(demand: DeviceDemand) -> int:
    """Returns how many devices the claim needs at least, as far as that does not depend on the node."""
    counts = (min(0 if one.everything else one.count for one in of.alternatives or (of,)) for of in demand.requests)
    return min(sum(counts), RESULTS_PER_CLAIM)
