"""A request or allocation that equals an earlier one is decoded and answered like the first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster_core.model.claims import ClaimChoice
from muster_core.model.effects import AllocationResponse, Effect, NewAllocation
from muster_core.model.events import AskAdded, NodeAdded
from muster_core.model.ids import AllocationId, NodeId, RmId
from muster_core.model.specs import AllocationSpec, AskSpec
from muster_core.si import allocations as si_allocations
from muster_si import keys, si_pb2
from tests.unit.core.messages import a_decoder, a_resource, an_ask


def named(number: int, created: str = "", **fields: Any) -> si_pb2.AllocationAsk:
    tags = {
        keys.TAG_NAMESPACE: "ns",
        keys.TAG_POD_NAME: f"pod-{number}",
        keys.TAG_CREATION_TIME: created or str(number),
        keys.TAG_POD_LABEL_PREFIX + "app": "job",
    }
    ask = an_ask(f"uid-{number}", tags=tags)
    ask.MergeFrom(si_pb2.AllocationAsk(**fields))
    return ask


OTHERS = (
    named(1),
    named(2),
    named(3, tags={keys.TAG_POD_LABEL_PREFIX + "index": "3"}),
    named(4, priority=7),
    named(5, resourceAsk=a_resource(vcore=9)),
    named(6, taskGroupName="g", placeholder=True),
    named(7, tags={keys.TAG_AVOID_NODES: "n1,n2"}),
    named(8, tags={keys.TAG_VOLUMES: '{"ephemeral":{"v":"class"}}'}),
    named(9, tags={keys.TAG_VOLUMES: '{"ephemeral":{"v":"class"}}'}),
    named(10, preemptionPolicy=si_pb2.PreemptionPolicy(allowPreemptSelf=True)),
    named(11),
)


def read(*asks: si_pb2.AllocationAsk) -> list[AskSpec]:
    intake = a_decoder().allocations.read(si_pb2.AllocationRequest(rmID="rm", asks=asks))
    assert intake.answers == []
    return [event.spec for event in intake.events if isinstance(event, AskAdded)]


def test_reading_asks_together_equals_reading_each_alone() -> None:
    assert read(*OTHERS) == [read(ask)[0] for ask in OTHERS]


def test_similar_asks_share_their_common_tags_and_others_do_not() -> None:
    first, second, third, *_, last = read(*OTHERS)
    assert first.common is second.common
    assert second.common is last.common
    assert third.common is not first.common
    assert {tag: first.tags[tag] for tag in first.common} == first.common
    assert set(first.tags) - set(first.common) == {keys.TAG_POD_NAME, keys.TAG_CREATION_TIME}


def test_reading_a_message_does_not_change_it() -> None:
    request = si_pb2.AllocationRequest(rmID="rm", asks=OTHERS)
    a_decoder().allocations.read(request)
    assert request == si_pb2.AllocationRequest(rmID="rm", asks=OTHERS)


def test_individual_errors_in_similar_asks_are_detected() -> None:
    long, odd, late = named(2), named(3, created="tomorrow"), named(5, created="9999999999")
    long.allocationKey = "k" * 1000
    request = si_pb2.AllocationRequest(rmID="rm", asks=[named(1), long, odd, named(4), late])
    intake = a_decoder().allocations.read(request)
    [answer] = intake.answers
    assert isinstance(answer, AllocationResponse)
    assert [refusal.key for refusal in answer.rejected_asks] == ["k" * 256, "uid-3", "uid-5"]
    assert [event.spec.key for event in intake.events if isinstance(event, AskAdded)] == ["uid-1", "uid-4"]


def test_sharing_common_tags_does_not_change_the_answers() -> None:
    specs = read(*OTHERS)
    assert effects(specs) == effects([replace(spec, common={}) for spec in specs])


def effects(specs: list[AskSpec]) -> list[si_pb2.Allocation]:
    requests = [
        NewAllocation(
            spec, AllocationId(f"{spec.key}-0"), NodeId("n1"), ClaimChoice((("ns/claim", "volume"),) if odd % 3 else ())
        )
        for odd, spec in enumerate(specs)
    ]
    return list(si_allocations.allocation_response(AllocationResponse(RmId("rm"), new=tuple(requests))).new)


def bound(number: int, **fields: Any) -> si_pb2.Allocation:
    tags = {
        keys.TAG_NAMESPACE: "ns",
        keys.TAG_POD_NAME: f"pod-{number}",
        keys.TAG_CREATION_TIME: str(number),
        keys.TAG_ALLOCATED_AT: str(1000 + number),
        keys.TAG_POD_LABEL_PREFIX + "app": "job",
        **fields.pop("tags", {}),
    }
    others = {"resourcePerAlloc": a_resource(vcore=100), "applicationID": "app", "partitionName": "default"}
    return si_pb2.Allocation(allocationKey=f"uid-{number}", allocationTags=tags, **{**others, **fields})


BOUND = (
    bound(1),
    bound(2, nodeID="n1"),
    bound(3, allocationID="uid-3-7"),
    bound(4, tags={keys.TAG_PREFERENCES: '{"images":["pause"]}'}),
    bound(5, tags={keys.TAG_VOLUMES: '{"ephemeral":{"v":"class"}}'}),
    bound(6, tags={keys.TAG_VOLUMES: '{"ephemeral":{"v":"class"}}'}),
    bound(7, tags={keys.TAG_UNVERIFIED: "true"}, taskGroupName="g", placeholder=True),
    bound(8, tags={keys.TAG_FOREIGN: "Pod"}, applicationID=""),
    bound(9, tags={keys.TAG_PREFERENCES: "no JSON"}),
    bound(10, tags={keys.TAG_PREFERENCES: "no JSON"}),
    bound(11, tags={keys.TAG_ALLOCATED_AT: ""}),
    bound(12, priority=3, resourcePerAlloc=a_resource(vcore=9)),
    bound(13),
)


def on_a_node(*allocations: si_pb2.Allocation) -> tuple[list[AllocationSpec], list[Effect]]:
    node = si_pb2.NodeInfo(nodeID="n1", action=si_pb2.NodeInfo.CREATE, existingAllocations=allocations)
    request = si_pb2.NodeRequest(rmID="rm", nodes=[node])
    unread = si_pb2.NodeRequest.FromString(request.SerializeToString())
    intake = a_decoder().nodes.read(request)
    assert request == unread
    return [one for event in intake.events if isinstance(event, NodeAdded) for one in event.existing], intake.answers


def test_reading_allocations_of_a_node_together_equals_reading_each_alone() -> None:
    alone = [on_a_node(one) for one in BOUND]
    together, answers = on_a_node(*BOUND)
    assert together == [spec for specs, _ in alone for spec in specs]
    assert answers == [answer for _, some in alone for answer in some]
    assert len(answers) == 2  # the two without valid preferences


def test_allocations_of_one_template_share_a_cache_entry() -> None:
    decoder = a_decoder()
    node = si_pb2.NodeInfo(nodeID="n1", action=si_pb2.NodeInfo.CREATE, existingAllocations=[bound(1), bound(2)])
    decoder.nodes.read(si_pb2.NodeRequest(rmID="rm", nodes=[node]))
    assert len(decoder.allocations._known) == 1


def test_allocations_beyond_the_bytes_of_the_cache_are_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = on_a_node(*BOUND)
    monkeypatch.setattr(si_allocations, "_CACHED_EXISTING_BYTES", 200)
    decoder = a_decoder()
    node = si_pb2.NodeInfo(nodeID="n1", action=si_pb2.NodeInfo.CREATE, existingAllocations=BOUND * 2)
    intake = decoder.nodes.read(si_pb2.NodeRequest(rmID="rm", nodes=[node]))
    specs = [one for event in intake.events if isinstance(event, NodeAdded) for one in event.existing]
    assert specs == expected[0] * 2
    assert sum(map(len, decoder.allocations._known)) <= 200


def test_individual_errors_in_similar_allocations_are_detected() -> None:
    late, long, elsewhere = bound(2, tags={keys.TAG_CREATION_TIME: "tomorrow"}), bound(3), bound(4, nodeID="n2")
    long.allocationKey = "k" * 1000
    specs, [answer] = on_a_node(bound(1), late, long, elsewhere, bound(5, allocationID="i" * 1000), bound(6))
    assert isinstance(answer, AllocationResponse)
    assert [refusal.key for refusal in answer.rejected_allocations] == ["uid-2", "k" * 256, "uid-4", "uid-5"]
    assert [spec.key for spec in specs] == ["uid-1", "uid-6"]
