"""Carries out the operations of a duel on a local control plane, for one scheduler at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle

from benchmarks.cluster import load
from benchmarks.cluster.benches import Contender
from benchmarks.cluster.load import CONCURRENT, SCHEDULER_NAMES, Progress
from benchmarks.cluster.schedulers import EMPTY_S, kind_of
from benchmarks.cluster.stage import CONFIG, SCHEDULER_WARM_UP, Stage, staged
from benchmarks.cluster.usage import Stopwatch
from benchmarks.duels.workloads import DUELS, Operation, operations, perf_folder
from devcluster.api import Api, Json, bind
from devcluster.cluster import running
from devcluster.errors import ApiError
from devcluster.flavour import Flavour
from devcluster.waiting import until

WARM_UP = "warm-up"
"""The namespace of the pods that a scheduler binds after its start."""
QUEUES = """
partitions:
  - name: default
    placementrules: [{name: tag, value: namespace, create: true}]
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: gang-preempt-0
            properties: {preemption.delay: 1s}
            resources: {guaranteed: {vcore: 400, memory: 3200Gi}}
"""
"""A queue per namespace. Muster preempts for a guarantee, so that the namespace of the preempting gangs has one."""
CLEARED = ("pods", "podgroups", "resourceclaims", "resourceclaimtemplates")


@dataclass(frozen=True, slots=True)
class DuelStage:
    """The cluster of one duel, with its nodes and namespaces."""

    name: str
    stage: Stage
    steps: Sequence[Operation]

    @property
    def _api(self) -> Api:
        return self.stage.cluster.admin

    async def run(self, contender: Contender) -> Json:
        """Measure the duel's pods with one scheduler, and delete all that is in a namespace.

        Raises NoProgress, ConditionNotMet or ProcessFailed. Then ``cleared`` must be called before the next run.
        """
        gangs = any(step.kind == "objects" and step.template.name.startswith("podgroup") for step in self.steps)
        watch = Stopwatch()
        if await self.stage.schedulers.change_to(kind_of(contender, gangs=gangs)) and contender is not Contender.FLOOR:
            await load.bound(self._api, WARM_UP, pods_of(_warm_up(), contender))
            await self._delete([WARM_UP])
        watch.end_phase("start")
        found: Json = {}
        for step in self.steps:
            if step.kind == "pods":
                bound = partial(self._bound, step.namespace, pods_of(step, contender), contender)
                if step.measured:
                    _, found = await self.stage.measured(self.name, bound, watch)
                else:
                    await bound()
            elif step.kind == "allocated claims":
                await _allocate(self._api, step.namespace)
            elif step.namespace:
                await created(self._api, step.manifests(), step.namespace)
            watch.end_phase(step.kind)
        await self._delete(_namespaces(self.steps))
        await self.stage.schedulers.wait_until_empty()
        watch.end_phase("delete")
        return found | {"phases_s": watch.phases}

    async def cleared(self) -> None:
        """Stop the scheduler and delete what is left of a failed run. Raises ConditionNotMet."""
        await self.stage.schedulers.stop()
        await self._delete(_namespaces(self.steps))

    async def _bound(self, namespace: str, pods: Sequence[Json], contender: Contender) -> Progress:
        if contender is not Contender.FLOOR:
            return await load.bound(self._api, namespace, pods)
        names = [node["metadata"]["name"] for node in await self._api.find("nodes")]
        binding = asyncio.create_task(bind_blindly(self._api, namespace, names))
        try:
            return await load.bound(self._api, namespace, pods)
        finally:
            binding.cancel()

    async def _delete(self, namespaces: Sequence[str]) -> None:
        """Delete all that runs create, and wait until it is gone: without kubelets, pods end only at once."""
        for namespace in namespaces:
            for plural in CLEARED:
                await until(
                    f"all {plural} are gone", partial(self._none, plural, namespace), EMPTY_S,
                    tolerate=(TimeoutError, ApiError),
                )  # fmt: skip

    async def _none(self, plural: str, namespace: str) -> bool:
        if not await self._api.find(plural, namespace, limit="1"):
            return True
        await self._api.delete_all(plural, namespace)
        return False


@asynccontextmanager
async def open_duel(name: str, *, quick: bool) -> AsyncIterator[DuelStage]:
    """Start a control plane for a duel, with its nodes, namespaces and objects without a namespace."""
    steps = operations(DUELS[name], perf_folder(), quick=quick)
    config = {**CONFIG, "queues.yaml": QUEUES, "kubernetes.deviceClaims": "true"}
    async with (
        running(which=Flavour.LOCAL, gangs=True, bare=True) as cluster,
        staged(cluster, config, quick=quick) as stage,
    ):
        for step in steps:
            if step.kind == "namespaces":
                await created(cluster.admin, map(_named(step), step.values["names"]))
        made = {found["metadata"]["name"] for found in await cluster.admin.find("namespaces")}
        await created(cluster.admin, (_namespace(missing) for missing in _namespaces(steps) if missing not in made))
        for step in steps:
            if step.kind == "nodes" or (step.kind == "objects" and not step.namespace):
                await created(cluster.admin, step.manifests())
        yield DuelStage(name, stage, steps)


async def created(api: Api, manifests: Iterable[Json], namespace: str | None = None) -> None:
    """Create objects, at most ``CONCURRENT`` at a time."""
    slots = asyncio.Semaphore(CONCURRENT)

    async def create(manifest: Json) -> None:
        async with slots:
            await api.create(manifest, namespace)

    await asyncio.gather(*map(create, manifests))


async def bind_blindly(api: Api, namespace: str, nodes: Sequence[str]) -> None:
    """Bind each pod of a namespace to the next node as soon as it exists: the floor of any scheduler."""
    targets, slots = cycle(nodes), asyncio.Semaphore(CONCURRENT)

    async def bind_one(name: str) -> None:
        async with slots:
            await bind(api, name, next(targets), namespace)

    async with asyncio.TaskGroup() as tasks:
        async for kind, pod in api.watch("pods", namespace):
            if kind == "ADDED" and not pod["spec"].get("nodeName"):
                tasks.create_task(bind_one(pod["metadata"]["name"]))


def pods_of(step: Operation, contender: Contender) -> list[Json]:
    """Return the pods of an operation with the name of their scheduler, which is all that differs."""
    found = list(step.manifests())
    for pod in found:
        pod["spec"]["schedulerName"] = SCHEDULER_NAMES.get(contender, "muster")
    return found


async def _allocate(api: Api, namespace: str) -> None:
    """Allocate a device to each claim of a namespace, evenly over the nodes."""
    slices = [found["spec"] for found in await api.find("resourceslices")]
    devices = [(found, device["name"]) for rank in zip(*(s["devices"] for s in slices), strict=True)
               for found, device in zip(slices, rank, strict=True)]  # fmt: skip
    claims = [claim["metadata"]["name"] for claim in await api.find("resourceclaims", namespace)]
    slots = asyncio.Semaphore(CONCURRENT)

    async def allocate(claim: str, spec: Json, device: str) -> None:
        result = {"request": "req-0", "driver": spec["driver"], "pool": spec["pool"]["name"], "device": device}
        field = {"key": "metadata.name", "operator": "In", "values": [spec["nodeName"]]}
        allocation = {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        }
        async with slots:
            await api.patch(
                "resourceclaims", claim, {"status": {"allocation": allocation}}, namespace, subresource="status"
            )

    await asyncio.gather(*(allocate(claim, *device) for claim, device in zip(claims, devices, strict=False)))


def _warm_up() -> Operation:
    return Operation("pods", WARM_UP, perf_folder() / "templates/pod-default.yaml", SCHEDULER_WARM_UP)


def _namespaces(steps: Sequence[Operation]) -> list[str]:
    return list(dict.fromkeys([WARM_UP, *(step.namespace for step in steps if step.namespace)]))


def _named(step: Operation) -> Callable[[str], Json]:
    """Return a function from a name to its namespace, by the operation's template if it has one."""
    labelled = next(step.manifests()) if step.template.is_file() else _namespace("")
    return lambda name: labelled | {"metadata": {**labelled["metadata"], "name": name}}


def _namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
