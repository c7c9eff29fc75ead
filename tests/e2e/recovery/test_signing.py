"""The key that signs placeholders is rotated, deleted and read again while a waiting gang keeps its placeholders."""

import base64

from devcluster.api import Json
from devcluster.errors import ApiError
from devcluster.muster import NAMESPACE
from devcluster.nodes import FakeNode
from muster_operator.model import names as keys
from muster_operator.model.signing import CURRENT, PREVIOUS, SECRET, SigningKeys, Validity, key_id
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod, is_bound
from tests.e2e.scenario import Scenario


async def stored(scenario: Scenario) -> dict[str, str]:
    """The entries of the Secret; empty if it does not exist."""
    try:
        found: dict[str, str] = (await scenario.api.get("secrets", SECRET, NAMESPACE)).get("data") or {}
    except ApiError as error:
        if error.status != 404:
            raise
        return {}
    return found


async def restart(scenario: Scenario) -> None:
    """Stop the operator, start it, and wait until it has recovered."""
    await scenario.muster.operator.stop()
    await scenario.muster.start()


async def test_a_waiting_gang_keeps_its_placeholders_after_key_rotation_and_restarts(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="4")])
    await scenario.create([a_pod("single", cpu="1500m")])
    await scenario.all_bound(1)
    await scenario.create(a_gang("train", [Group("workers", 3, cpu="1200m")], placement="Reserve"))

    async def reserves() -> list[Json]:
        found = await scenario.pods(placeholders=True)
        return found if len(found) == 3 and sum(map(is_bound, found)) == 2 else []

    before = await scenario.eventually("the gang reserves what fits", reserves)
    uids = {pod["metadata"]["uid"] for pod in before}
    first = await stored(scenario)

    async def rotated() -> bool:
        now = await stored(scenario)
        return now.get(PREVIOUS) == first[CURRENT] and now.get(CURRENT) not in {None, first[CURRENT]}

    move = {"data": {CURRENT: None, PREVIOUS: first[CURRENT]}}
    await scenario.api.patch("secrets", SECRET, move, NAMESPACE)
    await scenario.eventually("a new key is stored", rotated)
    await restart(scenario)
    assert {
        pod["metadata"]["uid"] for pod in await scenario.eventually("the gang has placeholders again", reserves)
    } == uids

    second = await stored(scenario)
    await scenario.api.delete("secrets", SECRET, NAMESPACE)

    async def is_back() -> bool:
        return await stored(scenario) == second

    await scenario.eventually("the Secret is recreated with the same keys", is_back)
    await restart(scenario)
    assert {
        pod["metadata"]["uid"] for pod in await scenario.eventually("the gang has placeholders again", reserves)
    } == uids

    await scenario.cluster.add_nodes([FakeNode("node-1", cpu="4")])
    await scenario.all_bound(4, 90)
    signing_keys = SigningKeys(NAMESPACE, [base64.b64decode(second[name]) for name in (CURRENT, PREVIOUS)])
    for pod in await scenario.bound():
        metadata = pod["metadata"]
        parts = ("binding", metadata["namespace"], metadata["name"], metadata["uid"], pod["spec"]["nodeName"])
        signature = metadata["annotations"][keys.ANNOTATION_BINDING_SIGNATURE]
        assert signing_keys.verify(signature, parts) is Validity.VALID, metadata["name"]
        old = metadata["name"] == "single"
        assert signature.split(":")[1] == key_id(base64.b64decode(second[PREVIOUS if old else CURRENT]))


async def test_placeholders_signed_with_a_lost_key_are_reported_and_not_deleted(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="4")])
    await scenario.create([a_pod("single", cpu="1500m")])
    await scenario.all_bound(1)
    await scenario.create(a_gang("train", [Group("workers", 3, cpu="1200m")], placement="Reserve"))

    async def reserves() -> list[Json]:
        found = await scenario.pods(placeholders=True)
        return found if len(found) == 3 and sum(map(is_bound, found)) == 2 else []

    before = await scenario.eventually("the gang reserves what fits", reserves)
    await scenario.muster.operator.stop()
    await scenario.api.delete("secrets", SECRET, NAMESPACE)
    await scenario.muster.start()
    names = {pod["metadata"]["name"] for pod in before}

    async def reported() -> bool:
        rejections = await scenario.events("TaskRejected")
        return names <= {
            event["involvedObject"]["name"] for event in rejections if "signed with a key" in event["message"]
        }

    await scenario.eventually("events on all of them", reported)
    there = {pod["metadata"]["uid"] for pod in await scenario.pods(placeholders=True)}
    assert {pod["metadata"]["uid"] for pod in before} <= there
    for name in names:
        await scenario.api.delete("pods", name, scenario.namespace, grace_s=0)
    await scenario.cluster.add_nodes([FakeNode("node-1", cpu="4")])
    await scenario.all_bound(4, 120)
