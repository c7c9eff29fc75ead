"""One connection pool: shared, kept, and recreated only when certificates change."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import aiohttp
import pytest
import trustme
from aiohttp import web

from muster_operator.kube.http import named
from muster_operator.kube.session import KubeSession, Request
from muster_operator.model.errors import Unreachable
from muster_si import kubeconfig
from muster_si.kubeconfig import Access, Credentials, Tls
from tests.unit.operator.kube.apiserver import FixedCredentials


@dataclass
class Peer:
    """An HTTP peer that records its connections; `authority`: the signer of its certificate, None = plain HTTP."""

    authority: trustme.CA | None = None
    url: str = ""
    ports: list[int] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    context: ssl.SSLContext | None = None

    async def handle(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        self.ports.append(request.transport.get_extra_info("peername")[1])
        self.tokens.append(request.headers.get("Authorization", ""))
        self.agents.add(request.headers["User-Agent"])
        return web.json_response({"items": []}, status=401 if self.tokens[-1] in self.refused else 200)

    def present(self, authority: trustme.CA) -> None:
        """From the next handshake on, show a certificate of this authority."""
        assert self.context is not None
        authority.issue_cert("127.0.0.1").configure_cert(self.context)


@asynccontextmanager
async def serving(peer: Peer) -> AsyncIterator[Peer]:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", peer.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    if peer.authority is not None:
        peer.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        peer.present(peer.authority)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=peer.context).start()
    peer.url = f"http{'s' if peer.context else ''}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield peer
    finally:
        await runner.cleanup()


def filed(url: str, authority: Path) -> Credentials:
    """Credentials with the certificate authority in a file."""
    header = ("Authorization", "Bearer t")
    return Credentials(lambda: Access(url, Tls(str(authority)), (header,), files=(str(authority),)))


@dataclass
class Renewable:
    """A peer, a session that looks at its file of the authority each time, and another authority for both."""

    peer: Peer
    session: KubeSession
    file: Path
    other: trustme.CA = field(default_factory=trustme.CA)

    def renew_peer(self) -> None:
        self.peer.present(self.other)

    def renew_file(self) -> None:
        self.other.cert_pem.write_to_path(self.file)

    def another_session(self) -> KubeSession:
        return KubeSession(filed(self.peer.url, self.file))


@pytest.fixture
async def renewable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Renewable]:
    monkeypatch.setattr(kubeconfig, "CHECK_INTERVAL_S", -1.0)
    file, authority = tmp_path / "ca.crt", trustme.CA()
    authority.cert_pem.write_to_path(file)
    async with serving(Peer(authority)) as peer:
        session = KubeSession(filed(peer.url, file))
        yield Renewable(peer, session, file)
        await session.close()


async def a_stream(session: KubeSession) -> aiohttp.ClientResponse:
    """The response to a watch."""
    stream = (await session.send(Request("GET", "/api/v1/pods?watch=true", is_stream=True))).stream
    assert stream is not None
    return stream


async def test_requests_and_streams_share_one_connection() -> None:
    async with serving(Peer()) as peer:
        session = KubeSession(FixedCredentials(peer.url, ["t"]))
        await session.get("/api/v1/pods")
        async with await a_stream(session) as stream:
            await stream.read()
        await session.get("/api/v1/pods")
        await session.close()
    assert len(peer.ports) == 3
    assert len(set(peer.ports)) == 1
    assert peer.agents == {f"muster-operator/{version('muster-scheduler')}"}


async def test_a_new_token_is_sent_on_the_existing_connection() -> None:
    async with serving(Peer(refused={"Bearer old"})) as peer:
        session = KubeSession(FixedCredentials(peer.url, ["old", "new"]))
        await session.get("/api/v1/pods")
        await session.close()
    assert peer.tokens == ["Bearer old", "Bearer new"]
    assert len(set(peer.ports)) == 1


async def test_a_changed_certificate_authority_file_opens_new_connections(renewable: Renewable) -> None:
    session = renewable.session
    await session.get("/api/v1/pods")
    await session.get("/api/v1/pods")
    renewable.renew_peer()
    renewable.renew_file()
    await session.get("/api/v1/pods")
    first, second, third = renewable.peer.ports
    assert first == second != third


async def test_requests_in_flight_on_old_connections_finish(renewable: Renewable) -> None:
    session, path = renewable.session, renewable.file
    async with await a_stream(session) as response:
        path.write_bytes(path.read_bytes() + b"\n")
        await session.get("/api/v1/pods")
        assert await response.json() == {"items": []}


async def test_each_request_is_measured_by_verb_resource_and_status() -> None:
    measured: list[tuple[str, str, int]] = []
    async with serving(Peer()) as peer:
        credentials = FixedCredentials(peer.url, ["t"])
        session = KubeSession(credentials, measure=lambda verb, what, code, _: measured.append((verb, what, code)))
        await session.send(Request("POST", "/api/v1/namespaces/ns/pods/p/binding"))
        async with await a_stream(session):
            pass
        await session.close()
    assert measured == [("POST", "pods/binding", 200), ("WATCH", "pods", 200)]


@pytest.mark.parametrize(
    "method,path,expected",
    [
        ("GET", "/api/v1/pods?limit=500", ("LIST", "pods")),
        ("GET", "/api/v1/pods?watch=true&resourceVersion=7", ("WATCH", "pods")),
        ("GET", "/api/v1/namespaces", ("LIST", "namespaces")),
        ("GET", "/api/v1/namespaces/dev", ("GET", "namespaces")),
        ("GET", "/api/v1/namespaces/dev/pods/p", ("GET", "pods")),
        ("PATCH", "/api/v1/namespaces/dev/pods/p/status?fieldManager=muster", ("PATCH", "pods/status")),
        ("POST", "/apis/events.k8s.io/v1/namespaces/dev/events", ("POST", "events")),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/muster/leases/muster", ("PUT", "leases")),
        ("GET", "/api", ("GET", "discovery")),
        ("GET", "/apis/apps/v1", ("GET", "discovery")),
    ],
)
def test_the_metric_label_of_a_request_contains_no_object_name(
    method: str, path: str, expected: tuple[str, str]
) -> None:
    assert named(method, path) == expected


async def test_writes_keep_one_connection_and_use_a_new_token() -> None:
    async with serving(Peer(refused={"Bearer old"})) as peer:
        session = KubeSession(FixedCredentials(peer.url, ["old", "new"]))
        for _ in range(2):
            assert (await session.send(a_write())).status == 200
        await session.close()
    assert peer.tokens == ["Bearer old", "Bearer new", "Bearer new"]
    assert len(set(peer.ports)) == 1
    assert peer.agents == {f"muster-operator/{version('muster-scheduler')}"}


async def test_writes_use_new_connections_after_the_certificate_authority_changed(renewable: Renewable) -> None:
    session, late = renewable.session, renewable.another_session()
    await session.send(a_write())
    await session.send(a_write())
    renewable.renew_peer()
    with pytest.raises(Unreachable):
        await late.send(a_write())  # it trusts the old one
    await late.close()
    renewable.renew_file()
    assert (await session.send(a_write())).json() == {"items": []}
    first, second, third = renewable.peer.ports
    assert first == second != third


def a_write() -> Request:
    return Request("POST", "/api/v1/namespaces/ns/pods/p/binding", b"{}")


async def test_a_certificate_authority_that_cannot_be_loaded_is_no_answer_until_it_can(renewable: Renewable) -> None:
    """The file is read while it is written: OpenSSL raises an error that is neither a timeout nor of the connection."""
    session, complete = renewable.session, renewable.file.read_bytes()
    await session.send(Request("POST", "/api/v1/pods"))
    renewable.file.write_bytes(b"-----BEGIN CERTIFICATE-----\n!")
    with pytest.raises(Unreachable, match="SSLError"):
        await session.send(Request("POST", "/api/v1/pods"))
    renewable.file.write_bytes(complete)
    assert (await session.send(Request("POST", "/api/v1/pods"))).ok
