"""The Scheduler Interface as Python protocols.

A resource manager calls `SchedulerAPI`, which the core implements. The scheduler calls `ResourceManagerCallback`, which
the operator implements. `transport/` connects them in process or over gRPC with the same behaviour.

Calls of the scheduler are coroutines. They return when the message has been accepted for delivery, which limits a fast
sender. A message must not be changed after it was passed on. The callbacks are plain functions that must not block:
they put the message into a queue and return. Order is kept within one kind (allocation, application, node), never
between kinds.
"""

from __future__ import annotations

from typing import Protocol

from muster_si import muster_pb2, si_pb2

#: Version of the interface (RegisterResourceManagerRequest.version). Both sides must have the same major number.
SI_VERSION = "1.0.0"


class ResourceManagerCallback(Protocol):
    """Callbacks of a resource manager (API interface of si.proto)."""

    def update_allocation(self, response: si_pb2.AllocationResponse) -> None:
        """Receives new, released and rejected allocations and requests.

        The receiver applies `releasedAsks`, then `released`, then `new` (docs/internals/semantics.md, 1).
        """

    def update_application(self, response: si_pb2.ApplicationResponse) -> None:
        """Receives accepted, rejected and updated applications."""

    def update_node(self, response: si_pb2.NodeResponse) -> None:
        """Receives accepted and rejected nodes."""

    def call_back(self, callback: muster_pb2.Callback) -> None:
        """Receives all other messages: predicate questions, events, scheduling states, dump requests, re-registration.

        Answers are sent with `SchedulerAPI.answer` and the ID of the question.
        """

    def session_lost(self, reason: str) -> None:
        """The session has ended. Called once and last.

        It is not called if the resource manager ended the session (`unregister`, closing its transport).
        """


class SchedulerAPI(Protocol):
    """Calls of a resource manager to the scheduler (API interface of si.proto).

    Each coroutine raises `SessionLost` after the end of the session, and `Refused` if the scheduler rejects the call. A
    rejected *message* also ends the session, because the client is faulty and has to start again.
    """

    async def register_resource_manager(
        self,
        request: si_pb2.RegisterResourceManagerRequest,
        callback: ResourceManagerCallback,
    ) -> si_pb2.RegisterResourceManagerResponse:
        """Opens a session. The state of an older session with the same rmID is dropped; its callback gets
        `session_lost`.
        """

    async def update_allocation(self, request: si_pb2.AllocationRequest) -> None:
        """Sends requests, releases, confirmations and existing allocations."""

    async def update_application(self, request: si_pb2.ApplicationRequest) -> None:
        """Sends new and removed applications."""

    async def update_node(self, request: si_pb2.NodeRequest) -> None:
        """Sends node actions."""

    async def update_configuration(self, request: si_pb2.UpdateConfigurationRequest) -> None:
        """Replaces the configuration. After `Refused` the previous one stays in effect."""

    async def update_utilization(self, request: muster_pb2.UtilizationRequest) -> muster_pb2.UtilizationResponse:
        """Reports the actual usage of nodes and allocations. Invalid reports are returned with a reason.

        Reports about unknown nodes or allocations are counted and ignored.
        """

    async def answer(self, rm_id: str, answer: muster_pb2.Answer) -> None:
        """Answers the question of a callback, or, with the first answer, declares which questions are supported."""

    async def barrier(self, request: muster_pb2.BarrierRequest) -> None:
        """Returns when the scheduler has processed at least as many messages as the request counts.

        The resource manager counts the messages that it passed to this object since its registration. A transport that
        merged messages converts the count.
        """

    async def take_inventory(self, request: muster_pb2.InventoryRequest) -> muster_pb2.Inventory:
        """Returns a part of the scheduler's state of this session, after the messages of `request.after`.

        The result has the number of items that the scheduler had sent by then (`muster_si.sent_items`). Messages are
        counted as for `barrier`.
        """

    async def update_facts(self, request: muster_pb2.FactsRequest) -> muster_pb2.FactsResponse:
        """Reports objects for filters, apart from nodes and pods (`muster_si.keys`). They are in effect on return.

        Invalid objects are returned; the others are accepted.
        """

    async def unregister(self, request: muster_pb2.UnregisterRequest) -> None:
        """Ends the session on purpose (status stopped)."""

    async def connection_lost(self, rm_id: str, callback: ResourceManagerCallback) -> None:
        """A transport reports that the connection to this callback was lost (status paused).

        Ignored if the callback does not belong to the present session.
        """


class AdministrationAPI(Protocol):
    """Calls for administrators and programs that are not resource managers (Admin and Metrics Service).

    They need no session. Each raises `Refused` for an unknown resource manager.
    """

    async def update_config(self, request: muster_pb2.UpdateConfigRequest) -> muster_pb2.UpdateConfigResponse:
        """Replaces the configuration of a resource manager. If it is rejected, the previous one stays in effect."""

    async def validate_configuration(
        self, request: muster_pb2.ValidateConfigurationRequest
    ) -> muster_pb2.ValidateConfigurationResponse:
        """Validates a configuration without applying it."""

    async def scheduler_state(self, request: muster_pb2.SchedulerStateRequest) -> muster_pb2.SchedulerState:
        """Statistics of resource managers and partitions."""

    async def autoscaling_metrics(self, request: muster_pb2.AutoScalingMetricsRequest) -> muster_pb2.AutoScalingMetrics:
        """Resource requests that wait for missing nodes."""
