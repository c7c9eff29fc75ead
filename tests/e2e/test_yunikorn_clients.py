"""Clients of YuniKorn work unmodified: the REST API with its JSON types, the web UI's fields, and the dashboard."""

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e import yunikorn_clients as clients
from tests.e2e.configuration import a_queue, queue_file
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod, owned
from tests.e2e.rest import get_json
from tests.e2e.scenario import Scenario

NODES = [FakeNode(name, extra={"ephemeral-storage": "10Gi"}) for name in ("node-0", "node-1")]

TEMPLATE = {
    "maxapplications": 5,
    "resources": {"guaranteed": {"vcore": "1"}, "max": {"vcore": "4"}},
    "properties": {"application.sort.policy": "fifo"},
}
NOT_MALLORY: Json = {"type": "deny", "users": ["mallory"]}
RULES: list[Json] = [
    {"name": "provided", "filter": NOT_MALLORY},
    {"name": "user", "create": True, "filter": NOT_MALLORY, "parent": {"name": "fixed", "value": "root.team"}},
]
LIMITS = [
    {"limit": "each user", "users": ["*"], "maxresources": {"vcore": "15"}, "maxapplications": 50},
    {"limit": "staff", "groups": ["staff"], "maxresources": {"vcore": "15"}},
]
CONFIG = {
    **queue_file(
        a_queue(
            "team",
            a_queue("small", maximum={"vcore": "3"}, guaranteed={"vcore": "1"}),
            properties={"preemption.delay": "1m"},
            childtemplate=TEMPLATE,
        ),
        rules=RULES,
        limits=LIMITS,
    ),
    "health.checkInterval": "1s",
}


async def objects_of_every_kind(open_scenario: OpenScenario) -> Scenario:
    """A gang that reserves, and a running, a waiting, a completed, a rejected and a foreign pod."""
    scenario = await open_scenario(NODES, CONFIG)
    await scenario.occupy("node-0", "1")
    ended, single, waiting = (
        owned(a_pod(name, labels={"applicationId": name, "queue": "root.team.small"}), "kim", "staff")
        for name in ("ended", "single", "waiting")
    )
    dynamic = owned(a_pod("dynamic", labels={"applicationId": "dynamic"}), "kim", "staff")
    rejected = owned(a_pod("rejected", labels={"applicationId": "rejected"}), "mallory")
    await scenario.create([ended])
    await scenario.all_bound(1)
    await scenario.api.delete("pods", "ended", scenario.namespace)
    await scenario.eventually("the application has completed", lambda: has(scenario, "completed", "ended"))
    await scenario.create([single, dynamic, rejected])
    gang = a_gang("gang", [Group("workers", 3)], timeout_s=600, queue="root.team.small", placement="Reserve")
    await scenario.create([owned(pod, "kim", "staff") for pod in gang])
    await scenario.eventually("two of three placeholders are reserved", lambda: reserves(scenario))
    await scenario.eventually("the application is rejected", lambda: has(scenario, "rejected", "rejected"))
    await scenario.create([waiting])
    await scenario.eventually("the request waits", lambda: has(scenario, "active", "waiting"))
    return scenario


async def has(scenario: Scenario, state: str, application: str) -> bool:
    found = await get_json(scenario, f"partition/default/applications/{state}")
    return any(app["applicationID"] == application for app in found)


async def reserves(scenario: Scenario) -> bool:
    app = await get_json(scenario, "partition/default/application/gang")
    return len(app["allocations"]) == 2 and any(request["allocationLog"] for request in app["requests"])


async def get(scenario: Scenario, path: str) -> tuple[int, Json]:
    url = f"{scenario.muster.rest_url}/ws/v1/{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.json()


async def test_responses_errors_and_metrics_are_those_that_clients_of_yunikorn_read(
    open_scenario: OpenScenario,
) -> None:
    scenario = await objects_of_every_kind(open_scenario)
    await scenario.eventually("the health is checked", lambda: get_json(scenario, "scheduler/healthcheck"))
    different: dict[str, list[str]] = {}
    for path, shape in clients.RESPONSES.items():
        found = await get_json(scenario, path)
        seen = set(clients.found_fields(found))
        wanted = {*clients.fields(shape), *clients.READ_BY_THE_WEB_UI.get(path, "").split()}
        different[path] = [*clients.mismatches(found, shape), *sorted(wanted - seen)]
    assert {path: rows for path, rows in different.items() if rows} == {}
    errors = {path: await get(scenario, path) for path in clients.ERRORS}
    assert errors == {
        path: (status, {"status_code": status, "message": message, "description": message})
        for path, (status, message) in clients.ERRORS.items()
    }
    assert await labels_of_metrics(scenario) >= {
        (name, label) for name, labels in clients.QUERIED.items() for label in labels.split()
    }


async def labels_of_metrics(scenario: Scenario) -> set[tuple[str, str]]:
    """Names of all samples with the names of their labels."""
    url = f"{scenario.muster.rest_url}/ws/v1/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        families = text_string_to_metric_families(await answer.text())
        return {(one.name, label) for family in families for one in family.samples for label in one.labels}
