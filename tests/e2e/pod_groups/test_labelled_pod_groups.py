"""PodGroups of scheduler-plugins, with their own CustomResourceDefinition and the example of their README."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from devcluster.api import Json
from devcluster.cluster import Cluster, documents
from devcluster.errors import ApiError
from devcluster.frameworks import WAIT_S, go_module
from devcluster.nodes import FakeNode
from devcluster.resources import add_custom
from devcluster.waiting import until
from tests.e2e.conditions import wait_for_reason
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import a_pod
from tests.e2e.pod_groups.test_declared_gangs import wait_for_text
from tests.e2e.pod_groups.test_pod_groups import nothing_is_bound

GROUPS = "podgroups.scheduling.x-k8s.io"
LABEL = "scheduling.x-k8s.io/pod-group"
SAMPLE = documents(Path(__file__).with_name("scheduler-plugins.yaml"))

pytestmark = pytest.mark.usefixtures("api")


@pytest_asyncio.fixture(loop_scope="session")
async def api(home: Cluster) -> AsyncIterator[None]:
    """The API server serves PodGroups of scheduler-plugins."""
    folder = go_module("trainer", "sigs.k8s.io/scheduler-plugins") / "config" / "crd" / "bases"
    [definition] = yaml.safe_load_all((folder / "scheduling.x-k8s.io_podgroups.yaml").read_text())
    add_custom(definition)
    await home.admin.apply(definition)

    async def is_served() -> bool:
        return (await home.admin.find(GROUPS)) == []

    await until("PodGroups of scheduler-plugins are served", is_served, WAIT_S, tolerate=(ApiError,))
    yield
    await home.admin.delete("customresourcedefinitions", definition["metadata"]["name"])


def members(count: int) -> list[Json]:
    return [a_pod(f"w{number}", labels={LABEL: "nginx"}) for number in range(count)]


async def test_the_example_starts_when_its_minimum_fits_and_no_status_is_written(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="7")])
    await scenario.create(SAMPLE)
    await wait_for_text(scenario, "1 of 3 members")
    await nothing_is_bound(scenario)
    for process in (scenario.muster.core, scenario.muster.operator):
        await process.kill()
        await scenario.muster.start()
    await nothing_is_bound(scenario)
    await scenario.cluster.add_nodes([FakeNode("node-1", cpu="4")])
    await scenario.all_bound(3)
    group = await scenario.api.get(GROUPS, "nginx", scenario.namespace)
    assert "status" not in group


async def test_pods_wait_for_their_group_and_for_its_minimum_also_if_it_changes(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="8")])
    await scenario.create(members(2))
    await wait_for_reason(scenario, "w0", "SchedulingSkipped", f'pod group "{LABEL}=nginx" to appear')
    await scenario.create(SAMPLE[:1])
    await wait_for_reason(scenario, "w0", "SchedulingSkipped", "needs 3 (spec.minMember)")
    await scenario.api.patch(GROUPS, "nginx", {"spec": {"minMember": 20_000}}, scenario.namespace)
    await wait_for_reason(scenario, "w0", "SchedulingSkipped", "spec.minMember is 20000, more than 10000")
    await nothing_is_bound(scenario)
    await scenario.api.patch(GROUPS, "nginx", {"spec": {"minMember": 2}}, scenario.namespace)
    await scenario.all_bound(2)
