"""A limit holds back only its user or group; `maxapplications` holds back only further applications."""

from devcluster.nodes import FakeNode
from tests.e2e.conditions import wait_for_reason
from tests.e2e.configuration import queues
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import a_pod, owned
from tests.e2e.scenario import Scenario

NODES = [FakeNode("node-0", cpu="8")]
ONE = {"vcore": "1"}


def limited(**limit: object) -> dict[str, str]:
    """A leaf queue with this limit."""
    return queues(limits=[{"limit": "", "maxresources": ONE, **limit}])


async def submit(scenario: Scenario, name: str, user: str, *groups: str) -> None:
    labels = {"applicationId": f"of-{user}", "queue": "root.leaf"}
    await scenario.create([owned(a_pod(name, labels=labels), user, *groups)])


async def only_bound(scenario: Scenario, *names: str) -> None:
    """Wait until these pods are bound, and no others."""

    async def are_bound() -> bool:
        return {pod["metadata"]["name"] for pod in await scenario.bound()} == set(names)

    await scenario.eventually(f"only {', '.join(names)} are bound", are_bound)


async def test_a_user_at_the_limit_waits_while_another_user_runs(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario(NODES, limited(users=["ann"]))
    await submit(scenario, "ann-0", "ann")
    await scenario.all_bound(1)
    await submit(scenario, "ann-1", "ann")
    await submit(scenario, "bob-0", "bob")
    await submit(scenario, "bob-1", "bob")
    await wait_for_reason(scenario, "ann-1", "SchedulingSkipped", "ann", "root.leaf", "cpu")
    await only_bound(scenario, "ann-0", "bob-0", "bob-1")
    await scenario.api.delete("pods", "ann-0", scenario.namespace)
    await scenario.all_bound(3)


async def test_the_members_of_a_group_share_its_limit(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, limited(groups=["research"]))
    await submit(scenario, "ann-0", "ann", "research")
    await scenario.all_bound(1)
    await submit(scenario, "bob-0", "bob", "research")
    await submit(scenario, "eve-0", "eve", "sales")
    await wait_for_reason(scenario, "bob-0", "SchedulingSkipped", "research", "cpu")
    await only_bound(scenario, "ann-0", "eve-0")


async def test_an_application_above_maxapplications_waits(open_scenario: OpenScenario) -> None:
    """Applications above `maxapplications` wait; they are not rejected."""
    scenario = await open_scenario(NODES, queues(maxapplications=1))
    first = a_pod("first", labels={"applicationId": "first", "queue": "root.leaf"})
    await scenario.create([first])
    await scenario.all_bound(1)
    await scenario.create([a_pod("second", labels={"applicationId": "second", "queue": "root.leaf"})])
    await wait_for_reason(scenario, "second", "SchedulingSkipped", "root.leaf", "1")
    await scenario.api.delete("pods", "first", scenario.namespace)
    await only_bound(scenario, "second")
