"""TCP connections need mutual authentication."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import pytest
import trustme

from muster_si import si_pb2_grpc
from muster_si.errors import AddressError, SessionLost
from muster_si.transport.credentials import TlsFiles
from muster_si.transport.grpc_client import GrpcClient
from muster_si.transport.grpc_server import GrpcServer
from tests.unit.contract.peers import SETTINGS, ResourceManager, Scheduler, a_registration, asks, keys_of

HASTY = replace(SETTINGS, register_timeout_s=0.25)


@dataclass(frozen=True, slots=True)
class Secured:
    """A scheduler on TCP, and the certificate authority that both sides trust."""

    scheduler: Scheduler
    address: str
    authority: trustme.CA
    folder: Path


def files(folder: Path, authority: trustme.CA, name: str, identity: str) -> TlsFiles:
    """Write the three files of one side."""
    issued = authority.issue_cert(identity)
    tls = TlsFiles(folder / f"{name}.crt", folder / f"{name}.key", folder / f"{name}.ca")
    issued.cert_chain_pems[0].write_to_path(str(tls.certificate))
    issued.private_key_pem.write_to_path(str(tls.key))
    authority.cert_pem.write_to_path(str(tls.authority))
    return tls


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[Secured]:
    authority, scheduler = trustme.CA(), Scheduler()
    tls = files(tmp_path, authority, "core", "localhost")
    server = GrpcServer(scheduler, "localhost:0", tls=tls, settings=SETTINGS)
    yield Secured(scheduler, await server.start(), authority, tmp_path)
    await server.aclose()


async def test_two_sides_with_certificates_of_one_authority_connect(secured: Secured) -> None:
    tls = files(secured.folder, secured.authority, "operator", "operator.muster")
    client = GrpcClient(secured.address, tls=tls, settings=SETTINGS)
    await client.register_resource_manager(a_registration(), ResourceManager())
    await client.update_allocation(asks("a"))
    assert keys_of(await secured.scheduler.allocations.first()) == ["a"]
    await client.aclose()


async def test_the_servers_name_may_differ_from_the_dialled_host(secured: Secured) -> None:
    tls = replace(files(secured.folder, secured.authority, "operator", "operator.muster"), server_name="localhost")
    client = GrpcClient(secured.address.replace("localhost", "127.0.0.1"), tls=tls, settings=SETTINGS)
    await client.register_resource_manager(a_registration(), ResourceManager())
    await client.aclose()


async def test_a_client_without_a_certificate_is_refused(secured: Secured) -> None:
    trusting = grpc.ssl_channel_credentials(root_certificates=secured.authority.cert_pem.bytes())
    async with grpc.aio.secure_channel(secured.address, trusting) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await si_pb2_grpc.SchedulerStub(channel).RegisterResourceManager(a_registration())
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert secured.scheduler.present == {}


async def test_a_client_of_another_authority_is_refused(secured: Secured) -> None:
    stranger = files(secured.folder, trustme.CA(), "stranger", "operator.muster")
    believing = replace(stranger, authority=secured.folder / "core.ca")
    client = GrpcClient(secured.address, tls=believing, settings=HASTY)
    with pytest.raises(SessionLost):
        await client.register_resource_manager(a_registration(), ResourceManager())
    await client.aclose()
    assert secured.scheduler.present == {}


async def test_a_server_of_another_authority_is_not_accepted(secured: Secured) -> None:
    stranger = files(secured.folder, trustme.CA(), "stranger", "operator.muster")
    client = GrpcClient(secured.address, tls=stranger, settings=HASTY)
    with pytest.raises(SessionLost, match="no scheduler answered"):
        await client.register_resource_manager(a_registration(), ResourceManager())
    await client.aclose()
    assert secured.scheduler.present == {}


async def test_a_plaintext_client_is_rejected(secured: Secured) -> None:
    client = GrpcClient(secured.address, settings=HASTY)
    with pytest.raises(SessionLost):
        await client.register_resource_manager(a_registration(), ResourceManager())
    await client.aclose()
    assert secured.scheduler.present == {}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    missing = TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt")
    with pytest.raises(AddressError, match=r"ca\.crt: .*No such file"):
        GrpcClient("core.muster.svc:9090", tls=missing)


def renew(folder: Path, authority: trustme.CA, name: str, identity: str) -> None:
    """Write the files of one side again with another authority, to the same paths."""
    for path in folder.glob(f"{name}.*"):
        path.unlink()
    files(folder, authority, name, identity)


async def test_both_sides_reload_replaced_certificates_and_authority(secured: Secured) -> None:
    tls = files(secured.folder, secured.authority, "operator", "operator.muster")
    client = GrpcClient(secured.address, tls=tls, settings=SETTINGS)
    await client.register_resource_manager(a_registration(), ResourceManager())
    replaced_by = trustme.CA()
    renew(secured.folder, replaced_by, "core", "localhost")
    await client.update_allocation(asks("a"))  # the open session continues
    assert keys_of(await secured.scheduler.allocations.first()) == ["a"]
    renew(secured.folder, replaced_by, "operator", "operator.muster")
    await client.register_resource_manager(a_registration(), ResourceManager())
    await client.aclose()


async def test_a_client_certificate_of_the_replaced_authority_is_rejected(secured: Secured) -> None:
    tls = files(secured.folder, secured.authority, "operator", "operator.muster")
    renew(secured.folder, trustme.CA(), "core", "localhost")
    client = GrpcClient(secured.address, tls=replace(tls, authority=secured.folder / "core.ca"), settings=HASTY)
    with pytest.raises(SessionLost):
        await client.register_resource_manager(a_registration(), ResourceManager())
    await client.aclose()
    assert secured.scheduler.present == {}


async def test_half_a_renewal_changes_nothing(secured: Secured) -> None:
    tls = files(secured.folder, secured.authority, "operator", "operator.muster")
    client = GrpcClient(secured.address, tls=tls, settings=SETTINGS)
    for name in ("core.key", "operator.key"):
        (secured.folder / name).unlink()
    await client.register_resource_manager(a_registration(), ResourceManager())
    await client.aclose()
