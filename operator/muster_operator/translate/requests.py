"""What a pod takes from its node: requests, with init containers, sidecars, overhead and resize (contract 1.10)."""

from __future__ import annotations

from muster_operator.model.errors import BadInputError
from muster_operator.model.resources import added, larger
from muster_operator.translate.quantities import amounts, canonical_name, nanos
from muster_operator.translate.raw import Raw, mapping, objects, text
from muster_si import keys

Nanos = dict[str, int]


def _read(field: str, raw: Raw) -> Nanos:
    return {canonical_name(name): nanos(f"{field}.{name}", value) for name, value in raw.items()}


def _is_resize_infeasible(status: Raw) -> bool:
    if status.get("resize") == "Infeasible":
        return True
    return any(
        condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in objects(status.get("conditions"))
    )


def _container(container: Raw, status: Raw | None, *, infeasible: bool) -> Nanos:
    """One container: the largest of what is written, granted and in force; a resize that cannot be is not counted."""
    field = f"container {text(container.get('name'))}"
    written = _read(field, mapping(mapping(container.get("resources")).get("requests")))
    if status is None:
        return written
    granted = _read(field, mapping(status.get("allocatedResources")))
    in_force = _read(field, mapping(mapping(status.get("resources")).get("requests")))
    actual = larger(granted, in_force)
    return actual if infeasible and actual else larger(written, actual)


def _is_sidecar(container: Raw) -> bool:
    return container.get("restartPolicy") == "Always"


def _statuses(status: Raw, kind: str) -> dict[str, Raw]:
    return {text(entry.get("name")): entry for entry in objects(status.get(kind))}


def _pod_nanos(spec: Raw, status: Raw) -> Nanos:
    infeasible = _is_resize_infeasible(status)
    running = _statuses(status, "containerStatuses")
    starting = _statuses(status, "initContainerStatuses")
    total: Nanos = {}
    for container in objects(spec.get("containers")):
        total = added(total, _container(container, running.get(text(container.get("name"))), infeasible=infeasible))
    sidecars: Nanos = {}
    peak: Nanos = {}
    for container in objects(spec.get("initContainers")):
        one = _container(container, starting.get(text(container.get("name"))), infeasible=infeasible)
        if _is_sidecar(container):
            sidecars = added(sidecars, one)
            peak = larger(peak, sidecars)
        else:
            peak = larger(peak, added(sidecars, one))
    whole = larger(added(total, sidecars), peak)
    whole |= _read("pod resources", mapping(mapping(spec.get("resources")).get("requests")))
    return added(whole, _read("overhead", mapping(spec.get("overhead"))))


def pod_resources(spec: Raw, status: Raw) -> dict[str, int]:
    """What the pod takes, in the scheduler's units, itself included (``pods``: 1).

    Raises:
        BadInputError: an amount is no quantity, negative, or larger than 64 bits.
    """
    result = {name: value for name, value in amounts(_pod_nanos(spec, status)).items() if value}
    for name, value in result.items():
        if value < 0:
            raise BadInputError(name, "is negative", "ask for zero or more")
    result[keys.PODS] = 1
    return result
