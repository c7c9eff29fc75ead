"""Events over HTTP: batches by number, and streams that start with the instance and continue."""

import aiohttp
import orjson
import pytest

from muster_core.model.records import Change, Detail, EventRecorded, Notice
from muster_core.si.events import MOST_STREAMS_PER_HOST
from tests.unit.builders import RM
from tests.unit.core.conftest import Bench
from tests.unit.core.scheduling.scenario import Scenario

NOW = 1_700_000_000_000_000_000


def note(bench: Bench, *subjects: str) -> None:
    notes = [EventRecorded(RM, Notice.NODE, each, "", "", Change.ADD, Detail.NONE) for each in subjects]
    bench.core.events.add(notes, NOW)


async def batch(http: aiohttp.ClientSession, query: str = "") -> dict[str, object]:
    async with http.get(f"/ws/v1/events/batch{query}") as answer:
        assert answer.status == 200, await answer.text()
        found: dict[str, object] = await answer.json()
        return found


async def test_a_batch_has_the_kept_range_and_the_requested_records(http: aiohttp.ClientSession, bench: Bench) -> None:
    note(bench, "n0", "n1", "n2")
    found = await batch(http, "?start=1&count=1")
    assert (found["LowestID"], found["HighestID"]) == (0, 2)
    assert found["EventRecords"] == [
        {"type": 3, "objectID": "n1", "timestampNano": NOW, "eventChangeType": 2, "resource": {"resources": {}}}
    ]
    assert found["InstanceUUID"] == bench.core.events.instance
    assert len(records_of(await batch(http))) == 3


def records_of(found: dict[str, object]) -> list[object]:
    records = found["EventRecords"]
    assert isinstance(records, list)
    return records


async def test_a_batch_from_an_unavailable_record_has_the_range_only(http: aiohttp.ClientSession, bench: Bench) -> None:
    assert (await batch(http))["EventRecords"] is None
    note(bench, "n0")
    assert await batch(http, "?start=5") == {
        "InstanceUUID": bench.core.events.instance,
        "LowestID": 0,
        "HighestID": 0,
        "EventRecords": None,
    }


async def test_a_batch_is_limited_to_the_configured_response_size(http: aiohttp.ClientSession, bench: Bench) -> None:
    await bench.register(**{"event.RESTResponseSize": "2"})
    note(bench, "n0", "n1", "n2")
    for query in ("", "?count=9"):
        assert len(records_of(await batch(http, query))) == 2


@pytest.mark.parametrize("query, status", [("?count=0", 400), ("?count=x", 400), ("?start=-1", 400)])
async def test_an_invalid_start_or_count_is_rejected(http: aiohttp.ClientSession, query: str, status: int) -> None:
    async with http.get(f"/ws/v1/events/batch{query}") as answer:
        assert answer.status == status


async def test_events_are_unavailable_when_tracking_is_disabled(http: aiohttp.ClientSession, bench: Bench) -> None:
    await bench.register(**{"event.trackingEnabled": "false"})
    for path in ("events/batch", "events/stream", "partition/default/application/any/events"):
        async with http.get(f"/ws/v1/{path}") as answer:
            assert answer.status == 500
            assert (await answer.json())["message"] == "Event tracking is disabled"


async def test_the_events_of_an_application_are_its_own_and_the_newest(
    http: aiohttp.ClientSession, bench: Bench, scenario: Scenario
) -> None:
    note(bench, "n0")
    bench.core.events.add(scenario.records, NOW)
    path = "/ws/v1/partition/default/application/gang/events"
    async with http.get(path) as answer:
        found = await answer.json()
    assert {record["objectID"] for record in found if record["type"] == 2} == {"gang"}
    assert [record["eventChangeDetail"] for record in found[:2]] == [203, 204], "new, accepted"
    async with http.get(f"{path}?count=2") as answer:
        assert await answer.json() == found[-2:]
    for wrong, status in ((f"{path}?count=0", 400), (path.replace("gang", "nothing"), 404)):
        async with http.get(wrong) as answer:
            assert answer.status == status


async def test_a_stream_starts_with_the_instance_id_and_ends_with_the_core(
    http: aiohttp.ClientSession, bench: Bench
) -> None:
    note(bench, "n0", "n1")
    async with http.get("/ws/v1/events/stream?count=1") as answer:
        assert orjson.loads(await answer.content.readline()) == {"InstanceUUID": bench.core.events.instance}
        assert orjson.loads(await answer.content.readline())["objectID"] == "n1"
        note(bench, "n2")
        assert orjson.loads(await answer.content.readline())["objectID"] == "n2"
        bench.core.events.close()
        assert await answer.content.readline() == b""


async def test_streams_per_client_are_limited_and_a_closed_stream_frees_a_slot(
    http: aiohttp.ClientSession, bench: Bench
) -> None:
    """A client is an address, whatever host its requests name."""
    hosts = ({"Host": f"host-{number}"} for number in range(MOST_STREAMS_PER_HOST))
    open_ones = [await http.get("/ws/v1/events/stream", headers=host) for host in hosts]
    async with http.get("/ws/v1/events/stream") as answer:
        assert answer.status == 503
    open_ones[0].close()
    while bench.core.events.open_streams == MOST_STREAMS_PER_HOST:
        async with http.get("/livez"):  # lets the server see that the reader went
            pass
    async with http.get("/ws/v1/events/stream") as answer:
        assert answer.status == 200
    for each in open_ones:
        each.close()
