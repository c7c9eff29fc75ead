"""Annotations as user reports have them: null in maps, and keys that resemble known ones (reports 01, 02)."""

from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang

ANALYSIS = {"disk": "fast", "node-role/analysis": ""}


async def test_null_in_a_node_selector_is_an_empty_label_value_and_the_gang_stays(open_scenario: OpenScenario) -> None:
    """A Spark helper in Python writes `None` for the value of a label that marks nodes."""
    scenario = await open_scenario([FakeNode("node-0", cpu="2"), FakeNode("node-1", cpu="8", labels=ANALYSIS)])
    selector = {"nodeSelector": {"node-role/analysis": None, "disk": "fast"}, "tolerations": [], "affinity": {}}
    # The third pod never comes. Its placeholder shows that the pods are a gang.
    workers = Group("workers", 3, real=2, extra=selector)
    await scenario.create(a_gang("job", [workers], style="Hard", timeout_s=600, placement="Reserve"))

    async def are_reserved() -> bool:
        nodes = [pod["spec"]["nodeName"] for pod in await scenario.bound(placeholders=True)]
        return nodes == ["node-1"] and len(await scenario.bound()) == 2

    await scenario.eventually("the third member is reserved on the node with the empty label value", are_reserved)
