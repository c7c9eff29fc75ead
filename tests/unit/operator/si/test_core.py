"""Sessions are reopened repeatedly, messages keep their order, and a rejected registration ends the operator."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from muster_operator.config.settings import parse
from muster_operator.model.core_messages import (
    AllocationReported,
    AllocationResponse,
    AllocationSpec,
    ApplicationRemoved,
    ApplicationResponse,
    ApplicationSpec,
    ApplicationSubmitted,
    AskSpec,
    AskSubmitted,
    Node,
    NodeCreated,
    NodeOpened,
    NodeResponse,
)
from muster_operator.model.errors import StartupRefused
from muster_operator.model.ids import AppId, NodeName, PodUid
from muster_operator.model.pods import UserInfo
from muster_operator.si import session
from muster_operator.si.codec import Encoder, decoded
from muster_operator.si.session import CoreLink, FromCore, Session
from muster_si import keys, muster_pb2, si_pb2
from muster_si.api import SI_VERSION
from muster_si.errors import RefusalCode, Refused, SessionLost
from tests.unit.operator.si.scheduler import Peer


@dataclass
class RecordingListener:
    """Records the events of sessions."""

    up: list[Session] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    messages: list[FromCore] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def session_up(self, session: Session) -> None:
        self.up.append(session)
        self.changed.set()

    def session_lost(self, session: Session, reason: str) -> None:
        self.lost.append(reason)
        self.changed.set()

    def message_received(self, session: Session, message: FromCore) -> None:
        self.messages.append(message)

    def core_is_slow(self, session: Session, *, is_slow: bool) -> None: ...

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def linked(peer: Peer, ear: RecordingListener) -> AsyncIterator[CoreLink]:
    configuration = parse({"queues.yaml": "partitions: []", "event.maxStreams": "3"})
    link = CoreLink(peer, Encoder("rm", "default"), configuration, ear, lambda: None)
    task = asyncio.create_task(link.run())
    try:
        yield link
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_registration_carries_version_configuration_and_the_barrier_request() -> None:
    peer, ear = Peer(), RecordingListener()
    async with linked(peer, ear):
        await ear.until(lambda: len(ear.up) >= 1)
    [request] = peer.registrations
    assert (request.rmID, request.version, request.policyGroup) == ("rm", SI_VERSION, "queues")
    assert request.config == "partitions: []"
    assert dict(request.extraConfig) == {"event.maxStreams": "3", keys.EXTRA_BARRIER: "true"}
    assert peer.answered[0].attendance.stateDump


async def test_a_lost_session_is_opened_again() -> None:
    peer, ear = Peer(), RecordingListener()
    async with linked(peer, ear):
        await ear.until(lambda: len(ear.up) >= 1)
        peer.callback.session_lost("the core went away")
        await ear.until(lambda: len(ear.up) >= 2)
    assert ear.lost == ["the core went away"]
    assert len(peer.registrations) == 2


async def test_registration_is_retried_until_the_core_answers() -> None:
    peer, ear = Peer(refusals=[SessionLost("no answer"), SessionLost("no answer")]), RecordingListener()
    async with linked(peer, ear):
        await ear.until(lambda: len(ear.up) >= 1)


@pytest.mark.parametrize("code", [RefusalCode.INVALID_ARGUMENT, RefusalCode.FAILED_PRECONDITION])
async def test_a_rejected_first_registration_stops_the_operator_with_the_reason_of_the_core(code: RefusalCode) -> None:
    peer = Peer(refusals=[Refused(code, "queues.yaml: partitions[0].queues is missing")])
    link = CoreLink(peer, Encoder("rm", "default"), parse({}), RecordingListener(), lambda: None)
    with pytest.raises(StartupRefused, match=r"queues\.yaml: partitions\[0\]\.queues is missing"):
        await link.run()


async def test_a_later_rejected_registration_is_retried() -> None:
    peer, ear = Peer(), RecordingListener()
    async with linked(peer, ear):
        await ear.until(lambda: len(ear.up) >= 1)
        peer.refusals.append(Refused(RefusalCode.INVALID_ARGUMENT, "no"))
        peer.callback.session_lost("bye")
        await ear.until(lambda: len(ear.up) >= 2)


async def test_the_core_can_request_a_new_registration() -> None:
    peer, ear = Peer(), RecordingListener()
    async with linked(peer, ear):
        await ear.until(lambda: len(ear.up) >= 1)
        peer.callback.call_back(muster_pb2.Callback(reregister=muster_pb2.Reregister(reason="ledger in doubt")))
        await ear.until(lambda: len(ear.up) >= 2)
    assert ear.lost == ["the core asks for it: ledger in doubt"]


async def test_messages_are_sent_in_order_and_the_barrier_counts_them() -> None:
    peer, ear = Peer(), RecordingListener()
    async with linked(peer, ear):
        await ear.until(lambda: len(ear.up) >= 1)
        ear.up[0].send([NodeOpened(NodeName("n1")), ApplicationRemoved(AppId("a")), NodeOpened(NodeName("n2"))])
        await ear.up[0].barrier()
    barrier = peer.received[-1]
    assert isinstance(barrier, muster_pb2.BarrierRequest)
    assert (barrier.nodeRequests, barrier.applicationRequests, barrier.allocationRequests) == (2, 1, 0)
    nodes = [message.nodes[0].nodeID for message in peer.received if isinstance(message, si_pb2.NodeRequest)]
    assert nodes == ["n1", "n2"]


async def test_a_barrier_waits_only_for_earlier_messages_while_more_are_sent_concurrently() -> None:
    peer, ear = Peer(), RecordingListener()
    async with linked(peer, ear):
        await ear.until(lambda: len(ear.up) >= 1)
        for number in range(10):
            ear.up[0].send([NodeOpened(NodeName(f"before-{number}"))])
        barrier = asyncio.create_task(ear.up[0].barrier())
        await asyncio.sleep(0)
        count = 0
        while not barrier.done():
            assert count < 1000, "it never comes to an end"
            for name in (f"n{count}", f"m{count}", f"o{count}"):
                ear.up[0].send([NodeOpened(NodeName(name))])
            count += 1
            await asyncio.sleep(0)
    [barrier_sent] = [message for message in peer.received if isinstance(message, muster_pb2.BarrierRequest)]
    assert barrier_sent.nodeRequests == 10
    assert count, "it was through before anything was said meanwhile"


class Slow(Peer):
    """It never takes a message about nodes."""

    async def update_node(self, request: si_pb2.NodeRequest) -> None:
        await asyncio.Event().wait()


async def test_a_closed_outbox_releases_its_waiters_and_sends_no_barrier() -> None:
    peer, ear = Slow(), RecordingListener()
    async with linked(peer, ear):
        await ear.until(lambda: len(ear.up) >= 1)
        session = ear.up[0]
        session.send([NodeOpened(NodeName("n"))])
        flushed, barrier = asyncio.create_task(session.flushed()), asyncio.create_task(session.barrier())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not flushed.done()
        peer.callback.session_lost("bye")
        await ear.until(lambda: len(ear.up) >= 2)
        async with asyncio.timeout(20):
            await flushed
            with pytest.raises(SessionLost):
                await barrier
            await session.flushed()
    assert not [message for message in peer.received if isinstance(message, muster_pb2.BarrierRequest)]


async def test_a_broken_stream_ends_the_session_and_queued_messages_are_not_sent_to_the_next() -> None:
    peer, ear = Peer(broken=True), RecordingListener()
    async with linked(peer, ear):
        await ear.until(lambda: len(ear.up) >= 1)
        ear.up[0].send([NodeOpened(NodeName("n1"))])
        await ear.until(lambda: len(ear.up) >= 2)
        peer.broken = False
        ear.up[0].send([NodeOpened(NodeName("n1"))])
        await ear.up[1].flushed()
    assert peer.received == []


async def test_an_outbox_over_its_limit_ends_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "OUTBOX_LIMIT", 2)
    peer, ear = Peer(), RecordingListener()
    async with linked(peer, ear):
        await ear.until(lambda: len(ear.up) >= 1)
        for number in range(3):
            ear.up[0].send([NodeOpened(NodeName(str(number)))])
        await ear.until(lambda: len(ear.up) >= 2)
    assert ear.lost == ["more than 2 messages wait for the core"]


async def test_a_new_configuration_is_reported_and_kept_for_the_next_registration() -> None:
    peer, ear = Peer(), RecordingListener()
    async with linked(peer, ear) as link:
        await ear.until(lambda: len(ear.up) >= 1)
        await link.reconfigure(parse({"queues.yaml": "new"}))
        peer.callback.session_lost("bye")
        await ear.until(lambda: len(ear.up) >= 2)
    assert [request.config for request in peer.configurations] == ["new"]
    assert peer.registrations[-1].config == "new"


async def test_a_refused_configuration_leaves_the_old_one_in_force() -> None:
    peer, ear = Peer(configuration_refusal=Refused(RefusalCode.INVALID_ARGUMENT, "no root")), RecordingListener()
    async with linked(peer, ear) as link:
        await ear.until(lambda: len(ear.up) >= 1)
        with pytest.raises(Refused):
            await link.reconfigure(parse({"queues.yaml": "new"}))
        assert link.configuration.queues == "partitions: []"


async def test_the_unregistration_carries_the_resource_manager_id() -> None:
    peer, ear = Peer(), RecordingListener()
    async with linked(peer, ear) as link:
        await ear.until(lambda: len(ear.up) >= 1)
        await link.leave()
    assert peer.received == [muster_pb2.UnregisterRequest(rmID="rm")]


async def test_a_message_that_cannot_be_encoded_ends_the_session_and_a_new_one_is_opened() -> None:
    peer, ear = Peer(), RecordingListener()
    async with linked(peer, ear):
        await ear.until(lambda: len(ear.up) >= 1)
        ear.up[0].send([NodeOpened(NodeName("n1")), NodeOpened(7)])  # type: ignore[arg-type] # a bug somewhere else
        await ear.until(lambda: len(ear.lost) >= 1)
        assert "could not be encoded" in ear.lost[0]
        await ear.until(lambda: len(ear.up) >= 2)


#: No UTF-8: it can be in no message.
ODD = {"muster/constraints": "\ud800"}


def an_ask(key: str, tags: dict[str, str] | None = None, cpu: int = 1) -> AskSpec:
    return AskSpec(PodUid(key), AppId("app"), {"vcore": cpu}, tags=tags or {})


async def test_only_requests_and_applications_that_cannot_be_encoded_are_rejected() -> None:
    peer, ear = Peer(accepts=False), RecordingListener()
    async with linked(peer, ear):
        await ear.until(lambda: len(ear.up) >= 1)
        number: Any = {"muster/constraints": 7}  # a bug somewhere else
        for tags in (ODD, number):
            peer.received.clear()
            ear.messages.clear()
            specs = (
                ApplicationSpec(AppId("odd"), "", UserInfo(), tags),
                ApplicationSpec(AppId("app"), "", UserInfo(), {}),
            )
            ear.up[0].send(map(ApplicationSubmitted, specs))
            ear.up[0].send([AskSubmitted(an_ask("odd", tags)), AskSubmitted(an_ask("fine"))])
            await ear.up[0].flushed()
            requests = [message for message in peer.received if isinstance(message, si_pb2.AllocationRequest)]
            assert [ask.allocationKey for request in requests for ask in request.asks] == ["fine"]
            applications = [message for message in peer.received if isinstance(message, si_pb2.ApplicationRequest)]
            assert [new.applicationID for request in applications for new in request.new] == ["app"]
            answers = [decoded(message) for message in ear.messages if not isinstance(message, muster_pb2.Callback)]
            [ask] = [no for one in answers if isinstance(one, AllocationResponse) for no in one.rejected_asks]
            assert (ask.app, ask.key, "internal error" in ask.reason) == ("app", "odd", True)
            [app] = [no for one in answers if isinstance(one, ApplicationResponse) for no in one.rejected]
            assert (app.app, "internal error" in app.reason) == ("odd", True)
        assert ear.lost == []


async def test_bound_pods_that_cannot_be_encoded_are_counted_by_their_resources() -> None:
    peer, ear = Peer(), RecordingListener()
    n1 = NodeName("n1")
    odd = an_ask("odd", ODD | {keys.TAG_ALLOCATED_AT: "5"}), an_ask("huge", cpu=2**70), an_ask("fine", {"a": "b"})
    there = tuple(AllocationSpec(ask, n1) for ask in odd)
    async with linked(peer, ear):
        await ear.until(lambda: len(ear.up) >= 1)
        ear.up[0].send([NodeCreated(Node(n1, "uid", {"vcore": 8}, {}, schedulable=True), drained=True, existing=there)])
        ear.up[0].send(AllocationReported(one) for one in there)
        await ear.up[0].flushed()
    [node] = [info for message in peer.received if isinstance(message, si_pb2.NodeRequest) for info in message.nodes]
    [sent] = [message.allocations for message in peer.received if isinstance(message, si_pb2.AllocationRequest)]
    for found in (list(node.existingAllocations), list(sent)):
        assert [
            (one.allocationKey, one.resourcePerAlloc.resources["vcore"].value, dict(one.allocationTags))
            for one in found
        ] == [("odd", 1, {keys.TAG_ALLOCATED_AT: "5"}), ("huge", 2**62, {}), ("fine", 1, {"a": "b"})]
    assert (ear.messages, ear.lost) == ([], [])


async def test_only_nodes_that_cannot_be_encoded_are_rejected() -> None:
    """Without its taints and labels it would be open to pods that must not run there."""
    peer, ear = Peer(), RecordingListener()
    nodes = [
        Node(NodeName(name), name, {"vcore": 8}, tags, schedulable=True)
        for name, tags in (("n1", ODD), ("n2", dict[str, str]()))
    ]
    async with linked(peer, ear):
        await ear.until(lambda: len(ear.up) >= 1)
        ear.up[0].send([NodeCreated(node, drained=False, existing=()) for node in nodes])
        await ear.up[0].flushed()
    assert [info.nodeID for one in peer.received if isinstance(one, si_pb2.NodeRequest) for info in one.nodes] == ["n2"]
    [response] = [decoded(one) for one in ear.messages if isinstance(one, si_pb2.NodeResponse)]
    assert isinstance(response, NodeResponse)
    assert list(response.rejected or {}) == ["n1"]


async def test_other_tasks_run_while_a_recovery_is_reported() -> None:
    peer, ear = Peer(), RecordingListener()
    turns = 0
    async with linked(peer, ear):
        await ear.until(lambda: len(ear.up) >= 1)
        ear.up[0].send([NodeOpened(NodeName(f"n{number}")) for number in range(2000)])
        flushed = asyncio.create_task(ear.up[0].flushed())
        while not flushed.done():
            await asyncio.sleep(0)
            turns += 1
    assert turns >= 2000 // 100
