"""A real core with REST, and a resource manager that reports a small cluster over the Scheduler Interface.

The resource manager confirms what the core orders, as the operator does when Kubernetes has done it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from muster_core.main import install_extensions
from muster_core.model.records import Change, Detail, EventRecorded, Notice
from muster_core.rest.auth import OPEN_READS, AccessSettings
from muster_core.rest.server import RestServer, RestSettings
from muster_core.runtime.journal import Journal
from muster_core.runtime.loop import LoopSettings
from muster_core.runtime.service import Scheduler
from muster_si import keys, muster_pb2, si_pb2
from tests.unit.core import messages
from tests.unit.core.messages import RM, a_resource

GPU: Final = "nvidia.com/gpu"
GI: Final = 2**30
#: Requests of one pod.
SMALL: Final = {"vcore": 100}

QUEUES: Final = """
partitions:
  - name: default
    preemption: {enabled: true}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: research
            parent: true
            resources: {guaranteed: {vcore: 64, memory: 256Gi}, max: {vcore: 120, memory: 480Gi, nvidia.com/gpu: 16}}
            queues:
              - name: training
                resources: {guaranteed: {vcore: 48, nvidia.com/gpu: 8}, max: {vcore: 96, nvidia.com/gpu: 16}}
                limits:
                  - {limit: "", users: [ada], maxresources: {vcore: 96, nvidia.com/gpu: 16}, maxapplications: 10}
              - name: notebooks
                resources: {max: {vcore: 8, memory: 64Gi}}
                limits:
                  - {limit: "", groups: [staff], maxresources: {vcore: 8}}
          - name: batch
            parent: true
            queues:
              - name: nightly
                resources: {guaranteed: {vcore: 16}}
                maxapplications: 4
              - name: reports
          - name: default
"""


@dataclass(slots=True)
class LiveCore:
    """A running core, its REST port, and the resource manager. `confirms`: whether it confirms releases."""

    core: Scheduler
    port: int = 0
    confirms: bool = True
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    # --- ResourceManagerCallback ---

    def update_allocation(self, response: si_pb2.AllocationResponse) -> None:
        """Confirms the releases that the core orders."""
        orders = [*response.released]
        if orders and self.confirms:
            task = asyncio.get_running_loop().create_task(self._confirm(orders))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _confirm(self, orders: Iterable[si_pb2.AllocationRelease]) -> None:
        await self.core.update_allocation(messages.releases(*orders))

    def update_application(self, response: si_pb2.ApplicationResponse) -> None:
        """Nothing to confirm."""

    def update_node(self, response: si_pb2.NodeResponse) -> None:
        """Nothing to confirm."""

    def call_back(self, callback: muster_pb2.Callback) -> None:
        """Nothing to confirm."""

    def session_lost(self, reason: str) -> None:
        """The test ends."""

    # --- what a test changes ---

    async def idle(self) -> None:
        """Wait until the core has handled all messages and run its cycles."""
        await self.core.barrier(muster_pb2.BarrierRequest(rmID=RM))
        while self.tasks or self.core.loop._unfinished:  # noqa: ASYNC110 - nothing signals this state
            await asyncio.sleep(0)

    async def register(self, queues: str = QUEUES) -> None:
        """Connect with these queues."""
        extra = {"queues.yaml": queues, keys.EXTRA_COMPLETING_TIMEOUT: "1s"}
        build = {"buildVersion": "0.1.0"}
        request = si_pb2.RegisterResourceManagerRequest(
            rmID=RM, version="1.0.0", config=queues, extraConfig=extra, buildInfo=build
        )
        await self.core.register_resource_manager(request, self)

    async def nodes(self, count: int, *, racks: int = 4, gpus: int = 0, prefix: str = "node") -> None:
        """Add nodes with topology labels."""
        made = [a_node(f"{prefix}-{number:02}", f"rack-{number * racks // count + 1}", gpus) for number in range(count)]
        for start in range(0, count, 500):
            await self.core.update_node(messages.nodes(*made[start : start + 500]))

    async def application(self, name: str, queue: str, *details: Any, **more: Any) -> None:
        """Submit an application (`an_application`)."""
        await self.submit([an_application(name, queue, *details, **more)])

    async def submit(self, found: Sequence[Submission]) -> None:
        """Submit applications, many with one message."""
        for start in range(0, len(found), 500):
            part = found[start : start + 500]
            await self.core.update_application(messages.applications(*(new for new, _ in part)))
            await self.core.update_allocation(messages.asks(*(ask for _, asks in part for ask in asks)))

    async def foreign(self, node: str, **size: int) -> None:
        """Report a pod of another scheduler."""
        tags = {keys.TAG_FOREIGN: "default", keys.TAG_NAMESPACE: "kube-system", keys.TAG_POD_NAME: f"agent-{node}"}
        item = messages.an_allocation(
            f"foreign-{node}", applicationID="", nodeID=node, resourcePerAlloc=a_resource(**size), allocationTags=tags
        )
        await self.core.update_allocation(messages.allocations(item))

    async def end(self, name: str, namespace: str = "team-a") -> None:
        """End all pods of an application."""
        partition = next(iter(self.core.loop.scheduler_state.partitions.values()))
        app = next(app for app in partition.applications.values() if app.name == name)
        ended = [
            messages.a_release(item.spec.key, applicationID=app.id, allocationID=item.id, partitionName="default")
            for item in app.allocations.values()
        ]
        await self.core.update_allocation(messages.releases(*ended))


#: An application and its requests.
Submission = tuple[si_pb2.AddApplicationRequest, list[si_pb2.AllocationAsk]]


def an_application(
    name: str,
    queue: str,
    pods: int = 1,
    size: Mapping[str, int] = SMALL,
    *,
    namespace: str = "team-a",
    user: str = "ada",
    gang: int = 0,
    ago_s: int = 0,
    style: str = "Soft",
    tags: Mapping[str, str] | None = None,
) -> Submission:
    """An application with pods of this size; `gang`: of so many members, of which `pods` exist."""
    at = str(int(time.time()) - ago_s)
    each = a_resource(**{"pods": 1, **size})
    total = {key: value.value * gang for key, value in each.resources.items()}
    app_tags = {
        keys.APP_TAG_NAMESPACE: namespace,
        keys.APP_TAG_CREATION_TIME: at,
        keys.APP_TAG_APPLICATION_ID: name,
        keys.APP_TAG_GANG_PLACEMENT: keys.PLACEMENT_RESERVE,
        **(tags or {}),
    }
    app_id = f"{namespace}/{name}"
    new = messages.an_application(
        app_id, queueName=queue, tags=app_tags, ugi=si_pb2.UserGroupInformation(user=user, groups=["staff"])
    )
    if gang:
        new.placeholderAsk.CopyFrom(a_resource(**total))
        new.gangSchedulingStyle = style
        new.executionTimeoutMilliSeconds = 900_000
    prefix = {"tg": "tg-workers-", "pod": ""}
    asks = [
        messages.an_ask(
            f"{app_id}-{kind}-{number}",
            applicationID=app_id,
            resourceAsk=each,
            taskGroupName="workers" if gang else "",
            placeholder=kind == "tg",
            Originator=kind == "pod" and number == 0,
            tags={
                keys.TAG_NAMESPACE: namespace,
                keys.TAG_POD_NAME: f"{name}-{prefix[kind]}{number}",
                keys.TAG_CREATION_TIME: at,
                **(tags or {}),
            },
        )
        for kind, count in (("tg", gang), ("pod", pods))
        for number in range(count)
    ]
    return new, asks


def a_node(name: str, rack: str, gpus: int) -> si_pb2.NodeInfo:
    """A node of 16 CPUs and 64 Gi with labels."""
    room = {"vcore": 16_000, "memory": 64 * GI, "pods": 110, **({GPU: gpus} if gpus else {})}
    labels = {
        "topology.kubernetes.io/zone": "zone-a",
        "topology.example.com/rack": rack,
        "kubernetes.io/hostname": name,
    }
    attributes = {keys.HOST_NAME: name} | {keys.NODE_LABEL_PREFIX + key: value for key, value in labels.items()}
    return messages.a_node(name, schedulableResource=a_resource(**room), attributes=attributes)


@asynccontextmanager
async def running(
    access: AccessSettings = OPEN_READS, *, port: int = 0, journal: BinaryIO | None = None
) -> AsyncIterator[LiveCore]:
    """Run a core with REST on loopback and nothing in it."""
    install_extensions()
    core = Scheduler(LoopSettings(), journal=Journal(journal) if journal else None)
    live = LiveCore(core)
    loop = asyncio.create_task(core.run())
    server = RestServer(core, RestSettings(port=port, access=access, journal=journal))
    live.port = await server.start()
    try:
        yield live
    finally:
        await server.stop()
        core.close()
        await loop


async def fill(live: LiveCore) -> None:
    """A day in a small cluster: gangs that run and wait, quotas that are full, and applications that ended."""
    await live.register()
    await live.nodes(12, gpus=4)
    for number in range(12):
        await live.foreign(f"node-{number:02}", vcore=500, memory=GI, pods=1)
    big = {"vcore": 8_000, "memory": 32 * GI, GPU: 2}
    await live.application("llm-pretrain", "root.research.training", 4, big, gang=4, ago_s=5_400)
    await live.idle()
    sweep = {"vcore": 4_000, "memory": 8 * GI}
    await live.application("vision-sweep", "root.research.training", 4, sweep, user="grace", ago_s=3_300)
    await live.idle()
    await live.application("llm-finetune", "root.research.training", 6, big, gang=6, ago_s=840)
    await live.idle()
    notebook = {"vcore": 2_000, "memory": 6 * GI}
    for number, user in enumerate(("kim", "lee", "ada", "kim", "lee")):
        name, ago_s = f"notebook-{number}", 2_000 - 60 * number
        await live.application(name, "root.research.notebooks", 1, notebook, namespace="team-b", user=user, ago_s=ago_s)
    etl = {"vcore": 6_000, "memory": 8 * GI}
    for number in range(3):
        name, ago_s = f"etl-{number}", 900 - 40 * number
        await live.application(name, "root.batch.nightly", 3, etl, namespace="data", user="kim", ago_s=ago_s)
    await live.idle()
    report = {"vcore": 24_000, "memory": 8 * GI}
    await live.application("quarterly-report", "root.batch.reports", 2, report, namespace="data", user="lee", ago_s=400)
    backfill = {"vcore": 14_000, "memory": 20 * GI}
    await live.application("backfill", "root.batch.nightly", 4, backfill, namespace="data", user="grace", ago_s=300)
    await live.application("lost", "root.research", namespace="data", user="lee", ago_s=90)
    await live.application("smoke-test", "root.default", namespace="muster", ago_s=60)
    await live.idle()
    preempted = EventRecorded(
        RM,
        Notice.QUEUE,
        "root.research.training",
        "2 allocations are preempted",
        "team-a/llm-finetune",
        Change.SET,
        Detail.QUEUE_PREEMPTION,
        app_name="llm-finetune",
    )
    live.core.events.add([preempted], time.time_ns())
