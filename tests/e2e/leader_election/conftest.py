"""A second operator with a core of its own, in the namespace of a scene's first."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest_asyncio

from devcluster.muster import ACCOUNT, NAMESPACE, Muster
from tests.e2e.scenario import Scene

Join = Callable[..., Awaitable[Muster]]


@pytest_asyncio.fixture(loop_scope="session")
async def join() -> AsyncIterator[Join]:
    """Starts more of them, not through the scene's gate; they are stopped before the scene is looked at."""
    joined: list[Muster] = []

    async def start(scene: Scene, identity: str, **env: str) -> Muster:
        kubeconfig = await scene.cluster.kubeconfig_for(ACCOUNT, NAMESPACE)
        setup = scene.muster.setup
        folder, both = setup.folder / identity, {**setup.env, **env}
        other = Muster(replace(setup, kubeconfig=kubeconfig, folder=folder, identity=identity, env=both))
        other.setup.folder.mkdir()
        joined.append(other)
        await other.start()
        return other

    yield start
    for other in joined:
        await other.stop()
