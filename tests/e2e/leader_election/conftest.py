"""A second operator with its own core, in the namespace of the first one."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest_asyncio

from devcluster.muster import ACCOUNT, NAMESPACE, Muster
from tests.e2e.scenario import Scenario

Join = Callable[..., Awaitable[Muster]]


@pytest_asyncio.fixture(loop_scope="session")
async def join() -> AsyncIterator[Join]:
    """Start further operators, without the gate. They are stopped before the final checks of the scenario."""
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
