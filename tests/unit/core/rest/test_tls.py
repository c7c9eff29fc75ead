"""REST over TLS: with the certificate of its files, the new one when they change, the old one when they are broken."""

import asyncio
import os
import ssl
from pathlib import Path

import aiohttp
import pytest
import trustme

from muster_core.rest.auth import ServerContext, ServerTls
from muster_core.rest.server import RestServer, RestSettings, StartFailure
from tests.unit.core.conftest import Bench
from tests.unit.core.rest.conftest import Serve

AUTHORITY = trustme.CA()


def write(files: ServerTls, authority: trustme.CA, at: int) -> None:
    """A fresh certificate with that time on its files."""
    certificate = authority.issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(str(files.certificate))
    certificate.private_key_pem.write_to_path(str(files.key))
    for path in (files.certificate, files.key):
        os.utime(path, (at, at))


@pytest.fixture
def files(tmp_path: Path) -> ServerTls:
    made = ServerTls(tmp_path / "cert.pem", tmp_path / "key.pem")
    write(made, AUTHORITY, 1)
    return made


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_rest_is_served_over_tls(serve: Serve, files: ServerTls) -> None:
    http = await serve(RestSettings(port=0, tls=files))
    async with http.get("/livez", ssl=trusting(AUTHORITY)) as answer:
        assert answer.status == 200
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await http.get("/livez", ssl=trusting(trustme.CA()))


async def presented(context: ServerContext, authority: trustme.CA) -> bool:
    """Whether a new connection gets a certificate of that authority."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context.context)
    port = server.sockets[0].getsockname()[1]
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(authority))
        writer.close()
    except ssl.SSLCertVerificationError:
        return False
    finally:
        server.close()
    return True


async def test_a_renewed_certificate_is_loaded_and_a_broken_one_is_ignored(files: ServerTls) -> None:
    context, other = ServerContext(files), trustme.CA()
    assert not context.renew()
    write(files, other, 2)
    assert context.renew()
    assert await presented(context, other)
    await asyncio.to_thread(files.key.write_text, "broken")
    assert not context.renew()
    assert await presented(context, other)
    assert not await presented(context, AUTHORITY)


def test_invalid_certificate_files_fail_the_start(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(StartFailure, match="TLS: "):
        RestServer(bench.core, RestSettings(tls=ServerTls(tmp_path / "no", tmp_path / "no")))
