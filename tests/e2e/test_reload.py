"""A changed ConfigMap takes effect shortly after; an invalid one changes nothing and is reported."""

import base64
import gzip
from collections.abc import Mapping

import aiohttp
import pytest

from devcluster.nodes import FakeNode
from tests.e2e import rest
from tests.e2e.conditions import reported_on_config_map, wait_for_event
from tests.e2e.configuration import a_queue, queue_file, queues
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import a_pod
from tests.e2e.scenario import Scenario

NODES = [FakeNode("node-0", cpu="8")]


async def push(scenario: Scenario, data: Mapping[str, str]) -> None:
    """Change entries of the ConfigMap."""
    await scenario.api.patch("configmaps", "muster-configs", {"data": dict(data)}, scenario.muster.setup.namespace)


async def test_a_pushed_configuration_applies_immediately(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, queues(resources={"max": {"vcore": "1"}}))
    labels = {"applicationId": "grows", "queue": "root.leaf"}
    await scenario.create([a_pod("first", labels=labels), a_pod("second", labels=labels)])
    await scenario.all_bound(1)
    await push(scenario, queues(resources={"max": {"vcore": "4"}}))
    await scenario.all_bound(2)


async def test_a_pushed_configuration_applies_after_a_rejection_that_ends_kopf(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, queues(resources={"max": {"vcore": "1"}}), gated=True, started=False)
    rejected = scenario.gate.fail("GET", r"/configmaps$", 400, times=2)
    await scenario.muster.start()
    labels = {"applicationId": "grows", "queue": "root.leaf"}
    await scenario.create([a_pod("first", labels=labels), a_pod("second", labels=labels)])
    await scenario.all_bound(1)
    await rejected.reached(2)
    await push(scenario, queues(resources={"max": {"vcore": "4"}}))
    await scenario.all_bound(2)


async def test_an_added_queue_accepts_pods_and_a_removed_one_drains(open_scenario: OpenScenario) -> None:
    old, new = a_queue("old"), a_queue("new")
    scenario = await open_scenario(NODES, queue_file(old))
    await scenario.create([a_pod("stays", labels={"applicationId": "stays", "queue": "root.old"})])
    await scenario.all_bound(1)
    await push(scenario, queue_file(new))
    await scenario.eventually("the new queue exists", lambda: rest.queue_exists(scenario, "root.new"))
    await scenario.create(
        [
            a_pod("welcome", labels={"applicationId": "welcome", "queue": "root.new"}),
            a_pod("too-late", labels={"applicationId": "too-late", "queue": "root.old"}),
        ]
    )
    await wait_for_event(scenario, "too-late", "root.old")
    await scenario.all_bound(2)
    assert (await rest.get_json(scenario, "partition/default/queue/root.old"))["status"] == "Draining"
    await scenario.api.delete("pods", "stays", scenario.namespace)

    async def is_gone() -> bool:
        return not await rest.queue_exists(scenario, "root.old")

    await scenario.eventually("the removed queue is deleted once it is empty", is_gone)


async def test_an_unreadable_configuration_keeps_the_old_one_active(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, queues(resources={"max": {"vcore": "2"}}))
    await push(scenario, {"queues.yaml": "partitions: [{name: default, quues: []}]"})
    labels = {"applicationId": "old", "queue": "root.leaf"}
    await scenario.create(a_pod(f"single-{index}", labels=labels) for index in range(3))
    await scenario.all_bound(2)

    await reported_on_config_map(scenario, "quues", "the previous queues remain active")


@pytest.mark.parametrize("text", ["", "partitions: [{name: default, quues: []}]"], ids=["empty", "invalid"])
async def test_settings_apply_next_to_queues_that_do_not(open_scenario: OpenScenario, text: str) -> None:
    scenario = await open_scenario(NODES, queues(resources={"max": {"vcore": "2"}}))
    await push(scenario, {"queues.yaml": text, "gang.starvationAge": "77s"})

    async def are_applied() -> bool:
        url = f"http://127.0.0.1:{scenario.muster.rest_port}/ws/v1/config"
        headers = {"Accept": "application/json"}
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
            config = await answer.json()
        return bool(config["Extra"].get("gang.starvationAge") == "77s" and "leaf" in str(config["Partitions"]))

    await scenario.eventually("the setting applies and the queues stay", are_applied)


async def test_a_compressed_configuration_takes_precedence_and_an_unknown_key_is_reported(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario(NODES, queues(resources={"max": {"vcore": "1"}}))
    better = queues(resources={"max": {"vcore": "3"}})["queues.yaml"]
    packed = base64.b64encode(gzip.compress(better.encode())).decode()
    change = {"binaryData": {"queues.yaml.gz": packed}, "data": {"gang.waitTimout": "1h"}}
    await scenario.api.patch("configmaps", "muster-configs", change, scenario.muster.setup.namespace)

    async def is_raised() -> bool:
        return bool(
            (await rest.get_json(scenario, "partition/default/queue/root.leaf"))["maxResource"]["vcore"] == 3000
        )

    await scenario.eventually("the compressed configuration applies", is_raised)
    await reported_on_config_map(scenario, "gang.waitTimout is not a setting of Muster; did you mean gang.waitTimeout?")
