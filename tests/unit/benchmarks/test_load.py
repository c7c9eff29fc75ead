"""The same work for each scheduler: the pods differ only in the definition of the gang."""

import asyncio

import orjson

from benchmarks.cluster.benches import Contender
from benchmarks.cluster.load import FIRST, PREFIX, Load, Progress, completes

GANG = {contender: Load("load", 100, 5, contender) for contender in Contender}


def test_pods_request_the_same_resources_for_every_scheduler() -> None:
    containers = [load.pod(0)["spec"]["containers"] for load in GANG.values()]
    assert all(some == containers[0] for some in containers)


def test_a_muster_gang_is_defined_by_annotations() -> None:
    annotations = GANG[Contender.RESERVE].pod(7)["metadata"]["annotations"]
    [group] = orjson.loads(annotations[f"{PREFIX}task-groups"])
    assert (group["name"], group["minMember"]) == (annotations[f"{PREFIX}task-group-name"], 20)


def test_the_placement_is_set_except_for_the_default() -> None:
    key = f"{PREFIX}schedulingPolicyParameters"
    for contender in (Contender.DIRECT, Contender.RESERVE):
        assert GANG[contender].pod(0)["metadata"]["annotations"][key] == f"gangPlacement={contender}"
    assert key not in GANG[Contender.AUTO].pod(0)["metadata"]["annotations"]


def test_a_kube_scheduler_gang_is_defined_by_a_pod_group() -> None:
    load = GANG[Contender.KUBE]
    names = {
        group["metadata"]["name"]: group["spec"]["schedulingPolicy"]["gang"]["minCount"] for group in load.groups()
    }
    asked = [load.pod(number)["spec"]["schedulingGroup"]["podGroupName"] for number in range(load.pods)]
    assert {name: asked.count(name) for name in names} == names


def test_single_pods_belong_to_no_group() -> None:
    load = Load("load", 100, 0, Contender.KUBE)
    assert load.groups() == []
    assert "schedulingGroup" not in load.pod(0)["spec"]
    assert "annotations" not in Load("load", 100).pod(0)["metadata"]


def test_applications_are_as_many_as_gangs() -> None:
    load = GANG[Contender.DIRECT]
    assert len({load.pod(number)["metadata"]["labels"]["applicationId"] for number in range(load.pods)}) == 5


def test_the_first_pods_are_those_that_were_bound_first() -> None:
    created = {f"pod-{number}": float(number) for number in range(FIRST + 1)}
    bound = {name: 100 + at + 0.2 for name, at in created.items()}
    bound["pod-0"] = 1000.0
    details = Progress(created, bound, all_created=60.0).details()
    assert (details["first_bound_s"], details["first_ways_s"], details["bound_s"]) == (101.2, 100.2, 1000.0)


async def test_a_slow_scheduler_is_waited_for() -> None:
    seen = Progress()

    async def bind_one_by_one() -> None:
        for number in range(50):
            await asyncio.sleep(0)
            seen.bound[f"pod-{number}"] = 0.0

    assert await completes(asyncio.create_task(bind_one_by_one()), seen, timeout_s=0)
    assert len(seen.bound) == 50


async def test_a_stalled_scheduler_is_given_up() -> None:
    async def bind_none() -> None:
        await asyncio.Event().wait()

    watch = asyncio.create_task(bind_none())
    assert not await completes(watch, Progress(bound={"pod-0": 0.0}), timeout_s=0)
    watch.cancel()
