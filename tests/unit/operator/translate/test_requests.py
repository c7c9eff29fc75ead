"""What a pod takes is what Kubernetes counts: requests, sidecars, init peak, overhead, resize (contract 1.10)."""

from __future__ import annotations

import pytest

from muster_operator.model.errors import BadInputError
from muster_operator.translate.requests import pod_resources
from tests.unit.operator.objects import Raw, a_container


def taken(spec: Raw, status: Raw | None = None) -> dict[str, int]:
    return pod_resources(spec, status or {})


def a_sidecar(name: str, **requests: str) -> Raw:
    return {**a_container(name, **requests), "restartPolicy": "Always"}


def test_containers_add_up_and_the_pod_counts_as_one() -> None:
    spec = {"containers": [a_container(cpu="500m", memory="1Gi"), a_container("b", cpu="1")]}
    assert taken(spec) == {"vcore": 1500, "memory": 2**30, "pods": 1}


def test_a_pod_without_requests_takes_its_place_only() -> None:
    assert taken({"containers": [{"name": "main"}]}) == {"pods": 1}


def test_the_largest_init_container_counts_if_it_exceeds_the_containers() -> None:
    spec = {
        "containers": [a_container(cpu="1", memory="2Gi")],
        "initContainers": [a_container("a", cpu="3"), a_container("b", cpu="2", memory="1Gi")],
    }
    assert taken(spec) == {"vcore": 3000, "memory": 2**31, "pods": 1}


def test_sidecars_run_beside_the_containers_and_beside_later_init_containers() -> None:
    spec = {
        "containers": [a_container(cpu="1")],
        "initContainers": [a_sidecar("mesh", cpu="500m"), a_container("migrate", cpu="2")],
    }
    assert taken(spec)["vcore"] == 2500


def test_an_init_container_before_a_sidecar_runs_alone() -> None:
    spec = {
        "containers": [a_container(cpu="1")],
        "initContainers": [a_container("migrate", cpu="2"), a_sidecar("mesh", cpu="500m")],
    }
    assert taken(spec)["vcore"] == 2000


def test_overhead_is_added() -> None:
    assert taken({"containers": [a_container(cpu="1")], "overhead": {"cpu": "250m"}})["vcore"] == 1250


def test_resources_of_the_whole_pod_override_the_sum() -> None:
    spec = {"containers": [a_container(cpu="1", memory="1Gi")], "resources": {"requests": {"cpu": "4"}}}
    assert taken(spec) == {"vcore": 4000, "memory": 2**30, "pods": 1}


def test_any_named_resource_counts_as_it_is() -> None:
    assert taken({"containers": [a_container(**{"nvidia.com/gpu": "2"})]})["nvidia.com/gpu"] == 2


def test_fractions_are_rounded_after_adding() -> None:
    spec = {"containers": [a_container("a", cpu="500u"), a_container("b", cpu="500u")]}
    assert taken(spec)["vcore"] == 1


def test_a_resize_counts_the_larger_of_written_and_granted() -> None:
    spec = {"containers": [a_container(cpu="1")]}
    status = {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "2"}}]}
    assert taken(spec, status)["vcore"] == 2000


def test_a_resize_that_cannot_be_does_not_count() -> None:
    spec = {"containers": [a_container(cpu="9")]}
    granted = {"name": "main", "allocatedResources": {"cpu": "2"}}
    infeasible = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    status = {"containerStatuses": [granted], "conditions": [infeasible]}
    assert taken(spec, status)["vcore"] == 2000


@pytest.mark.parametrize("cpu", ["many", "-1", "1e30"])
def test_an_amount_that_cannot_be_is_refused(cpu: str) -> None:
    with pytest.raises(BadInputError):
        taken({"containers": [a_container(cpu=cpu)]})
