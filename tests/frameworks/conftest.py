"""Real controllers of frameworks together with Muster and its webhook, on the local control plane.

`open_framework` opens a scenario with the webhook for the pods of its namespace, and runs the framework's controller.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from devcluster import frameworks
from devcluster.cluster import Cluster
from devcluster.frameworks import Framework
from devcluster.nodes import FakeNode
from tests.e2e.admission.conftest import unregistered
from tests.e2e.admission.scenario import registered, webhook
from tests.e2e.conftest import OpenScenario, cluster, home, open_scenario
from tests.e2e.scenario import Scenario
from tests.frameworks.gangs import SLOW_S

__all__ = ["cluster", "home", "open_scenario", "unregistered"]

OpenFramework = Callable[..., Awaitable[Scenario]]
HERE = Path(__file__).parent
NODES = 3
SECONDS_FOR_A_TEST = 600
"""Controllers are installed and removed by every test, and have their back-offs."""
MANAGED = {"admissionController.filtering.processNamespaces": "^scenario-"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All coroutines of this folder share one loop, because the connections live in it; the tests may take long."""
    for item in items:
        if item.path.is_relative_to(HERE) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            item.add_marker(pytest.mark.timeout(SECONDS_FOR_A_TEST))


@pytest_asyncio.fixture(loop_scope="session")
async def open_framework(home: Cluster, open_scenario: OpenScenario) -> AsyncIterator[OpenFramework]:
    """Opens a scenario with the webhook, and runs the controllers of the frameworks until the test ends."""
    async with AsyncExitStack() as stack:

        async def open_one(
            *which: Framework, nodes: Sequence[FakeNode] = (), config: Mapping[str, str] | None = None
        ) -> Scenario:
            fakes = nodes or [FakeNode(f"node-{number}", cpu="4", memory="16Gi") for number in range(NODES)]
            scenario = await open_scenario(fakes, {**MANAGED, **(config or {})}, env=webhook())
            scenario.deadline_s = SLOW_S
            await registered(scenario)
            for framework in which:
                await stack.enter_async_context(frameworks.running(home, framework))
            return scenario

        yield open_one
