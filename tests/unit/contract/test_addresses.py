"""The socket is private, a stale one is replaced, one in use is not, and plaintext is limited to this machine."""

import stat
from pathlib import Path
from socket import AF_UNIX
from socket import socket as os_socket

import pytest

from muster_si.errors import AddressError
from muster_si.transport.grpc_client import GrpcClient
from muster_si.transport.grpc_server import GrpcServer
from tests.unit.contract.conftest import SETTINGS, Socket
from tests.unit.contract.peers import ResourceManager, Scheduler, a_registration, asks, keys_of


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
