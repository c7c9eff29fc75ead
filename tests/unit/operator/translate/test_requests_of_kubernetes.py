"""What a pod takes is what kube-scheduler counts: the documentation's examples, its own arithmetic, and the laws.

The table ``pods_of_kube_scheduler.json`` was computed by ``PodRequests`` of k8s.io/component-helpers v0.36.1 (reading
the status too) for pods made at random: containers, sidecars, overhead, pod-level resources, resizes under way.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_operator.translate.pods import pod_resources
from tests.unit.operator.controller.objects import Raw, a_container

MI = 2**20
TABLE = json.loads((Path(__file__).parent / "pods_of_kube_scheduler.json").read_text())


def sidecar(name: str, **requests: str) -> Raw:
    return {**a_container(name, **requests), "restartPolicy": "Always"}


def status_of(name: str, **requests: str) -> Raw:
    return {"name": name, "resources": {"requests": requests}, "allocatedResources": requests}


#: (page, spec, status, result of the page)
EXAMPLES: list[tuple[str, Raw, Raw, dict[str, int]]] = [
    (
        "Resource Management for Pods and Containers: 0.5 CPU and 128 MiB of two containers",
        {"containers": [a_container("app", cpu="250m", memory="64Mi"), a_container("log", cpu="250m", memory="64Mi")]},
        {},
        {"vcore": 500, "memory": 128 * MI},
    ),
    (
        "Pod Overhead: 2250m CPU and 320 MiB with Kata's 250m and 120Mi",
        {
            "containers": [
                a_container("busybox-ctr", cpu="500m", memory="100Mi"),
                a_container("nginx-ctr", cpu="1500m", memory="100Mi"),
            ],
            "overhead": {"cpu": "250m", "memory": "120Mi"},
        },
        {},
        {"vcore": 2250, "memory": 320 * MI},
    ),
    (
        "Init Containers: the highest of any init container, or the sum of the app containers",
        {
            "initContainers": [a_container("a", cpu="200m", memory="1Gi"), a_container("b", cpu="2", memory="100Mi")],
            "containers": [a_container("x", cpu="500m", memory="400Mi"), a_container("y", cpu="1", memory="400Mi")],
        },
        {},
        {"vcore": 2000, "memory": 1024 * MI},
    ),
    (
        "Sidecar Containers: the sidecars beside the app containers",
        {"initContainers": [sidecar("logshipper", cpu="100m")], "containers": [a_container("myapp", cpu="200m")]},
        {},
        {"vcore": 300},
    ),
    (
        "KEP-753: an init container runs beside the sidecars before it, not those after it",
        {
            "initContainers": [
                a_container("ic1", cpu="10"),
                sidecar("s1", cpu="2"),
                a_container("ic2", cpu="9"),
                sidecar("s2", cpu="3"),
            ],
            "containers": [a_container("app", cpu="1")],
        },
        {},
        {"vcore": 11_000},
    ),
    (
        "Assign Pod-level CPU and memory resources: the pod's requests take precedence over its containers'",
        {
            "resources": {"requests": {"cpu": "1", "memory": "100Mi"}, "limits": {"cpu": "1", "memory": "200Mi"}},
            "containers": [a_container("one", cpu="0.5", memory="50Mi"), {"name": "two"}],
        },
        {},
        {"vcore": 1000, "memory": 100 * MI},
    ),
    (
        "Resize CPU and Memory Resources assigned to Containers: 700m to 800m, counted from the moment it is written",
        {"containers": [a_container("pause", cpu="800m", memory="200Mi")]},
        {"containerStatuses": [status_of("pause", cpu="700m", memory="200Mi")]},
        {"vcore": 800, "memory": 200 * MI},
    ),
    (
        "The same page: 1000 CPUs are infeasible, and the pod goes on with what it has",
        {"containers": [a_container("pause", cpu="1000", memory="200Mi")]},
        {
            "containerStatuses": [status_of("pause", cpu="800m", memory="200Mi")],
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
        },
        {"vcore": 800, "memory": 200 * MI},
    ),
    (
        "Assign Extended Resources to a Container: three dongles",
        {"containers": [a_container("one", **{"example.com/dongle": "3"})]},
        {},
        {"example.com/dongle": 3},
    ),
    (
        "Manage HugePages: by size, in bytes",
        {
            "containers": [
                a_container("example", **{"hugepages-2Mi": "100Mi", "hugepages-1Gi": "2Gi", "memory": "100Mi"})
            ]
        },
        {},
        {"hugepages-2Mi": 100 * MI, "hugepages-1Gi": 2 * 1024 * MI, "memory": 100 * MI},
    ),
    ("Best effort: requests of zero, and none", {"containers": [a_container(cpu="0", memory="0"), {}]}, {}, {}),
]


@pytest.mark.parametrize("spec, status, takes", [example[1:] for example in EXAMPLES], ids=[e[0] for e in EXAMPLES])
def test_the_documentation_examples_take_the_documented_resources(
    spec: Raw, status: Raw, takes: dict[str, int]
) -> None:
    assert pod_resources(spec, status) == {**takes, "pods": 1}


@pytest.mark.parametrize("entry", TABLE, ids=[str(number) for number in range(len(TABLE))])
def test_pod_resources_match_kube_scheduler(entry: Raw) -> None:
    assert pod_resources(entry["spec"], entry["status"]) == {**entry["takes"], "pods": 1}


MILLI = st.integers(0, 10_000).map(lambda amount: {"cpu": f"{amount}m", "memory": str(amount)})
CONTAINERS = st.lists(MILLI, max_size=4)
INITS = st.lists(st.tuples(MILLI, st.booleans()), max_size=5)


def pod(containers: list[dict[str, str]], inits: list[tuple[dict[str, str], bool]]) -> Raw:
    return {
        "containers": [a_container(f"c{index}", **one) for index, one in enumerate(containers)],
        "initContainers": [
            {**a_container(f"i{index}", **one), **({"restartPolicy": "Always"} if stays else {})}
            for index, (one, stays) in enumerate(inits)
        ],
    }


def cpu(spec: Raw, **status: Any) -> int:
    return pod_resources(spec, status).get("vcore", 0)


@given(CONTAINERS, INITS)
def test_a_pod_takes_at_least_its_concurrent_containers_and_at_most_all_containers(
    containers: list[dict[str, str]], inits: list[tuple[dict[str, str], bool]]
) -> None:
    found = cpu(pod(containers, inits))
    beside = cpu(pod([*containers, *(one for one, stays in inits if stays)], []))
    largest = max((cpu(pod([one], [])) for one, _ in inits), default=0)
    everything = cpu(pod([*containers, *(one for one, _ in inits)], []))
    assert max(beside, largest) <= found <= everything


@given(CONTAINERS, INITS, MILLI, st.booleans(), st.integers(0, 5))
def test_more_containers_never_lower_the_requests_and_container_order_is_irrelevant(
    containers: list[dict[str, str]],
    inits: list[tuple[dict[str, str], bool]],
    more: dict[str, str],
    stays: bool,  # noqa: FBT001
    place: int,
) -> None:
    before = cpu(pod(containers, inits))
    assert cpu(pod([*containers, more], inits)) >= before
    assert cpu(pod(containers, [*inits[:place], (more, stays), *inits[place:]])) >= before
    assert cpu(pod(containers[::-1], inits)) == before


@given(INITS, MILLI)
def test_an_earlier_sidecar_never_takes_less_than_a_later_one(
    inits: list[tuple[dict[str, str], bool]], more: dict[str, str]
) -> None:
    costs = [cpu(pod([], [*inits[:place], (more, True), *inits[place:]])) for place in range(len(inits) + 1)]
    assert costs == sorted(costs, reverse=True)


@given(CONTAINERS, INITS, MILLI)
def test_overhead_is_added_to_the_requests_of_any_pod(
    containers: list[dict[str, str]], inits: list[tuple[dict[str, str], bool]], overhead: dict[str, str]
) -> None:
    spec = pod(containers, inits)
    assert cpu({**spec, "overhead": overhead}) == cpu(spec) + cpu(pod([overhead], []))


@given(MILLI, MILLI, MILLI)
def test_a_pod_in_resize_takes_the_largest_of_old_allocated_and_new_requests(
    before: dict[str, str], granted: dict[str, str], after: dict[str, str]
) -> None:
    container = {"name": "c0", "resources": {"requests": before}, "allocatedResources": granted}
    found = cpu(pod([after], []), containerStatuses=[container])
    assert found == max(cpu(pod([one], [])) for one in (before, granted, after))
