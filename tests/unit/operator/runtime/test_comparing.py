"""The states of a session are compared continuously, and a core that does not respond is disconnected (ADR 0015)."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from muster_operator.controller.state import Ledger
from muster_operator.model.ids import AppId
from muster_operator.runtime.inputs import Input
from muster_operator.runtime.loop import Loop
from muster_operator.runtime.metrics import Metrics
from muster_operator.runtime.session import Comparing
from muster_operator.si.codec import Encoder
from muster_operator.si.session import Session
from muster_si import muster_pb2, si_pb2
from muster_si.errors import RefusalCode, Refused
from tests.unit.operator.runtime.test_loop import Operator, a_node, a_pod, running
from tests.unit.operator.si.scheduler import Peer

Node = muster_pb2.NodeInventory
WHOLE = muster_pb2.ApplicationInventory(
    applicationID="ns/app",
    askKeys=["uid-waiting"],
    allocations=[muster_pb2.AllocationInventory(allocationKey="uid-bound", allocationID="uid-bound-0", nodeID="n1")],
)


def comparing(*inventories: muster_pb2.Inventory) -> Operator:
    """An operator that compares without a pause, and a core that shows these one after the other."""
    return comparing_with(Peer(inventories=[*inventories]))


def comparing_with(peer: Peer) -> Operator:
    operator = Operator(peer)
    operator.loop = Loop(operator.ledger, operator.inbox, operator.commands.append, operator.metrics, 0.001)
    return operator


def counted(operator: Operator, what: str) -> float:
    value = operator.metrics.registry.get_sample_value("muster_operator_state_repairs_total", {"difference": what})
    return value or 0.0


async def at_work(operator: Operator) -> None:
    await operator.lists(nodes=[a_node("n1")], pods=[a_pod("bound", "n1"), a_pod("waiting")])
    await operator.ready()


async def test_a_request_missing_in_the_core_is_sent_again_and_counted() -> None:
    lacks = muster_pb2.Inventory(
        applications=[muster_pb2.ApplicationInventory(applicationID="ns/app", allocations=WHOLE.allocations)]
    )
    async with running(comparing(lacks)) as operator:
        await at_work(operator)
        await operator.until(lambda: counted(operator, "ask missing") == 1.0)
        await operator.until(lambda: isinstance(operator.peer.received[-1], si_pb2.AllocationRequest))
    last_message = operator.peer.received[-1]
    assert isinstance(last_message, si_pb2.AllocationRequest)
    assert [ask.allocationKey for ask in last_message.asks] == ["uid-waiting"]


async def test_an_inventory_request_counts_sent_messages_and_continues_with_the_next_part() -> None:
    first = muster_pb2.Inventory(applications=[WHOLE], last="ns/app")
    nodes = muster_pb2.Inventory(nodes=[Node(nodeID="n1", schedulable=True)])
    async with running(comparing(first, muster_pb2.Inventory(), nodes)) as operator:
        await at_work(operator)
        await operator.until(lambda: len(operator.peer.inventory_requests) >= 3)
    inventory_requests = operator.peer.inventory_requests[:3]
    assert [(request.part, request.beyond) for request in inventory_requests] == [(0, ""), (0, "ns/app"), (1, "")]
    assert (
        inventory_requests[0].after.applicationRequests,
        inventory_requests[0].after.nodeRequests,
        inventory_requests[0].after.allocationRequests,
    ) == (
        1,
        2,
        1,
    )
    assert [counted(operator, what) for what in ("ask missing", "node missing", "application missing")] == [0, 0, 0]


async def test_an_inventory_is_compared_after_all_preceding_messages_were_received() -> None:
    """The core has allocated the waiting pod, and its message is still in flight."""
    moved = muster_pb2.ApplicationInventory(applicationID="ns/app", allocations=[*WHOLE.allocations])
    moved.allocations.add(allocationKey="uid-waiting", allocationID="uid-waiting-0", nodeID="n1")
    async with running(comparing(muster_pb2.Inventory(sentItems=2, applications=[moved], last="ns/app"))) as operator:
        await at_work(operator)
        await operator.until(lambda: len(operator.peer.inventory_requests) >= 1)
        await operator.wait_until_idle()
        word = si_pb2.Allocation(
            applicationID="ns/app", allocationKey="uid-waiting", allocationID="uid-waiting-0", nodeID="n1"
        )
        operator.peer.callback.update_allocation(si_pb2.AllocationResponse(new=[word]))
        await operator.until(lambda: len(operator.peer.inventory_requests) > 1)
    assert counted(operator, "allocation left over") == counted(operator, "ask missing") == 0


async def test_a_failed_application_whose_update_is_in_flight_is_not_missing() -> None:
    """The core has failed it, and the update on the other stream arrives later, so the message counts differ by one."""
    async with running(comparing(muster_pb2.Inventory(sentItems=2))) as operator:
        await at_work(operator)
        await operator.until(lambda: len(operator.peer.inventory_requests) >= 1)
        await operator.wait_until_idle()
        ended = si_pb2.UpdatedApplication(applicationID="ns/app", state="Failed")
        operator.peer.callback.update_application(si_pb2.ApplicationResponse(updated=[ended]))
        await operator.until(lambda: len(operator.peer.inventory_requests) > 1)
    assert counted(operator, "application missing") == 0


@dataclass
class Gated(Peer):
    """Answers inventory requests after `are_answered` is set."""

    are_answered: asyncio.Event = field(default_factory=asyncio.Event)

    async def take_inventory(self, request: muster_pb2.InventoryRequest) -> muster_pb2.Inventory:
        inventory = await super().take_inventory(request)
        await self.are_answered.wait()
        return inventory


async def test_a_failed_comparison_is_followed_by_another() -> None:
    first = muster_pb2.Inventory(applications=[WHOLE])
    peer = Gated(inventories=[first, muster_pb2.Inventory(nodes=[Node(nodeID="n1", schedulable=True)])])
    async with running(comparing_with(peer)) as operator:
        await at_work(operator)
        operator.ledger.applications[AppId("dev/broken")] = 7  # type: ignore[assignment]  # a bug somewhere else
        peer.are_answered.set()
        await operator.until(lambda: len(operator.peer.inventory_requests) > 1)
        del operator.ledger.applications[AppId("dev/broken")]
    failures = operator.metrics.registry.get_sample_value("muster_operator_loop_failures_total", {"kind": "Compared"})
    assert failures == 1.0


async def test_a_core_without_our_application_causes_a_new_registration() -> None:
    async with running(comparing(muster_pb2.Inventory())) as operator:
        await at_work(operator)
        await operator.until(lambda: len(operator.peer.registrations) >= 2)
    assert counted(operator, "application missing") == 1.0


class RecordingListener:
    """A listener that keeps why sessions ended."""

    def __init__(self) -> None:
        self.lost: list[str] = []

    def session_up(self, session: Session) -> None:
        """Not looked at."""

    def session_lost(self, session: Session, reason: str) -> None:
        self.lost.append(reason)

    def message_received(self, session: Session, message: object) -> None:
        """Not looked at."""

    def core_is_slow(self, session: Session, *, is_slow: bool) -> None:
        """Not looked at."""


class Silent(Peer):
    """Takes questions and never answers."""

    async def take_inventory(self, request: muster_pb2.InventoryRequest) -> muster_pb2.Inventory:
        await asyncio.Event().wait()
        raise NotImplementedError


class Older(Peer):
    """A peer without inventory requests."""

    async def take_inventory(self, request: muster_pb2.InventoryRequest) -> muster_pb2.Inventory:
        raise Refused(RefusalCode.FAILED_PRECONDITION, "unknown method")


async def end_reasons(peer: Peer, within_s: float) -> list[str]:
    """Why the session with this core ends, or an empty list if it does not end in time."""
    inbox: list[Input] = []
    listener = RecordingListener()
    session = Session(peer, Encoder("rm", "default"), listener)
    comparing = Comparing(Ledger(), inbox.append, Metrics(), 0.001, 0.02)
    comparing.begin(session)
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while not listener.lost:  # noqa: ASYNC110 - a plain listener without a signal
                await asyncio.sleep(0.001)
    comparing.end()
    session.close()
    return listener.lost


async def test_a_session_ends_when_the_core_never_answers_inventory_requests() -> None:
    assert await end_reasons(Silent(), 10) == ["the core has not answered for 0.02 s"]


async def test_a_session_continues_when_the_core_does_not_support_inventory_requests() -> None:
    assert await end_reasons(Older(), 0.2) == []
