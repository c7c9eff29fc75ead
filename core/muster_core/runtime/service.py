"""The Scheduler Interface and the administration service of the core.

It checks registration and session of each message, converts messages with `si`, and puts events into the event queue of
the scheduler task. The same class serves gRPC and the in-process transport. Only the scheduler task changes the state.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, TypeVar

import structlog

from muster_core.config.load import Loaded, examine, load, replaced
from muster_core.metrics.collector import CollectorSources, StateCollector
from muster_core.metrics.counters import Metrics
from muster_core.model.config import GroupResolver
from muster_core.model.errors import ConfigurationError
from muster_core.model.events import (
    ApplicationAdded,
    CallbacksDeclared,
    ClusterObjectsReported,
    ConfigurationReplaced,
    ConnectionLost,
    ManagerLeft,
    ManagerRegistered,
    PlacementsEvaluated,
    UtilizationReported,
    VictimsEvaluated,
)
from muster_core.model.ids import (
    ROOT,
    AllocationId,
    ApplicationId,
    NodeId,
    PartitionId,
    RmId,
    Termination,
    partition_id,
    partition_name,
)
from muster_core.model.records import EventRecorded, Notice
from muster_core.model.states import NodeState
from muster_core.placement.autoscaling import Outstanding, outstanding_in_steps
from muster_core.placement.plugins.hooks import HOOKS
from muster_core.runtime.journal import Journal
from muster_core.runtime.loop import Loop, LoopSettings, QueuedMessage
from muster_core.runtime.sessions import Decoder, Dispatcher, MessageKind, RecoveryBarrier, Session, Supervisor
from muster_core.runtime.user_groups import GroupRetries, Groups
from muster_core.si import callbacks, storage, values
from muster_core.si.allocations import Intake, resource, termination_type
from muster_core.si.events import EventStore
from muster_core.si.pod_tags import AmountReader, Partitions
from muster_core.si.values import NAME_LIMIT, InvalidField
from muster_core.state.applications import Allocation, Application
from muster_core.state.nodes import NodeRecord
from muster_core.state.scheduler_state import Partition, SchedulerState
from muster_si import keys, muster_pb2, si_pb2
from muster_si.api import SI_VERSION, ResourceManagerCallback
from muster_si.errors import RefusalCode, Refused, SessionLost

_log = structlog.get_logger(__name__)

#: Maximum of names and keys in one part: about 5 ms of work.
LIMIT: Final = 2_000
Name = TypeVar("Name", bound=str)


def take_inventory(partition: Partition, request: muster_pb2.InventoryRequest, sent_items: int) -> muster_pb2.Inventory:
    """Returns the requested part of the inventory, without virtual placeholders, which the resource manager does not
    know.

    `sent_items`: number of messages that were sent so far.
    """
    inventory = muster_pb2.Inventory(sentItems=sent_items)
    limit = min(request.limit, LIMIT) if request.limit > 0 else LIMIT
    if request.part == muster_pb2.InventoryRequest.APPLICATIONS:
        applications = partition.applications
        names = (name for name, app in applications.items() if not app.removed)
        for name in _page(inventory, names, request.beyond, limit, lambda name: _keys(applications[name])):
            inventory.applications.append(_application(applications[name]))
    else:
        for node in _page(inventory, partition.nodes, request.beyond, limit, lambda _: 0):
            inventory.nodes.append(_node(partition, partition.nodes.record(node)))
    return inventory


def _page(
    inventory: muster_pb2.Inventory, names: Iterable[Name], beyond: str, limit: int, size: Callable[[Name], int]
) -> Iterator[Name]:
    """Yields the next names in order until the part is full, and then sets `last` to the last name."""
    filled = 0
    following = heapq.nsmallest(limit, (name for name in names if name > beyond))
    for name in following:
        yield name
        filled += 1 + size(name)
        if filled >= limit:
            inventory.last = name
            return


def _keys(app: Application) -> int:
    return len(app.asks) + len(app.allocations)  # an upper bound: virtual placeholders count too


def _application(app: Application) -> muster_pb2.ApplicationInventory:
    return muster_pb2.ApplicationInventory(
        applicationID=app.id,
        askKeys=[key for key, ask in app.asks.items() if not ask.spec.is_virtual],
        allocations=[_allocation(one) for one in app.allocations.values() if not one.spec.is_virtual],
    )


def _allocation(allocation: Allocation) -> muster_pb2.AllocationInventory:
    return muster_pb2.AllocationInventory(
        allocationKey=allocation.spec.key,
        allocationID=allocation.id,
        nodeID=allocation.node,
        releasing=_type_of(allocation.releasing),
    )


def _type_of(releasing: Termination | None) -> si_pb2.TerminationType.ValueType:
    return termination_type(releasing) if releasing is not None else si_pb2.UNKNOWN_TERMINATION_TYPE


def _node(partition: Partition, record: NodeRecord) -> muster_pb2.NodeInventory:
    return muster_pb2.NodeInventory(
        nodeID=record.spec.id,
        schedulable=record.state is NodeState.SCHEDULABLE,
        foreignKeys=[partition.foreign[identity].key for identity in record.foreign_pods],
    )


def read_utilization(
    reports: Iterable[muster_pb2.UtilizationReport], partitions: Partitions
) -> tuple[list[UtilizationReported], list[muster_pb2.RejectedUtilizationReport]]:
    """Returns the valid reports, and the invalid ones with the reason."""
    amounts = AmountReader()
    taken: list[UtilizationReported] = []
    rejected: list[muster_pb2.RejectedUtilizationReport] = []
    for report in reports:
        try:
            taken.append(_report(report, partitions, amounts))
        except InvalidField as unfit:
            rejected.append(muster_pb2.RejectedUtilizationReport(ID=values.shown(report.ID), reason=str(unfit)))
    return taken, rejected


def _report(report: muster_pb2.UtilizationReport, partitions: Partitions, amounts: AmountReader) -> UtilizationReported:
    identity = values.named(report.ID, "ID")
    application = ApplicationId(values.bounded(report.applicationID, "applicationID"))
    return UtilizationReported(
        partition=partitions.find(report.partitionName or keys.DEFAULT_PARTITION),
        used=amounts.read(report.actualUsedResource, "actualUsedResource"),
        node=None if application else NodeId(identity),
        application=application,
        allocation=AllocationId(identity if application else ""),
    )


#: Utilization reports or cluster objects that are processed before other tasks run.
_REPORTS_AT_ONCE: Final = 256


#: policyGroup of a registration that names none (service.policyGroup).
_POLICY_GROUP: Final = "queues"

#: The setting in `extraConfig` of a validation, which has no policyGroup.
_POLICY_GROUP_SETTING: Final = "service.policyGroup"


def _checked_rm_id(name: str) -> RmId:
    """Returns the rmID, which is required."""
    if not name:
        raise Refused(RefusalCode.INVALID_ARGUMENT, "rmID is missing")
    if len(name) > NAME_LIMIT:
        raise Refused(RefusalCode.INVALID_ARGUMENT, f"rmID is longer than {NAME_LIMIT} characters")
    if "[" in name or "]" in name:  # they separate it from the name of a partition
        raise Refused(RefusalCode.INVALID_ARGUMENT, f"rmID {name!r} contains a bracket")
    return RmId(name)


def _require_version(version: str) -> None:
    """Requires the same major version. Raises Refused with both versions otherwise."""
    if version.partition(".")[0].removeprefix("v") != SI_VERSION.partition(".")[0]:
        problem = f"the resource manager uses version {version[:32]!r} of the Scheduler Interface"
        raise Refused(RefusalCode.FAILED_PRECONDITION, f"{problem}, this scheduler {SI_VERSION!r}")


def _config_text(policy_group: str, config: str, extra: Mapping[str, str]) -> str:
    """Returns the text of queues.yaml: from `config`, or from the extra keys under the name of the policy group."""
    if len(policy_group) > NAME_LIMIT:
        raise Refused(RefusalCode.INVALID_ARGUMENT, f"policyGroup is longer than {NAME_LIMIT} characters")
    return config or extra.get(_file_of(policy_group), "")


def _file_of(policy_group: str) -> str:
    return f"{policy_group or _POLICY_GROUP}.yaml"


def _configuration(text: str, extra: Mapping[str, str], policy_group: str) -> Loaded:
    """Loads the configuration of a registration. Raises Refused."""
    try:
        return load(text, extra, _file_of(policy_group))
    except ConfigurationError as error:
        raise Refused(RefusalCode.INVALID_ARGUMENT, f"config: {error}") from error


_Configuring = si_pb2.RegisterResourceManagerRequest | si_pb2.UpdateConfigurationRequest
T = TypeVar("T")

#: Characters of a configuration that are parsed in at most about 10 ms.
_SHORT: Final = 8192


def _replaced(
    active: Loaded, text: str, extra: Mapping[str, str], policy_group: str
) -> tuple[Loaded, tuple[ConfigurationError, ...]]:
    return replaced(active, text, extra, _file_of(policy_group))


async def _read_configuration(read: Callable[[str, Mapping[str, str], str], T], message: _Configuring) -> T:
    """Applies `read` to text, extra keys and policy group of a message.

    Reads a long text in a thread, because thousands of queues would block the event loop. Raises Refused.
    """
    extra = dict(message.extraConfig)
    text = _config_text(message.policyGroup, message.config, extra)
    if HOOKS.utilization is None and extra.get(keys.EXTRA_UTILIZATION, "").lower() == "true":
        raise _unsupported(f"utilization reports, which {keys.EXTRA_UTILIZATION} announces")
    if len(text) <= _SHORT:
        return read(text, extra, message.policyGroup)
    return await asyncio.to_thread(read, text, extra, message.policyGroup)


def _unsupported(feature: str) -> Refused:
    """Returns the answer to a call that uses a feature which is not installed."""
    return Refused(RefusalCode.FAILED_PRECONDITION, f"this scheduler runs without {feature}")


def _partition_names(loaded: Loaded) -> list[str]:
    """Returns the names of its partitions without the resource manager."""
    return [partition.name for partition in loaded.configuration.partitions]


def _resolvers(rm: RmId, loaded: Loaded) -> dict[PartitionId, GroupResolver]:
    """Returns the source of users' groups by partition."""
    return {partition_id(rm, found.name): found.resolver for found in loaded.configuration.partitions}


def _warnings(rm: RmId, loaded: Loaded) -> list[EventRecorded]:
    """Returns the warnings of the configuration as event records."""
    found = list(loaded.warnings)
    if loaded.configuration.timing.empty_node_interval_ns and HOOKS.recommendations is None:
        found.append(f"{keys.EXTRA_EMPTY_NODE_INTERVAL} has no effect: this scheduler runs without recommendations")
    return [EventRecorded(rm, Notice.QUEUE, "root", warning) for warning in found]


class Scheduler:  # long: one method for each call of the interface
    """One core: its scheduler task and its sessions. Nothing is processed before `run`.

    `instance` identifies this start of the process for readers of events, because event numbers restart with it.
    """

    def __init__(
        self,
        settings: LoopSettings | None = None,
        now_ns: Callable[[], int] | None = None,
        journal: Journal | None = None,
        instance: str = "",
        groups: Groups | None = None,
    ) -> None:
        self.groups = groups or Groups()
        self._registration = asyncio.Lock()
        self.metrics = Metrics()
        supervisor = Supervisor(self.metrics)
        self.events = EventStore(instance)
        self.dispatcher = Dispatcher(self.metrics, supervisor, self.events)
        self.loop = Loop(self.dispatcher, self.metrics, supervisor, settings or LoopSettings(), now_ns, journal)
        self.group_retries = GroupRetries(self.groups, self.loop.event_queue, lambda: self.loop.scheduler_state)
        dispatcher, loop = self.dispatcher, self.loop
        owners = CollectorSources(
            scheduler_state=lambda: loop.scheduler_state,
            event_queue=loop.event_queue,
            events=self.events,
            pushes=dispatcher.pushes,
            open_sessions=lambda: sum(session.is_open for session in dispatcher.sessions.values()),
            metrics=self.metrics,
            settings=lambda: dispatcher.settings,
        )
        self.metrics.registry.register(StateCollector(owners))

    # -- SchedulerAPI ---------------------------------------------------------

    async def register_resource_manager(
        self, request: si_pb2.RegisterResourceManagerRequest, callback: ResourceManagerCallback
    ) -> si_pb2.RegisterResourceManagerResponse:
        """Opens a session. An older session of the same rmID ends, and its state is discarded. Raises Refused."""
        rm = _checked_rm_id(request.rmID)
        _require_version(request.version)
        async with self._registration:  # sessions replace each other in the order of their requests
            loaded = await _read_configuration(_configuration, request)
            await self._open(rm, request, callback, loaded)
        return si_pb2.RegisterResourceManagerResponse()

    async def _open(
        self,
        rm: RmId,
        request: si_pb2.RegisterResourceManagerRequest,
        callback: ResourceManagerCallback,
        loaded: Loaded,
    ) -> None:
        decoder = Decoder(rm, _partition_names(loaded))
        session = Session(rm, callback, decoder, dict(request.buildInfo), loaded)
        session.resolvers = _resolvers(rm, loaded)
        _replace(self.dispatcher.sessions, session)
        self.dispatcher.pushes.forget(rm)
        self.dispatcher.configure(loaded.settings)
        _log.info("resource manager registered", rm=rm, version=request.version, build=dict(request.buildInfo))
        awaits_barrier = loaded.extra.get(keys.EXTRA_BARRIER, "").lower() == "true"
        event = ManagerRegistered(rm, loaded.configuration, awaits_barrier=awaits_barrier)
        await self.loop.event_queue.put(QueuedMessage([event], session, _warnings(rm, loaded)))

    async def update_allocation(self, request: si_pb2.AllocationRequest) -> None:
        """Receives requests, releases, confirmations and existing allocations. Raises Refused, SessionLost."""
        session = self._session(request.rmID)
        await _take(self.loop, session, session.decoder.allocations.read(request), MessageKind.ALLOCATION)

    async def update_application(self, request: si_pb2.ApplicationRequest) -> None:
        """Receives added and removed applications.

        Groups of their users are looked up first. Raises Refused, SessionLost.
        """
        session = self._session(request.rmID)
        async with session.application_order:
            intake = session.decoder.applications.read(request)
            intake.events, problems = await self.groups.fill(session.rm, intake.events, session.resolvers)
            intake.answers += problems
            await _take(self.loop, session, intake, MessageKind.APPLICATION)
            if any(isinstance(event, ApplicationAdded) and event.spec.groups_unknown for event in intake.events):
                self.group_retries.watch(session)

    async def update_node(self, request: si_pb2.NodeRequest) -> None:
        """Receives node actions. Raises Refused, SessionLost."""
        session = self._session(request.rmID)
        await _take(self.loop, session, session.decoder.nodes.read(request), MessageKind.NODE)

    async def update_configuration(self, request: si_pb2.UpdateConfigurationRequest) -> None:
        """Applies another configuration: its queues, its settings, or both.

        Raises Refused if one of them is invalid, which keeps the previous one of this part only, and SessionLost.
        """
        session = self._session(request.rmID)
        async with session.application_order:
            try:
                loaded, errors = await _read_configuration(partial(_replaced, session.loaded), request)
            except Refused as refused:
                await _reject(self.loop, session, "queues and settings", refused.reason)
                raise
            session.require_open()
            session.loaded = loaded
            session.resolvers = _resolvers(session.rm, loaded)
            session.decoder.partitions.know(_partition_names(loaded))
            self.dispatcher.configure(loaded.settings)
            event = ConfigurationReplaced(session.rm, loaded.configuration)
            await self.loop.event_queue.put(QueuedMessage([event], session, _warnings(session.rm, loaded)))
            self.group_retries.watch(session)
            # The first error of each part, as at a registration. A validation returns all.
            rejected = {"queues" if error.file else "settings": f"config: {error}" for error in reversed(errors)}
            for part, reason in rejected.items():
                await _reject(self.loop, session, part, reason)
        _log.info("configuration replaced", rm=session.rm, checksum=loaded.configuration.checksum)
        if rejected:
            raise Refused(RefusalCode.INVALID_ARGUMENT, "; ".join(rejected.values()))

    async def update_utilization(self, request: muster_pb2.UtilizationRequest) -> muster_pb2.UtilizationResponse:
        """Receives reports of used resources, and returns the invalid ones. Raises Refused, SessionLost."""
        session = self._session(request.rmID)
        if HOOKS.utilization is None:
            raise _unsupported("utilization reports")
        taken, rejected = read_utilization(request.reports, session.decoder.partitions)
        for start in range(0, len(taken), _REPORTS_AT_ONCE):
            await self.loop.event_queue.put(QueuedMessage(taken[start : start + _REPORTS_AT_ONCE], session))
        return muster_pb2.UtilizationResponse(rejected=rejected)

    async def update_facts(self, request: muster_pb2.FactsRequest) -> muster_pb2.FactsResponse:
        """Receives other cluster objects, and returns the invalid ones. Raises Refused, SessionLost."""
        session = self._session(request.rmID)
        partition = _known_partition(self.loop.scheduler_state, session, request.partitionName)
        taken, rejected = storage.read_cluster_object(request.facts)
        for start in range(0, len(taken), _REPORTS_AT_ONCE):
            message = ClusterObjectsReported(partition.id, taken[start : start + _REPORTS_AT_ONCE])
            await self.loop.event_queue.put(QueuedMessage([message], session))
        return muster_pb2.FactsResponse(rejected=rejected)

    async def answer(self, rm_id: str, answer: muster_pb2.Answer) -> None:
        """Receives a declaration of callbacks, or the result of one.

        A result without a callback is counted and ignored. Raises Refused, SessionLost.
        """
        session = self._session(rm_id)
        match answer.WhichOneof("kind"):
            case "attendance":
                _require_callbacks(answer.attendance)
                session.attendance = answer.attendance
                wanted = answer.attendance
                event = CallbacksDeclared(session.rm, wanted.predicates, wanted.preemptionPredicates)
                self.loop.event_queue.post(QueuedMessage([event], session))
            case "predicates" if session.attendance.predicates:
                evaluated = PlacementsEvaluated(session.rm, answer.predicates.id, tuple(answer.predicates.refusals))
                self.loop.event_queue.post(QueuedMessage([evaluated], session))
            case "preemptionPredicates" if session.attendance.preemptionPredicates:
                found = answer.preemptionPredicates
                self.loop.event_queue.post(
                    QueuedMessage([VictimsEvaluated(session.rm, found.id, found.response.success)], session)
                )
            case "stateDump" if answer.stateDump.id in session.questions:
                future = session.questions.pop(answer.stateDump.id)
                if not future.done():
                    future.set_result(answer.stateDump)
            case kind:
                self.metrics.dropped(f"answer {kind or 'of no kind'}, unasked")

    async def barrier(self, request: muster_pb2.BarrierRequest) -> None:
        """Returns after the scheduler task has processed all messages that the request counts.

        Raises Refused, SessionLost.
        """
        await _pass(self.loop, self._session(request.rmID), request, recovers=not request.more)

    async def take_inventory(self, request: muster_pb2.InventoryRequest) -> muster_pb2.Inventory:
        """Returns a part of the inventory after all messages that the request counts were processed.

        Raises Refused, SessionLost.
        """
        session = self._session(request.after.rmID)
        await _pass(self.loop, session, request.after, recovers=False)
        session.require_open()
        partition = _known_partition(self.loop.scheduler_state, session, request.partitionName)
        return take_inventory(partition, request, session.sent_items)

    async def unregister(self, request: muster_pb2.UnregisterRequest) -> None:
        """Ends the session of the resource manager and discards its state. Raises Refused, SessionLost."""
        session = self._session(request.rmID)
        session.end("unregistered")
        _log.info("resource manager unregistered", rm=session.rm)
        self.loop.event_queue.post(QueuedMessage([ManagerLeft(session.rm)]))

    async def connection_lost(self, rm_id: str, callback: ResourceManagerCallback) -> None:
        """Pauses the resource manager until it registers again or its timeout expires."""
        session = self.dispatcher.sessions.get(RmId(rm_id))
        if session is None or session.callback is not callback or not session.is_open:
            return
        session.end("the connection was lost")
        _log.warning("connection to the resource manager lost", rm=session.rm)
        self.loop.event_queue.post(QueuedMessage([ConnectionLost(session.rm)]))

    # -- life cycle ---------------------------------------------------------------

    async def run(self) -> None:
        """Runs the scheduler task until `close`."""
        await self.loop.run()

    def close(self) -> None:
        """Ends all sessions and stops the scheduler task."""
        for session in self.dispatcher.sessions.values():
            _lose(session, "the scheduler shuts down")
        self.events.close()
        self.group_retries.close()
        self.groups.close()
        self.loop.close()

    def _session(self, rm_id: str) -> Session:
        session = self.dispatcher.sessions.get(_checked_rm_id(rm_id))
        if session is None:
            raise Refused(RefusalCode.FAILED_PRECONDITION, f"resource manager {rm_id!r} is not registered")
        session.require_open()
        return session


def _known_partition(scheduler_state: SchedulerState, session: Session, name: str) -> Partition:
    """Returns the partition of that name. Raises Refused."""
    partition = scheduler_state.partitions.get(partition_id(session.rm, name))
    if partition is None:
        raise Refused(RefusalCode.NOT_FOUND, f"partition {name[:NAME_LIMIT]!r} is not there")
    return partition


def _require_callbacks(wanted: muster_pb2.Attendance) -> None:
    """Raises Refused if predicate callbacks are wanted and not installed."""
    if HOOKS.predicate_callbacks is None and (wanted.predicates or wanted.preemptionPredicates):
        raise _unsupported("predicate callbacks")


async def _pass(loop: Loop, session: Session, request: muster_pb2.BarrierRequest, *, recovers: bool) -> None:
    """Waits until the scheduler task has processed as many messages of the session. Raises Refused, SessionLost."""
    counts = {
        MessageKind.APPLICATION: request.applicationRequests,
        MessageKind.NODE: request.nodeRequests,
        MessageKind.ALLOCATION: request.allocationRequests,
    }
    if min(counts.values()) < 0:
        raise Refused(RefusalCode.INVALID_ARGUMENT, "the counts of a barrier must be 0 or more")
    barrier = RecoveryBarrier(counts, asyncio.get_running_loop().create_future(), recovers)
    await loop.event_queue.put(QueuedMessage([], session, barrier=barrier))
    await barrier.passed


async def _reject(loop: Loop, session: Session, part: str, reason: str) -> None:
    text = f"the new {part} are rejected, the previous ones remain active: {reason}"
    _log.warning(text, rm=session.rm)
    await loop.event_queue.put(QueuedMessage([], session, [EventRecorded(session.rm, Notice.QUEUE, ROOT, text)]))


async def _take(loop: Loop, session: Session, intake: Intake, kind: MessageKind) -> None:
    await loop.event_queue.put(QueuedMessage(intake.events, session, intake.answers, kind))
    await asyncio.sleep(0)  # lets the scheduler task run if an in-process sender never waits
    session.require_open()


def _replace(sessions: dict[RmId, Session], session: Session) -> None:
    older = sessions.get(session.rm)
    sessions[session.rm] = session
    if older is not None:
        _lose(older, f"resource manager {session.rm!r} registered again")


def _lose(session: Session, reason: str) -> None:
    if session.is_open:
        session.end(reason)
        session.callback.session_lost(reason)


class Administration:
    """The AdministrationAPI (`muster_si.api`) of one core."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._judging = asyncio.Semaphore(1)

    async def update_config(self, request: muster_pb2.UpdateConfigRequest) -> muster_pb2.UpdateConfigResponse:
        """Applies a configuration, or returns why it is rejected.

        Raises Refused if the resource manager is not registered.
        """
        session = self._scheduler.dispatcher.sessions.get(self._manager(request.rmID))
        if session is None or not session.is_open:
            raise _unknown(request.rmID)
        old = "" if session.loaded.is_default else session.loaded.text
        extra = dict(request.extraConfig) or dict(session.loaded.extra)
        message = si_pb2.UpdateConfigurationRequest(
            rmID=session.rm, policyGroup=request.policyGroup, config=request.config, extraConfig=extra
        )
        try:
            await self._scheduler.update_configuration(message)
        except Refused as refused:
            return muster_pb2.UpdateConfigResponse(success=False, oldConfig=old, reason=refused.reason)
        except SessionLost as lost:
            raise Refused(RefusalCode.FAILED_PRECONDITION, lost.reason) from lost
        return muster_pb2.UpdateConfigResponse(success=True, oldConfig=old)

    async def validate_configuration(
        self, request: muster_pb2.ValidateConfigurationRequest
    ) -> muster_pb2.ValidateConfigurationResponse:
        """Validates a configuration by the rules of a registration.

        Runs in a thread, because a large text takes long.
        """
        extra = dict(request.extraConfig)
        file = _file_of(extra.get(_POLICY_GROUP_SETTING, ""))
        async with self._judging:
            found = await asyncio.to_thread(examine, request.config, extra, file)
        findings = map(str, found.errors)
        return muster_pb2.ValidateConfigurationResponse(findings=findings, warnings=found.built.warnings)

    async def scheduler_state(self, request: muster_pb2.SchedulerStateRequest) -> muster_pb2.SchedulerState:
        """Returns all resource managers, including those that left, and the partitions of the others."""
        scheduler_state = self._scheduler.loop.scheduler_state
        sessions = self._scheduler.dispatcher.sessions
        managers = [
            muster_pb2.ManagerState(
                rmID=manager.id,
                state=manager.state.value,
                recovering=manager.is_recovering,
                buildInfo=session.build_info if (session := sessions.get(manager.id)) is not None else None,
            )
            for manager in scheduler_state.managers.values()
            if request.rmID in ("", manager.id)
        ]
        if request.rmID and not managers:
            raise _unknown(request.rmID)
        partitions = [_partition(one) for one in self._partitions(request.rmID, "")]
        return muster_pb2.SchedulerState(managers=managers, partitions=partitions)

    async def autoscaling_metrics(self, request: muster_pb2.AutoScalingMetricsRequest) -> muster_pb2.AutoScalingMetrics:
        """Returns the requests that are pending because nodes are missing. Returns nothing for an unknown partition."""
        outstanding: list[Outstanding] = []
        for partition in list(self._partitions(request.rmID, request.partitionName)):
            for found in outstanding_in_steps(partition):
                outstanding += found or ()
                await asyncio.sleep(0)
        return callbacks.autoscaling(outstanding)

    def _partitions(self, rm: str, name: str) -> Iterator[Partition]:
        for partition in self._scheduler.loop.scheduler_state.partitions.values():
            if rm in ("", partition.rm) and name.lower() in ("", partition_name(partition.id)):
                yield partition

    def _manager(self, name: str) -> RmId:
        """Returns the named resource manager, or the only one."""
        sessions = [session.rm for session in self._scheduler.dispatcher.sessions.values() if session.is_open]
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
        partitionName=partition_name(found.id),
        nodes=len(found.nodes),
        applications=len(apps),
        allocations=sum(len(app.allocations) for app in apps),
        waitingAsks=sum(app.pending_count for app in apps),
        capacity=resource(found.nodes.capacity_total),
        allocated=resource(root.allocated),
        pending=resource(found.shown_pending(root)),
    )


def _unknown(rm: str) -> Refused:
    return Refused(RefusalCode.NOT_FOUND, f"resource manager {rm!r} is not registered")
