"""Measures the core from request message to response message: decoding, placement, encoding and event records.

    .venv/bin/python -m benchmarks edge

The work is that of core_placement, as messages of the Scheduler Interface: AllocationRequests of 100 asks in,
AllocationResponses out at the callback, including the loop, its inbox, metrics and the event store. The asks have the
content that the operator sends: name, namespace, labels and image. `edge/decode` measures only the decoder,
`edge/whole` everything, both per CPU second. The transport is not included; the family `si` measures it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog
import uvloop

from benchmarks.core_placement import APPLICATIONS, timed
from benchmarks.figures import Figure, Options
from muster_core.model.ids import RmId
from muster_core.runtime.service import Scheduler
from muster_core.runtime.sessions import Decoder
from muster_si import keys, muster_pb2, si_pb2

RM: Final = "benchmark"
#: Asks per message.
MESSAGE: Final = 100
NODES: Final = 5_000
QUEUES: Final = (
    "partitions: [{name: default, placementrules: [{name: provided, create: true}], "
    "queues: [{name: root, submitacl: '*'}]}]"
)


class Listener:
    """A resource manager that counts responses: `done` after `expected` allocations, `ready` after all applications."""

    def __init__(self, expected: int) -> None:
        self.ready, self.done = asyncio.Event(), asyncio.Event()
        self._missing, self._applications = expected, APPLICATIONS

    def update_allocation(self, response: si_pb2.AllocationResponse) -> None:
        """Count the items."""
        self._missing -= len(response.new)
        if not self._missing:
            self.done.set()

    def update_application(self, response: si_pb2.ApplicationResponse) -> None:
        """Count the items."""
        self._applications -= len(response.accepted)
        if not self._applications:
            self.ready.set()

    def update_node(self, response: si_pb2.NodeResponse) -> None:
        """Nothing to do."""

    def call_back(self, callback: muster_pb2.Callback) -> None:
        """Nothing to do."""

    def session_lost(self, reason: str) -> None:
        """Ignore the end of the session."""


def requests(asks: int) -> list[si_pb2.AllocationRequest]:
    """Return the requests: applications alternate, with 100 asks per message."""
    return [
        si_pb2.AllocationRequest(rmID=RM, asks=map(an_ask, range(start, min(start + MESSAGE, asks))))
        for start in range(0, asks, MESSAGE)
    ]


def an_ask(number: int) -> si_pb2.AllocationAsk:
    """Return the ask that the operator sends for a pod with one image and three labels."""
    app = number % APPLICATIONS
    amounts = {"vcore": 100, "memory": 50 << 20, "pods": 1}
    tags = {
        keys.TAG_POD_NAME: f"pod-{number}",
        keys.TAG_NAMESPACE: "benchmark",
        keys.TAG_CREATION_TIME: "1790000000",
        keys.TAG_PREFERENCES: '{"images":["docker.io/library/pause:latest"]}',
        **{f"{keys.TAG_POD_LABEL_PREFIX}{label}": f"app-{app}" for label in ("app", "applicationId", "team")},
    }
    return si_pb2.AllocationAsk(
        allocationKey=f"{number:036d}",
        applicationID=f"app-{app}",
        partitionName="default",
        resourceAsk=si_pb2.Resource(resources={name: si_pb2.Quantity(value=amounts[name]) for name in amounts}),
        maxAllocations=1,
        tags=tags,
    )


def decoded(asks: int) -> float:
    """Return decoded asks per CPU second."""
    decoder = Decoder(RmId(RM), ["default"])
    messages = requests(asks)
    return asks / timed(lambda: [decoder.allocations.read(message) for message in messages])


def whole(asks: int, nodes: int = NODES) -> float:
    """Return allocations per CPU second, from message to message."""
    quiet()
    return asks / uvloop.run(_whole(asks, nodes))


def quiet() -> None:
    """Log only errors."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


async def _whole(asks: int, nodes: int) -> float:
    scheduler, listener = Scheduler(), Listener(asks)
    running = asyncio.create_task(scheduler.run())
    await register(scheduler, listener, [a_node(number) for number in range(nodes)])
    messages = requests(asks)
    gc.collect()
    gc.freeze()
    start = time.process_time()
    for message in messages:
        await scheduler.update_allocation(message)
    await listener.done.wait()
    seconds = time.process_time() - start
    gc.unfreeze()
    scheduler.close()
    await running
    return seconds


async def register(scheduler: Scheduler, listener: Listener, nodes: Sequence[si_pb2.NodeInfo]) -> None:
    """Register the nodes, and the applications, each in its own queue."""
    registration = si_pb2.RegisterResourceManagerRequest(rmID=RM, version="1.0.0", policyGroup="queues", config=QUEUES)
    await scheduler.register_resource_manager(registration, listener)
    await scheduler.update_node(si_pb2.NodeRequest(rmID=RM, nodes=nodes))
    apps = [
        si_pb2.AddApplicationRequest(
            applicationID=f"app-{number}",
            queueName=f"root.queue-{number}",
            partitionName="default",
            ugi=si_pb2.UserGroupInformation(user="somebody", groups=["some"]),
        )
        for number in range(APPLICATIONS)
    ]
    await scheduler.update_application(si_pb2.ApplicationRequest(rmID=RM, new=apps))
    await listener.ready.wait()


def a_node(number: int, vcore: int = 32_000) -> si_pb2.NodeInfo:
    """Return the node of core_placement."""
    name = f"node-{number:05d}"
    amounts = {"vcore": vcore, "memory": 256 << 30, "pods": 110}
    return si_pb2.NodeInfo(
        nodeID=name,
        action=si_pb2.NodeInfo.CREATE,
        attributes={f"{keys.NODE_LABEL_PREFIX}kubernetes.io/hostname": name},
        schedulableResource=si_pb2.Resource(resources={key: si_pb2.Quantity(value=amounts[key]) for key in amounts}),
    )


def measure(names: Sequence[str], options: Options) -> list[Figure]:
    """Return the figures of these names."""
    asks = 1_000 if options.quick else 10_000
    return [Figure(name, "/CPU s", [WAYS[name](asks) for _ in range(options.runs)]) for name in names]


WAYS: Final[Mapping[str, Callable[[int], float]]] = {"edge/decode": decoded, "edge/whole": whole}
