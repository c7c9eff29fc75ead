"""Answers those who are no resource manager: seed 001's AdminService and MetricsService.

Reads the world between two turns of the loop, and changes a configuration by
the same way as its resource manager would. What the resource manager sends
later replaces it again: a lasting change belongs where that one reads it from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from muster_core.edge import si_encode
from muster_core.edge.config.verdict import validate
from muster_core.edge.scheduler import Scheduler
from muster_core.model.ids import RmId
from muster_core.plan.autoscaling import outstanding
from muster_core.world.world import Partition
from muster_si import muster_pb2, si_pb2
from muster_si.errors import RefusalCode, Refused, SessionLost


class Administration:
    """An AdministrationAPI (muster_si.api) over one core."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._judging = asyncio.Semaphore(1)

    async def update_config(self, request: muster_pb2.UpdateConfigRequest) -> muster_pb2.UpdateConfigResponse:
        """Put a configuration in force, or say why not. Raises Refused where the resource manager is not there."""
        session = self._scheduler.outlet.sessions.get(self._manager(request.rmID))
        if session is None or not session.is_open:
            raise _unknown(request.rmID)
        old, extra = session.config_text, dict(request.extraConfig) or dict(session.extra_config)
        told = si_pb2.UpdateConfigurationRequest(
            rmID=session.rm, policyGroup=request.policyGroup, config=request.config, extraConfig=extra
        )
        try:
            await self._scheduler.update_configuration(told)
        except Refused as refused:
            return muster_pb2.UpdateConfigResponse(success=False, oldConfig=old, reason=refused.reason)
        except SessionLost as lost:
            raise Refused(RefusalCode.FAILED_PRECONDITION, lost.reason) from lost
        return muster_pb2.UpdateConfigResponse(success=True, oldConfig=old)

    async def validate_configuration(
        self, request: muster_pb2.ValidateConfigurationRequest
    ) -> muster_pb2.ValidateConfigurationResponse:
        """Judge by the rules of a registration; a thread's work, for a large text takes its time."""
        async with self._judging:
            found = await asyncio.to_thread(validate, request.config, dict(request.extraConfig))
        return muster_pb2.ValidateConfigurationResponse(findings=found.findings, warnings=found.warnings)

    async def scheduler_state(self, request: muster_pb2.SchedulerStateRequest) -> muster_pb2.SchedulerState:
        """Resource managers, also those that left, and the partitions of those that did not."""
        world = self._scheduler.loop.world
        sessions = self._scheduler.outlet.sessions
        managers = [
            muster_pb2.ManagerState(
                rmID=manager.id,
                state=manager.state.value,
                recovering=manager.fence_up,
                buildInfo=session.build_info if (session := sessions.get(manager.id)) is not None else None,
            )
            for manager in world.managers.values()
            if request.rmID in ("", manager.id)
        ]
        if request.rmID and not managers:
            raise _unknown(request.rmID)
        partitions = [_partition(one) for one in self._partitions(request.rmID, "")]
        return muster_pb2.SchedulerState(managers=managers, partitions=partitions)

    async def autoscaling_metrics(self, request: muster_pb2.AutoScalingMetricsRequest) -> muster_pb2.AutoScalingMetrics:
        """What is outstanding for lack of nodes; of a partition that is not there, nothing."""
        partitions = self._partitions(request.rmID, request.partitionName)
        return si_encode.autoscaling([found for one in partitions for found in outstanding(one)])

    def _partitions(self, rm: str, name: str) -> Iterator[Partition]:
        for partition in self._scheduler.loop.world.partitions.values():
            if rm in ("", partition.rm) and name.lower() in ("", si_encode.partition_name(partition.id)):
                yield partition

    def _manager(self, name: str) -> RmId:
        """The one that is named, or the only one."""
        sessions = [session.rm for session in self._scheduler.outlet.sessions.values() if session.is_open]
        if name:
            return RmId(name)
        if len(sessions) != 1:
            raise Refused(RefusalCode.INVALID_ARGUMENT, f"rmID is missing, and {len(sessions)} are registered")
        return sessions[0]


def _partition(found: Partition) -> muster_pb2.PartitionState:
    apps = found.applications.values()
    root = found.queues.root
    return muster_pb2.PartitionState(
        rmID=found.rm,
        partitionName=si_encode.partition_name(found.id),
        nodes=len(found.nodes),
        applications=len(apps),
        allocations=sum(len(app.allocations) for app in apps),
        waitingAsks=sum(len(app.asks) for app in apps),
        capacity=si_encode.resource(found.nodes.capacity_total),
        allocated=si_encode.resource(root.allocated),
        pending=si_encode.resource(root.pending),
    )


def _unknown(rm: str) -> Refused:
    return Refused(RefusalCode.NOT_FOUND, f"resource manager {rm!r} is not registered")
