"""Same events in, same effects out: what a running core wrote down replays without a deviation."""

import asyncio
import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import orjson
import pytest

from muster_core.config.load import load
from muster_core.model.constraints import NO_INTER_POD_CONSTRAINTS
from muster_core.model.devices import BindingConditions, DeviceId
from muster_core.model.events import AskAdded, ClusterObjectsReported, Event
from muster_core.model.ids import RmId, partition_id
from muster_core.model.specs import NO_PROPERTIES, HostPort, PodProperties
from muster_core.runtime.journal import Journal, from_plain, to_plain
from muster_core.runtime.loop import LoopSettings, QueuedMessage
from muster_core.runtime.replay import JournalReader
from muster_core.runtime.service import Scheduler
from muster_core.scheduling.scheduler import CycleBudget
from muster_core.si import storage
from muster_si import keys, si_pb2
from muster_si.muster_pb2 import Fact
from tests.unit import builders
from tests.unit.core import messages
from tests.unit.core.conftest import Bench, FakeClock, Notebook
from tests.unit.core.replay import replay
from tests.unit.core.scheduling.many_pods import FIRST_SELECTOR, REMOVED, from_nothing
from tools import decisions

PARTITION = partition_id(RmId("rm"), "default")


async def gang_life_cycle(bench: Bench) -> None:
    """Reserved, swapped, removed, with a refusal, a configuration and a lost connection on the way."""
    await bench.register(**{keys.EXTRA_WAIT_TIMEOUT: "60s"})
    await bench.core.update_node(
        messages.nodes(messages.a_node(), messages.a_node("n2", attributes={keys.NODE_TAINTS: "[]"}))
    )
    gang = messages.a_resource(vcore=2000, memory=2**31, pods=2)
    await bench.core.update_application(messages.applications(messages.an_application(placeholderAsk=gang)))
    placeholders = [messages.an_ask(key, taskGroupName="g", placeholder=True) for key in ("ph-1", "ph-2")]
    await bench.core.update_allocation(messages.asks(*placeholders, messages.an_ask("bad", maxAllocations=0)))
    await bench.wait_until_idle()
    tags = {keys.TAG_CONSTRAINTS: '{"nodeAffinity":[],"tolerations":[{"key":"a"}]}', keys.TAG_AVOID_NODES: "n1"}
    await bench.core.update_allocation(
        messages.asks(messages.an_ask("real", taskGroupName="g"), messages.an_ask("other", tags=tags))
    )
    bench.clock.now += 5_000_000_000
    await bench.wait_until_idle()
    answers = [item for item in bench.rm.received if isinstance(item, si_pb2.AllocationResponse)]
    releases = [item for answer in answers for item in answer.released]
    await bench.core.update_allocation(messages.releases(*releases))
    await bench.core.update_configuration(si_pb2.UpdateConfigurationRequest(rmID=messages.RM))
    await bench.wait_until_idle()
    await bench.core.connection_lost(messages.RM, bench.rm)


async def journal_of_life_cycle(*extra: QueuedMessage) -> list[bytes]:
    file = io.BytesIO()
    clock = FakeClock()
    core = Scheduler(LoopSettings(), clock, Journal(file))
    running = asyncio.create_task(core.run())
    await gang_life_cycle(Bench(core, clock, Notebook()))
    for queued in extra:
        await core.loop.event_queue.put(queued)
    await asyncio.sleep(0)
    core.close()
    await running
    return file.getvalue().splitlines()


async def test_the_journal_replays_to_the_same_effects() -> None:
    lines = await journal_of_life_cycle()
    written = b"".join(lines)
    assert b"PLACEHOLDER_REPLACED" in written
    assert b'"NewAllocation"' in written
    assert list(replay(lines)) == []


async def journal_of(*events: Event) -> list[bytes]:
    file = io.BytesIO()
    core = Scheduler(LoopSettings(), FakeClock(), Journal(file))
    core.loop.event_queue.post(QueuedMessage(events))
    running = asyncio.create_task(core.run())
    while len(core.loop.event_queue) or core.loop._unfinished:  # noqa: ASYNC110 - nothing signals this state
        await asyncio.sleep(0)
    core.close()
    await running
    return file.getvalue().splitlines()


@pytest.mark.parametrize("event", [REMOVED, FIRST_SELECTOR], ids=["removal", "selector"])
async def test_d19_an_event_in_parts_replays_in_the_same_parts(event: Event) -> None:
    lines = await journal_of(*from_nothing(event))
    assert [one.line for one in replay(lines)] == []
    assert sum(b'"continued"' in line for line in lines) >= 2


async def test_d19_an_event_in_parts_is_one_event_of_a_recorded_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = from_nothing(REMOVED)
    journal = tmp_path / "core.journal"
    journal.write_bytes(b"\n".join(await journal_of(*events)))
    monkeypatch.setattr(decisions, "HISTORIES", tmp_path)
    lines = [*decisions.lines_of(decisions.record("large", journal))]
    assert sum(b'"event"' in line for line in lines) == len(events)
    assert decisions.replayed(lines).events == len(events)


def test_decoding_restores_the_shared_object_for_absent_constraints() -> None:
    """The core skips requests without constraints by identity. Otherwise the replay would do more work per cycle."""
    ask = replace(builders.an_ask("p1"), facts=PodProperties(ports=(HostPort("127.0.0.1", "TCP", 80),)))
    event = AskAdded(ask)
    read = from_plain(orjson.loads(orjson.dumps(to_plain(event))))
    assert read == event
    assert isinstance(read, AskAdded)
    assert read.spec.facts.inter_pod is NO_INTER_POD_CONSTRAINTS
    plain = from_plain(orjson.loads(orjson.dumps(to_plain(AskAdded(builders.an_ask("p2"))))))
    assert isinstance(plain, AskAdded)
    assert plain.spec.facts is NO_PROPERTIES


async def test_a_deviation_names_its_line() -> None:
    lines = await journal_of_life_cycle()
    number = next(number for number, line in enumerate(lines, 1) if b'"NewAllocation"' in line)
    changed = orjson.loads(lines[number - 1])
    changed["effects"] = []
    lines[number - 1] = orjson.dumps(changed)
    [deviation] = replay(lines)
    assert (deviation.line, deviation.written) == (number, [])


def test_the_cycle_budget_counts_how_often_it_was_granted() -> None:
    answers = iter([True, True, False])
    leave = CycleBudget(lambda: next(answers))
    assert [leave(), leave(), leave()] == [True, True, False]
    assert leave.granted == 2


def test_tuples_with_named_fields_keep_their_class() -> None:
    value = DeviceId("gpu.example.com", "n1", "gpu-0"), BindingConditions(required=("ready",))
    read = from_plain(orjson.loads(orjson.dumps(to_plain(value))))
    assert isinstance(read, tuple)
    assert (read, [*map(type, read)]) == (value, [DeviceId, BindingConditions])


def test_every_value_survives_a_round_trip() -> None:
    decoder = messages.a_decoder()
    tags = {keys.TAG_CONSTRAINTS: '{"nodeAffinity":[{"matchFields":[]}],"nodeName":"n"}', keys.TAG_AVOID_NODES: "a,b"}
    members = {keys.APP_TAG_MEMBERS: '[{"name":"w","minMember":2,"resource":{"vcore":5}}]'}
    events: list[Event] = [
        *decoder.allocations.read(messages.tagged(tags)).events,
        *decoder.applications.read(messages.applications(messages.an_application(tags=members))).events,
        *decoder.nodes.read(
            messages.nodes(messages.a_node(existingAllocations=[messages.an_allocation(nodeID="")]))
        ).events,
        *decoder.allocations.read(messages.releases(messages.a_release())).events,
    ]
    half = {"request": "1500000000n", "capacity": "1500000000n"}
    kinds = {Fact.CLAIM: "request", Fact.VOLUME: "capacity", Fact.STORAGE_CAPACITY: "capacity"}
    facts = [
        Fact(kind=kind, name="ns/x", attributes={keys.FACT_OBJECT: orjson.dumps({field: half[field]}).decode()})
        for kind, field in kinds.items()
    ]
    read, rejected = storage.read_cluster_object(facts)
    assert not rejected
    events.append(ClusterObjectsReported(PARTITION, read))
    for event in events:
        assert from_plain(orjson.loads(orjson.dumps(to_plain(event)))) == event
    configuration = load("", {}).configuration
    assert from_plain(orjson.loads(orjson.dumps(to_plain(configuration)))) == configuration


@pytest.mark.parametrize("value", [object(), {"a": object()}, [b"bytes"]])
def test_an_unsupported_value_is_not_written(value: object) -> None:
    with pytest.raises(TypeError, match="no value of the core"):
        to_plain(value)


def test_an_endlessly_nested_value_is_not_written() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(TypeError, match="nests without end"):
        to_plain(endless)
    assert isinstance(cast("Mapping[str, object]", to_plain({"a": 1})), dict)


@pytest.mark.parametrize("name", ["step_part", "cycle"])
async def test_a_replay_without_memory_ends_instead_of_going_on_in_another_way(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The core survives it, but the core that wrote the journal did not have it."""

    def fail(*_: object) -> None:
        raise MemoryError

    journal = tmp_path / "journal"
    journal.write_bytes(b"\n".join([*(await journal_of_life_cycle()), b""]))
    monkeypatch.setattr(f"muster_core.runtime.replay.{name}", fail)
    with journal.open("rb") as file, pytest.raises(MemoryError):
        JournalReader(file).state_at(2**63, lambda: True)
