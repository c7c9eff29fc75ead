"""Attacks by PodGroups: sizes that nobody can have, groups that change all the time, and groups of other tenants."""

import asyncio

import pytest

from devcluster.api import Json
from devcluster.errors import ApiError
from tests.attacks.attack import Attack, sized
from tests.attacks.conftest import OpenAttack
from tests.e2e.conditions import condition
from tests.e2e.manifests import a_pod

LARGEST = 2**31 - 1


def a_pod_group(name: str, minimum: int) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "labels": {"queue": "root.attacker"}},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}},
    }


def members(group: str, count: int, cpu: str = "1m") -> list[Json]:
    pods = [a_pod(f"{group}-{number}", cpu=cpu) for number in range(count)]
    for pod in pods:
        pod["spec"]["schedulingGroup"] = {"podGroupName": group}
    return pods


async def set_minimum(attack: Attack, group: str, minimum: int) -> None:
    body: Json = {"spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}}}
    await attack.user.api.patch("podgroups", group, body, attack.user.namespace)


async def delete_at_once(attack: Attack, group: str) -> None:
    """Delete the group without waiting for its finalizer."""
    api, namespace = attack.user.api, attack.user.namespace
    await api.patch("podgroups", group, {"metadata": {"finalizers": None}}, namespace)
    await api.delete("podgroups", group, namespace)


async def nothing_is_bound(attack: Attack) -> None:
    assert [pod["metadata"]["name"] for pod in await attack.attackers_pods() if pod["spec"].get("nodeName")] == []


async def test_a_minimum_that_nobody_has_costs_nothing(open_attack: OpenAttack) -> None:
    """The API server rejects 2^31. The largest value that it accepts keeps the pods waiting, with the reason."""
    attack = await open_attack()
    with pytest.raises(ApiError):
        await attack.user.create([a_pod_group("impossible", 2**31)])
    count = sized(50, 1_000)
    await attack.user.create([a_pod_group("huge", LARGEST), *members("huge", count)])
    await attack.victim_gets_its_gang(writes=2 * count)

    async def is_reported() -> bool:
        group = await attack.scenario.api.get("podgroups", "huge", attack.user.namespace)
        found = condition({"status": group.get("status") or {}}, "PodGroupInitiallyScheduled")
        return "minCount is 2147483647, more than" in found.get("message", "")

    await attack.scenario.eventually("the condition names the field", is_reported)
    await nothing_is_bound(attack)


async def test_a_minimum_that_changes_all_the_time_delays_no_other_tenant(open_attack: OpenAttack) -> None:
    """Each change takes the requests of all members back. They are sent again after a pause."""
    attack = await open_attack()
    count, changes = sized(200, 5_000), sized(100, 1_000)
    await attack.user.create([a_pod_group("restless", count), *members("restless", count, cpu="1")])
    is_over = asyncio.Event()

    async def change() -> None:
        for number in range(changes):
            await set_minimum(attack, "restless", count - number % 2)
        is_over.set()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(change())
        await attack.victim_gets_its_gang(writes=2 * count)
        await is_over.wait()
    await attack.victim_gets_its_gang(writes=2 * count, name="afterwards")
    await nothing_is_bound(attack)


async def test_groups_that_are_deleted_while_they_start_leave_nothing_behind(open_attack: OpenAttack) -> None:
    attack = await open_attack()
    for number in range(sized(10, 100)):
        group = f"short-{number}"
        pods = members(group, 4)
        await attack.user.create(pods)
        await attack.user.create([a_pod_group(group, 4)])
        for _ in range(number % 5):  # it is deleted at different stages of the start
            await attack.attackers_pods()
        await delete_at_once(attack, group)
        await attack.user.delete(pod["metadata"]["name"] for pod in pods)
    await attack.victim_gets_its_gang(writes=100)


async def test_a_group_of_another_tenant_is_not_used_and_keeps_its_condition(open_attack: OpenAttack) -> None:
    attack = await open_attack()
    own = a_pod_group("train", 2)
    own["metadata"]["labels"] = {"queue": "root.tenant"}
    await attack.scenario.create([own, *members("train", 2)])
    await attack.user.create(members("train", 3))
    await attack.victim_gets_its_gang(writes=20)
    group = await attack.scenario.api.get("podgroups", "train", attack.scenario.namespace)
    assert condition(group, "PodGroupInitiallyScheduled")["status"] == "True"
    await nothing_is_bound(attack)
