"""The seeds' API interface (002, 003) as Python protocols.

`SchedulerAPI` is what a resource manager calls, `ResourceManagerCallback` what
the scheduler calls back. The core implements the first, the operator the
second; `transport/` carries either side in process or over gRPC, and both
sides cannot tell which.

The scheduler's calls are coroutines: awaiting one means "taken over for
delivery", which is where back-pressure is felt. A message belongs to its
receiver then and is not changed any more. The callbacks are plain
functions that must not block: they take the message into a queue and return.
Order holds within one kind (allocation, application, node), never across.
"""

from __future__ import annotations

from typing import Protocol

from muster_si import muster_pb2, si_pb2

#: Version of the interface that both sides speak (seed 003,
#: RegisterResourceManagerRequest.version). Same major number = compatible.
SI_VERSION = "1.0.0"


class ResourceManagerCallback(Protocol):
    """What a resource manager offers the scheduler (seed 003, API Interface)."""

    def update_allocation(self, response: si_pb2.AllocationResponse) -> None:
        """Take new, released, rejected allocations and asks. Apply `releasedAsks`,
        then `released`, then `new` (semantics 1)."""

    def update_application(self, response: si_pb2.ApplicationResponse) -> None:
        """Take accepted, rejected and updated applications."""

    def update_node(self, response: si_pb2.NodeResponse) -> None:
        """Take accepted and rejected nodes."""

    def call_back(self, callback: muster_pb2.Callback) -> None:
        """Take everything else: predicates to answer, events, scheduling states,
        a state dump to give, the wish to register again. Answers go to
        `SchedulerAPI.answer` with the question's id."""

    def session_lost(self, reason: str) -> None:
        """The session is over. Called once; nothing is called after it. Not called when
        the resource manager left by itself (`unregister`, closing its transport)."""


class SchedulerAPI(Protocol):
    """What the scheduler offers a resource manager (seed 003, API Interface).

    Each coroutine raises `SessionLost` once the session is over and `Refused`
    where the scheduler refuses the call. A refused *message* also ends the
    session: a client that sends such a thing has to start again.
    """

    async def register_resource_manager(
        self,
        request: si_pb2.RegisterResourceManagerRequest,
        callback: ResourceManagerCallback,
    ) -> si_pb2.RegisterResourceManagerResponse:
        """Open a session. What the scheduler knew of the same rmID is dropped and
        the callback of the older session gets `session_lost`."""

    async def update_allocation(self, request: si_pb2.AllocationRequest) -> None:
        """Send asks, releases, confirmations, existing allocations."""

    async def update_application(self, request: si_pb2.ApplicationRequest) -> None:
        """Send new and removed applications."""

    async def update_node(self, request: si_pb2.NodeRequest) -> None:
        """Send node actions."""

    async def update_configuration(self, request: si_pb2.UpdateConfigurationRequest) -> None:
        """Replace the configuration; `Refused` leaves the old one in force."""

    async def update_utilization(self, request: muster_pb2.UtilizationRequest) -> muster_pb2.UtilizationResponse:
        """Report what nodes and allocations really use (seed 001). What cannot be read comes back with a reason;
        a node or allocation that the scheduler does not have (any more) is counted and left."""

    async def answer(self, rm_id: str, answer: muster_pb2.Answer) -> None:
        """Answer a callback's question, or declare attendance (first answer)."""

    async def fence(self, request: muster_pb2.FenceRequest) -> None:
        """Return when the scheduler has taken in all that the request counts, or more.

        The resource manager counts the messages it passed to this object since it
        registered; a transport that merged some turns that into its own count."""

    async def take_inventory(self, request: muster_pb2.InventoryRequest) -> muster_pb2.Inventory:
        """Show a part of what the scheduler holds of this session, once it has taken in what `request.after` counts,
        and how much it had said of allocations by then (`muster_si.words`). Counts as for `fence`."""

    async def update_facts(self, request: muster_pb2.FactsRequest) -> muster_pb2.FactsResponse:
        """Tell objects of the cluster that filters read beside nodes and pods (`muster_si.keys`); they count when this
        returns. Those that cannot be read come back, the others are taken."""

    async def unregister(self, request: muster_pb2.UnregisterRequest) -> None:
        """Leave on purpose (status stopped)."""

    async def connection_lost(self, rm_id: str, callback: ResourceManagerCallback) -> None:
        """A transport's word that the way to this callback broke (status paused).
        Ignored when the callback is not the session's present one."""


class AdministrationAPI(Protocol):
    """What the scheduler offers people and programs that are no resource manager (seed 001, Admin and Metrics
    Service). Nothing here needs a session. Each raises `Refused` for a resource manager that is not there.
    """

    async def update_config(self, request: muster_pb2.UpdateConfigRequest) -> muster_pb2.UpdateConfigResponse:
        """Replace the configuration of a resource manager; one that is refused leaves the old one in force."""

    async def validate_configuration(
        self, request: muster_pb2.ValidateConfigurationRequest
    ) -> muster_pb2.ValidateConfigurationResponse:
        """Say whether a configuration could be put in force, and what is wrong with it; change nothing."""

    async def scheduler_state(self, request: muster_pb2.SchedulerStateRequest) -> muster_pb2.SchedulerState:
        """Resource managers and partitions, in numbers."""

    async def autoscaling_metrics(self, request: muster_pb2.AutoScalingMetricsRequest) -> muster_pb2.AutoScalingMetrics:
        """What is outstanding because of missing nodes."""
