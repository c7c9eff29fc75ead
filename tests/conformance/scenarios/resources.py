"""The scenario about resources: capacities and requests near the limit of the nodes."""

from typing import Final

from tests.conformance.choices import Choices
from tests.conformance.objects import ClusterState, Raw
from tests.conformance.scenarios.scenario import Scenario

GPU: Final = "example.com/gpu"
HUGE: Final = "hugepages-2Mi"
_OFFERS: Final = {
    "cpu": ("2", "1", "1500m"),
    "memory": ("2Gi", "1Gi", "1Mi", "1.5G", "2e9"),
    "pods": ("4", "2", "110", "110"),
    "ephemeral-storage": ("10Gi", "1Gi"),
    GPU: ("1", "2", "0"),
    HUGE: ("4Mi", "64Mi"),
}
_REQUESTS: Final = {
    "cpu": ("500m", "1", "1001m", "2", "0.3", "1e-1"),
    "memory": ("512Mi", "1Gi", "1073741825", "2Gi", "1G", "1073741824500m"),
    "ephemeral-storage": ("1Gi", "2Gi", "0"),
    GPU: ("1", "2", "0"),
    HUGE: ("2Mi", "64Mi"),
}


class Resources(Scenario):
    """Requests of every kind of container against every kind of resource."""

    def node(self, choices: Choices, node: Raw) -> None:
        offers = {name: choices.pick(_OFFERS[name]) for name in ("cpu", "memory", "pods", "ephemeral-storage")}
        for name in (GPU, HUGE):
            if choices.chance(60):
                offers[name] = choices.pick(_OFFERS[name])
        node["status"]["allocatable"] = offers

    def running(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        _request(choices, pod["spec"]["containers"][0], 2)
        if choices.chance(20):
            _resize(choices, pod)

    def pending(self, choices: Choices, state: ClusterState, pod: Raw) -> None:
        spec = pod["spec"]
        _request(choices, spec["containers"][0], 3)
        if choices.chance(20):
            spec["containers"].append({"name": "second", "image": "example.com/main:1"})
            _request(choices, spec["containers"][1], 2)
        if choices.chance(25):
            init: Raw = {"name": "init", "image": "example.com/init:1"}
            if choices.chance(50):
                init["restartPolicy"] = "Always"
            _request(choices, init, 2)
            spec["initContainers"] = [init]
        if choices.chance(10):
            spec["overhead"] = {"cpu": "250m", "memory": "64Mi"}
        if choices.chance(8):  # pod-level requests, at least the sum of the containers
            name = choices.pick(("cpu", "memory"))
            spec["resources"] = {"requests": {name: "8" if name == "cpu" else "8Gi"}}


def _resize(choices: Choices, pod: Raw) -> None:
    """A pod whose actual resources differ from its spec, and whose resize may be infeasible."""
    granted = {"cpu": choices.pick(("500m", "2")), "memory": choices.pick(("512Mi", "2Gi"))}
    status: Raw = {"name": "main", "resources": {"requests": granted}, "allocatedResources": granted}
    pod["status"]["containerStatuses"] = [status]
    if choices.chance(40):
        reason = choices.pick(("Deferred", "Infeasible"))
        pod["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]


def _request(choices: Choices, container: Raw, at_most: int) -> None:
    requests = {name: choices.pick(_REQUESTS[name]) for name in choices.some(tuple(_REQUESTS), at_most)}
    if HUGE in requests:  # huge pages require cpu or memory
        requests.setdefault("cpu", "100m")
    if requests:
        # Extended resources and huge pages need equal limits.
        limits = {name: amount for name, amount in requests.items() if name in {GPU, HUGE}}
        container["resources"] = {"requests": requests, **({"limits": limits} if limits else {})}
