"""Requests that are copied from a template equal those that are encoded separately."""

from typing import Any

from msgspec import structs

from muster_operator.model.core_messages import AskSpec, AskSubmitted, CoreRequest
from muster_operator.model.ids import AppId, PodUid
from muster_operator.si.codec import Encoder
from muster_si import keys, si_pb2

COMMON = {keys.TAG_NAMESPACE: "ns", keys.TAG_POD_LABEL_PREFIX + "app": "job", keys.TAG_CONSTRAINTS: "{}"}
ENCODER = Encoder("rm", "default")


def an_ask(number: int, **other: Any) -> AskSpec:
    own = {keys.TAG_POD_NAME: f"pod-{number}", keys.TAG_CREATION_TIME: str(number)}
    ask = AskSpec(
        PodUid(f"uid-{number}"), AppId("app"), {"vcore": 100, "pods": 1}, tags={**COMMON, **own}, common=COMMON
    )
    return structs.replace(ask, **other)


def encoded_asks(*asks: AskSpec) -> list[si_pb2.AllocationAsk]:
    requests: list[CoreRequest] = [AskSubmitted(ask) for ask in asks]
    [batch] = ENCODER.batches(requests)
    request = ENCODER.encoded(batch)
    assert isinstance(request, si_pb2.AllocationRequest)
    return list(request.asks)


def test_an_ask_of_a_class_is_encoded_as_it_would_be_alone() -> None:
    avoiding = {
        **an_ask(3).tags,
        keys.TAG_AVOID_NODES: "n1",
        keys.TAG_TERMINATING: "true",
        keys.TAG_DEVICE_CLAIMS: '[{"claim":"ns/c","uid":"u"}]',
    }
    asks = [
        an_ask(1),
        an_ask(2),
        an_ask(3, tags=avoiding),
        an_ask(4, originator=True),
        an_ask(5, app=AppId("other"), task_group="g", placeholder=True),
        an_ask(6, priority=7, allow_preempt_self=False),
        an_ask(7, allow_preempt_other=False),
        an_ask(8, resources={"vcore": 200}),
        an_ask(9),
    ]
    alone = [encoded_asks(structs.replace(ask, common={}))[0] for ask in asks]
    assert encoded_asks(*asks) == alone
    assert {ask.allocationKey for ask in alone} == {f"uid-{number}" for number in range(1, 10)}
    assert alone[2].tags[keys.TAG_AVOID_NODES] == "n1"


def test_a_tag_of_one_ask_is_not_copied_to_the_next() -> None:
    first, second = encoded_asks(an_ask(1, tags={**an_ask(1).tags, keys.TAG_AVOID_NODES: "n1"}), an_ask(2))
    assert first.tags[keys.TAG_AVOID_NODES] == "n1"
    assert keys.TAG_AVOID_NODES not in second.tags
