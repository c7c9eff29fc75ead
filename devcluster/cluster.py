"""The entry point of devcluster: ``async with running(fakes=[FakeNode("n1")]) as cluster``.

Every flavour of cluster provides the same: an administrator's client, kubeconfig files and fake nodes.
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
"""Lifetime of a service account token: longer than any test."""


class Cluster:
    """A running cluster. ``folder`` is deleted with it. ``plane`` is None except for the local flavour."""

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
        """The audit log. Raises FlavourUnavailable unless the flavour is local."""
        if self.plane is None:
            raise FlavourUnavailable("only the local control plane has an audit log")
        return AuditLog(self.plane.audit_log)

    async def kubeconfig_for(self, account: str, namespace: str, server: str | None = None) -> Path:
        """Write a kubeconfig with a new token of a service account. ``server`` is the URL of a proxy to use instead."""
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
        """Return the administrator's kubeconfig of the local flavour; otherwise the user's own."""
        if self.plane is not None:
            return self.plane.admin_kubeconfig
        return foreign.kubeconfig_path(self.folder)

    async def apply_file(self, path: Path, namespace: str | None = None) -> list[Json]:
        """Apply every document of a YAML file in order, with server-side apply."""
        return [await self.admin.apply(document, namespace) for document in documents(path)]

    async def add_nodes(self, fakes: Iterable[FakeNode]) -> None:
        """Create fake nodes and wait until they are Ready. The first call starts KWOK."""
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
        """Delete these fake nodes, or all fake nodes of this object. Other nodes are never deleted."""
        removed = self._fake if names is None else self._fake.intersection(names)
        await nodes.remove(self.admin, removed)
        self._fake = self._fake - set(removed)

    async def restart_apiserver(self) -> None:
        """Restart the API server on the same port. All watches end; the data stays."""
        if self.plane is None:
            raise FlavourUnavailable("only the API server of the local control plane can be restarted")
        await self.plane.apiserver.stop(grace_s=1.0)
        await self.plane.start_apiserver()

    def processes(self) -> list[Process]:
        """All processes of this cluster."""
        return [*(self.plane.processes() if self.plane else []), *([self._kwok] if self._kwok else [])]

    async def close(self) -> None:
        """Remove what devcluster created: the fake nodes of a foreign cluster, or the complete local cluster."""
        if self.plane is None:
            await self.remove_nodes()
        if self._kwok is not None:
            await self._kwok.stop(grace_s=1.0)
        await self.admin.__aexit__(None, None, None)
        if self.plane is not None:
            await self.plane.stop()


def documents(path: Path) -> list[Json]:
    """Return the objects of a YAML file in order."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


@asynccontextmanager
async def running(
    fakes: Iterable[FakeNode] = (),
    *,
    which: Flavour | None = None,
    keep: bool = False,
    readable: bool = False,
    gangs: bool = False,
    bare: bool = False,
) -> AsyncIterator[Cluster]:
    """Provide a cluster for the duration of the block.

    ``which``: None selects by ``MUSTER_CLUSTER``. ``keep``: leave everything
    running after a block that succeeded; ``kept`` can stop it. After a failed block everything is stopped.
    ``readable``, ``gangs`` and ``bare``: see ``ControlPlane``; only for the local flavour.
    """
    async with AsyncExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="muster-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        cluster = await _open(
            which or flavour.choose(), folder, stack, tethered=not keep, readable=readable, gangs=gangs, bare=bare
        )
        await cluster.add_nodes(fakes)
        yield cluster
        if keep:
            await cluster.admin.__aexit__(None, None, None)
            stack.pop_all()


async def _open(  # noqa: PLR0913 # the options of `running`
    which: Flavour,
    folder: Path,
    stack: AsyncExitStack,
    *,
    tethered: bool,
    readable: bool,
    gangs: bool,
    bare: bool,
) -> Cluster:
    if which is Flavour.LOCAL:
        plane = ControlPlane(folder, binaries.ensure(), tethered=tethered, readable=readable, gangs=gangs, bare=bare)
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
