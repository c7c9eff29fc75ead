"""A namespace's annotations become the quota and the parent of its dynamic queue."""

import json

from devcluster.nodes import FakeNode
from muster_si import keys
from tests.e2e.conditions import wait_for_reason
from tests.e2e.configuration import a_queue, queue_file
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import PREFIX, a_pod
from tests.e2e.scenario import Scenario

NODES = [FakeNode("node-0", cpu="8")]


async def annotate(scenario: Scenario, **annotations: str | None) -> None:
    """Annotate the scenario's namespace; underscores replace dots, None removes an annotation."""
    written = {PREFIX + key.replace("_", "."): value for key, value in annotations.items()}
    await scenario.api.patch("namespaces", scenario.namespace, {"metadata": {"annotations": written}})


async def wait_for_tag(scenario: Scenario, tag: str) -> None:
    """Wait until the core has the tag. Namespaces and pods have separate watches, so a pod could arrive first."""

    async def has_tag() -> bool:
        (operator,) = (await scenario.muster.dump())["rmDiagnostics"].values()
        return tag in operator["namespaces"][scenario.namespace]["tags"]

    await scenario.eventually(f"the core has the tag {tag}", has_tag)


async def test_a_changed_namespace_quota_applies_immediately(open_scenario: OpenScenario) -> None:
    """With the built-in configuration: a queue for each namespace. A change needs no new application."""
    scenario = await open_scenario(NODES)
    queue = f"root.{scenario.namespace}"
    await annotate(scenario, namespace_quota=json.dumps({"cpu": "1"}))
    await wait_for_tag(scenario, keys.APP_TAG_RESOURCE_QUOTA)
    await scenario.create(a_pod(f"pod-{index}", labels={"applicationId": "only"}) for index in range(3))
    await wait_for_reason(scenario, "pod-1", "SchedulingSkipped", queue, "cpu")
    await annotate(scenario, namespace_quota="2 CPUs")
    await scenario.eventually(
        "the invalid annotation is reported", lambda: namespace_is_reported(scenario, "is not JSON")
    )
    assert len(await scenario.bound()) == 1, "an invalid annotation keeps the old quota"
    await annotate(scenario, namespace_quota=json.dumps({"cpu": "2"}))
    await scenario.all_bound(2)
    await annotate(scenario, namespace_quota=None)
    await scenario.all_bound(3)


async def namespace_is_reported(scenario: Scenario, text: str) -> bool:
    """Events of cluster-scoped objects are in the namespace ``default``."""
    events = await scenario.api.find("events", "default")
    about = [event for event in events if event["involvedObject"]["name"] == scenario.namespace]
    return any(event["involvedObject"]["kind"] == "Namespace" and text in event["message"] for event in about)


async def test_a_namespace_selects_its_parent_queue_and_gets_its_template(open_scenario: OpenScenario) -> None:
    template = {"resources": {"max": {"vcore": "2"}}}
    tenants = a_queue("tenants", parent=True, childtemplate=template)
    by_namespace = {
        "name": "tag",
        "value": "namespace",
        "create": True,
        "parent": {"name": "tag", "value": "namespace.parentqueue"},
    }
    scenario = await open_scenario(NODES, queue_file(tenants, rules=[by_namespace]))
    await annotate(scenario, parentqueue="root.tenants")
    await wait_for_tag(scenario, keys.APP_TAG_PARENT_QUEUE)
    await scenario.create(a_pod(f"pod-{index}", labels={"applicationId": "job"}) for index in range(3))
    await scenario.all_bound(2)
    await wait_for_reason(scenario, "pod-2", "SchedulingSkipped", f"root.tenants.{scenario.namespace}", "cpu")
