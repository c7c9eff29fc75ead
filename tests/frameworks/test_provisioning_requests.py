"""ProvisioningRequests of gangs, with the CustomResourceDefinition of Cluster Autoscaler.

Cluster Autoscaler itself is not run: the test sets the conditions and adds the nodes as it would.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import yaml

from devcluster.api import Json
from devcluster.cluster import Cluster, documents
from devcluster.errors import ApiError
from devcluster.frameworks import WAIT_S, go_module
from devcluster.muster import MANIFESTS
from devcluster.nodes import FakeNode
from devcluster.resources import add_custom, of_manifest
from devcluster.waiting import until
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang
from tests.e2e.scenario import Scenario
from tests.frameworks.gangs import SLOW_S

REQUESTS = "provisioningrequests.autoscaling.x-k8s.io"
CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
SETTING = {"autoscaling.provisioningRequest": CLASS}
CONSUME = "autoscaling.x-k8s.io/consume-provisioning-request"
PERMISSIONS = documents(MANIFESTS.with_name("provisioning-requests.yaml"))
GROUPS = [Group("driver", 1), Group("workers", 4)]


@pytest_asyncio.fixture(loop_scope="session")
async def api(home: Cluster) -> AsyncIterator[None]:
    """The API server serves ProvisioningRequests, and the operator may write them."""
    folder = go_module("kueue", "k8s.io/autoscaler/cluster-autoscaler/apis") / "config" / "crd"
    [definition] = yaml.safe_load_all((folder / "autoscaling.x-k8s.io_provisioningrequests.yaml").read_text())
    add_custom(definition)
    for one in (definition, *PERMISSIONS):
        await home.admin.apply(one)

    async def is_served() -> bool:
        return (await home.admin.find(REQUESTS)) == []

    await until("provisioningrequests are served", is_served, WAIT_S, tolerate=(ApiError,))
    yield
    for one in (definition, *PERMISSIONS):
        await home.admin.delete(of_manifest(one).plural, one["metadata"]["name"])


async def requested(scenario: Scenario) -> Json:
    """Wait until there is one request, and return it."""

    async def found() -> Json | None:
        listed = await scenario.api.find(REQUESTS, scenario.namespace)
        assert len(listed) <= 1
        return listed[0] if listed else None

    request = await scenario.eventually("the gang has a ProvisioningRequest", found)
    assert request is not None
    return request


async def is_withdrawn(scenario: Scenario) -> None:
    async def is_gone() -> bool:
        plurals = (REQUESTS, "podtemplates")
        return not [one for plural in plurals for one in await scenario.api.find(plural, scenario.namespace)]

    await scenario.eventually("the request and its templates are gone", is_gone, SLOW_S)


async def has_condition(scenario: Scenario, request: Json, kind: str, status: str, message: str) -> None:
    """Set the condition as Cluster Autoscaler does."""
    condition = {"type": kind, "status": status, "reason": "Test", "message": message}
    body = {"status": {"conditions": [condition | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
    await scenario.api.patch(REQUESTS, request["metadata"]["name"], body, scenario.namespace, subresource="status")


async def is_posted(scenario: Scenario, message: str) -> None:
    async def found() -> bool:
        events = [*await scenario.events("NodesNotRequested"), *await scenario.events("NodesNotProvided")]
        return any(message in one["message"] and one["involvedObject"]["name"] == "train-driver-0" for one in events)

    await scenario.eventually(f"{message} is posted on the originator", found, SLOW_S)


@pytest.mark.usefixtures("api")
async def test_a_gang_requests_the_nodes_of_its_members_without_one_until_it_is_complete(
    home: Cluster, open_scenario: OpenScenario
) -> None:
    """Three of five members fit now. Five fit if the nodes were empty."""
    scenario = await open_scenario([FakeNode("small", cpu="3"), FakeNode("full", cpu="2")], SETTING)
    await scenario.occupy("full", "2")
    await scenario.create(a_gang("train", GROUPS, placement="Reserve", timeout_s=600))
    request = await requested(scenario)
    name, spec = request["metadata"]["name"], request["spec"]
    assert spec["provisioningClassName"] == CLASS
    placeholders = await scenario.pods(placeholders=True)
    assert {pod["metadata"]["annotations"][CONSUME] for pod in placeholders} == {name}
    without_node = [pod for pod in placeholders if "nodeName" not in pod["spec"]]
    assert sum(one["count"] for one in spec["podSets"]) == len(without_node) == 2
    for one in spec["podSets"]:
        template = await scenario.api.get("podtemplates", one["podTemplateRef"]["name"], scenario.namespace)
        assert template["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1"
        assert template["metadata"]["ownerReferences"] == request["metadata"]["ownerReferences"]
    assert {owner["name"] for owner in request["metadata"]["ownerReferences"]} == {"train-driver-0"}

    await has_condition(scenario, request, "Provisioned", "False", "waiting for capacity")
    await is_posted(scenario, "waiting for capacity")
    await has_condition(scenario, request, "Failed", "True", "the cloud has no machines")
    await is_posted(scenario, "the cloud has no machines")
    assert (await requested(scenario))["metadata"]["uid"] == request["metadata"]["uid"]

    await home.add_nodes([FakeNode("added", cpu="4")])
    await scenario.all_bound(5, SLOW_S)
    await is_withdrawn(scenario)


@pytest.mark.usefixtures("api")
async def test_the_request_ends_with_its_gang(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("small", cpu="1")], SETTING)
    gang = a_gang("train", GROUPS, placement="Reserve", timeout_s=600)
    await scenario.create(gang)
    await requested(scenario)
    for pod in gang:
        await scenario.api.delete("pods", pod["metadata"]["name"], scenario.namespace, grace_s=0)
    await is_withdrawn(scenario)


async def test_without_the_api_the_setting_has_no_effect(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("small", cpu="5")], SETTING)
    await scenario.create(a_gang("train", GROUPS, placement="Reserve", timeout_s=600))
    await scenario.all_bound(5)
    assert "the API server does not serve ProvisioningRequests" in scenario.muster.operator.tail(500)
    written = {write.resource for write in scenario.writes(of_operator=True)}
    assert "pods" in written
    assert not written & {"provisioningrequests", "podtemplates"}
