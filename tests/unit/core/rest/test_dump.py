"""What people and probes ask over HTTP, against a core that runs: the dump says what is held, and that nothing is."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import aiohttp
import orjson
import pytest

from muster_core.model import limits
from muster_core.model.ids import RmId
from muster_core.rest import diagnostics
from muster_core.rest.auth import AccessSettings
from muster_core.rest.server import RestServer, RestSettings
from muster_core.scheduling.scheduler import step, step_part
from muster_core.state.scheduler_state import SchedulerState
from muster_si import muster_pb2, si_pb2
from tests.unit.core import messages
from tests.unit.core.conftest import Bench
from tests.unit.core.scheduling.many_pods import FIRST_SELECTOR, large


@pytest.fixture
async def http(bench: Bench) -> AsyncIterator[aiohttp.ClientSession]:
    server = RestServer(bench.core, RestSettings(port=0, access=AccessSettings(trusts_loopback=True)))
    port = await server.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        yield session
    await server.stop()


async def full_dump(http: aiohttp.ClientSession) -> Any:
    async with http.get("/debug/fullstatedump") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/json; charset=UTF-8"
        return await answer.json()


async def with_a_gang(bench: Bench) -> None:
    """Two placeholders placed, one real pod parked behind one of them."""
    await bench.register()
    await bench.core.update_node(messages.nodes(messages.a_node()))
    gang = messages.a_resource(vcore=2000, memory=2**31, pods=2)
    await bench.core.update_application(messages.applications(messages.an_application(placeholderAsk=gang)))
    placeholders = [messages.an_ask(key, taskGroupName="g", placeholder=True) for key in ("ph-1", "ph-2")]
    await bench.core.update_allocation(messages.asks(*placeholders))
    await bench.rm.until(lambda: sum(len(item.new) for item in answers(bench)) == 2)
    await bench.core.update_allocation(messages.asks(messages.an_ask("real", taskGroupName="g")))
    await bench.rm.until(lambda: any(item.released for item in answers(bench)))


def answers(bench: Bench) -> list[si_pb2.AllocationResponse]:
    return [item for item in bench.rm.received if isinstance(item, si_pb2.AllocationResponse)]


async def test_a_running_core_is_alive_and_ready(http: aiohttp.ClientSession, bench: Bench) -> None:
    await bench.register()
    await bench.wait_until_idle()
    for path in ("/livez", "/readyz"):
        async with http.get(path) as answer:
            assert (answer.status, await answer.text()) == (200, "ok")


async def test_a_core_whose_loop_stopped_is_neither_alive_nor_ready(http: aiohttp.ClientSession, bench: Bench) -> None:
    await bench.register()
    await bench.wait_until_idle()
    bench.core.close()
    while bench.core.loop.is_running:  # noqa: ASYNC110 # a level that nobody signals
        await asyncio.sleep(0)
    for path in ("/livez", "/readyz"):
        async with http.get(path) as answer:
            assert (answer.status, await answer.text()) == (503, "the scheduling loop is not running")


async def test_the_dump_counts_the_resources_of_a_gang(http: aiohttp.ClientSession, bench: Bench) -> None:
    await with_a_gang(bench)
    found = await full_dump(http)
    ledgers = found["ledgers"]
    held = {name: ledgers[name] for name in ("applications", "asks", "allocations", "placeholders", "replacements")}
    assert held == {"applications": 1, "asks": 1, "allocations": 2, "placeholders": 2, "replacements": 1}
    assert ledgers["nodes"] == {"node-1": {"memory": 2**31, "pods": 2, "vcore": 2000}}
    assert ledgers["queues"]["root"]["allocated"]["vcore"] == 2000
    assert ledgers["users"]["alice"]["root"]["vcore"] == 2000
    assert found["invariants"] == []


async def test_the_dump_has_the_keys_of_yunikorn(http: aiohttp.ClientSession, bench: Bench) -> None:
    await with_a_gang(bench)
    found = await full_dump(http)
    assert set(found) == {
        *("timestamp", "partitions", "applications", "appHistory", "nodes", "clusterInfo", "queues", "rmDiagnostics"),
        *("config", "ledgers", "invariants", "resourceManagers", "endedApplications"),
        *("placementRules", "containerHistory", "logLevel", "eventStreams"),
    }
    [app] = found["applications"]
    assert (app["applicationID"], app["applicationState"], app["queueName"]) == ("app-1", "Running", "root.default")
    [ask] = app["requests"]
    assert (ask["allocationKey"], ask["replaces"]["nodeId"]) == ("real", "node-1")
    assert {item["allocationKey"]: item.get("releasing") for item in app["allocations"]} == {
        "ph-1": "PLACEHOLDER_REPLACED",
        "ph-2": None,
    }
    [nodes] = found["nodes"]
    assert nodes["nodesInfo"][0]["allocations"] == ["ph-1", "ph-2"]
    [partition] = found["partitions"]
    assert (partition["name"], partition["totalContainers"], partition["totalNodes"]) == ("default", 2, 1)
    assert found["resourceManagers"] == [{"rmId": messages.RM, "state": "running", "recovering": False}]


async def test_the_dump_has_the_samples_of_the_application_history(http: aiohttp.ClientSession, bench: Bench) -> None:
    await with_a_gang(bench)
    found = await full_dump(http)
    for name, number in (("appHistory", "totalApplications"), ("containerHistory", "totalContainers")):
        assert found[name]
        assert {key: type(value) for key, value in found[name][0].items()} == {"timestamp": int, number: str}


async def test_the_dump_lists_the_readers_of_event_streams(http: aiohttp.ClientSession, bench: Bench) -> None:
    await bench.register()
    assert (await full_dump(http))["eventStreams"] == []
    async with http.get("/ws/v1/events/stream") as stream:
        await stream.content.readline()
        [reader] = (await full_dump(http))["eventStreams"]
        assert reader["Name"] == "127.0.0.1"
        assert datetime.fromisoformat(reader["CreatedAt"]).utcoffset() == timedelta(0)


async def test_the_ledgers_are_empty_after_everything_is_removed(
    http: aiohttp.ClientSession, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REMOVED_BYTES", 0)  # completed at once
    await with_a_gang(bench)
    removal = si_pb2.RemoveApplicationRequest(applicationID="app-1", partitionName="default")
    await bench.core.update_application(si_pb2.ApplicationRequest(rmID=messages.RM, remove=[removal]))
    releases = [item for answer in answers(bench) for item in answer.released]
    await bench.core.update_allocation(messages.releases(*releases))
    await bench.wait_until_idle()
    ledgers = (await full_dump(http))["ledgers"]
    del ledgers["ignored"]
    assert not any(ledgers.values())


async def test_the_dump_of_an_empty_state_is_valid_json() -> None:
    found = orjson.loads(b"".join(diagnostics.state_dump_pieces(SchedulerState(), 7, [])))
    assert (found["timestamp"], found["nodes"], found["applications"], found["invariants"]) == (7, [], [], [])


def test_the_dump_checks_no_invariants_between_the_parts_of_an_event() -> None:
    scenario = large()
    step_part(scenario.scheduler_state, FIRST_SELECTOR, scenario.now_ns)
    found = orjson.loads(b"".join(diagnostics.state_dump_pieces(scenario.scheduler_state, 7, [], check=True)))
    assert found["invariants"] is None
    step(scenario.scheduler_state, FIRST_SELECTOR, scenario.now_ns)
    found = orjson.loads(b"".join(diagnostics.state_dump_pieces(scenario.scheduler_state, 7, [], check=True)))
    assert found["invariants"] == []


async def test_invariants_of_a_large_state_are_checked_on_request_because_it_is_one_step() -> None:
    scenario = large()
    for check, expected in ((False, None), (True, [])):
        pieces = diagnostics.state_dump_pieces(scenario.scheduler_state, 7, [], check=check)
        assert orjson.loads(b"".join(pieces))["invariants"] == expected


async def test_the_dump_includes_the_state_of_the_resource_manager(http: aiohttp.ClientSession, bench: Bench) -> None:
    await bench.register()
    attendance = muster_pb2.Attendance(stateDump=True)
    await bench.core.answer(messages.RM, muster_pb2.Answer(attendance=attendance))
    dumping = asyncio.create_task(full_dump(http))
    await bench.rm.until(lambda: bool(bench.rm.received))
    [question] = bench.rm.received
    assert isinstance(question, muster_pb2.Callback)
    answer = muster_pb2.StateDumpAnswer(id=question.stateDump.id, json='{"pods":3}')
    await bench.core.answer(messages.RM, muster_pb2.Answer(stateDump=answer))
    assert (await dumping)["rmDiagnostics"] == {messages.RM: {"pods": 3}}


@pytest.mark.parametrize(
    "answer, effects",
    [
        (muster_pb2.StateDumpAnswer(error="busy"), "busy"),
        (muster_pb2.StateDumpAnswer(json="{"), "the response is not JSON"),
    ],
)
async def test_the_dump_reports_an_error_of_the_resource_manager(
    http: aiohttp.ClientSession, bench: Bench, answer: muster_pb2.StateDumpAnswer, effects: str
) -> None:
    await bench.register()
    await bench.core.answer(messages.RM, muster_pb2.Answer(attendance=muster_pb2.Attendance(stateDump=True)))
    dumping = asyncio.create_task(full_dump(http))
    await bench.rm.until(lambda: bool(bench.rm.received))
    [question] = bench.rm.received
    assert isinstance(question, muster_pb2.Callback)
    answer.id = question.stateDump.id
    await bench.core.answer(messages.RM, muster_pb2.Answer(stateDump=answer))
    assert effects in (await dumping)["rmDiagnostics"][RmId(messages.RM)]["error"]


async def test_a_resource_manager_without_a_state_dump_is_not_asked(http: aiohttp.ClientSession, bench: Bench) -> None:
    await bench.register()
    assert "does not declare" in (await full_dump(http))["rmDiagnostics"][messages.RM]["error"]
    assert bench.rm.received == []


async def test_the_dump_shows_the_build_information_of_the_resource_manager(
    http: aiohttp.ClientSession, bench: Bench
) -> None:
    request = si_pb2.RegisterResourceManagerRequest(
        rmID=messages.RM, version="1.0.0", buildInfo={"buildVersion": "1.2.3"}
    )
    request.extraConfig["log.level"] = "INFO"
    await bench.core.register_resource_manager(request, bench.rm)
    found = await full_dump(http)
    async with http.get("/ws/v1/clusters") as answer:
        clusters = await answer.json()
    assert found["clusterInfo"] == clusters
    [[build]] = [cluster["rmBuildInformation"] for cluster in clusters]
    assert build == {
        **dict.fromkeys(("arch", "buildDate", "coreSHA", "goVersion", "isPluginVersion", "shimSHA", "siSHA"), ""),
        "rmId": messages.RM,
        "buildVersion": "1.2.3",
    }
    async with http.get("/ws/v1/config", headers={"Accept": "application/json"}) as answer:
        assert found["config"] == await answer.json()
    assert (found["config"]["Extra"], len(found["config"]["Partitions"])) == ({"log.level": "INFO"}, 1)


async def test_metrics_have_the_names_that_dashboards_use(http: aiohttp.ClientSession, bench: Bench) -> None:
    await with_a_gang(bench)
    async with http.get("/ws/v1/metrics") as answer:
        lines = (await answer.text()).splitlines()
    assert 'yunikorn_scheduler_container_allocation_attempt_total{state="allocated"} 2.0' in lines
    assert 'yunikorn_scheduler_application_submission_total{result="accepted"} 1.0' in lines
    assert 'muster_core_events_total{kind="AskAdded"} 3.0' in lines
    assert any(line.startswith("yunikorn_scheduler_scheduling_cycle_milliseconds_bucket") for line in lines)


async def test_an_unknown_path_returns_an_error_body(http: aiohttp.ClientSession) -> None:
    async with http.get("/ws/v1/nothing") as answer:
        assert answer.status == 404
        assert (await answer.json())["status_code"] == 404
