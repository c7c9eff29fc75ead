"""Updates of other objects are applied before the applications that follow; errors of the core are logged."""

from structlog.testing import capture_logs

from muster_operator.model.core_messages import ApplicationRemoved, ClusterObjectReported, NodeOpened
from muster_operator.model.ids import AppId, NodeName
from muster_operator.model.limits import MESSAGE_ITEMS
from muster_operator.model.storage import ClusterObject, ObjectKind
from muster_si import keys, muster_pb2, si_pb2
from tests.unit.operator.si.scheduler import Peer
from tests.unit.operator.si.test_core import RecordingListener, linked
from tests.unit.operator.si.test_si_codec import messages_of

CLAIM = ClusterObjectReported(ClusterObject(ObjectKind.CLAIM, "default/data", {keys.FACT_OBJECT: "{}"}))


async def test_applications_wait_until_the_core_has_answered_the_facts_before_them() -> None:
    peer, ear = Peer(), RecordingListener()
    async with linked(peer, ear):
        await ear.until(lambda: len(ear.up) >= 1)
        ear.up[0].send([CLAIM, ApplicationRemoved(AppId("a")), NodeOpened(NodeName("n"))])
        await ear.up[0].barrier()
    messages = [message for message in peer.received if not isinstance(message, si_pb2.NodeRequest)]
    facts, application, barrier = messages
    assert facts == muster_pb2.FactsRequest(
        rmID="rm",
        partitionName="default",
        facts=[
            muster_pb2.Fact(
                kind=muster_pb2.Fact.CLAIM, name="default/data", attributes={keys.FACT_OBJECT: "{}"}, gone=False
            )
        ],
    )
    assert isinstance(application, si_pb2.ApplicationRequest)
    assert isinstance(barrier, muster_pb2.BarrierRequest)
    assert barrier.applicationRequests == 1, "facts are answered; a barrier that counted them would wait permanently"


async def test_a_fact_that_the_core_cannot_read_is_logged_with_the_reason() -> None:
    reason = "attributes: is no JSON"
    rejected = muster_pb2.RejectedFact(kind=muster_pb2.Fact.CLAIM, name="default/data", reason=reason)
    peer, ear = Peer(rejected_facts=[rejected]), RecordingListener()
    async with linked(peer, ear):
        await ear.until(lambda: len(ear.up) >= 1)
        with capture_logs() as logs:
            ear.up[0].send([CLAIM])
            await ear.up[0].flushed()
    [line] = [line for line in logs if line["log_level"] == "warning"]
    assert (line["kind"], line["name"], line["reason"]) == ("CLAIM", "default/data", reason)


def test_a_message_has_at_most_a_hundred_facts() -> None:
    requests = messages_of([CLAIM] * (MESSAGE_ITEMS + 1))
    assert [len(each.facts) for each in requests if isinstance(each, muster_pb2.FactsRequest)] == [100, 1]


def test_every_object_kind_maps_to_its_enum_value() -> None:
    [request] = messages_of(ClusterObjectReported(ClusterObject(kind, "x", gone=True)) for kind in ObjectKind)
    assert isinstance(request, muster_pb2.FactsRequest)
    assert [muster_pb2.Fact.Kind.Name(fact.kind) for fact in request.facts] == list(ObjectKind)
    assert all(fact.gone for fact in request.facts)
