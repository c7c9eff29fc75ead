"""A registration opens a session, a newer one ends it, and streams need a session."""

import stat
from pathlib import Path
from socket import AF_UNIX
from socket import socket as os_socket

import pytest

from muster_si import muster_pb2, si_pb2
from muster_si.errors import AddressError, RefusalCode, Refused, SessionLost
from muster_si.transport.grpc_client import GrpcClient
from muster_si.transport.grpc_server import GrpcServer
from tests.unit.contract.conftest import Socket, Wire, registered
from tests.unit.contract.peers import SETTINGS, ResourceManager, Scheduler, a_registration, an_ask, asks, keys_of


async def test_registration_reaches_the_scheduler_with_a_callback(wire: Wire) -> None:
    rm = ResourceManager()
    await wire.connect().register_resource_manager(a_registration("cluster-ü"), rm)
    wire.scheduler.present["cluster-ü"].update_node(si_pb2.NodeResponse(accepted=[si_pb2.AcceptedNode(nodeID="n1")]))
    (response,) = await rm.nodes.first()
    assert response.accepted[0].nodeID == "n1"


async def test_a_rejected_registration_reports_the_reason_and_opens_no_session(wire: Wire) -> None:
    client, rm = wire.connect(), ResourceManager()
    with pytest.raises(Refused) as refused:
        await client.register_resource_manager(a_registration(version="2.0.0"), rm)
    assert refused.value.code is RefusalCode.FAILED_PRECONDITION
    assert refused.value.reason == "version 2.0.0 does not go with 1.0.0"
    with pytest.raises(Refused, match="RegisterResourceManager first"):
        await client.update_allocation(asks("a"))
    assert rm.ends.items == []


async def test_a_rejected_registration_keeps_the_earlier_session(wire: Wire) -> None:
    client, _ = await registered(wire)
    with pytest.raises(Refused):
        await client.register_resource_manager(a_registration(version="2.0.0"), ResourceManager())
    await client.update_allocation(asks("a"))
    assert keys_of(await wire.scheduler.allocations.first()) == ["a"]


async def test_a_registration_without_rm_id_is_rejected_with_the_field_name(wire: Wire) -> None:
    with pytest.raises(Refused) as refused:
        await wire.connect().register_resource_manager(a_registration(""), ResourceManager())
    assert refused.value.code is RefusalCode.INVALID_ARGUMENT
    assert refused.value.reason == "RegisterResourceManagerRequest.rmID is missing"


async def test_every_call_before_registration_is_rejected_with_a_remedy(wire: Wire) -> None:
    client = wire.connect()
    calls = [
        client.update_allocation(asks("a")),
        client.update_application(si_pb2.ApplicationRequest(rmID="rm")),
        client.update_node(si_pb2.NodeRequest(rmID="rm")),
        client.update_configuration(si_pb2.UpdateConfigurationRequest(rmID="rm")),
        client.answer("rm", muster_pb2.Answer()),
        client.barrier(muster_pb2.BarrierRequest(rmID="rm")),
        client.unregister(muster_pb2.UnregisterRequest(rmID="rm")),
    ]
    for call in calls:
        with pytest.raises(Refused, match=r"FAILED_PRECONDITION: .*RegisterResourceManager first"):
            await call


async def test_registering_again_elsewhere_closes_the_older_session_with_the_schedulers_reason(
    wire: Wire,
) -> None:
    older, newer = wire.connect(), wire.connect()
    first, second = ResourceManager(), ResourceManager()
    await older.register_resource_manager(a_registration(), first)
    await newer.register_resource_manager(a_registration(), second)
    (reason,) = await first.ends.first()
    assert "registered again" in reason
    with pytest.raises(SessionLost, match="registered again"):
        await older.update_allocation(asks("late"))
    await newer.update_allocation(asks("present"))
    assert keys_of(await wire.scheduler.allocations.first()) == ["present"]
    assert second.ends.items == []
    assert wire.scheduler.lost.items == []


async def test_registering_again_on_the_same_object_replaces_its_session(wire: Wire) -> None:
    client, first, second = wire.connect(), ResourceManager(), ResourceManager()
    await client.register_resource_manager(a_registration(), first)
    await client.register_resource_manager(a_registration(), second)
    assert len(await first.ends.first()) == 1
    wire.scheduler.present["rm"].update_allocation(
        si_pb2.AllocationResponse(new=[si_pb2.Allocation(allocationKey="a")])
    )
    await second.allocations.first()
    assert first.allocations.items == []
    assert second.ends.items == []


async def test_registering_the_same_object_under_another_name_loses_the_older_one(wire: Wire) -> None:
    client, first = wire.connect(), ResourceManager()
    await client.register_resource_manager(a_registration("one"), first)
    await client.register_resource_manager(a_registration("two"), ResourceManager())
    assert len(first.ends.items) == 1
    ((lost, _),) = await wire.scheduler.lost.first()
    assert lost == "one"
    assert set(wire.scheduler.present) == {"two"}


async def test_two_resource_managers_do_not_disturb_each_other(wire: Wire) -> None:
    one, two = wire.connect(), wire.connect()
    first, second = ResourceManager(), ResourceManager()
    await one.register_resource_manager(a_registration("one"), first)
    await two.register_resource_manager(a_registration("two"), second)
    await one.unregister(muster_pb2.UnregisterRequest(rmID="one"))
    await two.update_allocation(asks("a", rm_id="two"))
    assert keys_of(await wire.scheduler.allocations.first()) == ["a"]
    assert second.ends.items == []


# -- A rejected call has a reason. A rejected message ends the session and reports the reason once.


@pytest.mark.parametrize("code", list(RefusalCode))
async def test_a_refused_configuration_keeps_code_and_reason_and_the_session(wire: Wire, code: RefusalCode) -> None:
    client, rm = await registered(wire)
    wire.scheduler.refusal = Refused(code, "queues.yaml, line 3: \u201cmaxx\u201d is no field of a queue")
    with pytest.raises(Refused) as refused:
        await client.update_configuration(si_pb2.UpdateConfigurationRequest(rmID="rm", config="?"))
    assert (refused.value.code, refused.value.reason) == (code, wire.scheduler.refusal.reason)
    wire.scheduler.refusal = None
    await client.update_configuration(si_pb2.UpdateConfigurationRequest(rmID="rm", config="queues"))
    assert [request.config for request in wire.scheduler.configurations.items] == ["queues"]
    assert rm.ends.items == []


async def test_a_rejected_message_ends_the_session_with_its_reason(wire: Wire) -> None:
    client, rm = await registered(wire)
    wire.scheduler.refusal = Refused(RefusalCode.INVALID_ARGUMENT, "the ask \u201ca\u201d has no partition")
    await client.update_allocation(asks("a"))
    (reason,) = await rm.ends.first()
    assert reason == "INVALID_ARGUMENT: the ask \u201ca\u201d has no partition"
    with pytest.raises(SessionLost, match="has no partition"):
        await client.update_node(si_pb2.NodeRequest(rmID="rm"))
    ((lost, _),) = await wire.scheduler.lost.first()
    assert lost == "rm"
    assert len(rm.ends.items) == 1


@pytest.mark.parametrize(
    "given, reason",
    [
        ("", "INVALID_ARGUMENT: AllocationRequest.rmID is missing"),
        ("other", "INVALID_ARGUMENT: AllocationRequest.rmID is 'other', but this session belongs to 'rm'"),
    ],
)
async def test_a_message_with_a_missing_or_foreign_rm_id_ends_the_session(wire: Wire, given: str, reason: str) -> None:
    client, rm = await registered(wire)
    await client.update_allocation(asks("a", rm_id=given))
    assert await rm.ends.first() == [reason]
    assert wire.scheduler.allocations.items == []


async def test_an_answer_with_a_foreign_rm_id_ends_the_session(wire: Wire) -> None:
    client, rm = await registered(wire)
    await client.answer("other", muster_pb2.Answer())
    (reason,) = await rm.ends.first()
    assert reason == "INVALID_ARGUMENT: Answer.rmID is 'other', but this session belongs to 'rm'"


async def test_a_call_with_a_foreign_rm_id_is_rejected_and_the_session_continues(wire: Wire) -> None:
    client, _ = await registered(wire)
    with pytest.raises(Refused, match=r"UnregisterRequest\.rmID is 'other'"):
        await client.unregister(muster_pb2.UnregisterRequest(rmID="other"))
    with pytest.raises(Refused, match=r"BarrierRequest\.rmID is missing"):
        await client.barrier(muster_pb2.BarrierRequest())
    await client.update_allocation(asks("a"))
    assert keys_of(await wire.scheduler.allocations.first()) == ["a"]


async def test_a_very_long_reason_is_truncated(socket: Socket) -> None:
    client, rm = await registered(socket)
    socket.scheduler.refusal = Refused(RefusalCode.INVALID_ARGUMENT, "ü" * 100_000)
    await client.update_allocation(asks("a"))
    (reason,) = await rm.ends.first()
    assert reason.startswith("INVALID_ARGUMENT: üüü")
    assert reason.endswith("…")


async def test_a_message_over_the_limit_is_rejected_before_it_is_sent(socket: Socket) -> None:
    client, rm = await registered(socket)
    with pytest.raises(Refused) as refused:
        await client.update_allocation(asks("big", padding=300_000))
    assert refused.value.code is RefusalCode.RESOURCE_EXHAUSTED
    assert "AllocationRequest of 300" in refused.value.reason
    assert f"over the limit of {SETTINGS.max_message_bytes}: send it in parts" in refused.value.reason
    await client.update_allocation(asks("small"))
    assert keys_of(await socket.scheduler.allocations.first()) == ["small"]
    assert rm.ends.items == []


async def test_a_response_over_the_limit_ends_the_session_and_reports_its_size(socket: Socket) -> None:
    _, rm = await registered(socket)
    huge = si_pb2.Allocation(allocationKey="a", allocationTags=an_ask("a", 300_000).tags)
    socket.scheduler.present["rm"].update_allocation(si_pb2.AllocationResponse(new=[huge]))
    (reason,) = await rm.ends.first()
    assert "RESOURCE_EXHAUSTED: a AllocationResponse of 300" in reason
    assert [callback.WhichOneof("kind") for callback in rm.callbacks.items] == ["reregister"]


async def test_an_exception_in_the_scheduler_ends_the_session_and_is_reported(
    socket: Socket, reported: list[str]
) -> None:
    client, rm = await registered(socket)
    socket.scheduler.bug = ZeroDivisionError("a ledger")
    await client.update_node(si_pb2.NodeRequest(rmID="rm"))
    (reason,) = await rm.ends.first()
    assert reason == ("INTERNAL: the scheduler failed on a request of UpdateNode: ZeroDivisionError('a ledger')")
    assert reported == ["the scheduler failed on a request of UpdateNode"]


# -- The socket is private, a stale one is replaced, one in use is not, and plaintext is limited to this machine.


async def test_only_owner_and_group_can_access_the_socket(socket: Socket) -> None:
    mode = socket.path.stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o660


async def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "si.sock"
    with os_socket(AF_UNIX) as dead:
        dead.bind(str(path))
    server = GrpcServer(Scheduler(), f"unix://{path}", settings=SETTINGS)
    client = GrpcClient(await server.start(), settings=SETTINGS)
    await client.register_resource_manager(a_registration(), ResourceManager())
    await client.aclose()
    await server.aclose()
    assert not path.exists()


async def test_a_socket_in_use_is_not_replaced(socket: Socket) -> None:
    with pytest.raises(AddressError, match="another process listens on this socket"):
        await GrpcServer(Scheduler(), socket.address).start()
    client = socket.connect()
    await client.register_resource_manager(a_registration(), ResourceManager())
    await client.update_allocation(asks("a"))
    assert keys_of(await socket.scheduler.allocations.first()) == ["a"]


async def test_a_file_that_is_not_a_socket_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(AddressError, match="not a socket"):
        await GrpcServer(Scheduler(), f"unix://{path}").start()
    assert path.read_text() == "mine"


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(AddressError, match="missing does not exist"):
        await GrpcServer(Scheduler(), f"unix://{tmp_path}/missing/si.sock").start()


@pytest.mark.parametrize(
    "address, reason",
    [
        ("unix:si.sock", "unix:///absolute/path"),
        ("unix://si.sock", "unix:///absolute/path"),
        ("unix:///" + "x" * 200, "longer than the 107 bytes"),
        ("core", "neither unix:///path nor host:port"),
        (":9090", "neither unix:///path nor host:port"),
        ("core:port", "neither unix:///path nor host:port"),
        ("core:70000", "neither unix:///path nor host:port"),
        ("", "neither unix:///path nor host:port"),
    ],
)
def test_an_invalid_address_is_rejected_with_the_valid_form(address: str, reason: str) -> None:
    with pytest.raises(AddressError, match=reason):
        GrpcServer(Scheduler(), address)
    with pytest.raises(AddressError, match=reason):
        GrpcClient(address)


@pytest.mark.parametrize("address", ["0.0.0.0:9090", "core.muster.svc:9090", "[::]:9090", "10.0.0.1:9090"])
def test_plaintext_beyond_loopback_is_rejected_unless_explicitly_allowed(address: str) -> None:
    with pytest.raises(AddressError, match="mutual TLS"):
        GrpcServer(Scheduler(), address)
    with pytest.raises(AddressError, match="mutual TLS"):
        GrpcClient(address)
    GrpcServer(Scheduler(), address, allow_plaintext=True)
    GrpcClient(address, allow_plaintext=True)


async def test_loopback_needs_no_certificates_and_reports_its_port() -> None:
    scheduler = Scheduler()
    server = GrpcServer(scheduler, "127.0.0.1:0", settings=SETTINGS)
    address = await server.start()
    assert not address.endswith(":0")
    with pytest.raises(AddressError, match="in use"):
        await GrpcServer(Scheduler(), address).start()
    client = GrpcClient(address, settings=SETTINGS)
    await client.register_resource_manager(a_registration(), ResourceManager())
    await client.update_allocation(asks("a"))
    assert keys_of(await scheduler.allocations.first()) == ["a"]
    await client.aclose()
    await server.aclose()
