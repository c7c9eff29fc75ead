"""The end-to-end fixtures, and `open_attack`: an attacker with the permissions of a namespace user, and its victims."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from devcluster.cluster import Cluster
from devcluster.nodes import FakeNode
from tests.attacks.attack import NODES, QUEUES, Attack, attacker_of, bystanders_of
from tests.e2e.conftest import OpenScenario, cluster, home, open_scenario

__all__ = ["cluster", "home", "open_scenario"]

OpenAttack = Callable[..., Awaitable[Attack]]
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all coroutines of this folder in one event loop, because the cluster's connections belong to it."""
    for item in items:
        if item.path.is_relative_to(HERE) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(loop_scope="session")
async def open_attack(home: Cluster, open_scenario: OpenScenario) -> AsyncIterator[OpenAttack]:
    """Open an attack: Muster with a queue for each tenant, two bound pods of the tenant to protect, and the attacker.

    After the test, run the checks and delete the objects of the attacker.
    """
    if home.plane is None:
        pytest.skip("attacks belong on a cluster of our own")
    async with AsyncExitStack() as stack:

        async def open_one(config: dict[str, str] | None = None, nodes: int = NODES, pods: str = "110") -> Attack:
            fakes = [FakeNode(f"node-{number}", cpu="4", memory="16Gi", pods=pods) for number in range(nodes)]
            scenario = await open_scenario(fakes, {**QUEUES, **(config or {})})
            user = await attacker_of(scenario, stack)
            attack = Attack(scenario, user, await bystanders_of(scenario))
            stack.push_async_callback(attack.check_and_clean_up)
            return attack

        yield open_one
