"""A second operator with a core of its own, in the namespace of a scenario's first."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest_asyncio

from devcluster.muster import ACCOUNT, NAMESPACE, Muster
from tests.e2e.scenario import Scenario

Join = Callable[..., Awaitable[Muster]]


@pytest_asyncio.fixture(loop_scope="session")
async def join() -> AsyncIterator[Join]:
    """Starts more of them, not through the scenario's gate; they are stopped before the scenario is looked at."""
    joined: list[Muster] = []

    async def start(scenario: Scenario, identity: str, **env: str) -> Muster:
        kubeconfig = await scenario.cluster.kubeconfig_for(ACCOUNT, NAMESPACE)
        setup = scenario.muster.setup
        folder, both = setup.folder / identity, {**setup.env, **env}
        other = Muster(replace(setup, kubeconfig=kubeconfig, folder=folder, identity=identity, env=both))
        other.setup.folder.mkdir()
        joined.append(other)
        await other.start()
        return other

    yield start
    for other in joined:
        await other.stop()
