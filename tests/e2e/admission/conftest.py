"""Shared fixtures of the admission scenarios."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from devcluster.cluster import Cluster
from tests.e2e.admission.scenario import unregister


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def unregistered(cluster: Cluster) -> AsyncIterator[None]:
    """Afterwards, when nobody is left who would register again, nothing is: other scenarios run without."""
    yield
    await unregister(cluster)
