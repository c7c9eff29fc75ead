"""Fixtures for the two transports. Each contract test runs over both."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from muster_si.transport.grpc_client import GrpcClient
from muster_si.transport.grpc_server import GrpcServer
from muster_si.transport.inprocess import InProcessClient
from muster_si.transport.settings import TransportSettings
from tests.unit.contract.cores import CoreWire, Talk, a_core_wire
from tests.unit.contract.peers import SETTINGS, Client, ResourceManager, Scheduler, a_registration
from tests.unit.contract.proxy import Proxy


@dataclass(frozen=True, slots=True)
class Wire:
    """A scheduler, and clients of resource managers for it."""

    scheduler: Scheduler
    connect: Callable[[], Client]


@dataclass(slots=True)
class Socket:
    """A scheduler behind a unix socket, whose server the test can restart."""

    path: Path
    scheduler: Scheduler
    server: GrpcServer
    clients: list[GrpcClient]

    @property
    def address(self) -> str:
        return f"unix://{self.path}"

    def connect(self, address: str | None = None, settings: TransportSettings = SETTINGS) -> GrpcClient:
        self.clients.append(GrpcClient(address or self.address, settings=settings))
        return self.clients[-1]

    async def restart(self) -> None:
        """Restart the server with a new scheduler, like a new process."""
        await self.server.aclose()
        self.scheduler = Scheduler()
        self.server = GrpcServer(self.scheduler, self.address, settings=SETTINGS)
        await self.server.start()


async def registered(peer: Wire | Socket) -> tuple[Client, ResourceManager]:
    """Return a client and the resource manager that it has registered with the scheduler."""
    client, rm = peer.connect(), ResourceManager()
    await client.register_resource_manager(a_registration(), rm)
    return client, rm


@pytest.fixture
async def socket(tmp_path: Path) -> AsyncIterator[Socket]:
    path = tmp_path / "si.sock"
    scheduler = Scheduler()
    socket = Socket(path, scheduler, GrpcServer(scheduler, f"unix://{path}", settings=SETTINGS), [])
    await socket.server.start()
    yield socket
    for client in socket.clients:
        await client.aclose()
    await socket.server.aclose()


@pytest.fixture
async def proxy(socket: Socket, tmp_path: Path) -> AsyncIterator[Proxy]:
    proxy = Proxy(tmp_path / "proxy.sock", socket.path)
    await proxy.start()
    yield proxy
    await proxy.aclose()


@pytest.fixture
async def reported() -> AsyncIterator[list[str]]:
    """The errors reported to the event loop."""
    loop, messages = asyncio.get_running_loop(), list[str]()
    loop.set_exception_handler(lambda _, context: messages.append(context["message"]))
    yield messages
    loop.set_exception_handler(None)


@pytest.fixture
async def in_process() -> AsyncIterator[Wire]:
    scheduler, clients = Scheduler(), list[InProcessClient]()

    def connect() -> InProcessClient:
        clients.append(InProcessClient(scheduler))
        return clients[-1]

    yield Wire(scheduler, connect)
    for client in clients:
        await client.aclose()


@pytest.fixture(params=["inprocess", "grpc"])
def wire(request: pytest.FixtureRequest) -> Wire:
    if request.param == "inprocess":
        wire: Wire = request.getfixturevalue("in_process")
        return wire
    socket: Socket = request.getfixturevalue("socket")
    return Wire(socket.scheduler, socket.connect)


@pytest.fixture(params=["inprocess", "grpc"])
async def core_wire(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[CoreWire]:
    async with a_core_wire(request.param, tmp_path) as wire:
        yield wire


@pytest.fixture
async def talk(core_wire: CoreWire) -> Talk:
    """A resource manager that is registered with a core."""
    talk = Talk(core_wire.connect())
    await talk.register()
    return talk
