"""What a pod takes from its node: requests, with init containers, sidecars, overhead and resize (contract 1.10).

The same amounts as kube-scheduler counts. Source: Kubernetes documentation, "Init Containers", "Sidecar Containers",
"Pod Overhead", "Assign Pod-level CPU and memory resources", "Resize CPU and Memory Resources assigned to Containers";
KEP-753, KEP-1287, KEP-2837, KEP-5419. Limits are not read: the API server has made requests of them.
"""

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
    """Kubernetes 1.33 and later say it in a condition, those before in ``status.resize``."""
    for condition in objects(status.get("conditions")):
        if condition.get("type") == "PodResizePending":
            return condition.get("reason") == "Infeasible"
    return status.get("resize") == "Infeasible"


def _in_force(field: str, written: Nanos, status: Raw | None, *, infeasible: bool) -> Nanos:
    """The largest of what is written, granted and in force; a resize that cannot be is not counted.

    ``status``: of the container, or of a pod with resources of its own. Without ``resources`` it says nothing.
    """
    resources = status.get("resources") if status is not None else None
    if status is None or not isinstance(resources, dict):
        return written
    granted = _read(field, mapping(status.get("allocatedResources")))
    actual = larger(granted, _read(field, mapping(resources.get("requests"))))
    return actual if infeasible else larger(written, actual)


def _is_sidecar(container: Raw) -> bool:
    return container.get("restartPolicy") == "Always"


class _Containers:
    """What single containers of one pod take, in its present state."""

    def __init__(self, status: Raw) -> None:
        self.infeasible = _is_resize_infeasible(status)
        entries = (*objects(status.get("containerStatuses")), *objects(status.get("initContainerStatuses")))
        self._statuses = {text(entry.get("name")): entry for entry in entries}

    def takes(self, container: Raw, *, resizable: bool = True) -> Nanos:
        name = text(container.get("name"))
        field = f"container {name}"
        written = _read(field, mapping(mapping(container.get("resources")).get("requests")))
        return _in_force(field, written, self._statuses.get(name) if resizable else None, infeasible=self.infeasible)


def _of_containers(spec: Raw, containers: _Containers) -> Nanos:
    """All that run side by side, or the peak while the pod starts, whichever is larger.

    While an init container runs, the sidecars before it run too. Only sidecars can be resized.
    """
    total: Nanos = {}
    for container in objects(spec.get("containers")):
        total = added(total, containers.takes(container))
    sidecars: Nanos = {}
    peak: Nanos = {}
    for container in objects(spec.get("initContainers")):
        if _is_sidecar(container):
            sidecars = added(sidecars, containers.takes(container))
            peak = larger(peak, sidecars)
        else:
            peak = larger(peak, added(sidecars, containers.takes(container, resizable=False)))
    return larger(added(total, sidecars), peak)


def _may_be_of_the_pod(resource: str) -> bool:
    """Whether Kubernetes reads the amount from the pod's own resources; others it ignores there."""
    return resource in {keys.CPU, keys.MEMORY} or resource.startswith("hugepages-")


def _of_the_pod(spec: Raw, status: Raw, *, infeasible: bool) -> Nanos:
    """What is written for the pod as a whole, in place of its containers' sum."""
    field = "pod resources"
    written = _read(field, mapping(mapping(spec.get("resources")).get("requests")))
    written = {name: amount for name, amount in written.items() if _may_be_of_the_pod(name)}
    actual = _in_force(field, written, status, infeasible=infeasible)
    return {name: actual.get(name, 0) for name in written}


def _pod_nanos(spec: Raw, status: Raw) -> Nanos:
    containers = _Containers(status)
    whole = _of_containers(spec, containers) | _of_the_pod(spec, status, infeasible=containers.infeasible)
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
