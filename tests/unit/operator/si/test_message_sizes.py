"""Messages are split by bytes: no message comes near the limit of the transport, whatever pods contain."""

from collections.abc import Iterable
from typing import get_args

from muster_operator.controller import recovery
from muster_operator.controller.cluster_events import record_event
from muster_operator.controller.state import Ledger
from muster_operator.model import limits
from muster_operator.model.cluster_events import PodSeen
from muster_operator.model.core_messages import (
    AllocationReported,
    AllocationSpec,
    AskSpec,
    AskSubmitted,
    CoreRequest,
    Node,
    NodeCreated,
)
from muster_operator.model.ids import AppId, NodeName, PodUid
from muster_operator.model.settings import Settings
from muster_operator.si import codec
from muster_operator.si.codec import Encoder
from muster_operator.translate.pods import read_pod
from muster_si import si_pb2
from muster_si.transport.settings import TransportSettings
from tests.unit.operator.controller.objects import TASK_GROUPS, a_group, a_pod, gang_annotations

ENCODER = Encoder("rm", "default")
NODE = Node(NodeName("n1"), "uid-n1", {"vcore": 1}, {"label": "x"}, schedulable=True)
#: What 100 items may have that a message was not closed before.
FAR_BELOW = TransportSettings().max_message_bytes // 8


def messages(requests: Iterable[CoreRequest]) -> list[object]:
    found = [ENCODER.encoded(batch) for batch in ENCODER.batches(requests)]
    assert all(len(message.SerializeToString()) < FAR_BELOW for message in found)
    return list(found)


def an_ask(number: int, size: int = 60_000) -> AskSpec:
    return AskSpec(PodUid(f"uid-{number:04}"), AppId("app"), {"vcore": 1}, tags={"muster/constraints": "x" * size})


def test_members_with_large_constraints_are_split_over_several_messages_in_order() -> None:
    found = messages(AskSubmitted(an_ask(number)) for number in range(100))
    keys = [ask.allocationKey for one in found if isinstance(one, si_pb2.AllocationRequest) for ask in one.asks]
    assert keys == [f"uid-{number:04}" for number in range(100)]
    assert len(found) == -(-100 // (limits.MESSAGE_BYTES // 60_256))


def test_small_items_still_share_messages() -> None:
    assert len(messages(AskSubmitted(an_ask(number, 100)) for number in range(1000))) == 10


def test_bound_pods_with_large_constraints_are_split_over_several_messages() -> None:
    requests = [AllocationReported(AllocationSpec(an_ask(number), NodeName("n1"))) for number in range(100)]
    assert len(messages(requests)) > 5


def node_parts(item: NodeCreated) -> tuple[list[int], list[str]]:
    """The node actions, and the keys of all reported pods."""
    nodes = [node for one in messages([item]) if isinstance(one, si_pb2.NodeRequest) for node in one.nodes]
    assert all(node.schedulableResource.resources["vcore"].value == 1 for node in nodes[:-1])
    return [node.action for node in nodes], [each.allocationKey for node in nodes for each in node.existingAllocations]


def test_a_node_with_more_pods_than_fit_in_a_message_is_sent_in_parts_and_opened_last() -> None:
    existing = tuple(AllocationSpec(an_ask(number), NodeName("n1")) for number in range(100))
    every = [f"uid-{number:04}" for number in range(100)]
    info = si_pb2.NodeInfo
    actions, keys = node_parts(NodeCreated(NODE, drained=False, existing=existing))
    assert keys == every
    assert actions == [info.CREATE_DRAIN, *[info.UPDATE] * (len(actions) - 2), info.DRAIN_TO_SCHEDULABLE]
    actions, keys = node_parts(NodeCreated(NODE, drained=True, existing=existing))
    assert keys == every
    assert actions == [info.CREATE_DRAIN, *[info.UPDATE] * (len(actions) - 1)]
    assert node_parts(NodeCreated(NODE, drained=False, existing=existing[:3])) == ([info.CREATE], every[:3])


def test_a_recovery_of_a_hundred_padded_gangs_sends_no_large_message() -> None:
    ledger = Ledger()
    for number in range(100):
        annotations = gang_annotations(a_group())
        annotations[TASK_GROUPS] += " " * 200_000
        pod = read_pod(a_pod(f"p{number}", app=f"job-{number}", annotations=annotations), Settings())
        assert pod is not None
        record_event(ledger, PodSeen(pod))
    sent = [message for out in recovery.begin(ledger, 0.0) for message in messages(out.requests)]
    assert sum(len(one.new) for one in sent if isinstance(one, si_pb2.ApplicationRequest)) == 100


def test_every_kind_of_request_has_a_stream() -> None:
    assert set(codec._LANES) == set(get_args(CoreRequest))
