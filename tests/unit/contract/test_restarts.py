"""Controller and engine after a kill: reservations of a partly completed gang in each mode."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import grpc
import pytest

from muster_si import muster_pb2, si_pb2, si_pb2_grpc
from muster_si.errors import SessionLost
from muster_si.transport.grpc_client import GrpcClient
from muster_si.transport.grpc_server import GrpcServer
from muster_si.transport.server_session import ServerSession
from muster_si.transport.server_stream import CONNECTION_BROKE, ServerStream
from muster_si.transport.sessions import Context
from muster_si.transport.streams import StreamKind
from tests.unit.contract import gangs
from tests.unit.contract.agent_and_core import Both
from tests.unit.contract.conftest import Socket, Wire, registered
from tests.unit.contract.peers import SETTINGS, ResourceManager, Scheduler, a_registration, asks, keys_of
from tests.unit.contract.proxy import Proxy
from tests.unit.contract.random_events import PLACEMENTS
from tests.unit.operator.controller.objects import Raw

APP = "dev/half"
MEMBERS = 4
LONG_S = 600
Kill = Callable[[Both], None]


def the_operator(both: Both) -> None:
    both.kill_operator(lose_commands=True)


def the_core(both: Both) -> None:
    both.kill_core()


def both_of_them(both: Both) -> None:
    both.kill_core()
    both.kill_operator(lose_commands=True)


every_kill = pytest.mark.parametrize("kill", [the_operator, the_core, both_of_them], ids=lambda kill: kill.__name__)
every_placement = pytest.mark.parametrize("placement", PLACEMENTS)


def a_member(both: Both, number: int, placement: str, words: str = "") -> Raw:
    parameters = f"gangPlacement={placement} placeholderTimeoutInSeconds={LONG_S} {words}".strip()
    return gangs.a_member(both, f"w{number}", parameters, app=APP, count=MEMBERS)


def began(placement: str, *numbers: int, nodes: int = 1) -> Both:
    """Return nodes of eight CPUs, and these members of a gang of four with one CPU each."""
    both = gangs.on_nodes(nodes)
    return gangs.add(both, *(a_member(both, number, placement) for number in numbers))


def placeholder_count(both: Both) -> int:
    """Return the number of placeholders of the gang, with or without pods."""
    app = both.real.applications_there[APP]
    return sum(allocation.spec.placeholder for allocation in app.allocations.values())


def used_cpu(both: Both) -> int:
    """Return the allocated CPUs in the core."""
    return sum(leaf.allocated["vcore"] for leaf in both.real.partition.queues.leaves()) // 1000


@every_kill
@every_placement
def test_a_restart_keeps_the_reservation_only_for_members_still_missing(placement: str, kill: Kill) -> None:
    """Of four members one has ended, one runs, and two are missing."""
    both = began(placement, 0, 1)
    both.wait(5)
    both.kubernetes.change("w0", phase="Succeeded")
    both.run()
    assert placeholder_count(both) == 2
    kill(both)
    both.run()
    assert (placeholder_count(both), used_cpu(both)) == (2, 3)
    both.kubernetes.add(a_member(both, 2, placement), a_member(both, 3, placement))
    both.run()
    assert (placeholder_count(both), used_cpu(both)) == (0, 3)
    assert both.kubernetes.placeholders() == []


@every_kill
@every_placement
def test_a_gang_with_only_finished_members_keeps_its_reservation_after_a_kill(placement: str, kill: Kill) -> None:
    """All in one second, because a later pod could belong to another gang with the same ID."""
    both = began(placement, 0, 1)
    for name in ("w0", "w1"):
        both.kubernetes.change(name, phase="Succeeded")
    both.kubernetes.add(a_member(both, 2, placement))
    made = both.kubernetes.writes["CreatePlaceholder"]
    kill(both)
    both.run()
    assert both.kubernetes.node_of("w2")
    assert (placeholder_count(both), used_cpu(both)) == (1, 2)
    assert both.kubernetes.writes["CreatePlaceholder"] == made


@every_kill
@every_placement
def test_unused_reservations_expire_after_the_timeout_also_after_a_kill(placement: str, kill: Kill) -> None:
    both = began(placement, 0)
    both.wait(LONG_S / 2)
    kill(both)
    both.run()
    assert placeholder_count(both) == MEMBERS - 1
    both.wait(LONG_S / 2 + 10)
    assert (placeholder_count(both), used_cpu(both)) == (0, 1)


@every_kill
@every_placement
def test_members_waiting_for_nodes_continue_after_the_originator_is_deleted(placement: str, kill: Kill) -> None:
    both = began(placement, 0, 1, 2, 3, 4, nodes=0)
    both.kubernetes.delete_by_name("w0")
    both.run()
    kill(both)
    both.run()
    both.kubernetes.add_nodes(1)
    both.run()
    both.wait(60)
    assert all(both.kubernetes.node_of(f"w{number}") for number in range(1, 5))
    assert both.kubernetes.placeholders() == []


# -- Both sides receive the end of a session once, however it ends, and a new registration continues.

HASTY = replace(SETTINGS, register_timeout_s=0.2, attach_timeout_s=0.2)
EAGER = replace(SETTINGS, keepalive_s=0.2, keepalive_timeout_s=0.2)


class Faulty(ResourceManager):
    """A resource manager with a bug."""

    def update_node(self, response: si_pb2.NodeResponse) -> None:
        raise ZeroDivisionError


async def register_again(client: GrpcClient, callback: ResourceManager) -> None:
    """Register, and retry once, because the first attempt can use the broken connection."""
    try:
        await client.register_resource_manager(a_registration(), callback)
    except SessionLost:
        await client.register_resource_manager(a_registration(), callback)


async def test_unregistering_reaches_the_scheduler_and_not_the_callback(wire: Wire) -> None:
    client, rm = await registered(wire)
    await client.unregister(muster_pb2.UnregisterRequest(rmID="rm"))
    assert wire.scheduler.left.items == ["rm"]
    with pytest.raises(SessionLost, match="unregistered"):
        await client.update_allocation(asks("late"))
    assert rm.ends.items == []
    assert wire.scheduler.lost.items == []


async def test_closing_a_client_loses_no_sent_message(wire: Wire) -> None:
    client, rm = await registered(wire)
    for number in range(1000):
        await client.update_allocation(asks(str(number)))
    await client.aclose()
    await wire.scheduler.lost.first()
    assert len(keys_of(wire.scheduler.allocations.items)) == 1000
    assert rm.ends.items == []


async def test_a_session_ended_by_the_scheduler_is_reported_once_and_later_calls_fail(wire: Wire) -> None:
    client, rm = await registered(wire)
    callback = wire.scheduler.present["rm"]
    callback.session_lost("the world is inconsistent")
    callback.session_lost("again")
    callback.update_node(si_pb2.NodeResponse())
    (reason,) = await rm.ends.first()
    assert "the world is inconsistent" in reason
    with pytest.raises(SessionLost, match="inconsistent"):
        await client.barrier(muster_pb2.BarrierRequest(rmID="rm"))
    assert len(rm.ends.items) == 1
    assert rm.nodes.items == []
    assert wire.scheduler.lost.items == []


async def test_a_waiting_call_ends_with_the_session(wire: Wire) -> None:
    client, _ = await registered(wire)
    await client.update_node(si_pb2.NodeRequest(rmID="rm", nodes=[si_pb2.NodeInfo(nodeID="n1")]))
    barrier = asyncio.create_task(client.barrier(muster_pb2.BarrierRequest(rmID="rm", nodeRequests=2)))
    await wire.scheduler.nodes.first()
    wire.scheduler.present["rm"].session_lost("the world is inconsistent")
    with pytest.raises(SessionLost, match="inconsistent"):
        await barrier


async def test_dropping_a_callback_ends_its_session_without_informing_it(wire: Wire) -> None:
    client, rm = await registered(wire)
    await client.connection_lost("rm", ResourceManager())
    assert wire.scheduler.lost.items == []
    await client.connection_lost("rm", rm)
    await wire.scheduler.lost.first()
    assert rm.ends.items == []


async def test_the_same_object_registers_again_after_a_lost_session(wire: Wire) -> None:
    client, first, second = wire.connect(), ResourceManager(), ResourceManager()
    await client.register_resource_manager(a_registration(), first)
    wire.scheduler.present["rm"].session_lost("register again")
    await first.ends.first()
    await client.register_resource_manager(a_registration(), second)
    await client.update_allocation(asks("a"))
    assert keys_of(await wire.scheduler.allocations.first()) == ["a"]
    assert second.ends.items == []


async def test_a_broken_connection_is_reported_on_both_sides(socket: Socket, proxy: Proxy) -> None:
    client, rm = socket.connect(proxy.address), ResourceManager()
    await client.register_resource_manager(a_registration(), rm)
    callback = socket.scheduler.present["rm"]
    proxy.cut()
    (reason,) = await rm.ends.first()
    assert reason.startswith("UNAVAILABLE: ")
    assert await socket.scheduler.lost.first() == [("rm", callback)]


class Unconfirmed:
    """The context of a stream whose client is gone before it gets the initial metadata."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def send_initial_metadata(self, _: object) -> None:
        raise self._error


@pytest.mark.parametrize("error", [asyncio.CancelledError(), grpc.aio.BaseError()], ids=["cancelled", "broken"])
async def test_a_connection_that_breaks_before_its_stream_is_confirmed_ends_the_session(error: BaseException) -> None:
    """The handler is cancelled, or gRPC raises an error."""
    session, context = ServerSession("rm", "a session", SETTINGS), Unconfirmed(error)
    stream = ServerStream(Scheduler(), StreamKind.NODE, session, _nothing(), cast(Context, context))
    with pytest.raises(type(error)):
        await stream.run(None, farewell_s=0.0)
    assert session.over.result() is CONNECTION_BROKE


async def _nothing() -> AsyncIterator[bytes]:
    """Requests of a client that sends none."""
    for request in list[bytes]():
        yield request


async def test_after_a_broken_connection_the_same_object_registers_again(socket: Socket, proxy: Proxy) -> None:
    client, first, second = socket.connect(proxy.address), ResourceManager(), ResourceManager()
    await client.register_resource_manager(a_registration(), first)
    proxy.cut()
    await first.ends.first()
    await register_again(client, second)
    await client.update_allocation(asks("a"))
    assert keys_of(await socket.scheduler.allocations.first()) == ["a"]


async def test_keepalive_detects_an_unresponsive_peer(socket: Socket, proxy: Proxy) -> None:
    client, rm = socket.connect(proxy.address, settings=EAGER), ResourceManager()
    await client.register_resource_manager(a_registration(), rm)
    proxy.stop_forwarding()
    (reason,) = await rm.ends.first()
    assert reason.startswith("UNAVAILABLE: ")


async def test_the_same_object_reconnects_to_a_restarted_scheduler(socket: Socket) -> None:
    client, first, second = socket.connect(), ResourceManager(), ResourceManager()
    await client.register_resource_manager(a_registration(), first)
    session = cast(ServerSession, socket.scheduler.present["rm"])
    await socket.restart()
    assert session.over.result().reason == "the scheduler is shutting down"
    (reason,) = await first.ends.first()
    assert reason.startswith("UNAVAILABLE: ")  # gRPC replaces the text if it writes to the closed connection
    await register_again(client, second)
    await client.update_allocation(asks("a"))
    assert keys_of(await socket.scheduler.allocations.first()) == ["a"]


async def test_a_stopping_server_delivers_all_queued_responses(socket: Socket) -> None:
    _, rm = await registered(socket)
    callback = socket.scheduler.present["rm"]
    for number in range(1000):
        new = si_pb2.Allocation(allocationKey=str(number))
        callback.update_allocation(si_pb2.AllocationResponse(new=[new]))
    await socket.server.aclose()
    await rm.ends.first()
    assert sum(len(response.new) for response in rm.allocations.items) == 1000
    assert [lost for lost, _ in socket.scheduler.lost.items] == ["rm"]
    assert not socket.path.exists()


async def test_without_a_scheduler_registration_gives_up_and_reports_it(socket: Socket) -> None:
    await socket.server.aclose()
    client = socket.connect(settings=HASTY)
    with pytest.raises(SessionLost, match=r"no scheduler answered within 0\.2 s"):
        await client.register_resource_manager(a_registration(), ResourceManager())


async def test_a_session_whose_streams_are_never_opened_counts_as_lost(tmp_path: Path) -> None:
    scheduler = Scheduler()
    server = GrpcServer(scheduler, f"unix://{tmp_path}/si.sock", settings=HASTY)
    await server.start()
    async with grpc.aio.insecure_channel(f"unix:{tmp_path}/si.sock") as channel:
        await si_pb2_grpc.SchedulerStub(channel).RegisterResourceManager(a_registration())
        ((lost, _),) = await scheduler.lost.first()
    assert lost == "rm"
    await server.aclose()


async def test_an_exception_in_the_callback_ends_the_session_and_is_reported(
    socket: Socket, reported: list[str]
) -> None:
    client, rm = socket.connect(), Faulty()
    await client.register_resource_manager(a_registration(), rm)
    socket.scheduler.present["rm"].update_node(si_pb2.NodeResponse())
    (reason,) = await rm.ends.first()
    assert reason.startswith("the resource manager failed on a response of UpdateNode: ZeroDivisionError")
    assert reported == ["the resource manager failed on a response of UpdateNode"]
    await socket.scheduler.lost.first()
