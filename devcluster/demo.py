"""``make demo``: shows a gang on a real API server, from its placeholders to its end.

Core and operator run as two processes connected by the unix socket. The operator has its own service account and role.
Exit code 0: the gang completed and nothing is left. 1: the output has the reason. KEEP=1 leaves everything running.
RECORD=file writes the observed events with their times, for the pictures of the documentation.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from rich.console import Console

from devcluster import flavour, kept, muster, signals
from devcluster.api import Json
from devcluster.audit import counts
from devcluster.cluster import Cluster, documents, running
from devcluster.demo_view import Progress, recording, summary
from devcluster.errors import ApiError, ConditionNotMet, DevclusterError
from devcluster.flavour import Flavour
from devcluster.fork_server import fork_server
from devcluster.gang import GangView
from devcluster.leftovers import leftovers
from devcluster.muster import Muster, Setup
from devcluster.nodes import FakeNode
from devcluster.waiting import until

EXAMPLE = Path(__file__).parents[1] / "examples" / "01-gang" / "gang.yaml"
NAMESPACE = "muster-demo"
NODES = [FakeNode(f"node-{index}", cpu="1", memory="4Gi") for index in range(8)]
"""Small nodes, so that the gang needs several of them. The output of the examples assumes them."""

RUN_FOR = {"devcluster.muster/run-for": "1s"}
"""Annotation that ends fake pods. With real kubelets the pause container never ends, so the demo deletes the Jobs."""

CONFIG = {
    "service.placeholderImage": "registry.k8s.io/pause:3.10.2",  # the image of the example, so one image is enough
    "service.placeholderRunAsUser": "65535",  # that image's user; kubelets reject an image that would run as root
    "service.completingTimeout": "1s",  # the state is checked after this time; the default is 30 s
}

CYCLE_S = 120.0
END_S = 60.0
SHOW_EVERY_S = 0.05


@dataclass(slots=True)
class Demo:
    """One run: the cluster, Muster, and the observed state of the gang."""

    cluster: Cluster
    muster: Muster
    fake: bool
    console: Console
    view: GangView = field(default_factory=GangView)
    applied_at: float = 0.0

    async def run(self) -> list[str]:
        """Run the gang from submission to its end. Returns what is left of it; empty on success."""
        mark = self.cluster.audit.mark() if self.fake else 0
        watching = asyncio.create_task(self._watch())
        try:
            with Progress(self.console, self.view) as progress:
                await self._apply()
                await self._see("every real pod replaced its placeholder", self._is_replaced, CYCLE_S, progress)
                if not self.fake:
                    await self._delete_jobs()
                await self._see("every real pod has completed", self._is_done, END_S, progress)
        finally:
            watching.cancel()
        left = await self._left_over()
        account = f"system:serviceaccount:{muster.NAMESPACE}:{muster.ACCOUNT}"
        writes = counts(self.cluster.audit.since(mark), account) if self.fake else None
        self.console.print(summary(self.view, self.applied_at, writes))
        _record(recording(self.view, self.applied_at, writes))
        return left

    async def _watch(self) -> None:
        async for kind, pod in self.cluster.admin.watch("pods", NAMESPACE):
            self.view.see(kind, pod, time.monotonic())

    async def _apply(self) -> None:
        self.applied_at = time.monotonic()
        for manifest in documents(EXAMPLE):
            if self.fake:
                manifest["spec"]["template"]["metadata"]["annotations"].update(RUN_FOR)
            await self.cluster.admin.create(manifest, NAMESPACE)

    async def _delete_jobs(self) -> None:
        for manifest in documents(EXAMPLE):
            await self.cluster.admin.delete("jobs", manifest["metadata"]["name"], NAMESPACE)

    async def _see(self, what: str, is_so: Callable[[], bool], deadline_s: float, progress: Progress) -> None:
        async def look() -> bool:
            progress.show()
            self.muster.core.check()
            self.muster.operator.check()
            return is_so()

        await until(what, look, deadline_s, every_s=SHOW_EVERY_S)

    def _is_replaced(self) -> bool:
        view = self.view
        return 0 < view.total("asked") <= min(view.total("bound"), view.total("replaced")) and view.total("left") == 0

    def _is_done(self) -> bool:
        return self.view.total("finished") >= self.view.total("asked")

    async def _left_over(self) -> list[str]:
        left: list[str] = []

        async def nothing() -> bool:
            left[:] = leftovers(await self.muster.dump())
            left.extend(f"placeholders of {name}: {c.left}" for name, c in self.view.groups.items() if c.left)
            return not left

        try:
            await until("nothing is left over", nothing, END_S, every_s=0.2)
        except ConditionNotMet:
            return left
        return []


async def main(console: Console, *, keep: bool) -> int:
    """Run the demo and return the exit code."""
    _stop_earlier_cluster(console)  # of this clone; those of other clones keep running
    which = await flavour.choose()
    fake = which is Flavour.LOCAL
    start = time.monotonic()
    console.print(f"cluster: {which}" + (f", {len(NODES)} fake nodes" if fake else ""))
    if not keep:
        for module in ("muster_core", "muster_operator"):
            fork_server(module)  # imports while the cluster starts
    async with running(which=which, keep=keep) as cluster:
        console.print(f"cluster is up after {time.monotonic() - start:.1f} s")
        async with environment(cluster, fake=fake, keep=keep) as processes, _namespace(cluster, keep=keep):
            console.print(f"core and operator are running, connected by {processes.socket}", soft_wrap=True)
            demo = Demo(cluster, processes, fake, console)
            try:
                left = await demo.run()
            except DevclusterError:
                console.print(processes.tails(), markup=False, highlight=False)
                raise
        if keep:
            await _keep(cluster, processes, console)
    for thing in left:
        console.print(f"left over: {thing}", style="red")
    console.print("nothing is left over" if not left else f"{len(left)} things are left over")
    return 1 if left else 0


@asynccontextmanager
async def environment(
    cluster: Cluster, *, fake: bool = True, keep: bool = False, folder: Path | None = None
) -> AsyncIterator[Muster]:
    """What ``KEEP=1 make demo`` leaves running: Muster with its account and the demo's settings, and the nodes.

    The tests of the documents use it too. The settings are defaults, as those of the chart: the reader of a document
    writes ``muster-configs``. Afterwards deletes account and settings unless ``keep``, and stops Muster unless ``keep``
    and the block succeeded. ``folder``: for Muster's socket and logs; the cluster's if None.
    """
    async with muster.installed(cluster, keep=keep), muster.configured(cluster, CONFIG, muster.DEFAULTS, keep=keep):
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


async def _keep(cluster: Cluster, processes: Muster, console: Console) -> None:
    kubeconfig = await cluster.admin_kubeconfig()
    kept.save(cluster.folder, kubeconfig, [*cluster.processes(), processes.core, processes.operator])
    console.print("still running; stop it with `.venv/bin/python -m devcluster down` in this clone")
    for variable, value in {"KUBECONFIG": kubeconfig, "MUSTER_SERVER": processes.rest_url}.items():
        console.print(f"export {variable}={value}", soft_wrap=True)


if __name__ == "__main__":
    output = Console()
    try:
        sys.exit(signals.run(main(output, keep=os.environ.get("KEEP", "") not in {"", "0"})))
    except (DevclusterError, aiohttp.ClientError) as problem:
        output.print(str(problem), style="red", markup=False, highlight=False)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
