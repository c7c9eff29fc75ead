"""Core and operator in one process, with the in-process transport: the same life cycles as over gRPC."""

from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod
from tests.e2e.scenario import Scenario

NODES = [FakeNode("node-0"), FakeNode("node-1")]


async def test_a_gang_completes_its_lifecycle_in_one_process(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, embedded=True)
    await scenario.create([*a_gang("gang", [Group("driver", 1), Group("executors", 3)]), a_pod("single")])
    await scenario.all_bound(5)


async def test_a_soft_gang_times_out_in_one_process(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, embedded=True)
    await scenario.occupy("node-0", "6")  # so that 10 of 16 CPUs are free
    large = [Group("workers", 12, real=2)]
    await scenario.create(a_gang("large", large, style="Soft", timeout_s=2, placement="Reserve"))
    await scenario.all_bound(2)


async def test_the_embedded_process_recovers_after_a_kill(open_scenario: OpenScenario) -> None:
    """One gang is half bound; of the other one, the first placeholder is deleted."""
    scenario: Scenario = await open_scenario(NODES, gated=True, embedded=True)
    for gang, method, path in (("half", "POST", "/binding"), ("sent", "DELETE", "")):
        rule = scenario.gate.hold(method, rf"/pods/tg-{gang}-[^/]*{path}$", skip=1)
        await scenario.create(a_gang(gang, [Group("workers", 4)], timeout_s=600, placement="Reserve"))
        await rule.reached(1)
    await scenario.muster.core.kill()
    scenario.gate.clear()
    await scenario.muster.start()
    await scenario.all_bound(8)
