"""Fields of pods that the API server sets before a scheduler sees them: requests, and what a PriorityClass gives.

`manifests` reads files that no API server has seen. Objects of a cluster have these fields already, and keep them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from muster_core.foresight.workload import BadInput
from muster_operator.translate.values import Raw, integer, mapping, objects, text

#: Classes of every cluster.
_SYSTEM: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_CONTAINERS: Final = ("initContainers", "containers")


class Priorities:
    """The priority classes of the input."""

    def __init__(self, classes: Iterable[Raw]) -> None:
        self._classes: dict[str, Raw] = {name: {"value": value} for name, value in _SYSTEM.items()}
        self._classes |= {text(mapping(one.get("metadata")).get("name")): one for one in classes}
        default = [name for name, one in self._classes.items() if one.get("globalDefault") is True]
        self._default = min(default, key=lambda name: integer(self._classes[name].get("value")), default="")

    def of(self, spec: Raw) -> Raw:
        """The fields of the class that a pod has. Raises BadInput if its class is unknown."""
        if spec.get("priority") is not None:
            return {}
        name = text(spec.get("priorityClassName")) or self._default
        if not name:
            return {}
        if name not in self._classes:
            raise BadInput(f"priorityClassName is {name[:80]!r}; add the PriorityClass to the input")
        found = self._classes[name]
        fields = {"priorityClassName": name, "priority": integer(found.get("value"))}
        policy = spec.get("preemptionPolicy") or found.get("preemptionPolicy")
        return fields if policy is None else {**fields, "preemptionPolicy": policy}


def with_requests(spec: Raw) -> Raw:
    """The spec of a pod with requests that default to limits, for each resource of each container and of the pod."""
    filled = dict(spec)
    for field in _CONTAINERS:
        if field in spec:
            filled[field] = [
                {**one, "resources": _requesting(mapping(one.get("resources")))} for one in objects(spec[field])
            ]
    if "resources" in spec:
        containers = (one for field in _CONTAINERS for one in filled.get(field) or ())
        requested = {name for one in containers for name in mapping(one["resources"].get("requests"))}
        filled["resources"] = _requesting(mapping(spec["resources"]), requested)
    return filled


def _requesting(resources: Raw, elsewhere: Iterable[str] = ()) -> Raw:
    """`elsewhere`: resources that containers request, whose sum counts for the pod."""
    limits: Mapping[str, object] = mapping(resources.get("limits"))
    missing = {name: limit for name, limit in limits.items() if name not in elsewhere}
    return {**resources, "requests": {**missing, **mapping(resources.get("requests"))}}
