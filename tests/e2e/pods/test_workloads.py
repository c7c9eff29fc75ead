"""Workloads of every kind on one cluster: each pod of a controller is bound once."""

import asyncio
from collections import Counter
from collections.abc import Set as AbstractSet
from typing import Any

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import a_daemon_set, a_pod, is_bound
from tests.e2e.scenario import Scenario

OVER = frozenset({"Completed", ""})
RUN_FOR, FAIL_AFTER = "devcluster.muster/run-for", "devcluster.muster/fail-after"


def a_workload(group: str, kind: str, app: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> Json:
    """A controller with pods of 100m CPU; ``app`` is its name, application and pod label."""
    pod = a_pod("unnamed", cpu="100m", labels={"workload": app, "applicationId": app})
    restarts = "Never" if kind == "Job" else "Always"
    template = {
        "metadata": {"labels": pod["metadata"]["labels"], "annotations": annotations or {}},
        "spec": {**pod["spec"], "restartPolicy": restarts},
    }
    selects = {} if kind == "Job" else {"selector": {"matchLabels": {"workload": app}}}
    body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": app}}
    return {**body, "spec": {**selects, "template": template, **spec}}


def a_job(name: str, app: str, annotations: dict[str, str], **spec: Any) -> Json:
    job = a_workload("batch", "Job", app, annotations=annotations, **spec)
    job["metadata"] = {"name": name}
    return job


async def of(scenario: Scenario, app: str) -> list[Json]:
    return await scenario.api.find("pods", scenario.namespace, labelSelector=f"workload={app}")


async def bound_of(scenario: Scenario, app: str, count: int, *, besides: AbstractSet[str] = frozenset()) -> list[Json]:
    """Wait until ``count`` pods of the workload other than ``besides`` have a node, and return them."""

    async def are_bound() -> list[Json]:
        pods = [pod for pod in await of(scenario, app) if "deletionTimestamp" not in pod["metadata"]]
        new = [pod for pod in pods if is_bound(pod) and pod["metadata"]["uid"] not in besides]
        return new if len(pods) == len(new) == count else []

    return await scenario.eventually(f"{count} new pods of {app} are bound", are_bound)


def uids(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


async def rolls(scenario: Scenario) -> None:
    """A Deployment grows and is updated, pod by pod."""
    first = await bound_of(scenario, "web", 2)
    await scenario.api.patch("deployments", "web", {"spec": {"replicas": 4}}, scenario.namespace)
    grown = await bound_of(scenario, "web", 4)
    assert uids(first) <= uids(grown)
    template = {"metadata": {"annotations": {"version": "2"}}}
    await scenario.api.patch("deployments", "web", {"spec": {"template": template}}, scenario.namespace)
    await bound_of(scenario, "web", 4, besides=uids(grown))


async def recreates_with_same_names(scenario: Scenario) -> None:
    """A StatefulSet creates its pods in order, and recreates a deleted one with the same name."""
    first = await bound_of(scenario, "db", 3)
    by_age = sorted(first, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))
    assert [pod["metadata"]["name"] for pod in by_age] == ["db-0", "db-1", "db-2"]
    for _ in range(2):
        old_pod = await scenario.api.get("pods", "db-1", scenario.namespace)
        await scenario.api.delete("pods", "db-1", scenario.namespace, grace_s=0)

        async def is_recreated(before: Json = old_pod) -> bool:
            now = await scenario.api.get("pods", "db-1", scenario.namespace)
            return is_bound(now) and now["metadata"]["uid"] != before["metadata"]["uid"]

        await scenario.eventually("db-1 is recreated", is_recreated)


async def tries_again(scenario: Scenario) -> None:
    """A Job recreates failed pods, in the application of a running pod."""

    async def has_given_up() -> bool:
        return [pod["status"].get("phase") for pod in await of(scenario, "retries")] == ["Failed"] * 2

    await scenario.eventually("the Job tried twice", has_given_up)
    assert all(is_bound(pod) for pod in await of(scenario, "retries"))
    assert await application(scenario, "retries") == "Running"


async def repeats(scenario: Scenario) -> None:
    """A CronJob's runs share an application ID: the next one starts while the last one completes, or just after."""
    # The next run starts immediately, when the application completes, and when the core has removed it.
    for run, states in enumerate([None, {"Completing", *OVER}, OVER, None]):
        await scenario.create([a_job(f"nightly-{run}", "nightly", {RUN_FOR: "100ms"}, parallelism=2, completions=2)])

        async def is_done(done: int = 2 * (run + 1)) -> bool:
            return Counter(pod["status"].get("phase") for pod in await of(scenario, "nightly")) == {"Succeeded": done}

        await scenario.eventually(f"run {run} is done", is_done)

        async def is_time(states: AbstractSet[str] | None = states) -> bool:
            return states is None or await application(scenario, "nightly") in states

        await scenario.eventually(f"the application is as the run after {run} wants it", is_time)


async def runs_on_every_node(scenario: Scenario) -> None:
    """A DaemonSet's pod is bound to its node, even if that is cordoned. Other pods are not."""

    async def is_everywhere() -> bool:
        pods = await scenario.api.find("pods", scenario.namespace, labelSelector="daemon=agent")
        return sorted(pod["spec"].get("nodeName", "") for pod in pods) == ["node-0", "node-1", "node-2"]

    await scenario.eventually("the agent runs on every node", is_everywhere)
    alone = [pod for pod in await scenario.bound() if pod["spec"]["nodeName"] == "node-2"]
    assert [pod["metadata"]["labels"].get("daemon") for pod in alone] == ["agent"]


async def application(scenario: Scenario, name: str) -> str:
    found = [app for app in (await scenario.muster.dump())["applications"] if app["applicationID"] == name]
    return str(found[0]["applicationState"]) if found else ""


async def test_every_pod_that_a_controller_creates_is_scheduled_once(open_scenario: OpenScenario) -> None:
    """Deployment, StatefulSet, Job with retries, CronJob, DaemonSet, without any rejection."""
    scenario = await open_scenario([FakeNode("node-0"), FakeNode("node-1"), FakeNode("node-2", unschedulable=True)])
    side = a_pod("side", cpu="100m", labels={"applicationId": "retries"})
    await scenario.create(
        [
            a_workload("apps", "Deployment", "web", replicas=2),
            a_workload("apps", "StatefulSet", "db", replicas=3, serviceName="db"),
            side,
            a_job("retries", "retries", {FAIL_AFTER: "100ms"}, backoffLimit=1),
            a_daemon_set("agent", cpu="100m"),
        ]
    )
    await asyncio.gather(
        rolls(scenario),
        recreates_with_same_names(scenario),
        tries_again(scenario),
        repeats(scenario),
        runs_on_every_node(scenario),
    )
    warnings = [event for event in await scenario.events() if event.get("reportingComponent") == "muster"]
    assert {event["reason"] for event in warnings} == {"Scheduled"}
