"""The gate applies rules to matching requests and forwards all others."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from devcluster.api import Access, Api, Json
from devcluster.cluster import Cluster
from devcluster.errors import ApiError
from devcluster.waiting import until
from tests.e2e.gate import Gate

CONFIGMAPS = r"/configmaps$"


def a_configmap(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"test": "gate"}}}


@pytest_asyncio.fixture(loop_scope="session")
async def gate(local: Cluster) -> AsyncIterator[Gate]:
    assert local.plane is not None
    async with Gate(local.admin.access, local.plane.authority.issue("gate", ["127.0.0.1"])) as opened:
        yield opened
    await local.admin.delete_all("configmaps", "default", labelSelector="test=gate")


@pytest_asyncio.fixture(loop_scope="session")
async def through(gate: Gate, local: Cluster) -> AsyncIterator[Api]:
    """A client that connects through the gate."""
    access = local.admin.access
    async with Api(Access(gate.url, access.tls, access.token)) as api:
        yield api


async def names(local: Cluster) -> set[str]:
    found = await local.admin.find("configmaps", "default", labelSelector="test=gate")
    return {item["metadata"]["name"] for item in found}


async def test_a_request_without_a_rule_passes_and_a_failure_affects_only_the_client(
    gate: Gate, through: Api, local: Cluster
) -> None:
    rejection = gate.fail("POST", CONFIGMAPS, 429, retry_after_s=1)
    with pytest.raises(ApiError) as refused:
        await through.create(a_configmap("one"))
    assert refused.value.status == 429
    assert await names(local) == set()
    await through.create(a_configmap("one"))
    assert await names(local) == {"one"}
    assert len(rejection.seen) == 1


async def test_the_third_request_is_held_until_the_gate_opens(gate: Gate, through: Api, local: Cluster) -> None:
    rule = gate.hold("POST", CONFIGMAPS, skip=2)
    requests = [asyncio.create_task(through.create(a_configmap(name))) for name in "abc"]
    await rule.reached(1)
    await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)

    async def two_are_answered() -> bool:
        return len(await names(local)) == 2 and sum(request.done() for request in requests) == 2

    await until("two requests are answered", two_are_answered, 60)
    rule.open()
    await asyncio.gather(*requests)
    assert await names(local) == {"a", "b", "c"}


async def test_a_held_request_is_dropped_with_its_client(gate: Gate, local: Cluster) -> None:
    rule = gate.hold("POST", CONFIGMAPS)
    access = local.admin.access
    async with Api(Access(gate.url, access.tls, access.token)) as client:
        request = asyncio.create_task(client.create(a_configmap("never")))
        await rule.reached(1)
    with pytest.raises(aiohttp.ClientError):
        await request

    async def no_pod_waits() -> bool:
        return gate.waiting == 0

    await until("the gate has dropped the request", no_pod_waits, 60)
    rule.open()
    assert await names(local) == set()


async def test_a_request_with_a_lost_response_took_effect(gate: Gate, through: Api, local: Cluster) -> None:
    gate.drop_response("POST", CONFIGMAPS)
    with pytest.raises(aiohttp.ClientError):
        await through.create(a_configmap("lost"))
    assert await names(local) == {"lost"}


async def test_frozen_watches_send_nothing_and_later_deliver_all_events(
    gate: Gate, through: Api, local: Cluster
) -> None:
    behind: list[str] = []
    direct: list[str] = []

    async def follow(api: Api, seen: list[str]) -> None:
        async for _, thing in api.watch("configmaps", "default", labelSelector="test=gate"):
            seen.append(thing["metadata"]["name"])

    async def wait_for_events(seen: list[str], *expected: str) -> None:
        async def is_so() -> bool:
            return seen == list(expected)

        await until(f"the watch delivered {expected}", is_so, 90)

    watching = [asyncio.create_task(follow(through, behind)), asyncio.create_task(follow(local.admin, direct))]
    await local.admin.create(a_configmap("before"))
    await wait_for_events(behind, "before")
    gate.freeze_watches()
    await local.admin.create(a_configmap("during"))
    await wait_for_events(direct, "before", "during")
    assert behind == ["before"]
    gate.clear()
    await wait_for_events(behind, "before", "during")
    for task in watching:
        task.cancel()
