"""A new run of an application is a new gang: a Job that is suspended and resumed, retried, or created again."""

from copy import deepcopy
from typing import Any

import pytest

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.applications.test_namespaces import create_namespace, delete_namespace
from tests.e2e.conditions import scheduled
from tests.e2e.conftest import OpenScenario
from tests.e2e.gang_placement.test_placement_modes import restart
from tests.e2e.manifests import Group, a_gang, a_member, is_bound
from tests.e2e.rest import get_json
from tests.e2e.scenario import Scenario

every_mode = pytest.mark.parametrize("mode", ["Auto", "Direct", "Reserve"])
#: YuniKorn's default. An earlier run stays Completing for this time.
DEFAULT = {"service.completingTimeout": "30s"}
INDEX = "batch.kubernetes.io/job-completion-index"


def a_job(name: str, mode: str, members: int, *, parameters: str = "", **spec: Any) -> Json:
    template = a_member(name, "w", name, [Group("w", members)], f"gangPlacement={mode} {parameters}".strip())
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": members,
            "completions": members,
            "template": {
                "metadata": {key: template["metadata"][key] for key in ("labels", "annotations")},
                "spec": template["spec"],
            },
            **spec,
        },
    }


async def of_job(scenario: Scenario, name: str) -> list[Json]:
    """The pods of the Job that have not ended."""
    pods = await scenario.api.find("pods", scenario.namespace, labelSelector=f"job-name={name}")
    return [pod for pod in pods if pod["status"].get("phase") in {"Pending", "Running"}]


async def wait_for_bound(scenario: Scenario, name: str, count: int, created: int | None = None) -> None:
    """Wait until so many pods of the Job exist, and so many have a node."""

    async def are_bound() -> bool:
        pods = [pod for pod in await of_job(scenario, name) if not pod["metadata"].get("deletionTimestamp")]
        return (len(pods), sum(map(is_bound, pods))) == (count if created is None else created, count)

    await scenario.eventually(f"{count} pods of {name} have a node", are_bound)


async def wait_for_waiting(scenario: Scenario, name: str, count: int) -> None:
    """Wait until so many pods of the Job exist, and all wait for the gang."""

    async def all_wait() -> bool:
        pods = [pod for pod in await of_job(scenario, name) if not pod["metadata"].get("deletionTimestamp")]
        assert not any(map(is_bound, pods)), "a part of the gang has started"
        return len(pods) == count and all("gang" in scheduled(pod).get("message", "") for pod in pods)

    await scenario.eventually(f"{count} pods of {name} wait for their gang", all_wait)


async def suspend(scenario: Scenario, name: str, *, is_suspended: bool) -> None:
    await scenario.api.patch("jobs", name, {"spec": {"suspend": is_suspended}}, scenario.namespace)


async def end(scenario: Scenario, pod: Json, phase: str) -> None:
    """End a bound pod after its start: otherwise its node would write Running over the phase."""
    name = pod["metadata"]["name"]

    async def runs() -> bool:
        found = await scenario.api.get("pods", name, scenario.namespace)
        return bool(found["status"].get("phase") == "Running")

    await scenario.eventually(f"{name} runs", runs)
    await scenario.api.patch("pods", name, {"status": {"phase": phase}}, scenario.namespace, subresource="status")


async def free(scenario: Scenario) -> None:
    """Delete the pods that occupy nodes."""
    for pod in await scenario.api.find("pods", scenario.namespace):
        if "job-name" not in pod["metadata"].get("labels", {}) and not pod["metadata"].get("ownerReferences"):
            await scenario.api.delete("pods", pod["metadata"]["name"], scenario.namespace, grace_s=0)


@every_mode
async def test_a_job_that_is_resumed_within_the_completing_timeout_is_a_gang_again(
    mode: str, open_scenario: OpenScenario
) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="4")], DEFAULT)
    await scenario.create([a_job("train", mode, 4)])
    await wait_for_bound(scenario, "train", 4)
    await suspend(scenario, "train", is_suspended=True)
    await wait_for_bound(scenario, "train", 0)
    await scenario.occupy("node-0", "2")
    await suspend(scenario, "train", is_suspended=False)
    await wait_for_waiting(scenario, "train", 4)
    runs = await get_json(scenario, f"partition/default/queue/root.{scenario.namespace}/applications")
    assert {(run["applicationID"], run["applicationState"]) for run in runs} == {
        ("train", "Completing"),
        ("train", "Accepted"),
    }
    app = await get_json(scenario, f"partition/default/application/train?namespace={scenario.namespace}")
    assert app["applicationState"] == "Accepted"
    await free(scenario)
    await wait_for_bound(scenario, "train", 4)


@pytest.mark.parametrize("victims", [[], ["operator"], ["core"]], ids=["none", "operator", "core"])
async def test_pods_that_terminate_keep_their_nodes_and_the_next_run_waits_for_all(
    victims: list[str], open_scenario: OpenScenario
) -> None:
    """The old pods end one after the other, while the new ones exist."""
    scenario = await open_scenario([FakeNode("node-0", cpu="3")], DEFAULT)
    job = a_job("train", "Auto", 3)
    job["spec"]["template"]["metadata"]["annotations"]["devcluster.muster/delete-after"] = "3600s"
    job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 3600
    await scenario.create([job])
    await wait_for_bound(scenario, "train", 3)
    old = [pod["metadata"]["name"] for pod in await of_job(scenario, "train")]
    await suspend(scenario, "train", is_suspended=True)
    await wait_for_bound(scenario, "train", 0)
    await suspend(scenario, "train", is_suspended=False)
    await wait_for_waiting(scenario, "train", 3)
    await restart(scenario, victims)
    for index, name in enumerate(old):
        await scenario.api.delete("pods", name, scenario.namespace, grace_s=0)
        if index < len(old) - 1:
            await wait_for_waiting(scenario, "train", 3)
    await wait_for_bound(scenario, "train", 3)


@every_mode
async def test_a_retry_after_the_other_members_have_succeeded_needs_one_node(
    mode: str, open_scenario: OpenScenario
) -> None:
    """The Job controller creates the pod again after a pause that is longer than the completing timeout."""
    scenario = await open_scenario([FakeNode("node-0", cpu="3")])
    await scenario.create([a_job("indexed", mode, 3, completionMode="Indexed", backoffLimit=100)])
    await wait_for_bound(scenario, "indexed", 3)
    by_index = {pod["metadata"]["annotations"][INDEX]: pod for pod in await of_job(scenario, "indexed")}
    for index in ("0", "1"):
        await end(scenario, by_index[index], "Succeeded")
    await scenario.occupy("node-0", "2")
    await end(scenario, by_index["2"], "Failed")
    await wait_for_bound(scenario, "indexed", 1)

    async def no_placeholder_is_left() -> bool:
        return not await scenario.pods(placeholders=True)

    await scenario.eventually("no placeholder is left", no_placeholder_is_left)
    assert scenario.created_placeholders() in {0, 4}


@pytest.mark.parametrize("mode", ["Reserve", "Direct"])
async def test_pods_that_replace_those_of_a_failed_gang_are_a_gang_that_runs_when_nodes_are_added(
    mode: str, open_scenario: OpenScenario
) -> None:
    """A ReplicaSet replaces each failed pod at once, also while the core still fails the others."""
    scenario = await open_scenario([FakeNode("node-0", cpu="1")], DEFAULT)
    policy = "gangSchedulingStyle=Hard placeholderTimeoutInSeconds=4 gangWaitTimeoutInSeconds=4"
    template = a_job("rs", mode, 3, parameters=policy)["spec"]["template"]
    template["spec"]["restartPolicy"] = "Always"
    selector = {"matchLabels": {"applicationId": "rs"}}
    spec = {"replicas": 3, "selector": selector, "template": template}
    await scenario.create([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rs"}, "spec": spec}])

    async def failed_twice() -> bool:
        return [pod["status"].get("phase") for pod in await scenario.pods()].count("Failed") >= 6

    await scenario.eventually("two gangs have failed", failed_twice)
    assert await scenario.bound() == []
    await scenario.cluster.add_nodes([FakeNode("node-1", cpu="1"), FakeNode("node-2", cpu="1")])

    async def all_run() -> bool:
        return len(await scenario.bound()) == 3

    await scenario.eventually("the gang runs", all_run)


async def test_a_gang_in_a_namespace_that_was_created_again_is_a_new_one(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="4")], DEFAULT)
    await create_namespace(scenario, "again", "10")
    try:
        pods = a_gang("gang", [Group("w", 3)], timeout_s=600, placement="Auto")
        for pod in deepcopy(pods):
            await scenario.api.create(pod, "again")

        async def bound() -> int:
            return sum(map(is_bound, await scenario.api.find("pods", "again")))

        async def all_run() -> bool:
            return await bound() == 3

        await scenario.eventually("the gang runs", all_run)
        await scenario.api.delete_all("pods", "again")
        await delete_namespace(scenario, "again")
        await create_namespace(scenario, "again", "2")
        for pod in deepcopy(pods):
            await scenario.api.create(pod, "again")

        async def is_rejected() -> bool:
            found = await scenario.api.find("pods", "again")
            return len(found) == 3 and all("maximum of queue" in pod["status"].get("message", "") for pod in found)

        await scenario.eventually("the gang is rejected by the quota of the new namespace", is_rejected)
        assert await bound() == 0
    finally:
        await scenario.api.delete_all("pods", "again")
        await scenario.api.delete("namespaces", "again")
