"""``make demo``: two gangs on a real API server. The second one waits until the first one ends (on fake nodes).

Core and operator run as two processes connected by the unix socket. The operator has its own service account and role.
Exit code 0: both gangs ran and nothing is left. 1: the output has the reason. KEEP=1 leaves the cluster running.
RECORD=file writes the observed events of the first gang with their times, for the pictures of the documentation, and
PLACEMENT=Reserve runs it in another placement than the default.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from rich.console import Console

from devcluster import binaries, flavour, kept, muster, programs, signals
from devcluster.api import Json
from devcluster.audit import counts
from devcluster.cluster import Cluster, documents, running
from devcluster.demo_view import Progress, recording
from devcluster.errors import ApiError, ConditionNotMet, DevclusterError
from devcluster.flavour import Flavour
from devcluster.fork_server import fork_server
from devcluster.gang import GangView
from devcluster.leftovers import leftovers
from devcluster.muster import Muster, Setup
from devcluster.nodes import FakeNode
from devcluster.waiting import until

FIRST = "examples/01-gang/gang.yaml"
SECOND = "examples/17-does-not-fit/second.yaml"
NAMESPACE = "muster-demo"
GANGS = {FIRST: "example-01-gang", SECOND: "second"}
"""The manifests, and the IDs of their applications."""
ID_LABELS = ("applicationId", "yunikorn.apache.org/app-id")
PARAMETERS = "yunikorn.apache.org/schedulingPolicyParameters"
NODES = [FakeNode(f"node-{index}", cpu="1", memory="4Gi") for index in range(8)]
"""Small nodes, so that the gang needs several of them. The output of the examples assumes them."""

CONFIG = {
    "service.placeholderImage": "registry.k8s.io/pause:3.10.2",  # the image of the example, so one image is enough
    "service.placeholderRunAsUser": "65535",  # that image's user; kubelets reject an image that would run as root
    "kubernetes.deviceClaims": "true",  # for the example of devices
    "service.completingTimeout": "1s",  # the state is checked after this time; the default is 30 s
}

NEXT = """
Next:
  KEEP=1 make demo   keep the cluster, for the examples in examples/README.md
  docs/README.md     all documents, from the first gang to production
"""
KEPT = """
The cluster keeps running. In this shell, and in others that use it:

export KUBECONFIG={kubeconfig}
export MUSTER_SERVER={server}
export PATH={path}:$PATH

Then try "muster status", "kubectl get nodes", and the examples in
examples/README.md. The web UI is at {server}/ui/.
To stop the cluster: .venv/bin/python -m devcluster down
"""
CYCLE_S = 120.0
END_S = 60.0
SHOW_EVERY_S = 0.05


@dataclass(slots=True)
class Demo:
    """One run: the cluster, Muster, and the observed state of both gangs. `fake`: the nodes are those of `NODES`."""

    cluster: Cluster
    muster: Muster
    fake: bool
    console: Console
    views: dict[str, GangView] = field(default_factory=lambda: {app: GangView() for app in GANGS.values()})
    applied_at: float = 0.0

    async def run(self) -> list[str]:
        """Run both gangs from submission to their end. Returns what is left of them; empty on success."""
        mark = self.cluster.audit.mark() if self.fake else 0
        watching = asyncio.create_task(self._watch())
        try:
            await self._first_gang_runs()
            if self.fake:  # the nodes of other clusters may have room for both
                await self._second_gang_waits()
                await self._second_gang_runs()
            else:
                await self._delete(FIRST)
        finally:
            watching.cancel()
        account = f"system:serviceaccount:{muster.NAMESPACE}:{muster.ACCOUNT}"
        writes = counts(self.cluster.audit.since(mark), account) if self.fake else None
        members = sum(view.total("asked") for view in self.views.values())
        if writes:
            each = sum(writes.values()) / members
            self._print(f"Muster wrote {each:.1f} times to the API server for each member.\n")
        if self.fake:
            await self._delete(SECOND)
        _record(recording(self.views[GANGS[FIRST]], self.applied_at, writes))
        return await self._left_over()

    async def _first_gang_runs(self) -> None:
        self._print("1. A gang of seven: a leader and six workers that run together or not at all", FIRST)
        self.applied_at = time.monotonic()
        await self._apply(FIRST)
        await self._bound(FIRST, self.applied_at)

    async def _second_gang_waits(self) -> None:
        self._print("2. A second gang does not fit next to it: none of its members starts", SECOND)
        await self._apply(SECOND)
        command = (sys.executable, "-m", "muster", "explain", GANGS[SECOND], "-n", NAMESPACE)
        env = os.environ | {"MUSTER_SERVER": self.muster.rest_url}

        async def is_explained() -> bool:
            asked = await asyncio.to_thread(
                subprocess.run, (*command, "-o", "json"), env=env, capture_output=True, text=True, check=False
            )
            return asked.returncode == 0 and any(reason["nodes"] for reason in json.loads(asked.stdout)["reasons"])

        await until("muster explain has a reason", is_explained, CYCLE_S, every_s=0.2)
        self.console.print(f"$ muster explain {GANGS[SECOND]}", style="bold", highlight=False)
        self.console.file.flush()
        await asyncio.to_thread(subprocess.run, command, env=env, check=False)
        self.console.print()

    async def _second_gang_runs(self) -> None:
        self._print("3. The first gang ends: the second one starts completely")
        self.console.print(f"$ kubectl delete -f {FIRST}", style="bold", highlight=False)
        await self._delete(FIRST)
        await self._bound(SECOND, time.monotonic())

    def _print(self, title: str, manifest: str = "") -> None:
        self.console.print(title, highlight=False, soft_wrap=True)
        if manifest:
            self.console.print(f"$ kubectl apply -f {manifest}", style="bold", highlight=False)

    async def _watch(self) -> None:
        async for kind, pod in self.cluster.admin.watch("pods", NAMESPACE):
            labels = pod["metadata"].get("labels") or {}
            for app in filter(None, map(labels.get, ID_LABELS)):
                if app in self.views:
                    self.views[app].see(kind, pod, time.monotonic())

    async def _apply(self, manifest: str) -> None:
        for job in documents(kept.CLONE / manifest):
            if manifest == FIRST and (placement := os.environ.get("PLACEMENT")):
                job["spec"]["template"]["metadata"]["annotations"][PARAMETERS] += f" gangPlacement={placement}"
            await self.cluster.admin.create(job, NAMESPACE)

    async def _delete(self, manifest: str) -> None:
        for job in documents(kept.CLONE / manifest):
            await self.cluster.admin.delete("jobs", job["metadata"]["name"], NAMESPACE)

    async def _bound(self, manifest: str, since: float) -> None:
        """Show the gang until all its members are bound and no placeholder is left."""
        view = self.views[GANGS[manifest]]
        with Progress(self.console, view) as progress:

            async def look() -> bool:
                progress.show()
                self.muster.core.check()
                self.muster.operator.check()
                return 0 < view.total("asked") <= view.total("bound") and view.total("left") == 0

            await until("all members are bound", look, CYCLE_S, every_s=SHOW_EVERY_S)
        self._print(f"All {view.total('asked')} members are bound after {time.monotonic() - since:.1f} s.\n")

    async def _left_over(self) -> list[str]:
        left: list[str] = []

        async def nothing() -> bool:
            left[:] = leftovers(await self.muster.dump())
            for app, view in self.views.items():
                left.extend(f"placeholders of {app}/{name}: {c.left}" for name, c in view.groups.items() if c.left)
            return not left

        try:
            await until("nothing is left over", nothing, END_S, every_s=0.2)
        except ConditionNotMet:
            return left
        return []


async def main(console: Console, *, keep: bool) -> int:
    """Run the demo and return the exit code."""
    if keep:
        _stop_earlier_cluster(console)  # of this clone; those of other clones keep running
    which = flavour.choose()
    fake = which is Flavour.LOCAL
    kubectl = shutil.which("kubectl") or (str(binaries.ensure([programs.KUBECTL], console)["kubectl"]) if keep else "")
    start = time.monotonic()
    if not keep:
        for module in ("muster_core", "muster_operator"):
            fork_server(module)  # imports while the cluster starts
    async with running(which=which, keep=keep) as cluster:
        nodes = f"a Kubernetes API server with {len(NODES)} simulated nodes of 1 CPU" if fake else f"cluster {which}"
        console.print(f"Started {nodes} in {time.monotonic() - start:.1f} s.", highlight=False, soft_wrap=True)
        async with environment(cluster, fake=fake, keep=keep) as processes, _namespace(cluster, keep=keep):
            console.print("Started Muster: its core and its operator.\n", highlight=False)
            demo = Demo(cluster, processes, fake, console)
            try:
                left = await demo.run()
            except DevclusterError:
                console.print(processes.tails(), markup=False, highlight=False)
                raise
            for thing in left:
                console.print(f"left over: {thing}", style="red")
            console.print(f"{len(left) or 'No'} pods or reservations are left over.", highlight=False)
        if keep:
            await _keep(cluster, processes, console, kubectl)
    if not keep:
        console.print(NEXT, soft_wrap=True, highlight=False, markup=False)
    return 1 if left else 0


@asynccontextmanager
async def environment(
    cluster: Cluster,
    *,
    fake: bool = True,
    keep: bool = False,
    folder: Path | None = None,
    config: Mapping[str, str] = CONFIG,
) -> AsyncIterator[Muster]:
    """What ``KEEP=1 make demo`` leaves running: Muster with its account and the demo's settings, and the nodes.

    The tests of the documents use it too. The settings are defaults, as those of the chart: the reader of a document
    writes ``muster-configs``. Afterwards deletes account and settings unless ``keep``, and stops Muster unless ``keep``
    and the block succeeded. ``folder``: for Muster's socket and logs; the cluster's if None.
    """
    async with muster.installed(cluster, keep=keep), muster.configured(cluster, config, muster.DEFAULTS, keep=keep):
        account = await cluster.kubeconfig_for(muster.ACCOUNT, muster.NAMESPACE)
        processes = Muster(Setup(account, folder or cluster.folder, tethered=not keep, preloaded=not keep))
        done = False
        try:
            await asyncio.gather(processes.start(), cluster.add_nodes(NODES if fake else []))
            yield processes
            done = True
        finally:
            if not (keep and done):
                await processes.stop()


@asynccontextmanager
async def _namespace(cluster: Cluster, *, keep: bool) -> AsyncIterator[None]:
    """Create a namespace for the gang and wait for the service account that its pods need."""
    await cluster.admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    await until(
        "the namespace has its service account",
        lambda: cluster.admin.get("serviceaccounts", "default", NAMESPACE),
        END_S,
        tolerate=(ApiError,),
    )
    try:
        yield
    finally:
        if not keep:
            await cluster.admin.delete("namespaces", NAMESPACE)


def _record(seen: Json) -> None:
    """Write the recording if RECORD is set."""
    if file := os.environ.get("RECORD"):
        Path(file).write_text(json.dumps(seen, indent=1) + "\n")


def _stop_earlier_cluster(console: Console) -> None:
    """Stop the kept cluster of this clone, because one cluster is recorded for each clone."""
    old = kept.load()
    if old is not None:
        console.print("stopping the earlier cluster of this clone")
        kept.stop(old)


async def _keep(cluster: Cluster, processes: Muster, console: Console, kubectl: str) -> None:
    kubeconfig = await cluster.admin_kubeconfig()
    kept.save(cluster.folder, kubeconfig, [*cluster.processes(), processes.core, processes.operator])
    folders = [str(kept.CLONE / ".venv" / "bin"), *([] if shutil.which("kubectl") else [str(Path(kubectl).parent)])]
    lines = KEPT.format(kubeconfig=kubeconfig, server=processes.rest_url, path=":".join(folders))
    console.print(lines, soft_wrap=True, highlight=False, markup=False)


if __name__ == "__main__":
    output = Console()
    try:
        sys.exit(signals.run(main(output, keep=os.environ.get("KEEP", "") not in {"", "0"})))
    except (DevclusterError, aiohttp.ClientError) as problem:
        output.print(str(problem), style="red", markup=False, highlight=False)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
