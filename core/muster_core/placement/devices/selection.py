"""Which devices a request may get by its selectors and tolerations, and which pools matter for the requests of claims.

`allocation` searches among them, `filter` leaves out pools that do not matter, and `explanation` counts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from muster_core.model.devices import DeviceClass, DeviceDemand, DeviceKind, DeviceRequest, DeviceTaint
from muster_core.placement.devices import expressions
from muster_core.state.devices import PoolView

_PREVENTING: Final = frozenset({"NoSchedule", "NoExecute"})


def is_repelled(request: DeviceRequest, taints: Iterable[DeviceTaint]) -> bool:
    """Whether the request does not tolerate one of the taints."""
    preventing = (taint for taint in taints if taint.effect in _PREVENTING)
    return any(not any(one.tolerates(taint) for one in request.tolerations) for taint in preventing)


def matches_all(selectors: Iterable[tuple[str, str]], device: DeviceKind, name: object) -> bool | str:
    """Returns whether all selectors match, or the error of the first one that cannot be evaluated."""
    for owner, expression in selectors:
        program = expressions.compiled(expression)
        if isinstance(program, str):
            return f"{owner}: CEL compile error: {program}"
        found = expressions.matches(program, expression, device)
        if isinstance(found, str):
            return f"{owner}: selector on device {name}: CEL runtime error: {found}"
        if not found:
            return False
    return True


@dataclass(slots=True)
class Evaluations:
    """Selectors that may be evaluated in one step, to find what can be left out. With 0, nothing is left out."""

    left: int = 125_000

    def take(self, selectors: Sequence[tuple[str, str]], kind: DeviceKind, name: object) -> object:
        """Returns the result of the selectors, None = too many were evaluated."""
        self.left -= len(selectors)
        return matches_all(selectors, kind, name) if self.left >= 0 else None


def matters(
    pool: PoolView, demands: Iterable[DeviceDemand], classes: Mapping[str, DeviceClass], evaluations: Evaluations
) -> bool:
    """Whether the pool may change the answer for the demands.

    That is, some device matches a request or was not compared with all, or the pool has no devices.
    """
    if pool.is_incomplete or pool.is_invalid:
        return True
    for request in (request for demand in demands for _, request in every_request(demand)):
        of_class = classes.get(request.device_class)
        if of_class is None:
            return True
        selectors = selectors_of(of_class, request)
        results = pool.results(selectors)
        for index, candidate in enumerate(pool.candidates):
            if results[index] is None:
                results[index] = evaluations.take(selectors, candidate.device.kind, candidate.id)
            if results[index] is not False:
                return True
    return False


def selectors_of(of_class: DeviceClass, request: DeviceRequest) -> tuple[tuple[str, str], ...]:
    """Returns all selectors of a request with their owners."""
    owned = ((f"class {of_class.name}", one) for one in of_class.selectors)
    return (*owned, *(("claim", one) for one in request.selectors))


def compile_error(selectors: Iterable[tuple[str, str]]) -> str:
    """Returns why one of the selectors cannot be compiled; empty = all can."""
    for owner, expression in selectors:
        if isinstance(program := expressions.compiled(expression), str):
            return f"{owner}: CEL compile error: {program}"
    return ""


def every_request(demand: DeviceDemand) -> Iterator[tuple[str, DeviceRequest]]:
    """Yields the requests that name a class, with their names in messages."""
    for request in demand.requests:
        if not request.alternatives:
            yield request.name, request
        for one in request.alternatives:
            yield f"{request.name}/{one.name}", one
