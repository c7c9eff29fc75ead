"""The examples run as written, with the results that their READMEs describe."""

from pathlib import Path

import yaml

from devcluster.nodes import FakeNode
from tests.e2e.conditions import scheduled
from tests.e2e.configuration import QUICK_PREEMPTION
from tests.e2e.conftest import OpenScenario
from tests.e2e.scenario import Scenario

EXAMPLES = Path(__file__).parents[2] / "examples"
NODES = [FakeNode("node-0", cpu="8")]


def configuration() -> dict[str, str]:
    """The data of the ConfigMap that all examples share."""
    found: dict[str, str] = yaml.safe_load((EXAMPLES / "queues.yaml").read_text())["data"]
    return found


async def apply(scenario: Scenario, example: str, file: str) -> None:
    """Create the objects of the file in the scenario's namespace."""
    for manifest in yaml.safe_load_all((EXAMPLES / example / file).read_text()):
        await scenario.api.apply(manifest, scenario.namespace)


async def running(scenario: Scenario) -> dict[str, int]:
    """Number of pods with a node for each application, without terminating ones."""
    counts: dict[str, int] = {}
    for pod in await scenario.bound():
        app = pod["metadata"]["labels"]["applicationId"]
        counts[app] = counts.get(app, 0) + 1
    return counts


async def wait_for_counts(scenario: Scenario, counts: dict[str, int], waiting: int = 0) -> None:
    """Wait until ``counts`` pods have a node, and at least ``waiting`` pods report SchedulingSkipped."""

    async def is_so() -> bool:
        queued = [pod for pod in await scenario.pods() if scheduled(pod).get("reason") == "SchedulingSkipped"]
        return await running(scenario) == counts and len(queued) >= waiting

    await scenario.eventually(f"{counts} run, {waiting} wait", is_so)


async def test_the_three_placements_reserve_what_the_readme_describes(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES)
    await apply(scenario, "06-placements", "1-reserve.yaml")
    await wait_for_counts(scenario, {"simulate": 3})
    await apply(scenario, "06-placements", "2-driver.yaml")
    await wait_for_counts(scenario, {"simulate": 3, "pipeline": 1})
    await apply(scenario, "06-placements", "3-auto.yaml")

    async def train_waits() -> bool:
        return any("1 of 4 members of task group" in str(scheduled(pod)) for pod in await scenario.pods())

    await scenario.eventually("train reports that it waits", train_waits)
    await apply(scenario, "06-placements", "4-late.yaml")
    await wait_for_counts(scenario, {"simulate": 3, "pipeline": 1, "late": 1})
    assert await scenario.bound(placeholders=True) == []
    await apply(scenario, "06-placements", "5-executors.yaml")
    await wait_for_counts(scenario, {"simulate": 3, "pipeline": 4, "late": 1})
    await scenario.api.delete("jobs", "simulate", scenario.namespace)
    await scenario.api.delete("pods", "late", scenario.namespace)
    await wait_for_counts(scenario, {"pipeline": 4, "train": 4})


async def test_a_queue_regains_its_guarantee_and_the_job_counts_no_failure(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, configuration() | QUICK_PREEMPTION)
    await apply(scenario, "03-preemption", "1-research.yaml")
    await wait_for_counts(scenario, {"research": 4})
    await apply(scenario, "03-preemption", "2-production.yaml")
    await wait_for_counts(scenario, {"research": 2, "production": 2})
    job = await scenario.api.get("jobs", "research", scenario.namespace)
    assert not job["status"].get("failed")
