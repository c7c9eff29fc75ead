"""What a pod takes is what kube-scheduler counts: the documentation's examples, its own arithmetic, and the laws.

The table ``pods_of_kube_scheduler.json`` was computed by ``PodRequests`` of k8s.io/component-helpers v0.36.1 (reading
the status too) for pods made at random: containers, sidecars, overhead, pod-level resources, resizes under way.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster_operator.translate.pods import pod_resources
from tests.unit.operator.controller.objects import Raw, a_container

MI = 2**20
EXAMPLES = yaml.safe_load((Path(__file__).parents[3] / "cases" / "pod-requests.yaml").read_text())
TABLE = json.loads((Path(__file__).parent / "pods_of_kube_scheduler.json").read_text())


@pytest.mark.parametrize("example", EXAMPLES, ids=[example["page"] for example in EXAMPLES])
def test_the_documentation_examples_take_the_documented_resources(example: Raw) -> None:
    takes = {
        name: MI * int(amount.removesuffix("Mi")) if isinstance(amount, str) else amount
        for name, amount in example["takes"].items()
    }
    assert pod_resources(example["spec"], example.get("status", {})) == {**takes, "pods": 1}


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
