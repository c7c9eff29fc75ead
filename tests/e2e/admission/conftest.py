"""Shared fixtures of the admission scenarios."""

from collections.abc import AsyncIterator

import pytest_asyncio

from devcluster.cluster import Cluster
from tests.e2e.admission.scenario import unregister


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def unregistered(cluster: Cluster) -> AsyncIterator[None]:
    """Delete the registrations after the scenario, when no operator can register again."""
    yield
    await unregister(cluster)
