"""Applications with a qualified ID in messages: users see the plain ID, and add the namespace if it is ambiguous."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from muster_core.model.events import ApplicationAdded
from muster_core.model.records import EventRecorded, Notice
from muster_core.model.specs import ApplicationSpec
from tests.unit.builders import RM, a_configuration, a_queue, an_application, an_ask
from tests.unit.core.conftest import Bench
from tests.unit.core.rest.conftest import Ask
from tests.unit.core.scheduling.scenario import Scenario

PARTITION = "/ws/v1/partition/default"


def of(namespace: str, name: str = "job", queue: str = "root.a") -> ApplicationSpec:
    return replace(an_application(f"{namespace}/{name}", queue=queue), shown_as=name, namespace=namespace)


@pytest.fixture
def two(bench: Bench) -> Scenario:
    """Application `job` of two namespaces, in two queues, with one pod each."""
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=2)
    scenario.send(ApplicationAdded(of("team-a")), ApplicationAdded(of("team-b", queue="root.b")))
    for namespace in ("team-a", "team-b"):
        scenario.ask(replace(an_ask(f"pod-{namespace}", app=f"{namespace}/job"), namespace=namespace))
    bench.core.loop.scheduler_state = scenario.scheduler_state
    return scenario


async def refusal(http: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with http.get(f"{PARTITION}/{path}") as answer:
        return answer.status, (await answer.json())["message"]


async def test_every_view_shows_the_plain_id_and_the_namespace(ask: Ask, two: Scenario) -> None:
    apps: list[dict[str, Any]] = await ask("applications/active")
    assert {(app["applicationID"], app["namespace"]) for app in apps} == {("job", "team-a"), ("job", "team-b")}
    assert {item["applicationId"] for app in apps for item in (*app["requests"], *app["allocations"])} == {"job"}
    nodes = await ask("nodes")
    assert {item["applicationId"] for node in nodes for item in node["allocations"]} == {"job"}


async def test_an_ambiguous_id_is_rejected_with_the_namespaces(http: aiohttp.ClientSession, two: Scenario) -> None:
    status, message = await refusal(http, "application/job")
    assert (status, message) == (
        400,
        "application job exists in namespaces team-a, team-b: add ?namespace=<one of them>",
    )


async def test_the_namespace_the_queue_or_the_qualified_id_selects_one_application(ask: Ask, two: Scenario) -> None:
    assert (await ask("application/job?namespace=team-b"))["namespace"] == "team-b"
    assert (await ask("queue/root.b/application/job"))["namespace"] == "team-b"
    assert (await ask("application/team-b%252Fjob"))["namespace"] == "team-b"


async def test_an_id_in_another_namespace_is_not_found(http: aiohttp.ClientSession, two: Scenario) -> None:
    assert await refusal(http, "application/job?namespace=team-c") == (404, "Application not found")


async def test_an_application_of_a_sharing_group_is_found_by_the_namespace_of_each_of_its_pods(
    ask: Ask, bench: Bench
) -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(ApplicationAdded(replace(of("team-a"), id=of("@group").id)))
    scenario.ask(replace(an_ask("pod", app="@group/job"), namespace="team-b"))
    bench.core.loop.scheduler_state = scenario.scheduler_state
    for namespace in ("team-a", "team-b"):
        assert (await ask(f"application/job?namespace={namespace}"))["namespace"] == "team-a"


@pytest.mark.parametrize("name", ["job", "team-a%252Fjob"])
async def test_the_newest_run_of_an_application_is_shown_and_earlier_ones_stay_listed(
    ask: Ask, bench: Bench, name: str
) -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=1)
    scenario.send(ApplicationAdded(of("team-a")))
    scenario.send(ApplicationAdded(replace(of("team-a", queue="root.b"), id=of("team-a#1").id)))
    bench.core.loop.scheduler_state = scenario.scheduler_state
    assert (await ask(f"application/{name}"))["queueName"] == "root.b"
    assert (await ask(f"queue/root.a/application/{name}"))["queueName"] == "root.a"
    assert [app["applicationID"] for app in await ask("applications/active")] == ["job", "job"]


async def test_events_name_the_plain_id(http: aiohttp.ClientSession, bench: Bench) -> None:
    application = EventRecorded(RM, Notice.APPLICATION, "team-a/job", "words", app_name="job")
    request = EventRecorded(RM, Notice.REQUEST, "pod", "words", "team-a/job", app_name="job")
    bench.core.events.add([application, request], 1)
    async with http.get("/ws/v1/events/batch") as answer:
        first, second = (await answer.json())["EventRecords"]
    assert (first["objectID"], second["objectID"], second["referenceID"]) == ("job", "pod", "job")
