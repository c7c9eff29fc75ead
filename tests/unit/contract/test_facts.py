"""muster.v1 UpdateFacts over both transports: facts affect the placement, and unreadable ones are returned."""

from typing import Any

import orjson
import pytest

from muster_si import keys
from muster_si.errors import RefusalCode, Refused, SessionLost
from muster_si.muster_pb2 import Fact, FactsRequest, RejectedFact
from tests.unit.contract.cores import CoreWire, Talk

IN_ZONE = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]
CLAIM = {"uid": "1", "storageClassName": "late", "request": 5, "accessModes": ["ReadWriteOnce"]}


def a_fact(kind: Any, name: str, **found: Any) -> Fact:
    return Fact(kind=kind, name=name, attributes={keys.FACT_OBJECT: orjson.dumps(found).decode()})


async def send_facts(talk: Talk, *facts: Fact, partition: str = "default") -> list[RejectedFact]:
    request = FactsRequest(rmID=talk.rm_id, partitionName=partition, facts=facts)
    return list((await talk.client.update_facts(request)).rejected)


async def test_a_pod_is_scheduled_where_its_volume_is_reachable_and_gets_the_chosen_volume(talk: Talk) -> None:
    for name, zone in (("n1", "a"), ("n2", "b")):
        await talk.node(name, attributes={f"{keys.NODE_LABEL_PREFIX}zone": zone})
    facts = (
        a_fact(Fact.STORAGE_CLASS, "late", bindingMode="WaitForFirstConsumer"),
        a_fact(Fact.CLAIM, "ns/c", **CLAIM),
        a_fact(
            Fact.VOLUME,
            "v",
            capacity=5,
            storageClassName="late",
            accessModes=["ReadWriteOnce"],
            phase="Available",
            nodeAffinity=IN_ZONE,
        ),
    )
    assert await send_facts(talk, *facts) == []
    await talk.application()
    await talk.accepted()
    await talk.ask("pod", tags={keys.TAG_VOLUMES: '{"claims":["ns/c"]}'})
    [allocation] = await talk.allocated("pod")
    assert allocation.nodeID == "n2"
    assert allocation.allocationTags[keys.TAG_CHOSEN_VOLUMES] == '{"ns/c":"v"}'


async def test_an_ask_waits_for_a_claim_that_is_reported_later(talk: Talk) -> None:
    await talk.node("n1")
    await talk.application()
    await talk.accepted()
    await talk.ask("pod", tags={keys.TAG_VOLUMES: '{"claims":["ns/c"]}'})
    await talk.barrier()
    assert talk.allocations() == []
    maker = a_fact(Fact.STORAGE_CLASS, "late", provisioner="maker", bindingMode="WaitForFirstConsumer")
    await send_facts(talk, maker, a_fact(Fact.CLAIM, "ns/c", **CLAIM))
    [allocation] = await talk.allocated("pod")
    assert allocation.allocationTags[keys.TAG_CHOSEN_VOLUMES] == '{"ns/c":""}'


async def test_invalid_facts_are_rejected_and_the_others_are_applied(talk: Talk) -> None:
    bad = a_fact(Fact.VOLUME, "v", capacity="much")
    rejected = await send_facts(
        talk, bad, Fact(kind=Fact.NAMESPACE, name="ns", attributes={"team": "a"}), Fact(name="x")
    )
    assert [(one.kind, one.name) for one in rejected] == [(Fact.VOLUME, "v"), (Fact.UNKNOWN_KIND, "x")]
    assert rejected[0].reason.startswith("muster/object: capacity is wrong")
    assert rejected[1].reason == "kind is not known: 0"


async def test_facts_for_an_unknown_partition_are_refused(talk: Talk) -> None:
    with pytest.raises(Refused) as refused:
        await send_facts(talk, partition="elsewhere")
    assert refused.value.code is RefusalCode.NOT_FOUND


async def test_facts_need_a_session(core_wire: CoreWire) -> None:
    with pytest.raises((Refused, SessionLost)):
        await send_facts(Talk(core_wire.connect()))
