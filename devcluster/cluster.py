"""The door of this tool: ``async with running(fakes=[FakeNode("n1")]) as cluster``.

Whatever stands behind it, the caller gets the same: an administrator's client, kubeconfig files, fake nodes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import yaml

from devcluster import binaries, flavour, foreign, kind, kubeconfig, kwok, nodes, programs
from devcluster.api import Access, Api, Json
from devcluster.audit import AuditLog
from devcluster.controlplane import ControlPlane
from devcluster.errors import FlavourUnavailable
from devcluster.flavour import Flavour
from devcluster.nodes import FakeNode
from devcluster.process import Process

TOKEN_S = 24 * 3600
"""Life of a service account's token: longer than any test, shorter than a forgotten cluster."""


class Cluster:
    """A running cluster. ``folder`` is its own and goes with it; ``plane`` is there only for the local flavour."""

    def __init__(
        self, folder: Path, access: Access, authority: Path, plane: ControlPlane | None, *, tethered: bool
    ) -> None:
        self.folder = folder
        self.admin = Api(access)
        self.authority = authority
        self.plane = plane
        self._tethered = tethered
        self._kwok: Process | None = None
        self._fake: set[str] = set()

    @property
    def server(self) -> str:
        """URL of the API server."""
        return self.admin.access.server

    @property
    def audit(self) -> AuditLog:
        """What was written so far; raises FlavourUnavailable where the API server is not ours."""
        if self.plane is None:
            raise FlavourUnavailable("only the local control plane keeps an audit log for us")
        return AuditLog(self.plane.audit_log)

    async def kubeconfig_for(self, account: str, namespace: str, server: str | None = None) -> Path:
        """A kubeconfig with a fresh token of this service account; ``server``: a proxy to go through instead."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        ask: Json = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_S},
        }
        token: str = (await self.admin.request("POST", path, ask))["status"]["token"]
        through = "" if server is None else "-proxied"
        file = self.folder / f"{namespace}-{account}{through}.kubeconfig"
        return kubeconfig.write(file, kubeconfig.document(server or self.server, str(self.authority), token, namespace))

    async def admin_kubeconfig(self) -> Path:
        """The administrator's kubeconfig of the local flavour; elsewhere the user's own one."""
        if self.plane is not None:
            return self.plane.admin_kubeconfig
        return foreign.kubeconfig_path(self.folder)

    async def apply_file(self, path: Path, namespace: str | None = None) -> list[Json]:
        """Server-side apply of every document of a YAML file, in its order."""
        return [await self.admin.apply(document, namespace) for document in documents(path)]

    async def add_nodes(self, fakes: Iterable[FakeNode]) -> None:
        """Create fake nodes and wait until they are Ready; starts KWOK the first time."""
        fakes = list(fakes)
        if not fakes:
            return
        if self._kwok is None:
            program = binaries.ensure([programs.KWOK])["kwok"]
            log = self.folder / "logs" / "kwok.log"
            self._kwok = kwok.process(program, await self.admin_kubeconfig(), log, tethered=self._tethered)
            self._kwok.start()
        self._fake.update(fake.name for fake in fakes)
        await nodes.add(self.admin, fakes)
        self._kwok.check()

    async def remove_nodes(self, names: Iterable[str] | None = None) -> None:
        """Delete these fake nodes, or all that we made; never a node of somebody else."""
        gone = self._fake if names is None else self._fake.intersection(names)
        await nodes.remove(self.admin, gone)
        self._fake = self._fake - set(gone)

    async def restart_apiserver(self) -> None:
        """Stop the API server and start it again on the same port: every watch breaks, nothing is lost."""
        if self.plane is None:
            raise FlavourUnavailable("only our own API server is ours to restart")
        await self.plane.apiserver.stop(grace_s=1.0)
        await self.plane.start_apiserver()

    def processes(self) -> list[Process]:
        """Every process that runs for this cluster."""
        return [*(self.plane.processes() if self.plane else []), *([self._kwok] if self._kwok else [])]

    async def close(self) -> None:
        """Take away what we made: in a foreign cluster the fake nodes, at home everything."""
        if self.plane is None:
            await self.remove_nodes()
        if self._kwok is not None:
            await self._kwok.stop(grace_s=1.0)
        await self.admin.__aexit__(None, None, None)
        if self.plane is not None:
            await self.plane.stop()


def documents(path: Path) -> list[Json]:
    """The objects of a YAML file, in their order."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


@asynccontextmanager
async def running(
    fakes: Iterable[FakeNode] = (),
    *,
    which: Flavour | None = None,
    keep: bool = False,
    readable: bool = False,
    gangs: bool = False,
) -> AsyncIterator[Cluster]:
    """A cluster for the length of the block.

    ``which``: None lets ``MUSTER_CLUSTER`` and the machine choose. ``keep``: leave everything running after a block
    that ended well; ``state`` then knows how to stop it. A block that fails is cleaned up in any case. ``readable``,
    ``gangs``: see ``ControlPlane``; only of the local flavour.
    """
    async with AsyncExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="muster-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        cluster = await _open(
            which or await flavour.choose(), folder, stack, tethered=not keep, readable=readable, gangs=gangs
        )
        await cluster.add_nodes(fakes)
        yield cluster
        if keep:
            await cluster.admin.__aexit__(None, None, None)
            stack.pop_all()


async def _open(
    which: Flavour, folder: Path, stack: AsyncExitStack, *, tethered: bool, readable: bool, gangs: bool
) -> Cluster:
    if which is Flavour.LOCAL:
        plane = ControlPlane(folder, binaries.ensure(), tethered=tethered, readable=readable, gangs=gangs)
        stack.push_async_callback(plane.stop)
        await plane.start()
        cluster = Cluster(folder, plane.access, plane.authority.file, plane, tethered=tethered)
    else:
        if which is Flavour.KIND:
            await kind.ensure(folder / foreign.OWN_FILE, stack)
        access, authority = await foreign.connect(folder)
        cluster = Cluster(folder, access, authority, None, tethered=tethered)
    stack.push_async_callback(cluster.close)
    return cluster
