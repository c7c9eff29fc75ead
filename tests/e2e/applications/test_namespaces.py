"""Namespaces that are created late, deleted with their objects, and created again."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conditions import scheduled
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import PREFIX, Group, a_gang, a_pod, is_bound
from tests.e2e.scenario import Scenario

NODES = [FakeNode("node-0", cpu="3")]
#: Starts of the messages of a gang when one placeholder fits on no node: its progress, which is one event, and
#: FailedScheduling of its members.
EXPECTED_MESSAGES = ("3 of 4 placeholders are bound", "gang gang is waiting for its reservation")


async def create_namespace(scenario: Scenario, name: str, cpu: str) -> None:
    """Create a namespace with this quota, and wait until pods can be created in it."""
    annotations = {f"{PREFIX}namespace.quota": json.dumps({"cpu": cpu})}
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": annotations}}
    await scenario.api.create(manifest)

    async def has_account() -> bool:
        return bool(await scenario.api.get("serviceaccounts", "default", name))

    await scenario.eventually("the namespace has its default service account", has_account)


async def delete_namespace(scenario: Scenario, name: str) -> None:
    await scenario.api.delete("namespaces", name)

    async def is_deleted() -> bool:
        return name not in {found["metadata"]["name"] for found in await scenario.api.find("namespaces")}

    await scenario.eventually(f"namespace {name} is deleted", is_deleted)


@asynccontextmanager
async def namespace(scenario: Scenario, name: str, cpu: str) -> AsyncIterator[str]:
    """A namespace that is deleted afterwards, with its pods."""
    await create_namespace(scenario, name, cpu)
    try:
        yield name
    finally:
        await scenario.api.delete_all("pods", name)
        await scenario.api.delete("namespaces", name)


async def bound(scenario: Scenario, name: str) -> set[str]:
    return {pod["metadata"]["name"] for pod in await scenario.api.find("pods", name) if is_bound(pod)}


async def wait_for_bound(scenario: Scenario, name: str, *expected: str) -> None:
    """Wait until exactly these pods of the namespace are bound."""

    async def are_bound() -> bool:
        return await bound(scenario, name) == set(expected)

    await scenario.eventually(f"{expected} are bound in {name}", are_bound)


async def wait_for_quota_reason(scenario: Scenario, name: str, pod: str, text: str) -> None:
    async def is_so() -> bool:
        found = scheduled(await scenario.api.get("pods", pod, name))
        return found.get("reason") == "SchedulingSkipped" and text in found["message"]

    await scenario.eventually(f"{pod} waits: {text}", is_so)


def pods(count: int, app: str) -> list[Json]:
    return [a_pod(f"{app}-{index}", labels={"applicationId": app}) for index in range(count)]


async def test_pods_received_before_their_namespace_wait_for_its_quota(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, gated=True)

    async def are_watched() -> bool:
        return scenario.gate.watches["/api/v1/namespaces"] > 0  # a watch that is opened later does not expire

    await scenario.eventually("the operator watches namespaces", are_watched)
    scenario.gate.freeze_watches()
    rule = scenario.gate.hold("GET", "^/api/v1/namespaces$")
    scenario.gate.expire_watches()
    async with namespace(scenario, "late", "1"):
        await rule.reached()
        for pod in pods(2, "job"):
            await scenario.api.create(pod, "late")
        await scenario.create([a_pod("behind")])  # on the same watch, after the pods that wait
        await scenario.all_bound(1)
        assert await bound(scenario, "late") == set()
        rule.open()
        await wait_for_quota_reason(
            scenario, "late", "job-1", "Not enough queue quota: root.late, requested cpu 1, available 0 of 1"
        )
        await wait_for_bound(scenario, "late", "job-0")


async def test_a_deleted_namespace_removes_its_waiting_gang_and_can_be_recreated(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="4")])
    await scenario.create([a_pod("occupies")])
    await scenario.all_bound(1)
    await create_namespace(scenario, "again", "4")
    for pod in a_gang("gang", [Group("workers", 4)], timeout_s=600, placement="Reserve"):
        await scenario.api.create(pod, "again")

    async def is_reserving() -> bool:
        messages = [event["message"] for event in await scenario.api.find("events", "again")]
        are_reported = all(any(message.startswith(part) for message in messages) for part in EXPECTED_MESSAGES)
        return are_reported and sum(map(is_bound, await scenario.api.find("pods", "again"))) == 3

    await scenario.eventually("three of four placeholders are bound, and it is reported", is_reserving)
    await delete_namespace(scenario, "again")
    writes = scenario.writes(of_operator=True)
    created = [write for write in writes if write.what == "create pods"]
    assert len(created) <= 2 * 4, "placeholders deleted with their namespace are not recreated repeatedly"
    assert not [write for write in writes if write.resource == "events" and not write.succeeded]
    assert not [write for write in writes if write.resource == "pods" and write.code == 403]
    async with namespace(scenario, "again", "2"):
        for pod in pods(3, "gang"):
            await scenario.api.create(pod, "again")
        await wait_for_quota_reason(
            scenario, "again", "gang-2", "Not enough queue quota: root.again, requested cpu 1, available 0 of 2"
        )
        await wait_for_bound(scenario, "again", "gang-0", "gang-1")
