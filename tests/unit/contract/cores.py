"""The real core behind either transport, and a resource manager that follows it like an operator.

`Talk` has one registered session. Its short method names make a test read like the messages of the Scheduler Interface.
Tests wait for responses of the core, never for time.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster_core.main import Options, running
from muster_core.model.ids import RmId
from muster_core.model.states import ManagerState
from muster_core.runtime.loop import LoopSettings
from muster_core.runtime.service import Administration
from muster_core.runtime.service import Scheduler as Core
from muster_si import keys, muster_pb2, si_pb2
from muster_si.transport.grpc_client import GrpcClient
from muster_si.transport.grpc_server import GrpcServer
from muster_si.transport.inprocess import InProcessClient
from tests.unit.contract.peers import SETTINGS, Client, ResourceManager

RM = "rm"


@dataclass(frozen=True, slots=True)
class CoreWire:
    """A core, and clients of resource managers for it."""

    core: Core
    connect: Callable[[], Client]

    def state(self, rm: str = RM) -> ManagerState:
        """Return the state of the resource manager in the core."""
        return self.core.loop.scheduler_state.managers[RmId(rm)].state


@asynccontextmanager
async def a_core_wire(transport: str, folder: Path) -> AsyncIterator[CoreWire]:
    clients: list[Client] = []
    async with running(Options(rest_port=None, loop=LoopSettings(checks=True))) as core:
        address, admin = f"unix://{folder}/core.sock", Administration(core)
        server = GrpcServer(core, address, settings=SETTINGS, administration=admin)
        address = await server.start()

        def connect() -> Client:
            clients.append(
                InProcessClient(core) if transport == "inprocess" else GrpcClient(address, settings=SETTINGS)
            )
            return clients[-1]

        yield CoreWire(core, connect)
        for client in clients:
            await client.aclose()
        await server.aclose()


def a_resource(amounts: Mapping[str, int]) -> si_pb2.Resource:
    return si_pb2.Resource(resources={name: si_pb2.Quantity(value=amount) for name, amount in amounts.items()})


@dataclass(slots=True)
class Talk:  # long: one method per message
    """A registered resource manager. `sent` counts messages per stream for the barrier."""

    client: Client
    rm: ResourceManager = field(default_factory=ResourceManager)
    rm_id: str = RM
    sent: dict[str, int] = field(default_factory=lambda: {"application": 0, "node": 0, "allocation": 0})

    async def register(self, config: str = "", **extra: str) -> None:
        request = si_pb2.RegisterResourceManagerRequest(
            rmID=self.rm_id, version="1.0.0", policyGroup="queues", config=config, extraConfig=extra
        )
        await self.client.register_resource_manager(request, self.rm)

    async def node(self, name: str, action: str = "CREATE", vcore: int = 4000, **fields: Any) -> None:
        self.sent["node"] += 1
        info = si_pb2.NodeInfo(nodeID=name, action=si_pb2.NodeInfo.ActionFromRM.Value(action), **fields)
        if action in ("CREATE", "CREATE_DRAIN", "UPDATE"):
            info.schedulableResource.CopyFrom(a_resource({"vcore": vcore, "memory": 2**33, "pods": 110}))
        await self.client.update_node(si_pb2.NodeRequest(rmID=self.rm_id, nodes=[info]))

    async def application(
        self,
        name: str = "app",
        gang: Mapping[str, int] | None = None,
        tags: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> None:
        self.sent["application"] += 1
        new = si_pb2.AddApplicationRequest(
            applicationID=name,
            queueName="root.default",
            partitionName="default",
            tags={"namespace": "default", **(tags or {})},
            placeholderAsk=a_resource(gang or {}),
            gangSchedulingStyle="Soft" if gang else "",
            **fields,
        )
        await self.client.update_application(si_pb2.ApplicationRequest(rmID=self.rm_id, new=[new]))

    async def remove_application(self, name: str = "app") -> None:
        self.sent["application"] += 1
        gone = si_pb2.RemoveApplicationRequest(applicationID=name, partitionName="default")
        await self.client.update_application(si_pb2.ApplicationRequest(rmID=self.rm_id, remove=[gone]))

    async def ask(self, *names: str, vcore: int = 1000, **fields: Any) -> None:
        self.sent["allocation"] += 1
        defaults: dict[str, Any] = {
            "applicationID": "app",
            "partitionName": "default",
            "maxAllocations": 1,
            "resourceAsk": a_resource({"vcore": vcore, "pods": 1}),
        }
        asks = [si_pb2.AllocationAsk(allocationKey=name, **defaults | fields) for name in names]
        await self.client.update_allocation(si_pb2.AllocationRequest(rmID=self.rm_id, asks=asks))

    async def release(self, key: str, termination: str = "STOPPED_BY_RM", **fields: Any) -> None:
        self.sent["allocation"] += 1
        defaults: dict[str, Any] = {"applicationID": "app", "partitionName": "default", "allocationKey": key}
        release = si_pb2.AllocationRelease(
            terminationType=si_pb2.TerminationType.Value(termination), **defaults | fields
        )
        releases = si_pb2.AllocationReleasesRequest(allocationsToRelease=[release])
        await self.client.update_allocation(si_pb2.AllocationRequest(rmID=self.rm_id, releases=releases))

    async def barrier(self) -> None:
        """Wait until the core has handled all messages sent so far."""
        await self.client.barrier(
            muster_pb2.BarrierRequest(
                rmID=self.rm_id,
                applicationRequests=self.sent["application"],
                nodeRequests=self.sent["node"],
                allocationRequests=self.sent["allocation"],
            )
        )

    async def allocated(self, *names: str) -> list[si_pb2.Allocation]:
        """Wait until each of these keys is allocated. Returns all allocations so far in order."""
        await self.rm.allocations.until(lambda _: set(names) <= {item.allocationKey for item in self.allocations()})
        return self.allocations()

    def allocations(self) -> list[si_pb2.Allocation]:
        return [item for response in self.rm.allocations.items for item in response.new]

    async def released(self, count: int) -> list[si_pb2.AllocationRelease]:
        """Wait for ``count`` releases or confirmations."""
        await self.rm.allocations.until(lambda _: len(self.releases()) >= count)
        return self.releases()

    def releases(self) -> list[si_pb2.AllocationRelease]:
        return [item for response in self.rm.allocations.items for item in response.released]

    async def refused(self) -> si_pb2.RejectedAllocationAsk:
        """Wait for the first rejected ask."""
        await self.rm.allocations.until(lambda items: any(item.rejected for item in items))
        return next(item.rejected[0] for item in self.rm.allocations.items if item.rejected)

    async def state(self, wanted: str, name: str = "app") -> None:
        """Wait until the core reports this state of the application."""
        await self.rm.applications.until(lambda _: (name, wanted) in self.states())

    def states(self) -> list[tuple[str, str]]:
        return [
            (item.applicationID, item.state) for response in self.rm.applications.items for item in response.updated
        ]

    async def accepted(self, name: str = "app") -> None:
        """Wait until the application is accepted."""
        await self.rm.applications.until(
            lambda items: any(item.applicationID == name for response in items for item in response.accepted)
        )


def awaits_barrier() -> dict[str, str]:
    """Return the extra configuration of a resource manager that recovers with a barrier."""
    return {keys.EXTRA_BARRIER: "true"}
