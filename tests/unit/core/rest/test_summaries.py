"""Short forms of applications and nodes, and the waiting requests by reason."""

import aiohttp
import pytest

from muster_core.model.events import ApplicationAdded
from tests.unit.builders import an_application, an_ask
from tests.unit.core.rest.conftest import Ask
from tests.unit.core.scheduling.scenario import Scenario


async def test_a_summary_counts_what_the_complete_application_lists(ask: Ask, scenario: Scenario) -> None:
    summaries = {item["applicationID"]: item for item in await ask("applications/active/summary")}
    complete = {item["applicationID"]: item for item in await ask("applications/active")}
    assert summaries.keys() == complete.keys()
    for name, app in complete.items():
        summary = summaries[name]
        same = ("queueName", "applicationState", "user", "submissionTime", "usedResource", "pendingResource")
        assert {key: summary[key] for key in same} == {key: app[key] for key in same}
        real = [item for item in app["allocations"] if not item["placeholder"]]
        assert (summary["pods"], summary["placeholders"]) == (len(real), len(app["allocations"]) - len(real))
        assert "requests" not in summary
    assert (summaries["gang"]["isGang"], summaries["waits"]["isGang"]) == (True, False)


async def test_a_summary_has_the_reason_of_most_requests(ask: Ask, scenario: Scenario) -> None:
    [found] = [item for item in await ask("applications/active/summary") if item["applicationID"] == "waits"]
    [request] = (await ask("application/waits"))["requests"]
    assert found["pending"] == 1
    assert found["reason"] == request["allocationLog"][-1]["reason"]
    assert found["message"] == request["allocationLog"][-1]["message"]


async def test_the_summary_of_a_rejected_application_says_why(ask: Ask, scenario: Scenario) -> None:
    [found] = await ask("applications/rejected/summary")
    [complete] = await ask("applications/rejected")
    assert (found["applicationID"], found["message"]) == ("lost", complete["rejectedMessage"])
    assert "reason" not in found


async def test_waiting_requests_are_counted_by_reason_with_the_oldest_application(ask: Ask, scenario: Scenario) -> None:
    before = {item.get("reason"): item for item in await ask("waiting")}
    scenario.send(ApplicationAdded(an_application("later", queue="root.b")))
    scenario.ask(an_ask("also-too-big", app="later", vcore=9000), an_ask("too-big-2", app="later", vcore=9000))
    [reason] = [item["reason"] for item in await ask("applications/active/summary") if item["applicationID"] == "later"]
    after = {item.get("reason"): item for item in await ask("waiting")}
    assert after[reason]["requests"] == before[reason]["requests"] + 2
    assert after[reason]["applications"] == before[reason]["applications"] + 1
    assert after[reason]["applicationID"] == before[reason]["applicationID"]
    assert after[reason]["resource"]["vcore"] == before[reason]["resource"]["vcore"] + 18_000
    counts = [item["requests"] for item in await ask("waiting")]
    assert counts == sorted(counts, reverse=True)


async def test_members_and_placeholders_of_an_incomplete_gang_count_once(ask: Ask, scenario: Scenario) -> None:
    before = sum(item["requests"] for item in await ask("waiting"))
    scenario.gang(ApplicationAdded(an_application("large", queue="root.b", gang=50)), 50)
    scenario.ask(an_ask("member", app="large", group="workers"))
    [gang] = [item for item in await ask("applications/active/summary") if item["applicationID"] == "large"]
    assert sum(item["requests"] for item in await ask("waiting")) == before + gang["pending"]


async def test_a_summary_of_a_node_counts_what_the_node_lists(ask: Ask, scenario: Scenario) -> None:
    complete = {item["nodeID"]: item for item in await ask("nodes")}
    for summary in await ask("nodes/summary"):
        node = complete.pop(summary["nodeID"])
        numbers = {key: len(node[key]) for key in ("allocations", "foreignAllocations", "reservations")}
        assert summary == {key: node[key] for key in summary if key not in numbers} | numbers
    assert complete == {}


@pytest.mark.parametrize("path", ["applications/active/summary", "nodes/summary"])
async def test_summaries_are_paged(ask: Ask, scenario: Scenario, path: str) -> None:
    complete = await ask(path)
    assert [*await ask(f"{path}?limit=1"), *await ask(f"{path}?offset=1")] == complete


async def test_an_unknown_list_is_an_error(http: aiohttp.ClientSession, scenario: Scenario) -> None:
    async with http.get("/ws/v1/partition/default/applications/all/summary") as answer:
        assert answer.status == 400
