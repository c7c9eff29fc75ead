"""Attacks by gangs of labels and annotations: impossible sizes, contradictions, and thousands of gangs."""

import asyncio

import pytest

from devcluster.api import Json
from tests.attacks.attack import Attack, sized
from tests.attacks.conftest import OpenAttack
from tests.e2e.conditions import scheduled
from tests.e2e.manifests import a_pod

NAME, SIZE = "gang.scheduling.koordinator.sh/name", "gang.scheduling.koordinator.sh/min-available"


def members(gang: str, sizes: list[str]) -> list[Json]:
    """Pods of one gang, each with its own size."""
    pods = [a_pod(f"{gang}-{number}", cpu="1m", labels={"queue": "root.attacker"}) for number in range(len(sizes))]
    for pod, size in zip(pods, sizes, strict=True):
        pod["metadata"]["annotations"] |= {NAME: gang, SIZE: size}
    return pods


async def all_wait(attack: Attack, text: str) -> None:
    """Wait until a pod has the reason, and assert that none has a node."""

    async def is_reported() -> bool:
        return any(text in scheduled(pod).get("message", "") for pod in await attack.attackers_pods())

    await attack.scenario.eventually(f"a pod has the reason {text!r}", is_reported)
    assert [pod["metadata"]["name"] for pod in await attack.attackers_pods() if pod["spec"].get("nodeName")] == []


@pytest.mark.parametrize(
    "kind, text",
    [
        ("impossible", '"2147483648" is not a number of pods; write a whole number from 1 to 10,000'),
        ("contradictory", "write the same value on all of them"),
        ("alone", "waiting for more pods"),
    ],
)
async def test_gangs_that_cannot_start_cost_one_condition_for_each_pod(
    kind: str, text: str, open_attack: OpenAttack
) -> None:
    """All pods of a gang have an impossible size, or each another one, or each pod is a gang of its own."""
    attack = await open_attack()
    count = sized(100, 5_000)
    pods = {
        "impossible": members("huge", [str(2**31)] * count),
        "contradictory": members("split", [str(2 + number) for number in range(count)]),
        "alone": [pod for number in range(count) for pod in members(f"alone-{number}", ["2"])],
    }[kind]
    await attack.user.create(pods)
    await attack.victim_gets_its_gang(writes=2 * count)
    await all_wait(attack, text)
    await attack.restart_operator()
    await attack.victim_gets_its_gang(writes=2 * count, name="afterwards")


async def test_a_size_that_changes_all_the_time_delays_no_other_tenant(open_attack: OpenAttack) -> None:
    """Each change of one pod contradicts the others, and takes the requests of all members back."""
    attack = await open_attack()
    count, changes = sized(100, 2_000), sized(100, 1_000)
    await attack.user.create(members("restless", [str(count)] * count))

    async def change() -> None:
        for number in range(changes):
            body: Json = {"metadata": {"annotations": {SIZE: str(count + number % 2)}}}
            await attack.user.api.patch("pods", "restless-0", body, attack.user.namespace)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(change())
        await attack.victim_gets_its_gang(writes=4 * count)
    await attack.victim_gets_its_gang(writes=4 * count, name="afterwards")
