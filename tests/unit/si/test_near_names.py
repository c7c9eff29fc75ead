"""Names that resemble known ones are recognised, whatever a user writes."""

import time

import pytest

from muster_si.near_names import meant_resource, mistyped_resource, nearest

KNOWN = ("minMember", "minResource", "task-groups", "user.info")


@pytest.mark.parametrize(
    "written, meant",
    [
        ("maxMember", "minMember"),
        ("min_member", "minMember"),
        ("TaskGroups", "task-groups"),
        ("taskGroup", "task-groups"),
        ("userinfo", "user.info"),
        ("colour", ""),
        ("", ""),
    ],
)
def test_the_most_similar_name_is_found_regardless_of_case_and_punctuation(written: str, meant: str) -> None:
    assert nearest(written, KNOWN) == meant


@pytest.mark.parametrize(
    "written, meant",
    [
        *[(name, "vcore") for name in ("cpu", "CPU", "vCore", "vcores", "cores", "requests.cpu", "limits.CPU")],
        *[(name, "vcore") for name in ("cpuu", "ccpu", "cpus", "cup", "cpi", "vcor", "vcroe")],
        *[(name, "memory") for name in ("memroy", "Memory", "mem", "memmory", "requests.memory")],
        ("requests.nvidia.com/gpu", "nvidia.com/gpu"),
        ("gpu", "nvidia.com/gpu"),
        *[(name, "pods") for name in ("pod", "podds", "posd")],
        *[(name, "") for name in ("npu", "tpu", "dpu", "cp", "cpu2core", "rods", "node", "hugepages-1Gi")],
        *[(name, "") for name in ("vcore", "memory", "pods", "ephemeral-storage", "hugepages-2Mi")],
        *[(name, "") for name in ("nvidia.com/gpu", "example.com/cpu", "licences", "")],
    ],
)
def test_only_names_of_other_systems_and_near_misses_are_other_resources(written: str, meant: str) -> None:
    assert meant_resource(written) == meant


def test_the_work_for_a_name_is_bounded_by_its_start() -> None:
    began = time.process_time()
    assert nearest("x" * 10_000_000, KNOWN) == ""
    assert meant_resource("y" * 10_000_000) == ""
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "requested, found",
    [
        (["vcore", "nvidia.com/gpus"], ("nvidia.com/gpus", "nvidia.com/gpu")),
        (["vcore", "nvidia.com/gpu"], None),
        (["cpus"], ("cpus", "cpu")),
        (["memroy"], ("memroy", "memory")),
        (["nvidia.com/mig-2g.10gb"], None),
        (["example.com/licence"], None),
        ([], None),
    ],
)
def test_a_requested_resource_is_mistyped_if_nodes_have_one_of_nearly_its_name(
    requested: list[str], found: tuple[str, str] | None
) -> None:
    assert mistyped_resource(requested, ["vcore", "memory", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"]) == found
