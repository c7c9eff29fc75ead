"""The resources of a pod are counted as in Kubernetes: requests, sidecars, init containers, overhead, resize."""

from __future__ import annotations

import pytest

from muster_operator.model.errors import BadInputError
from muster_operator.translate.pods import pod_resources
from tests.unit.operator.controller.objects import Raw, a_container


def resources_of(spec: Raw, status: Raw | None = None) -> dict[str, int]:
    return pod_resources(spec, status or {})


def a_sidecar(name: str, **requests: str) -> Raw:
    return {**a_container(name, **requests), "restartPolicy": "Always"}


def test_containers_add_up_and_the_pod_counts_as_one() -> None:
    spec = {"containers": [a_container(cpu="500m", memory="1Gi"), a_container("b", cpu="1")]}
    assert resources_of(spec) == {"vcore": 1500, "memory": 2**30, "pods": 1}


def test_a_pod_without_requests_counts_only_as_one_pod() -> None:
    assert resources_of({"containers": [{"name": "main"}]}) == {"pods": 1}


def test_the_largest_init_container_counts_if_it_exceeds_the_containers() -> None:
    spec = {
        "containers": [a_container(cpu="1", memory="2Gi")],
        "initContainers": [a_container("a", cpu="3"), a_container("b", cpu="2", memory="1Gi")],
    }
    assert resources_of(spec) == {"vcore": 3000, "memory": 2**31, "pods": 1}


def test_sidecars_run_next_to_the_containers_and_later_init_containers() -> None:
    spec = {
        "containers": [a_container(cpu="1")],
        "initContainers": [a_sidecar("mesh", cpu="500m"), a_container("migrate", cpu="2")],
    }
    assert resources_of(spec)["vcore"] == 2500


def test_an_init_container_before_a_sidecar_runs_alone() -> None:
    spec = {
        "containers": [a_container(cpu="1")],
        "initContainers": [a_container("migrate", cpu="2"), a_sidecar("mesh", cpu="500m")],
    }
    assert resources_of(spec)["vcore"] == 2000


def test_overhead_is_added() -> None:
    assert resources_of({"containers": [a_container(cpu="1")], "overhead": {"cpu": "250m"}})["vcore"] == 1250


def test_pod_level_resources_override_the_sum() -> None:
    spec = {"containers": [a_container(cpu="1", memory="1Gi")], "resources": {"requests": {"cpu": "4"}}}
    assert resources_of(spec) == {"vcore": 4000, "memory": 2**30, "pods": 1}


def test_any_named_resource_counts_as_it_is() -> None:
    assert resources_of({"containers": [a_container(**{"nvidia.com/gpu": "2"})]})["nvidia.com/gpu"] == 2


def test_fractions_are_rounded_after_adding() -> None:
    spec = {"containers": [a_container("a", cpu="500u"), a_container("b", cpu="500u")]}
    assert resources_of(spec)["vcore"] == 1


def in_force(name: str = "main", granted: Raw | None = None, **requests: str) -> Raw:
    """A container's status: what it was granted, and what is in force; the same if only that is given."""
    return {
        "name": name,
        "allocatedResources": requests if granted is None else granted,
        "resources": {"requests": requests},
    }


def pending(reason: str) -> Raw:
    return {"type": "PodResizePending", "status": "True", "reason": reason}


@pytest.mark.parametrize(
    "written, granted, actual, milli",
    [
        ("1", "1", "1", 1000),
        ("2", "1", "1", 2000),  # requested, not allocated yet
        ("2", "2", "1", 2000),  # granted, not in force yet
        ("1", "2", "2", 2000),  # to be smaller: until it is
        ("1", "1", "2", 2000),
    ],
)
def test_a_resize_counts_the_largest_of_requested_allocated_and_actual_resources(
    written: str, granted: str, actual: str, milli: int
) -> None:
    status = {"containerStatuses": [in_force(granted={"cpu": granted}, cpu=actual)]}
    assert resources_of({"containers": [a_container(cpu=written)]}, status)["vcore"] == milli


def test_each_resource_of_a_resize_counts_by_itself() -> None:
    spec = {"containers": [a_container(cpu="1", memory="1")]}
    status = {"containerStatuses": [in_force(granted={"memory": "3"}, cpu="2", memory="2")]}
    assert resources_of(spec, status) == {"vcore": 2000, "memory": 3, "pods": 1}


@pytest.mark.parametrize(
    "resize_status, milli",
    [
        ({"conditions": [pending("Infeasible")]}, 2000),
        ({"conditions": [{"type": "Ready"}, pending("Deferred")]}, 9000),
        ({"conditions": [{"type": "PodResizeInProgress", "status": "True"}]}, 9000),
        ({"resize": "Infeasible"}, 2000),  # before Kubernetes 1.33
        ({"resize": "Infeasible", "conditions": [pending("Deferred")]}, 9000),
    ],
)
def test_an_infeasible_resize_does_not_count_and_a_deferred_one_does(resize_status: Raw, milli: int) -> None:
    status = {"containerStatuses": [in_force(cpu="2")], **resize_status}
    assert resources_of({"containers": [a_container(cpu="9")]}, status)["vcore"] == milli


def test_a_status_without_actual_resources_is_not_counted() -> None:
    """As in kube-scheduler: an old kubelet reports allocated resources but not the actual ones."""
    status = {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "2"}}]}
    assert resources_of({"containers": [a_container(cpu="1")]}, status)["vcore"] == 1000


def test_a_sidecar_can_be_resized_and_an_init_container_can_not() -> None:
    spec = {"containers": [], "initContainers": [a_sidecar("mesh", cpu="1"), a_container("migrate", cpu="1")]}
    status = {"initContainerStatuses": [in_force("mesh", cpu="3"), in_force("migrate", cpu="7")]}
    assert resources_of(spec, status)["vcore"] == 3000 + 1000


def test_pod_level_resources_can_be_resized() -> None:
    """KEP-5419."""
    spec = {"containers": [a_container(cpu="1")], "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
    status = {"resources": {"requests": {"cpu": "3", "memory": "1Gi"}}, "allocatedResources": {"cpu": "4"}}
    assert resources_of(spec, status) == {"vcore": 4000, "memory": 2**30, "pods": 1}
    status["conditions"] = [pending("Infeasible")]
    assert resources_of({**spec, "resources": {"requests": {"cpu": "9"}}}, status)["vcore"] == 4000


def test_only_pod_level_resources_supported_by_kubernetes_count() -> None:
    own = {"cpu": "2", "hugepages-2Mi": "4Mi", "nvidia.com/gpu": "8", "ephemeral-storage": "1Gi"}
    spec = {"containers": [a_container(**{"nvidia.com/gpu": "1"})], "resources": {"requests": own}}
    assert resources_of(spec) == {"vcore": 2000, "hugepages-2Mi": 2**22, "nvidia.com/gpu": 1, "pods": 1}


def test_limits_and_ephemeral_containers_take_nothing() -> None:
    """The API server sets requests from limits; an ephemeral container has none."""
    limited = {"name": "main", "resources": {"limits": {"cpu": "4"}}}
    spec = {"containers": [limited], "ephemeralContainers": [a_container("debug", cpu="1")]}
    assert resources_of(spec) == {"pods": 1}


@pytest.mark.parametrize("cpu", ["many", "-1", "1e30"])
def test_an_invalid_request_is_rejected(cpu: str) -> None:
    with pytest.raises(BadInputError):
        resources_of({"containers": [a_container(cpu=cpu)]})
